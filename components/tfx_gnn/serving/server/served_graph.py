"""The graph whose nodes requests name: a graph index, and what is added to it while it is served."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfx_gnn.sampling.index.files import MANIFEST_FILE
from tfx_gnn.sampling.index.graph_index import GraphIndex, open_graph_index
from tfx_gnn.sampling.overlay.graph_overlay import GraphOverlay
from tfx_gnn.sampling.overlay.graph_snapshot import GraphSnapshot, snapshot_of_index
from tfx_gnn.serving.server.graph_rows import GraphRows, refusal_of_rows
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal
from tfx_gnn.serving.server.watched_folder import WatchedFolder

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Addition:
    """Rows that wait to be added."""

    rows: GraphRows
    result: asyncio.Future[ValueError | None]


class ServedGraph:
    """A graph index, to which rows can be added if it has an overlay; the next index takes its place.

    One thread writes. While it does, further additions wait, and then share a write.

    Attributes:
        snapshot: the graph as it is now. It is replaced as a whole and never changes, so any thread may read it.
        max_new_rows: largest number of rows in a request.
        max_id_bytes: largest id in a request.
    """

    def __init__(
        self,
        index: GraphIndex,
        options: ServerOptions,
        metrics: ServerMetrics,
        *,
        overlay: GraphOverlay | None = None,
        followed: str = "",
    ) -> None:
        """Takes an index, the overlay of this index if rows may be added, and the folder where the next one appears."""
        index.mapped.map_all()
        self.snapshot: GraphSnapshot = snapshot_of_index(index)
        self.max_new_rows, self._max_added_rows = options.max_new_rows, options.max_added_rows
        self.max_id_bytes = options.max_id_bytes
        self._overlay, self._metrics = overlay, metrics
        self._followed = (
            WatchedFolder(followed, MANIFEST_FILE, what="graph index", metrics=metrics) if followed else None
        )
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "overlay")
        self._waiting: list[_Addition] = []
        self._written: list[_Addition] = []
        self._num_before = 0  # rows before those that are being written, which the snapshot may have already
        if overlay is not None:
            self._publish(overlay)

    async def add(self, rows: GraphRows) -> None:
        """Adds rows: once this returns, they are on disk and in `snapshot`.

        Only for one event loop. A cancelled addition that waits is dropped; one that is being written is not.

        Raises:
            Refusal: if rows cannot be added; then none are.
        """
        if self._overlay is None:
            raise Refusal(
                403,
                "read_only",
                "The graph must be writable; got a server without an overlay. Start it with `--overlay FILE` beside "
                "`--graph-index-dir`, and give tokens for writing to trusted clients alone.",
            )
        num_rows = self._num_before if self._written else self._num_rows
        num_rows += sum(addition.rows.num_rows for addition in [*self._waiting, *self._written])
        if num_rows + rows.num_rows > self._max_added_rows:
            raise Refusal(
                507,
                "graph_full",
                f"The graph must have at most {self._max_added_rows} rows beside its index; got {num_rows}, and "
                f"{rows.num_rows} more. Build the next index from this one and its overlay, or raise "
                "`--max-added-rows`.",
            )
        addition = _Addition(rows=rows, result=asyncio.get_running_loop().create_future())
        self._waiting.append(addition)
        self._write_waiting()
        problem = await addition.result
        if problem is not None:
            raise refusal_of_rows(problem, "")

    def refresh(self, checks: Sequence[Callable[[GraphSnapshot], None]]) -> None:
        """Takes the newest index of the folder that can be served, if it is another one; blocks meanwhile.

        Requests that are being sampled finish on the graph that they began with. What cannot be read, is refused, or
        lacks rows of the overlay is passed over.

        Args:
            checks: each raises ValueError if the graph does not answer the requests that this one does.
        """
        if self._followed is not None:
            passed_over = self._followed.take_newest(lambda folder: self._take(folder, checks))
            self._metrics.graphs_passed_over.set(passed_over)

    def _take(self, folder: str, checks: Sequence[Callable[[GraphSnapshot], None]]) -> None:
        index = open_graph_index(folder)
        if index.fingerprint == self.snapshot.index.fingerprint:
            return
        index.mapped.map_all()
        snapshot = snapshot_of_index(index)
        for check in checks:
            check(snapshot)
        if self._overlay is None:
            self.snapshot = snapshot
        else:
            self._overlay.move_to(index)
            # In the thread that writes, so that no older snapshot takes the place of this one.
            self._thread.submit(self._publish, self._overlay).result()
        self._metrics.graph_swaps.inc()
        _LOG.info("The graph index `%s` answers from now on.", folder)

    def describe(self) -> dict[str, Any]:
        """Says which graph this is, how many nodes and edges it has, and how many of them were added."""
        snapshot = self.snapshot
        return {
            "fingerprint": snapshot.index.fingerprint,
            "is_writable": self._overlay is not None,
            "nodes": {
                name: {"count": table.num_nodes, "added": len(snapshot.added_nodes[name])}
                for name, table in snapshot.node_tables.items()
            },
            "edges": {
                name: {"count": table.num_edges, "added": len(snapshot.added_edges[name])}
                for name, table in snapshot.edge_tables.items()
            },
        }

    @property
    def _num_rows(self) -> int:
        return sum(_num_added(self.snapshot).values())

    def close(self) -> None:
        """Ends the thread after the write that is running."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _write_waiting(self) -> None:
        if self._written:
            return
        self._written = [addition for addition in self._waiting if not addition.result.done()]
        self._waiting = []
        if self._written:
            self._num_before = self._num_rows
            rows = [addition.rows for addition in self._written]
            writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, rows)
            writing.add_done_callback(self._finish)

    def _finish(self, writing: asyncio.Future[list[ValueError | None]]) -> None:
        written, self._written = self._written, []
        error = asyncio.CancelledError() if writing.cancelled() else writing.exception()
        problems = [None] * len(written) if error else writing.result()
        for addition, problem in zip(written, problems, strict=True):
            if addition.result.done():
                continue  # It timed out.
            if error is not None:
                addition.result.set_exception(error)
            else:
                addition.result.set_result(problem)
        self._write_waiting()

    def _write(self, rows: Sequence[GraphRows]) -> list[ValueError | None]:
        assert self._overlay is not None
        start = time.perf_counter()
        try:
            problems = self._overlay.add_each([(one.nodes, one.edges) for one in rows])
        except OSError as error:
            _LOG.exception("Rows could not be written.")
            raise Refusal(
                503,
                "not_written",
                f"The rows must be written to disk; got the error {error.strerror!r}, and nothing was added. See the "
                "server's log, and try again later.",
                retry_after=1,
            ) from error
        self._metrics.overlay_writes.observe(time.perf_counter() - start)
        self._publish(self._overlay)
        return problems

    def _publish(self, overlay: GraphOverlay) -> None:
        self.snapshot = overlay.snapshot()
        for kind, count in _num_added(self.snapshot).items():
            self._metrics.overlay_rows.labels(kind).set(count)
        self._metrics.overlay_bytes.set(overlay.num_bytes)


def _num_added(snapshot: GraphSnapshot) -> dict[str, int]:
    return {
        "nodes": sum(map(len, snapshot.added_nodes.values())),
        "edges": sum(map(len, snapshot.added_edges.values())),
    }

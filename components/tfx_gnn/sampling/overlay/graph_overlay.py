"""Nodes and edges on top of a graph index: kept in a log, visible at once, and later part of the next index."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.io.disk_sync import sync_path, sync_tree
from tfx_gnn.io.process_lock import has_locks, process_lock
from tfx_gnn.sampling.index.files import OverlayPosition
from tfx_gnn.sampling.index.graph_index import GraphIndex
from tfx_gnn.sampling.overlay.added_rows import Batch, Rows, check_rows, join_batches
from tfx_gnn.sampling.overlay.graph_snapshot import GraphSnapshot, snapshot_of_index
from tfx_gnn.sampling.overlay.overlay_log import LogReader, OverlayLog
from tfx_gnn.sampling.overlay.overlay_position import (
    header_of,
    is_log_of,
    kept_path,
    position_of_end,
    start_of_missing,
)
from tfx_gnn.tables.table_layout import ID_FEATURE


class GraphOverlay:
    """New nodes and edges on top of a graph index; see `open_graph_overlay`.

    Any number of threads may add rows and take snapshots. One process at a time holds the overlay of a file.

    Attributes:
        index: the index.
        num_cut: bytes of an unfinished entry, which nobody was told is kept, that were cut off on opening.
    """

    def __init__(self, index: GraphIndex, log: OverlayLog) -> None:
        """Reads what was added before."""
        self.index = index
        self.num_cut = log.num_cut
        self._log = log
        self._is_open = True
        self._lost_folder: OSError | None = None  # why the name of the log may not be on disk
        self._writing = threading.Lock()
        self._changing = threading.Lock()
        self._added: dict[str, dict[Any, int]] = {name: {} for name in index.node_tables}
        self._pending: list[Batch] = []
        self._snapshot = snapshot_of_index(index)
        self._replay()

    def add(self, nodes: Rows | None = None, edges: Rows | None = None) -> None:
        """Adds nodes and edges, all or none; once this returns they are on disk, and in each later snapshot.

        The cost depends on the rows, not on the graph nor on what was added before.

        Args:
            nodes: columns of new nodes by node set: "#id" and all features, lists or Arrow arrays.
            edges: columns of new edges by edge set: "#source", "#target" and all features. Ends may be new nodes.

        Raises:
            ValueError: if a row breaks a rule that the rows of tables must keep; a node is there already; the end of an
                edge is not; or the index was built without repeated edges. Nothing is added then.
            OSError: if the rows cannot be written. Nothing is added then.
        """
        (problem,) = self.add_each([(nodes or {}, edges or {})])
        if problem is not None:
            raise problem

    def add_each(self, additions: Sequence[tuple[Rows, Rows]]) -> list[ValueError | None]:
        """Adds the nodes and edges of several callers by one write, those of each all or none.

        They count as one batch. Edges may end at new nodes of earlier additions.

        Args:
            additions: nodes and edges of each caller, see `add`.

        Returns:
            For each, why it was not added, or None.

        Raises:
            OSError: if the rows cannot be written. Nothing is added then.
        """
        with self._writing:
            self._check_is_open()
            problems: list[ValueError | None] = []
            batches: list[Batch] = []
            try:
                for nodes, edges in additions:
                    try:
                        batches.append(self._check(nodes, edges))
                    except ValueError as error:
                        problems.append(error)
                    else:
                        problems.append(None)
                        self._note_ids(batches[-1])
                if batches:
                    # One entry: only the last one of a log may be unfinished.
                    batches = [dataclasses.replace(join_batches(batches), num_batches=1)]
                    self._log.append(_to_bytes(*batches))
            except BaseException:
                for batch in batches:
                    self._forget_ids(batch)
                raise
            self._publish(batches)
            return problems

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return self._log.num_bytes

    def snapshot(self) -> GraphSnapshot:
        """Returns the graph with all rows that were added so far; it never changes.

        The first snapshot after rows were added takes time in proportion to all that was added, not to the graph.
        """
        with self._changing:
            if self._pending:
                self._snapshot = self._snapshot.extended(self._pending)
                self._pending = []
            return self._snapshot

    def move_to(self, index: GraphIndex) -> None:
        """Goes over to the next index, with the rows that it lacks.

        They are written to a log of that index, which takes the name of this one; this one stays beside it, with the
        first digits of its index's fingerprint after its name. A kill leaves one or the other under the name.

        Args:
            index: the next index: one that was built from this overlay, see `read_graph_overlay`; any one if no rows
                were ever added.

        Raises:
            ValueError: if the index lacks rows that were added, and does not say which. Nothing changes then.
            OSError: if the log cannot be written. Nothing changes then, unless the folder cannot be flushed: then no
                more rows are taken, since a power failure could lose them.
        """
        sync_tree(index.index_dir)
        with self._writing:
            self._check_is_open()
            if index.fingerprint == self.index.fingerprint:
                return
            following = _begin_next(self._log, index)
            try:
                sync_path(os.path.dirname(self._log.path))
            except OSError as error:
                following.close()
                self._lost_folder = error
                raise
            before = self._log
            with self._changing:
                self.index, self._snapshot = index, following.snapshot()
                self._log, self._added, self._pending = following._log, following._added, []  # noqa: SLF001 - its own class
            before.close()

    def close(self) -> None:
        """Closes the file; snapshots can be used further."""
        with self._writing:
            self._is_open = False
            self._log.close()

    def _check_is_open(self) -> None:
        if not self._is_open:
            raise ValueError("`overlay` must be open; got one that was closed. Open it again.")
        if self._lost_folder is not None:
            raise OSError(
                self._lost_folder.errno,
                f"{self._lost_folder.strerror}, when the overlay moved to another index, so that a power failure could "
                "lose rows. Repair the disk, and open the overlay again.",
                self._log.path,
            )

    def _check(self, nodes: Rows, edges: Rows) -> Batch:
        return check_rows(
            self.index,
            nodes,
            edges,
            num_added={name: len(added) for name, added in self._added.items()},
            find_added=self._find_added,
        )

    def _find_added(self, node_set: str, ids: pa.Array) -> npt.NDArray[np.int64]:
        added = self._added[node_set]
        return np.array([added.get(node_id, -1) for node_id in ids.to_pylist()], np.int64)

    def _note_ids(self, batch: Batch) -> None:
        for name, columns in batch.nodes.items():
            added = self._added[name]
            added.update(
                {node_id: len(added) + number for number, node_id in enumerate(columns[ID_FEATURE].to_pylist())}
            )

    def _forget_ids(self, batch: Batch) -> None:
        for name, columns in batch.nodes.items():
            for node_id in columns[ID_FEATURE].to_pylist():
                self._added[name].pop(node_id, None)

    def _publish(self, batches: Sequence[Batch]) -> None:
        with self._changing:
            self._pending.extend(batches)

    def _replay(self) -> None:
        entries = [json.loads(content) for content in self._log.entries()]
        if entries:
            # All at once: one by one, finding the ends of edges would take most of the time.
            nodes, edges = _joined(entries)
            batch = dataclasses.replace(self._check(nodes, edges), num_batches=len(entries))
            self._note_ids(batch)
            self._publish([batch])


def _joined(entries: Sequence[Mapping[str, Any]]) -> tuple[dict[str, dict[str, list[Any]]], ...]:
    """Joins the nodes and the edges of entries, set by set and column by column."""
    joined: tuple[dict[str, dict[str, list[Any]]], ...] = ({}, {})
    for entry in entries:
        for sets, kind in zip(joined, ("nodes", "edges"), strict=True):
            for name, columns in entry[kind].items():
                for key, values in columns.items():
                    sets.setdefault(name, {}).setdefault(key, []).extend(values)
    return joined


def _to_bytes(batch: Batch) -> bytes:
    content = {
        kind: {name: {key: array.to_pylist() for key, array in columns.items()} for name, columns in sets.items()}
        for kind, sets in (("nodes", batch.nodes), ("edges", batch.edges))
    }
    return json.dumps(content).encode()


@contextlib.contextmanager
def open_graph_overlay(index: GraphIndex, path: str) -> Iterator[GraphOverlay]:
    """Opens the overlay of a graph index, or begins one.

    The overlay of an earlier index moves to this one if this one contains a beginning of it: see
    `GraphOverlay.move_to`.

    Args:
        index: the index.
        path: file of the overlay, on a local disk. An unfinished entry at its end is cut off, and counted in
            `GraphOverlay.num_cut`.

    Yields:
        The overlay, until the block ends.

    Raises:
        ValueError: if it is no local file, is no overlay, is damaged, or is the overlay of an index whose rows this
            one lacks. It stays as it is.
        BlockingIOError: if another process has the overlay open.
    """
    _check_is_file(path)
    with _lock(path):
        log = OverlayLog(os.path.realpath(path), header_of(index))
        try:
            overlay = GraphOverlay(index, log) if is_log_of(log, index) else _moved(log, index)
        except BaseException:
            log.close()
            raise
        try:
            yield overlay
        finally:
            overlay.close()


def _moved(log: OverlayLog, index: GraphIndex) -> GraphOverlay:
    """Moves a log that was just opened to another index, and closes it."""
    sync_tree(index.index_dir)
    overlay = _begin_next(log, index)
    overlay.num_cut = log.num_cut
    log.close()
    sync_path(os.path.dirname(log.path))
    return overlay


def _begin_next(log: LogReader, index: GraphIndex) -> GraphOverlay:
    """Gives the name of a log to one of the next index with the rows that it lacks, and keeps the log beside it.

    The folder is not yet flushed. After an error, all is as before.
    """
    start = start_of_missing(log, index)
    folder, name = os.path.split(log.path)
    partial = os.path.join(folder, f".{name}.writing")
    _remove_if_there(partial)  # A killed process may have left it.
    with contextlib.ExitStack() as undo:
        undo.callback(_remove_if_there, partial)
        log.write_rest(partial, header_of(index), start)
        following = OverlayLog(partial, header_of(index))
        undo.callback(following.close)
        overlay = GraphOverlay(index, following)
        if log.num_entries:
            _keep(log)
        os.replace(partial, log.path)
        following.path = log.path
        undo.pop_all()
    return overlay


def _keep(log: LogReader) -> None:
    """Gives a log a second name, by which it stays when another one takes its own."""
    kept = kept_path(log)
    if os.path.exists(kept) and os.path.samefile(kept, log.path):
        return  # A process was killed right after.
    try:
        os.link(log.path, kept)
    except OSError as error:
        raise OSError(
            error.errno,
            f"`path` must be an overlay that can be kept as {kept!r} when it moves to the next index; got the error "
            f"{error.strerror!r}. Move that file away if there is one; otherwise use a file system with hard links.",
        ) from error


def _remove_if_there(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def read_graph_overlay(index: GraphIndex, path: str) -> tuple[GraphSnapshot, OverlayPosition]:
    """Reads what an overlay has, while another process may have it open and add more.

    Args:
        index: the index to which the overlay belongs.
        path: file of the overlay.

    Returns:
        The graph with all rows that were added so far, and their end in the file, both for `write_next_index`.

    Raises:
        ValueError: if the file is no overlay, is damaged, or is the overlay of another index.
    """
    _check_is_file(path)
    with contextlib.closing(LogReader(path)) as log:
        start = start_of_missing(log, index)
        snapshot = snapshot_of_index(index).with_rows(*_joined([json.loads(content) for content in log.entries(start)]))
        return snapshot, position_of_end(log)


def _check_is_file(path: str) -> None:
    """Refuses what can hold no log, before anything appears on the disk."""
    if not has_locks(path):
        raise ValueError(
            f"`path` must be a file on a local disk, where each write is kept before it is answered; got {path!r}. "
            "Name a local file."
        )
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(
            f"`path` must be a file, or not exist yet; got {path!r}, which is a folder or a device. Name a file."
        )


def _lock(path: str) -> contextlib.AbstractContextManager[None]:
    """Keeps others from an overlay; one file has one lock, by whatever link it is named."""
    folder, name = os.path.split(os.path.realpath(path))
    rule = f"`path` must be an overlay that no other process has open; got {path!r}"
    return process_lock(os.path.join(folder, f".{name}.lock"), rule=rule)

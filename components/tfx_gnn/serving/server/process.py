"""The process of the server: its start, its log, and its stop without a lost request."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import math
import signal
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

import tensorflow as tf
import uvicorn

if sys.platform != "win32":
    import resource

from tfx_gnn.sampling.index.files import MANIFEST_FILE
from tfx_gnn.sampling.index.graph_index import GraphIndex, open_graph_index
from tfx_gnn.sampling.overlay.graph_overlay import GraphOverlay, open_graph_overlay
from tfx_gnn.sampling.overlay.overlay_position import check_overlay_fits
from tfx_gnn.serving.server.app import ModelServer
from tfx_gnn.serving.server.connections import BoundedConnection, ConnectionLimits
from tfx_gnn.serving.server.example_request import curl_line, example_instance
from tfx_gnn.serving.server.ids_input import SeedInput
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.open_connections import OpenConnections
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.served_graph import ServedGraph
from tfx_gnn.serving.server.watched_folder import folders_newest_first
from tfx_gnn.serving.versions import complete_versions

_LOG = logging.getLogger(__name__)

_LEAST_DISCARDED_BYTES = 64 * 2**20
"""How much of a refused request is read at least, so that clients that send far too much read why."""
_OTHER_FILES = 512
"""Files of TensorFlow, of graph indexes and of connections that are about to be closed."""
_MAX_BACKLOG = 2048
_KEEP_ALIVE_SECONDS = 75
"""Longer than the idle time after which load balancers close connections, so that the server is not the first."""


def serve_model(
    model_dir: str,
    *,
    options: ServerOptions,
    graph_index_dir: str = "",
    overlay: str = "",
    embeddings_dir: str = "",
    started: Callable[[str], None] = print,
    suggested: Callable[[str], None] | None = None,
) -> None:
    """Serves a model over HTTP until SIGTERM or Ctrl-C.

    Args:
        model_dir: push destination, whose new versions take over when they appear; or a single model.
        options: how to serve it.
        graph_index_dir: graph index whose ids the model is asked by; its versions must have been trained on examples
            that were sampled from this graph. Or a folder of numbered ones, the newest of which takes over when it
            appears; with an overlay, if it was built from it. Empty: the model is asked by examples and graphs alone.
        overlay: file of nodes and edges on top of the index, on a local disk; it is begun if there is none. With it,
            whoever has a token for writing may add to the graph; without `token_file`, whoever reaches the server.
        embeddings_dir: stored embeddings of one of its versions, the output of `write_embeddings` or a folder of
            numbered ones, the newest of which answers. Empty: none.
        started: called with the server's URL once it accepts requests.
        suggested: called after it with a command line that asks for a prediction by `curl`, if one is known.

    Raises:
        FileNotFoundError: if there is no model that loads.
        ValueError: if there is no whole graph index, the overlay is damaged or is that of another index, or the file of
            tokens cannot be used.
        BlockingIOError: if another process has the overlay open.
        OSError: if the address is not free.
    """
    if overlay and not graph_index_dir:
        raise ValueError(
            f"`overlay` must come with `graph_index_dir`, which it adds to; got {overlay!r} alone. Name the index, too."
        )
    index = newest_index(graph_index_dir, overlay, model_dir) if graph_index_dir else None
    with _open_overlay(index, overlay) as opened:
        server = ModelServer(
            model_dir,
            options,
            index=index,
            overlay=opened,
            graph_index_dir=graph_index_dir,
            embeddings_dir=embeddings_dir,
        )
        _serve(server, model_dir, options, started, suggested)


def newest_index(path: str, overlay: str = "", model_dir: str = "") -> GraphIndex:
    """Opens the newest graph index that is whole, and that has the rows of an overlay, or whose overlay it is.

    Args:
        path: a graph index, or a folder of numbered ones.
        overlay: file of an overlay, which need not exist.
        model_dir: push destination. An index by whose ids its newest version can be asked comes first; otherwise, one
            by whose ids an older version can.

    Returns:
        The index. `ServedGraph.refresh` logs and counts what was passed over.

    Raises:
        ValueError: if there is none; it says for each folder why not.
    """
    try:
        folders = [folder for folder, _ in folders_newest_first(path, MANIFEST_FILE)]
    except FileNotFoundError:
        return open_graph_index(path)  # It says what is wrong.
    reasons: list[str] = []
    for saved_model_dir in (*_saved_models(model_dir), ""):
        reasons.clear()
        for folder in folders:
            try:
                index = open_graph_index(folder)
                index.mapped.map_all()
                check_overlay_fits(index, overlay)
                if saved_model_dir:
                    _check_ids_are_enough(index, saved_model_dir)
            except Exception as error:  # noqa: BLE001 - whatever a damaged index raises, an older one may be whole.
                reasons.append(f"{folder}: {error}")
            else:
                return index
    raise ValueError(
        "`graph_index_dir` must hold a graph index that is whole and has the rows of the overlay, if one is named; got "
        f"none in {path!r}. Copy or build one. {' '.join(reasons)}"
    )


def _saved_models(model_dir: str) -> list[str]:
    """Lists the versions of a model, the newest first; none if they cannot be listed, which `ModelVersions` reports."""
    try:
        return [folder for _, folder in sorted(complete_versions(model_dir).items(), reverse=True)] if model_dir else []
    except (OSError, ValueError, tf.errors.OpError):
        return []


def _check_ids_are_enough(index: GraphIndex, saved_model_dir: str) -> None:
    """Checks what `ServedGraph.refresh` checks of an index: that the model can be asked by its ids."""
    graph = ServedGraph(index, ServerOptions(), ServerMetrics())
    SeedInput(graph, saved_model_dir, ServerMetrics()).check(graph.snapshot)


@contextlib.contextmanager
def _open_overlay(index: GraphIndex | None, path: str) -> Iterator[GraphOverlay | None]:
    if index is None or not path:
        yield None
        return
    with open_graph_overlay(index, path) as overlay:
        if overlay.num_cut:
            _LOG.warning("%d bytes of a write that was not answered were cut off from `%s`.", overlay.num_cut, path)
        yield overlay


def _serve(
    server: ModelServer,
    model_dir: str,
    options: ServerOptions,
    started: Callable[[str], None],
    suggested: Callable[[str], None] | None,
) -> None:
    # What was imported stays. Without these 400,000 objects, a full collection, which stops all threads, takes some
    # milliseconds instead of a quarter of a second.
    gc.collect()
    gc.freeze()
    server.refresh()
    if not server.versions.served:
        failures = "".join(f" Version {number}: {message}" for number, message in server.versions.failures.items())
        raise FileNotFoundError(
            f"`model_dir` must hold a model that loads; got {model_dir!r} without one. Push a model first, or name "
            f"another folder.{failures}"
        )
    # Before requests come, which the model answers as well.
    instance = None if suggested is None else example_instance(server.versions.served[0])

    def say_started(url: str) -> None:
        started(url)
        if suggested is not None and instance is not None:
            suggested(curl_line(instance, options, url))

    process = ServerProcess(server, options, say_started)
    with contextlib.closing(server):
        _run(process.serve())


def _run(serving: Coroutine[Any, Any, None]) -> None:
    """Runs the server in uvloop's event loop, which takes less time for each request and does not exist on Windows."""
    if sys.platform == "win32":
        asyncio.run(serving)
    else:
        import uvloop

        uvloop.run(serving)


class ServerProcess(uvicorn.Server):
    """uvicorn's server, which watches versions, and is not ready for a while before it stops."""

    def __init__(self, server: ModelServer, options: ServerOptions, started: Callable[[str], None]) -> None:
        limits = ConnectionLimits(
            head_seconds=options.head_seconds,
            body_seconds=options.body_seconds,
            max_discarded_bytes=max(_LEAST_DISCARDED_BYTES, 4 * options.max_body_bytes),
        )
        others = OpenConnections(
            max_connections=_possible_connections(options.max_connections),
            max_client_connections=options.max_client_connections,
        )
        connection = functools.partial(BoundedConnection, limits=limits, others=others, refused=server.refused)
        config = uvicorn.Config(
            server.app,
            http=cast("type[asyncio.Protocol]", connection),
            ws="none",
            host=options.host,
            port=options.port,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            backlog=min(options.max_connections, _MAX_BACKLOG),
            timeout_graceful_shutdown=math.ceil(options.grace_seconds),
        )
        super().__init__(config)
        self._server, self._options, self._say_started = server, options, started

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until it is told to stop."""
        watching = [asyncio.create_task(watch()) for watch in (self._server.watch_versions, self._server.watch_tokens)]
        try:
            listening = _bound_socket(self.config.host, self.config.port)
            # Connections inherit it. Otherwise the body of a response waits 40 ms until the client confirms its head:
            # asyncio knows a TCP socket by its `proto`, which uvicorn leaves out.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await super().serve(sockets=[listening])
        finally:
            for task in watching:
                task.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts connections from now on."""
        await super().startup(sockets)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._say_started(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handles signals so that the process ends with exit code 0."""
        # In another thread, whoever started it calls `stop`.
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, self.stop, self._options.drain_seconds)
            loop.add_signal_handler(signal.SIGINT, self.stop, 0.0)
        yield

    def stop(self, drain_seconds: float) -> None:
        """Reports from now on that the server is not ready, and stops it after some time; at once the second time."""
        if self._server.is_draining:
            self.should_exit = True
            return
        self._server.is_draining = True
        asyncio.get_running_loop().call_later(drain_seconds, self._exit)

    def _exit(self) -> None:
        self.should_exit = True


def _possible_connections(wanted: int) -> int:
    """Lets the process have files for its connections, and returns for how many there are some."""
    if sys.platform == "win32":
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if most > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    possible = max(most - _OTHER_FILES, most // 2)
    if possible < wanted:
        _LOG.warning(
            "`--max-connections` must be below the limit on open files; got %d, and %d files. At most %d connections "
            "are open at a time. Raise the limit: ulimit -n %d",
            wanted,
            most,
            possible,
            needed,
        )
    return possible


def _bound_socket(host: str, port: int) -> socket.socket:
    """Takes an address; uvicorn itself would end the process if it is not free."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise OSError(
            f"`host` and `port` must be a free address of this machine; got {host!r} and {port}: {error.strerror}. "
            "Choose another port, or end what listens there."
        ) from error
    return bound


def log_to_stderr(*, access_log: bool) -> None:
    """Writes the log of this package to stderr: swaps and errors, and a line of JSON for each request if wanted."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    package = logging.getLogger("tfx_gnn.serving.server")
    package.addHandler(handler)
    package.setLevel(logging.INFO)
    if access_log:
        bare = logging.StreamHandler(sys.stderr)
        bare.setFormatter(logging.Formatter("%(message)s"))
        logger = logging.getLogger("tfx_gnn.access")
        logger.addHandler(bare)
        logger.setLevel(logging.INFO)
        logger.propagate = False

"""The HTTP application: its routes, what they answer, and what happens to requests that are refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy.typing as npt
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import tfx_gnn
from tfx_gnn.sampling.index.graph_index import GraphIndex
from tfx_gnn.sampling.overlay.graph_overlay import GraphOverlay
from tfx_gnn.serving.server import candidates, open_inference, tensorflow_serving
from tfx_gnn.serving.server.admission import Admission
from tfx_gnn.serving.server.batcher import Answering, Batcher
from tfx_gnn.serving.server.graph_rows import ROW_PARTS, GraphRows, read_graph_rows
from tfx_gnn.serving.server.ids_input import Item
from tfx_gnn.serving.server.inference import Question
from tfx_gnn.serving.server.json_values import read_object
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.model_versions import ModelVersions
from tfx_gnn.serving.server.openapi import openapi_document, openapi_page
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal, malformed
from tfx_gnn.serving.server.retrieval import retrieve
from tfx_gnn.serving.server.served_graph import ServedGraph
from tfx_gnn.serving.server.served_version import Outputs, ServedVersion
from tfx_gnn.serving.server.stored_embeddings import StoredEmbeddings

_ACCESS_LOG = logging.getLogger("tfx_gnn.access")
_LOG = logging.getLogger(__name__)

_JSON_TYPES = ("", "application/json", "application/x-www-form-urlencoded", "text/plain")
"""Types of JSON bodies; the third is what curl says unless it is told otherwise."""
_BINARY_TYPE = "application/octet-stream"

_MANY_EXAMPLES_BYTES = 2**15
"""Larger bodies are read and written in a thread, so that other requests go on."""


class _Name(StringConvertor):
    """A name or number in a path, which ends before `:predict`."""

    regex = "[^/:]+"


register_url_convertor("name", _Name())


class ModelServer:
    """Answers HTTP requests about one model.

    Attributes:
        app: the ASGI application.
        versions: the versions that it serves.
        graph: the graph whose nodes requests name; None if it is asked by examples and graphs alone.
        embeddings: stored embeddings; None without.
        metrics: what it counts.
        is_draining: whether it reports that it is not ready, because it is about to stop.
    """

    def __init__(
        self,
        model_dir: str,
        options: ServerOptions,
        *,
        index: GraphIndex | None = None,
        overlay: GraphOverlay | None = None,
        graph_index_dir: str = "",
        embeddings_dir: str = "",
    ) -> None:
        """Serves the versions of a folder.

        With ids of an index, with an overlay of it, which may then grow, or with the folder where its successors
        appear, and with stored embeddings, if given.
        """
        self._options = options
        self.metrics = ServerMetrics()
        self.graph = (
            None
            if index is None
            else ServedGraph(index, options, self.metrics, overlay=overlay, followed=graph_index_dir)
        )
        self.versions = ModelVersions(model_dir, options.num_versions, self.metrics, graph=self.graph)
        self.embeddings = StoredEmbeddings(embeddings_dir, options, self.metrics) if embeddings_dir else None
        if self.embeddings is not None:
            embeddings = self.embeddings
            # When it is read: they grow old without a change.
            self.metrics.embeddings_stale.set_function(
                lambda: float(not embeddings.describe(self.versions.served)["ready"])
            )
        self.is_draining = False
        self._admission = Admission(options, self.metrics)
        self._batcher = Batcher(options, self.metrics)
        self._watcher = concurrent.futures.ThreadPoolExecutor(1, "versions")
        self._codecs = concurrent.futures.ThreadPoolExecutor(1, "json")
        v1, v2 = "/v1/models/{model:name}", "/v2/models/{model:name}"
        one = "/versions/{version:name}"
        get, post = ["GET"], ["POST"]
        routes = [
            Route("/v2", self._server_metadata, methods=get),
            Route("/v2/health/live", self._live, methods=get),
            Route("/v2/health/ready", self._ready, methods=get),
            *(Route(f"{v2}{path}", self._model_metadata, methods=get) for path in ("", one)),
            *(Route(f"{v2}{path}/ready", self._model_ready, methods=get) for path in ("", one)),
            *(Route(f"{v2}{path}/infer", self._infer, methods=post) for path in ("", one)),
            *(Route(f"{v1}{path}:predict", self._predict, methods=post) for path in ("", one)),
            *(Route(f"{v1}{path}:sample", self._sample, methods=post) for path in ("", one)),
            *(Route(f"{v1}{path}:rank", self._rank, methods=post) for path in ("", one)),
            Route(f"{v1}:embed", self._embed, methods=post),
            Route(f"{v1}:nearest", self._nearest, methods=post),
            *(Route(f"{v1}{path}/metadata", self._signatures, methods=get) for path in ("", one)),
            *(Route(f"{v1}{path}", self._status, methods=get) for path in ("", one)),
            Route("/v1/graph", self._graph_metadata, methods=get),
            Route("/v1/graph:add", self._add, methods=post),
            Route("/v1/embeddings", self._embeddings_metadata, methods=get),
            Route("/metrics", self._metrics, methods=get),
            Route("/openapi.json", self._openapi, methods=get),
            Route("/docs", self._docs, methods=get),
        ]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: self._no_route})
        # For the reader of metrics, a path with a version is the same as without.
        labels = {route.endpoint: _plain_path(route.path).replace(_PLAIN_VERSION, "") for route in routes}
        self.app.add_middleware(_Observed, labels=labels, server=self)
        self.documented = openapi_document(
            options, [(_plain_path(route.path), route.methods or set()) for route in routes]
        )

    async def watch_versions(self) -> None:
        """Follows the folders until it is cancelled."""
        while True:
            await asyncio.sleep(self._options.poll_seconds)
            await asyncio.get_running_loop().run_in_executor(self._watcher, self.refresh)

    def refresh(self) -> None:
        """Takes what is new in the folders of versions, of graph indexes and of embeddings; blocks meanwhile."""
        self.versions.refresh()
        if self.graph is not None:
            self.graph.refresh([one.seeds.check for one in self.versions.served if one.seeds is not None])
        if self.embeddings is not None:
            self.embeddings.refresh(self.versions.served)

    def close(self) -> None:
        """Ends the threads."""
        self._batcher.close()
        if self.graph is not None:
            self.graph.close()
        for threads in (self._watcher, self._codecs):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _predict(self, request: Request) -> Response:
        return await self._predicted(request, tensorflow_serving.read_predict_request)

    async def _sample(self, request: Request) -> Response:
        """Answers with the examples that the model would be asked about."""
        version = self._version(request)
        read = tensorflow_serving.read_sample_request
        return await self._within_limits(request, lambda body: self._answer(body, read, version, version.examples))

    async def _rank(self, request: Request) -> Response:
        version = self._version(request)
        return await self._within_limits(request, lambda body: self._ranked(body, version))

    async def _embed(self, request: Request) -> Response:
        return await self._stored(request, StoredEmbeddings.embed)

    async def _nearest(self, request: Request) -> Response:
        return await self._stored(request, StoredEmbeddings.nearest)

    async def _stored(
        self, request: Request, ask: Callable[[StoredEmbeddings, bytes, Sequence[ServedVersion]], dict[str, Any]]
    ) -> Response:
        """Answers from stored embeddings."""
        self._version(request)
        embeddings = self._found_embeddings()

        async def answer(body: bytes) -> Response:
            found = await self._run(lambda: ask(embeddings, body, self.versions.served), in_thread=True)
            return JSONResponse(found, headers={"x-model-version": found["model_version"]})

        return await self._within_limits(request, answer)

    async def _infer(self, request: Request) -> Response:
        length = request.headers.get(open_inference.JSON_LENGTH_HEADER)
        return await self._predicted(
            request, lambda body: open_inference.read_infer_request(body, length), may_be_binary=length is not None
        )

    async def _predicted(
        self, request: Request, read: Callable[[bytes], Question], *, may_be_binary: bool = False
    ) -> Response:
        """Answers a request for predictions; the same for all protocols."""
        version = self._version(request)
        return await self._within_limits(
            request, lambda body: self._answer(body, read, version), may_be_binary=may_be_binary
        )

    async def _add(self, request: Request) -> Response:
        graph = self._found_graph()
        return await self._within_limits(request, lambda body: self._add_rows(body, graph))

    async def _within_limits(
        self, request: Request, answer: Callable[[bytes], Awaitable[Response]], *, may_be_binary: bool = False
    ) -> Response:
        """Reads the body of a request and answers it, within the limits on size, number and time."""
        _check_headers(request, may_be_binary=may_be_binary)
        with self._admission.admit() as admitted:
            timeout = self._options.timeout_seconds
            end = time.monotonic() + timeout
            try:
                body = await asyncio.wait_for(admitted.read_body(request), timeout)
            except asyncio.TimeoutError as error:
                raise Refusal(
                    408, "slow_request", f"The body must arrive within {timeout} s; got a part of it. Send it again."
                ) from error
            try:
                return await asyncio.wait_for(answer(body), max(end - time.monotonic(), 0.0))
            except asyncio.TimeoutError as error:
                raise Refusal(
                    504,
                    "timeout",
                    f"The response must be ready within {timeout} s; got none. Send fewer examples, or try again when "
                    "fewer requests wait.",
                    retry_after=1,
                ) from error

    async def _answer(
        self,
        body: bytes,
        read: Callable[[bytes], Question],
        version: ServedVersion,
        answering: Answering | None = None,
    ) -> Response:
        """Answers a request by the signature that it names, unless something else answers."""

        def read_items() -> tuple[Question, list[Item]]:
            question = read(body)
            return question, question.items(version, self._options.max_examples)

        is_large = len(body) > _MANY_EXAMPLES_BYTES
        question, items = await self._run(read_items, in_thread=is_large)
        answering = answering or version.signature(question.signature_name)
        outputs: Outputs = await self._batcher.ask(answering, items)

        def write() -> tuple[bytes, dict[str, str]]:
            return question.response(outputs, self._options.model_name, version.version)

        size = sum(map(_num_bytes, outputs.values()))
        content, headers = await self._run(write, in_thread=size > _MANY_EXAMPLES_BYTES)
        return Response(content, headers={**headers, "x-model-version": str(version.version)})

    async def _ranked(self, body: bytes, version: ServedVersion) -> Response:
        """Answers a request for the best links, after its candidates are retrieved if it has none."""
        asked = await self._run(
            lambda: candidates.read_rank_request(body, self._options.max_examples),
            in_thread=len(body) > _MANY_EXAMPLES_BYTES,
        )
        if asked.candidates is None:
            asked = await retrieve(
                asked,
                self.embeddings,
                version,
                self.versions.served,
                ask=self._batcher.ask,
                run=lambda function: self._run(function, in_thread=True),
            )
        return await self._answer(body, lambda _: asked, version)

    async def _add_rows(self, body: bytes, graph: ServedGraph) -> Response:
        def read() -> GraphRows:
            content = read_object(body)
            unknown = [name for name in content if name not in ROW_PARTS]
            if unknown:
                raise malformed(f"The body must have the keys {list(ROW_PARTS)}; got {unknown[:10]}. Leave these out.")
            return read_graph_rows(content, "", graph.max_new_rows)

        rows = await self._run(read, in_thread=len(body) > _MANY_EXAMPLES_BYTES)
        for version in self.versions.served:
            if version.seeds is not None:
                version.seeds.check_weights(rows, "")
        await graph.add(rows)
        return JSONResponse({"added": {"nodes": rows.num_nodes, "edges": rows.num_edges}})

    async def _run(self, function: Callable[[], Any], *, in_thread: bool) -> Any:
        if in_thread:
            return await asyncio.get_running_loop().run_in_executor(self._codecs, function)
        return function()

    def _version(self, request: Request) -> ServedVersion:
        name, version = request.path_params.get("model"), request.path_params.get("version")
        if name != self._options.model_name:
            raise Refusal(
                404,
                "unknown_model",
                f"The model must be {self._options.model_name!r}; got {name!r}. Name it so, or start the server with "
                "another `model_name`.",
            )
        return self.versions.find(None if version is None else str(version))

    def _found_graph(self) -> ServedGraph:
        if self.graph is None:
            raise Refusal(
                404,
                "no_graph",
                "The server must have a graph; got one that was started without a graph index. Start it with "
                "`--graph-index-dir`, and with `--overlay` to add to the graph.",
            )
        return self.graph

    def _found_embeddings(self) -> StoredEmbeddings:
        if self.embeddings is None:
            raise Refusal(
                404,
                "no_embeddings",
                "The server must have stored embeddings; got one that was started without. Start it with "
                "`--embeddings-dir`, or ask the model by `signature_name` 'embeddings'.",
            )
        return self.embeddings

    async def _server_metadata(self, request: Request) -> Response:
        extensions = ["binary_tensor_data"]
        return JSONResponse({"name": "tfx-gnn", "version": tfx_gnn.__version__, "extensions": extensions})

    async def _live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def _ready(self, request: Request) -> Response:
        # Stored embeddings that are refused do not count: the model answers.
        is_ready = bool(self.versions.served) and not self.is_draining
        return JSONResponse({"ready": is_ready}, status_code=200 if is_ready else 503)

    async def _model_ready(self, request: Request) -> Response:
        version = self._version(request)
        content = {"name": self._options.model_name, "version": str(version.version), "ready": not self.is_draining}
        return JSONResponse(content, status_code=503 if self.is_draining else 200)

    async def _model_metadata(self, request: Request) -> Response:
        version = self._version(request)
        numbers = [one.version for one in self.versions.served]
        return JSONResponse(open_inference.metadata_of(version, self._options.model_name, numbers))

    async def _signatures(self, request: Request) -> Response:
        return JSONResponse(tensorflow_serving.metadata_of(self._version(request), self._options.model_name))

    async def _status(self, request: Request) -> Response:
        version = self._version(request)
        if "version" in request.path_params:
            return JSONResponse(tensorflow_serving.status_of([version], {}))
        return JSONResponse(tensorflow_serving.status_of(self.versions.served, self.versions.failures))

    async def _graph_metadata(self, request: Request) -> Response:
        return JSONResponse(self._found_graph().describe())

    async def _embeddings_metadata(self, request: Request) -> Response:
        return JSONResponse(self._found_embeddings().describe(self.versions.served))

    async def _metrics(self, request: Request) -> Response:
        text, content_type = self.metrics.text()
        return Response(text, headers={"content-type": content_type})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self.documented)

    async def _docs(self, request: Request) -> Response:
        return HTMLResponse(openapi_page(self.documented))

    async def _no_route(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            allowed = " or ".join(sorted((error.headers or {}).get("Allow", "").split(", ")))
            refusal = Refusal(405, "wrong_method", f"The method must be {allowed}; got {request.method}. See /docs.")
        elif error.status_code == 404:
            refusal = Refusal(
                404, "unknown_path", f"The path must be one of those at /docs; got {request.url.path!r}. Correct it."
            )
        else:
            refusal = Refusal(error.status_code, "malformed", f"{error.detail}")
        return self.refused(refusal, dict(error.headers or {}))

    def refused(self, refusal: Refusal, headers: dict[str, str] | None = None) -> Response:
        """Makes the response of a refusal, and counts it."""
        self.metrics.refusals.labels(refusal.reason).inc()
        headers = dict(headers or {})
        if refusal.retry_after is not None:
            headers["retry-after"] = str(refusal.retry_after)
        if refusal.status in (408, 413):
            headers["connection"] = "close"  # The rest of the body is not read.
        return JSONResponse({"error": refusal.message}, status_code=refusal.status, headers=headers)


def _check_headers(request: Request, *, may_be_binary: bool) -> None:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    wanted = (*_JSON_TYPES, _BINARY_TYPE) if may_be_binary else _JSON_TYPES
    if content_type not in wanted:
        raise Refusal(
            415,
            "wrong_content_type",
            f"`Content-Type` must be application/json, or {_BINARY_TYPE} with binary tensors after "
            f"`{open_inference.JSON_LENGTH_HEADER}` bytes of JSON; got {content_type!r}. Send JSON.",
        )
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refusal(
            415,
            "wrong_content_type",
            f"`Content-Encoding` must be identity; got {encoding!r}. Send the body uncompressed.",
        )


def _num_bytes(values: npt.NDArray[Any]) -> int:
    """Returns the size of an array, with that of the bytes that it refers to."""
    if values.dtype != object:
        return values.nbytes
    return values.nbytes + sum(len(value) for value in values.flat if isinstance(value, bytes))


def _plain_path(path: str) -> str:
    """Removes the converters from a path: `/v2/models/{model}`."""
    return path.replace(":name}", "}")


_PLAIN_VERSION = "/versions/{version}"


class _Observed:
    """Counts and logs responses, and makes responses of refusals and errors."""

    def __init__(self, app: ASGIApp, *, labels: dict[Any, str], server: ModelServer) -> None:
        self._app, self._labels, self._server = app, labels, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 0

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._server.is_draining:
                    # The client opens its next connection to a server that stays.
                    message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        try:
            await self._with_errors(scope, receive, send_and_note)
        finally:
            self._note(scope, status, time.perf_counter() - start)

    async def _with_errors(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Refusal as refusal:
            await self._server.refused(refusal)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the server answers, whatever is wrong with one request
            _LOG.exception("A request to `%s` failed.", scope["path"])
            failure = Refusal(500, "server_error", f"The server failed: {type(error).__name__}. See its log.")
            await self._server.refused(failure)(scope, receive, send)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = self._labels.get(scope.get("endpoint"), "other")
        self._server.metrics.requests.labels(route, status).inc()
        self._server.metrics.latency.labels(route).observe(seconds)
        if _ACCESS_LOG.isEnabledFor(logging.INFO):
            entry = {
                "time": time.time(),
                "client": (scope.get("client") or ("",))[0],
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "seconds": round(seconds, 6),
            }
            _ACCESS_LOG.info(json.dumps(entry, ensure_ascii=False))

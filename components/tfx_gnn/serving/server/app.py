"""The HTTP application: its routes, what they answer, and what happens to requests that are refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

import numpy.typing as npt
from starlette.applications import Starlette
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Scope

import tfx_gnn
from tfx_gnn.sampling.index.graph_index import GraphIndex
from tfx_gnn.sampling.overlay.graph_overlay import GraphOverlay
from tfx_gnn.serving.server import candidates, open_inference, tensorflow_serving
from tfx_gnn.serving.server.access import Access, check_body_headers, header_of, with_role
from tfx_gnn.serving.server.admission import Admission, Deadline, DeadlineError
from tfx_gnn.serving.server.batcher import Answering, Batcher
from tfx_gnn.serving.server.graph_rows import ROW_PARTS, GraphRows, read_graph_rows
from tfx_gnn.serving.server.ids_input import Item
from tfx_gnn.serving.server.inference import Question
from tfx_gnn.serving.server.json_values import read_object
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.model_versions import ModelVersions
from tfx_gnn.serving.server.observation import Observed
from tfx_gnn.serving.server.openapi import openapi_document, openapi_page
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal, malformed
from tfx_gnn.serving.server.retrieval import retrieve
from tfx_gnn.serving.server.served_graph import ServedGraph
from tfx_gnn.serving.server.served_version import Outputs, ServedVersion
from tfx_gnn.serving.server.stored_embeddings import StoredEmbeddings
from tfx_gnn.serving.server.token_file import ADMIN, READ, WRITE, TokenFile

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
        self._tokens = TokenFile(options.token_file) if options.token_file else None
        self._admission = Admission(options, self.metrics)
        self._batcher = Batcher(options, self.metrics)
        self._watcher = concurrent.futures.ThreadPoolExecutor(1, "versions")
        self._codecs = concurrent.futures.ThreadPoolExecutor(1, "json")
        v1, v2 = "/v1/models/{model:name}", "/v2/models/{model:name}"
        one = "/versions/{version:name}"
        get, post = ["GET"], ["POST"]
        routes = [
            self._route("/v2", self._server_metadata, get),
            Route("/v2/health/live", self._live, methods=get),
            Route("/v2/health/ready", self._ready, methods=get),
            *(self._route(f"{v2}{path}", self._model_metadata, get) for path in ("", one)),
            *(Route(f"{v2}{path}/ready", self._model_ready, methods=get) for path in ("", one)),
            *(self._route(f"{v2}{path}/infer", self._infer, post) for path in ("", one)),
            *(self._route(f"{v1}{path}:predict", self._predict, post) for path in ("", one)),
            *(self._route(f"{v1}{path}:sample", self._sample, post) for path in ("", one)),
            *(self._route(f"{v1}{path}:rank", self._rank, post) for path in ("", one)),
            self._route(f"{v1}:embed", self._embed, post),
            self._route(f"{v1}:nearest", self._nearest, post),
            *(self._route(f"{v1}{path}/metadata", self._signatures, get) for path in ("", one)),
            *(self._route(f"{v1}{path}", self._status, get) for path in ("", one)),
            self._route("/v1/graph", self._graph_metadata, get),
            self._route("/v1/graph:add", self._add, post, WRITE),
            self._route("/v1/embeddings", self._embeddings_metadata, get),
            self._route("/metrics", self._metrics, get, ADMIN),
            self._route("/openapi.json", self._openapi, get),
            self._route("/docs", self._docs, get),
        ]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: self._no_route})
        open_paths = frozenset(
            {"/v2/health/live", "/v2/health/ready", f"/v2/models/{options.model_name}/ready"},
        )
        # The last one comes first.
        self.app.add_middleware(Access, options=options, tokens=self._tokens, open_paths=open_paths)
        # For the reader of metrics, a path with a version is the same as without.
        labels = {route.endpoint: _plain_path(route.path).replace(_PLAIN_VERSION, "") for route in routes}
        self.app.add_middleware(Observed, labels=labels, server=self)
        if options.allowed_origins:
            self.app.add_middleware(
                CORSMiddleware,
                allow_origins=options.allowed_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["authorization", "content-type", open_inference.JSON_LENGTH_HEADER],
                expose_headers=["x-model-version", "retry-after", open_inference.JSON_LENGTH_HEADER],
            )
        self.documented = openapi_document(
            options, [(_plain_path(route.path), route.methods or set()) for route in routes]
        )

    async def watch_versions(self) -> None:
        """Follows the folders until it is cancelled."""
        while True:
            await asyncio.sleep(self._options.poll_seconds)
            await asyncio.get_running_loop().run_in_executor(self._watcher, self.refresh)

    async def watch_tokens(self) -> None:
        """Follows the file of tokens until it is cancelled; not where a version may be loading for minutes."""
        while self._tokens is not None:
            await asyncio.sleep(self._options.poll_seconds)
            await asyncio.get_running_loop().run_in_executor(None, self._tokens.refresh)

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

    def _route(
        self,
        path: str,
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]],
        methods: Sequence[str],
        role: str = READ,
    ) -> Route:
        """Makes a route for tokens of a role, where there are tokens."""
        return Route(path, endpoint if self._tokens is None else with_role(role, endpoint), methods=list(methods))

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
        length = header_of(request.scope, open_inference.JSON_LENGTH_HEADER.encode())

        def read(body: bytes, max_examples: int) -> Question:
            return open_inference.read_infer_request(body, length, max_examples)

        return await self._predicted(request, read, may_be_binary=length is not None)

    async def _predicted(
        self, request: Request, read: Callable[[bytes, int], Question], *, may_be_binary: bool = False
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
        check_body_headers(request.scope, may_be_binary=may_be_binary)
        body = await self._admission.read_body(request)
        timeout = self._options.timeout_seconds
        try:
            with self._admission.admit(body), Deadline(timeout):
                return await answer(body)
        except DeadlineError as error:
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
        read: Callable[[bytes, int], Question],
        version: ServedVersion,
        answering: Answering | None = None,
    ) -> Response:
        """Answers a request by the signature that it names, unless something else answers."""

        def read_items() -> tuple[Question, list[Item]]:
            question = read(body, self._options.max_examples)
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
        return await self._answer(body, lambda *_: asked, version)

    async def _add_rows(self, body: bytes, graph: ServedGraph) -> Response:
        def read() -> GraphRows:
            content = read_object(body)
            unknown = [name for name in content if name not in ROW_PARTS]
            if unknown:
                raise malformed(f"The body must have the keys {list(ROW_PARTS)}; got {unknown[:10]}. Leave these out.")
            return read_graph_rows(content, "", graph.max_new_rows, graph.max_id_bytes)

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
        return self.refused(refusal, dict(error.headers or {}), scope=request.scope)

    def refused(
        self, refusal: Refusal, headers: dict[str, str] | None = None, *, scope: Scope | None = None
    ) -> Response:
        """Makes the response of a refusal, and counts it."""
        self.metrics.refusals.labels(refusal.reason).inc()
        headers = {**refusal.headers, **(headers or {})}
        if refusal.retry_after is not None:
            headers["retry-after"] = str(refusal.retry_after)
        # The rest of the body is not of use; or it does not come, because the client waits to be told to send it.
        if refusal.status in (408, 413) or (scope is not None and header_of(scope, b"expect") is not None):
            headers["connection"] = "close"
        return JSONResponse({"error": refusal.message}, status_code=refusal.status, headers=headers)


def _num_bytes(values: npt.NDArray[Any]) -> int:
    """Returns the size of an array, with that of the bytes that it refers to."""
    if values.dtype != object:
        return values.nbytes
    return values.nbytes + sum(len(value) for value in values.flat if isinstance(value, bytes))


def _plain_path(path: str) -> str:
    """Removes the converters from a path: `/v2/models/{model}`."""
    return path.replace(":name}", "}")


_PLAIN_VERSION = "/versions/{version}"

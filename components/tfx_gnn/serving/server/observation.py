"""What is counted and logged of each request, and the responses of refusals and errors."""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.refusals import Refusal

_ACCESS_LOG = logging.getLogger("tfx_gnn.access")
_LOG = logging.getLogger(__name__)


class Server(Protocol):
    """The server whose requests are observed."""

    is_draining: bool
    metrics: ServerMetrics

    def refused(self, refusal: Refusal, *, scope: Scope) -> Response:
        """Makes the response of a refusal, and counts it."""
        ...


class Observed:
    """Counts and logs responses, and makes responses of refusals and errors."""

    def __init__(self, app: ASGIApp, *, labels: dict[Any, str], server: Server) -> None:
        self._app, self._labels, self._server = app, labels, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
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
            await self._server.refused(refusal, scope=scope)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the server answers, whatever is wrong with one request
            _LOG.exception("A request to %r failed.", scope["path"])
            failure = Refusal(500, "server_error", f"The server failed: {type(error).__name__}. See its log.")
            await self._server.refused(failure, scope=scope)(scope, receive, send)

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

"""Limits on the requests that a server works on at the same time, and on their bodies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.requests import ClientDisconnect, Request

from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal, malformed

_RETRY_AFTER_SECONDS = 1


class Admission:
    """Counts the requests from their heads to their responses, and the bytes of their bodies."""

    def __init__(self, options: ServerOptions, metrics: ServerMetrics) -> None:
        self._options, self._metrics = options, metrics
        self._num_requests = self._num_bytes = 0

    @contextlib.contextmanager
    def admit(self) -> Iterator[AdmittedRequest]:
        """Admits a request until the block ends, or refuses it."""
        if self._num_requests >= self._options.max_requests:
            raise _busy(f"{self._num_requests} requests, of {self._options.max_requests}")
        admitted = AdmittedRequest(self)
        self._change(1, 0)
        try:
            yield admitted
        finally:
            self._change(-1, -admitted.num_bytes)

    def reserve(self, num_bytes: int) -> None:
        """Counts more bytes of a body, or refuses them."""
        if self._num_bytes + num_bytes > self._options.max_pending_bytes:
            raise _busy(f"{self._num_bytes} bytes of requests, of {self._options.max_pending_bytes}")
        self._change(0, num_bytes)

    def check_size(self, num_bytes: int) -> None:
        """Refuses a body that is too large."""
        if num_bytes > self._options.max_body_bytes:
            raise Refusal(
                413,
                "too_large",
                f"The body must be at most {self._options.max_body_bytes} bytes; got {num_bytes} or more. Send fewer "
                "examples in a request.",
            )

    def _change(self, requests: int, num_bytes: int) -> None:
        self._num_requests += requests
        self._num_bytes += num_bytes
        self._metrics.pending_requests.set(self._num_requests)
        self._metrics.pending_bytes.set(self._num_bytes)


class AdmittedRequest:
    """A request that counts; `num_bytes` are the bytes of its body so far."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self.num_bytes = 0

    async def read_body(self, request: Request) -> bytes:
        """Reads the body, and ends with a refusal as soon as it is too large."""
        declared = request.headers.get("content-length", "0")
        self._admission.check_size(int(declared) if declared.isascii() and declared.isdigit() else 0)
        chunks = []
        try:
            async for chunk in request.stream():
                self._admission.check_size(self.num_bytes + len(chunk))
                self._admission.reserve(len(chunk))
                self.num_bytes += len(chunk)
                chunks.append(chunk)
        except ClientDisconnect as error:
            raise malformed("The body must be complete; got the end of the connection within it.") from error
        return b"".join(chunks)


def _busy(pending: str) -> Refusal:
    return Refusal(
        429,
        "busy",
        f"The server must have room for a request; got {pending}. Send it again later.",
        retry_after=_RETRY_AFTER_SECONDS,
    )

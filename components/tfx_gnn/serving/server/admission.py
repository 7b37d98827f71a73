"""Limits on the requests that a server works on at the same time, and on their bodies."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator
from types import TracebackType

from starlette.requests import ClientDisconnect, Request

from tfx_gnn.serving.server.access import header_of
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal, malformed

_RETRY_AFTER_SECONDS = 1
_YOUNG_SECONDS = 1.0


class DeadlineError(Exception):
    """That the time of a block is over."""


class Deadline:
    """Ends a block with DeadlineError after some time, or earlier if somebody else expires it.

    Only for one task of an event loop, and cheaper than `asyncio.wait_for`, which makes another one.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.is_expired = False

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._alarm = asyncio.get_running_loop().call_later(self._seconds, self.expire)
        return self

    def expire(self) -> None:
        """Ends the block at what it waits for."""
        if not self.is_expired:
            self.is_expired = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._alarm.cancel()
        if self.is_expired and kind is asyncio.CancelledError:
            raise DeadlineError from error


class _Arriving(Deadline):
    """A body that is being read; `num_bytes` are there."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.num_bytes = 0
        self.makes_room = False
        self._since = time.monotonic()

    def rate(self, now: float, num_more: int = 0) -> float:
        """Returns the bytes a second so far, with some more; infinity for bodies that just began."""
        age = now - self._since
        return (self.num_bytes + num_more) / age if age > _YOUNG_SECONDS else math.inf


class Admission:
    """Counts the requests from the ends of their bodies to their responses, and the bytes of all bodies.

    A client that sends its body slowly takes nothing from others: its request does not count yet, and where its bytes
    leave no room, it is refused.
    """

    def __init__(self, options: ServerOptions, metrics: ServerMetrics) -> None:
        self._options, self._metrics = options, metrics
        self._num_requests = self._num_bytes = 0
        self._arriving: set[_Arriving] = set()

    async def read_body(self, request: Request) -> bytes:
        """Reads the body of a request that is not admitted yet.

        Raises:
            Refusal: as soon as it is too large, has taken too long, or would have no room.
        """
        self._check_room()
        declared = header_of(request.scope, b"content-length") or ""
        self._check_size(int(declared) if declared.isascii() and declared.isdigit() else 0)
        seconds = self._options.body_seconds
        arriving = _Arriving(seconds)
        chunks = []
        self._arriving.add(arriving)
        try:
            with arriving:
                async for chunk in request.stream():
                    if chunk:
                        self._check_size(arriving.num_bytes + len(chunk))
                        self._reserve(len(chunk), arriving)
                        chunks.append(chunk)
        except DeadlineError as error:
            if arriving.makes_room:
                raise self._busy_bytes() from error
            raise Refusal(
                408, "slow_request", f"The body must arrive within {seconds} s; got a part of it. Send it again."
            ) from error
        except ClientDisconnect as error:
            raise malformed("The body must be complete; got the end of the connection within it.") from error
        finally:
            self._arriving.remove(arriving)
            self._change(0, -arriving.num_bytes)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    @contextlib.contextmanager
    def admit(self, body: bytes) -> Iterator[None]:
        """Admits a request, whose body is there, until the block ends, or refuses it."""
        self._check_room()
        self._change(1, len(body))
        try:
            yield
        finally:
            self._change(-1, -len(body))

    def _check_room(self) -> None:
        if self._num_requests >= self._options.max_requests:
            raise _busy(f"{self._num_requests} requests, of {self._options.max_requests}")

    def _reserve(self, num_bytes: int, arriving: _Arriving) -> None:
        """Counts more bytes of a body; if there is no room, those that arrive most slowly make it, or this one."""
        now = time.monotonic()
        while self._num_bytes + num_bytes > self._options.max_pending_bytes:
            others = (other for other in self._arriving if other.num_bytes and other is not arriving)
            slowest = min(others, key=lambda other: other.rate(now), default=arriving)
            if slowest is arriving or slowest.rate(now) >= arriving.rate(now, num_bytes):
                raise self._busy_bytes()
            self._change(0, -slowest.num_bytes)
            slowest.num_bytes, slowest.makes_room = 0, True
            slowest.expire()
        arriving.num_bytes += num_bytes
        self._change(0, num_bytes)

    def _check_size(self, num_bytes: int) -> None:
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

    def _busy_bytes(self) -> Refusal:
        return _busy(f"{self._num_bytes} bytes of requests, of {self._options.max_pending_bytes}")


def _busy(pending: str) -> Refusal:
    return Refusal(
        429,
        "busy",
        f"The server must have room for a request; got {pending}. Send it again later.",
        retry_after=_RETRY_AFTER_SECONDS,
    )

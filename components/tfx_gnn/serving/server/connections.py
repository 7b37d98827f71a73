"""Connections whose requests have heads of bounded size, and arrive in bounded time."""

from __future__ import annotations

import asyncio
import http
import itertools
from collections.abc import Callable
from typing import Any

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tfx_gnn.serving.server.refusals import Refusal, malformed

MAX_HEAD_BYTES = 2**16
"""Largest size of a request's first line and headers, in bytes."""


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection, which alone takes heads of any size and waits for ever for the end of a request.

    The application bounds bodies that it reads. The rest of a body that it refused is bounded here, too.

    Args:
        head_seconds: longest time from the first byte of a head to its last; for the first head, from the connection.
        refused: counts a refusal and makes its response.
        arguments: those of uvicorn.
    """

    def __init__(self, *, head_seconds: float, refused: Callable[[Refusal], Response], **arguments: Any) -> None:
        super().__init__(**arguments)
        self._head_seconds, self._refused = head_seconds, refused
        self._is_in_head = True
        self._is_large = False
        self._num_head_bytes = 0
        self._alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first head."""
        super().connection_made(transport)
        self._set_alarm()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._cancel_alarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Reads a part of a request."""
        if self._alarm is None:
            self._set_alarm()
        self._num_head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._num_head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(_large_head())

    def on_headers_complete(self) -> None:
        """Starts the request that has this head."""
        # This also bounds a head that arrives in one piece.
        self._is_large = len(self.url) + sum(map(len, itertools.chain.from_iterable(self.headers))) > MAX_HEAD_BYTES
        if self._is_large:
            raise ValueError("The parser ends, and the request is refused.")
        self._is_in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expects the next head; until it begins, uvicorn's time for idle connections counts."""
        self._is_in_head, self._num_head_bytes = True, 0
        self._cancel_alarm()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuses what the parser did not take, or `on_headers_complete`."""
        self._refuse(_large_head() if self._is_large else _not_http())

    def _set_alarm(self) -> None:
        self._alarm = self.loop.call_later(self._head_seconds, self._end_slow_request)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _end_slow_request(self) -> None:
        self._alarm = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._set_alarm()  # The application bounds the time of a body that it reads, and of its response.
        elif self._is_in_head and self._num_head_bytes:
            self._refuse(
                Refusal(
                    408,
                    "slow_request",
                    f"A request's head must arrive within {self._head_seconds} s; got a part of it. Send it again.",
                )
            )
        else:
            self.transport.close()

    def _refuse(self, refusal: Refusal) -> None:
        self._cancel_alarm()
        response = self._refused(refusal)
        status = http.HTTPStatus(refusal.status)
        head = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), b"connection: close"]
        head += [name + b": " + value for name, value in response.raw_headers if name != b"connection"]
        self.transport.write(b"\r\n".join([*head, b"", bytes(response.body)]))
        self.transport.close()


def _large_head() -> Refusal:
    return Refusal(
        431,
        "too_large",
        f"The path and headers of a request must be at most {MAX_HEAD_BYTES} bytes; got more. Send less in headers.",
    )


def _not_http() -> Refusal:
    return malformed("The request must be HTTP/1.1; got bytes that are not. Check the client.")

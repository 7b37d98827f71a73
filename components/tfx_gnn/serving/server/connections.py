"""Connections whose requests have heads of bounded size, and that do not wait for ever for their clients."""

from __future__ import annotations

import asyncio
import dataclasses
import http
import itertools
from collections.abc import Callable
from typing import Any, cast

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tfx_gnn.serving.server.open_connections import OpenConnections
from tfx_gnn.serving.server.refusals import Refusal, malformed

MAX_HEAD_BYTES = 2**16
"""Largest size of a request's first line and headers, in bytes."""
MAX_HEADERS = 256
MAX_PIPELINED = 128
"""Largest number of requests that wait in a connection for the answer to the one before."""

_LEAST_PROGRESS_BYTES = 2**18


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """How long a connection waits for its client.

    Attributes:
        head_seconds: longest time from the first byte of a head to its last; for the first head, from the connection.
        body_seconds: longest time for a body that the application does not read, and longest time without progress of
            a client that reads a response.
        max_discarded_bytes: how much of a request that was refused is read, so that its client reads the response.
    """

    head_seconds: float
    body_seconds: float
    max_discarded_bytes: int


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection, which alone takes heads of any size and waits for ever for the end of a request.

    The application bounds bodies that it reads. The rest of a body that it refused is bounded here, too. uvicorn closes
    the connection after such a response, and the kernel then resets it because of what was not read: clients that are
    still sending lose the response. Here, the rest is read and discarded first, within limits.

    Args:
        limits: bounds on times and sizes.
        others: the connections of the server.
        refused: counts a refusal and makes its response.
        arguments: those of uvicorn.
    """

    transport: _Transport  # type: ignore[assignment]

    def __init__(
        self,
        *,
        limits: ConnectionLimits,
        others: OpenConnections,
        refused: Callable[[Refusal], Response],
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.access_log = False  # uvicorn's has queries, in which clients may have put what is secret.
        self._limits, self._others, self._refused = limits, others, refused
        self.address = ""
        self._is_counted = False
        self._is_in_head = True
        self._is_large = self._has_many_waiting = False
        self._num_head_bytes = self._num_discarded = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._is_body_alarm = False
        self._reader_alarm: asyncio.TimerHandle | None = None
        self._num_unsent = 0
        self._deferred: Refusal | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Waits for the first head."""
        super().connection_made(cast(asyncio.Transport, _Transport(transport, self)))
        self.address = self.client[0] if self.client else ""
        self._is_counted = self._others.add(self)
        if self._is_counted:
            self._set_alarm(self._limits.head_seconds)
        else:
            self._refuse(_no_room())
            self.transport.close_now()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self._cancel_alarm()
        self._cancel_reader_alarm()
        if self._is_counted:
            self._is_counted = False
            self._others.remove(self)
        super().connection_lost(exc)

    def make_room(self) -> None:
        """Ends the connection for another one; a request that has begun is refused."""
        self._is_counted = False
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # It would be open for as long as the client does not read.
            return
        if self._has_unread and not self.transport.is_discarding:
            self._refuse(_no_room())
        self.transport.close_now()

    def data_received(self, data: bytes) -> None:
        """Reads a part of a request."""
        if self.transport.is_discarding or self._deferred is not None:
            self._discard(data)
            return
        is_first = not self._has_unread
        self._num_head_bytes += len(data)
        super().data_received(data)
        if not self._has_unread or self.transport.is_closing():
            return
        if is_first:
            self._others.wait(self)
        if self._is_in_head and self._num_head_bytes > MAX_HEAD_BYTES:
            self._refuse_in_turn(_large_head())
        elif self._num_head_bytes > self._limits.max_discarded_bytes and self.cycle.response_complete:
            self.transport.close_now()
        elif self._alarm is None or self._is_body_alarm == self._is_in_head:
            self._cancel_alarm()
            self._is_body_alarm = not self._is_in_head
            self._set_alarm(self._limits.head_seconds if self._is_in_head else self._limits.body_seconds)

    @property
    def _has_unread(self) -> bool:
        """Whether a request has begun and is not there as a whole."""
        return not self._is_in_head or self._num_head_bytes > 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes a header of a head; those after a body are of no use, and of any number."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Starts the request that has this head."""
        # This also bounds a head that arrives in one piece.
        num_bytes = len(self.url) + sum(map(len, itertools.chain.from_iterable(self.headers)))
        self._is_large = num_bytes > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS
        self._has_many_waiting = len(self.pipeline) >= MAX_PIPELINED
        if self._is_large or self._has_many_waiting:
            raise ValueError("The parser ends, and the request is refused.")
        super().on_headers_complete()
        self._is_in_head = False

    def on_message_complete(self) -> None:
        """Expects the next head; until it begins, uvicorn's time for idle connections counts."""
        self._is_in_head, self._num_head_bytes = True, 0
        self._cancel_alarm()
        super().on_message_complete()
        if not self.cycle.response_complete:
            self._others.work(self)
        elif self._is_counted:
            # It was answered before it was there as a whole, and uvicorn's time has ended with its last part.
            self._others.wait(self)
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def on_response_complete(self) -> None:
        """Waits for the next request, or refuses it if it has come already and was none."""
        is_last = not self.pipeline
        super().on_response_complete()
        if self.transport.is_closing() or not is_last:
            return
        if self._deferred is not None:
            self._refuse(self._deferred)
        elif self._is_counted and not self._has_unread:
            self._others.wait(self)

    def pause_writing(self) -> None:
        """Waits for a client that reads its responses slowly."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Goes on after that."""
        super().resume_writing()
        # A closed connection is watched until all is sent.
        if not self.transport.is_closing():
            self._cancel_reader_alarm()

    def shutdown(self) -> None:
        """Ends the connection with the server, after the response that it owes."""
        if self.cycle is None or self.cycle.response_complete or self.transport.is_discarding:
            self.transport.close_now()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Refuses what the parser did not take, or `on_headers_complete`."""
        if self._is_large:
            refusal = _large_head()
        elif self._has_many_waiting:
            refusal = _many_waiting()
        else:
            refusal = _not_http()
        self._refuse_in_turn(refusal)

    def _set_alarm(self, seconds: float) -> None:
        self._alarm = self.loop.call_later(seconds, self._end_slow_request)

    def _cancel_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _end_slow_request(self) -> None:
        self._alarm = None
        if self.cycle is not None and not self.cycle.response_complete:
            # The application bounds the time of a body that it reads, and of its response.
            self._set_alarm(self._limits.head_seconds)
        elif self._is_in_head and self._num_head_bytes:
            self._refuse(
                Refusal(
                    408,
                    "slow_request",
                    f"A request's head must arrive within {self._limits.head_seconds} s; got a part of it. Send it "
                    "again.",
                )
            )
        else:
            self.transport.close_now()

    def _refuse_in_turn(self, refusal: Refusal) -> None:
        """Refuses what follows the requests that the connection has taken, after their responses."""
        self._cancel_alarm()
        cycle = self.cycle
        is_waiting = cycle is not None and not cycle.response_complete
        if is_waiting and not self._is_in_head:
            # Its body is broken. If it was not read yet, this is its response.
            if cycle.response_started:
                self.transport.close_now()
                return
            is_waiting = bool(self.pipeline)
            if is_waiting:
                self.pipeline.popleft()
        if is_waiting:
            self._deferred = refusal
        else:
            self._refuse(refusal)

    def _refuse(self, refusal: Refusal) -> None:
        self._cancel_alarm()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            # Whoever reads its body is told that there is no more.
            if cycle.response_started:
                self.transport.close_now()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        response = self._refused(refusal)
        status = http.HTTPStatus(refusal.status)
        head = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), b"connection: close"]
        head += [name + b": " + value for name, value in response.raw_headers if name != b"connection"]
        self.transport.write(b"\r\n".join([*head, b"", bytes(response.body)]))
        self.transport.close()

    def close_after_reading(self) -> bool:
        """Prepares the end of the connection, after a response; False if nothing is left to read."""
        if not self._has_unread and self._deferred is None:
            return False
        self._cancel_alarm()
        self._alarm = self.loop.call_later(self._limits.body_seconds, self.transport.close_now)
        return True

    def abort_later(self) -> None:
        """Ends a closed connection whose client does not take the rest of the response."""
        self._watch_reader()

    def _discard(self, data: bytes) -> None:
        self._num_discarded += len(data)
        if self._num_discarded > self._limits.max_discarded_bytes:
            self.transport.close_now()

    def _watch_reader(self) -> None:
        if self._reader_alarm is None:
            self._num_unsent = self.transport.get_write_buffer_size()
            self._reader_alarm = self.loop.call_later(self._limits.body_seconds, self._check_reader)

    def _check_reader(self) -> None:
        self._reader_alarm = None
        num_unsent = self.transport.get_write_buffer_size()
        if num_unsent and self._num_unsent - num_unsent < _LEAST_PROGRESS_BYTES:
            self.transport.abort()
        elif num_unsent:
            self._watch_reader()

    def _cancel_reader_alarm(self) -> None:
        if self._reader_alarm is not None:
            self._reader_alarm.cancel()
            self._reader_alarm = None


class _Transport:
    """The transport of a connection, which reads the rest of a request before it closes.

    Attributes:
        is_discarding: whether it does, after the last response.
    """

    def __init__(self, transport: asyncio.Transport, connection: BoundedConnection) -> None:
        self._transport, self._connection = transport, connection
        self.is_discarding = False
        # Without a call in between: these are on the way of each request.
        self.write, self.get_extra_info = transport.write, transport.get_extra_info
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.get_write_buffer_size, self.abort = transport.get_write_buffer_size, transport.abort

    def is_closing(self) -> bool:
        """Whether nothing more is answered."""
        return self.is_discarding or self._transport.is_closing()

    def close(self) -> None:
        """Closes after what was written, and after what is left of a request."""
        if self.is_closing():
            return
        if self._connection.close_after_reading():
            self.is_discarding = True
            # The client sees the end of the response, and closes when it has read it.
            self._transport.write_eof()
            self.resume_reading()
        else:
            self.close_now()

    def close_now(self) -> None:
        """Closes after what was written; the client gets a reset if it has sent more than was read."""
        self._transport.close()
        if self.get_write_buffer_size():
            self._connection.abort_later()


def _large_head() -> Refusal:
    return Refusal(
        431,
        "too_large",
        f"The path and headers of a request must be at most {MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers; got "
        "more. Send less in headers.",
    )


def _many_waiting() -> Refusal:
    return Refusal(
        429,
        "busy",
        f"At most {MAX_PIPELINED} requests must wait in a connection; got more. Wait for responses, or open another "
        "connection.",
        retry_after=1,
    )


def _no_room() -> Refusal:
    return Refusal(
        503,
        "busy",
        "The server must have room for a connection; got more than `--max-connections` or `--max-client-connections`. "
        "Close connections that are not used, and try again.",
        retry_after=1,
    )


def _not_http() -> Refusal:
    return malformed("The request must be HTTP/1.1; got bytes that are not. Check the client.")

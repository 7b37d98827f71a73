"""Options of the HTTP server."""

from __future__ import annotations

import dataclasses
import math
import re

_MODEL_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_AT_LEAST_ONE = (
    "num_versions",
    "max_batch_size",
    "num_model_threads",
    "max_examples",
    "max_requests",
    "max_body_bytes",
    "max_pending_bytes",
    "max_new_rows",
    "max_added_rows",
)
_AT_LEAST_ZERO = ("max_delay_ms", "drain_seconds", "grace_seconds")
_ABOVE_ZERO = ("poll_seconds", "timeout_seconds", "max_embedding_age_seconds")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How a model is served over HTTP.

    Attributes:
        host: address to listen at; "0.0.0.0" for all of this machine, as in a container.
        port: TCP port; 0 for a free one, which the first line of output names.
        model_name: name of the model in URLs; letters, digits, and `_`, `.` or `-`.
        num_versions: number of versions that are served: the newest ones of the folder that load, at least 1. The
            newest answers requests that name no version.
        poll_seconds: how often the folder is searched for versions, in seconds; above 0.
        max_batch_size: largest number of examples that one call of the model answers for several requests, at least 1.
            A larger request is answered by a call of its own.
        max_delay_ms: how long a request waits for others to share a call of the model, in milliseconds; at least 0.
            While all threads are busy, requests wait for them and share calls anyway.
        num_model_threads: calls of the model at the same time, at least 1.
        max_examples: largest number of examples in a request, at least 1.
        max_body_bytes: largest body of a request, in bytes, at least 1.
        max_requests: largest number of requests that are being read, wait or are answered, at least 1.
        max_pending_bytes: largest size of the bodies of all these requests, in bytes; at least `max_body_bytes`.
        max_new_rows: largest number of nodes and edges that a request adds to the graph, or that one example in a
            request brings, at least 1.
        max_added_rows: largest number of nodes and edges on top of the graph index, at least 1. They are kept in
            memory, and the time of a write grows with them.
        max_embedding_age_seconds: largest age of stored embeddings, in seconds; above 0. Older ones are refused; the
            model still answers.
        timeout_seconds: longest time from a request's head to its response, in seconds; above 0. A head must arrive in
            this time, too.
        drain_seconds: time from SIGTERM until no new connection is accepted, in seconds, at least 0. In this time the
            server reports that it is not ready, and still answers. Ctrl-C does not wait.
        grace_seconds: time after that for requests in flight, in seconds; at least 0.
        access_log: whether to write a line of JSON to stderr for each request.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    model_name: str = "default"
    num_versions: int = 2
    poll_seconds: float = 2.0
    max_batch_size: int = 64
    max_delay_ms: float = 1.0
    num_model_threads: int = 2
    max_examples: int = 1024
    max_body_bytes: int = 16 * 2**20
    max_requests: int = 256
    max_pending_bytes: int = 256 * 2**20
    max_new_rows: int = 10_000
    max_added_rows: int = 500_000
    max_embedding_age_seconds: float = 86_400.0
    timeout_seconds: float = 30.0
    drain_seconds: float = 5.0
    grace_seconds: float = 30.0
    access_log: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ValueError(f"`port` must be in [0, {2**16}); got {self.port}. Choose a free TCP port.")
        if not _MODEL_NAME.fullmatch(self.model_name):
            raise ValueError(
                f"`model_name` must be letters, digits, '_', '.' or '-'; got {self.model_name!r}. It is a part of URLs."
            )
        for name in _AT_LEAST_ONE:
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}. Give a positive number.")
        for name in _AT_LEAST_ZERO:
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"`{name}` must be at least 0 and finite; got {getattr(self, name)}. Give 0 for no time."
                )
        for name in _ABOVE_ZERO:
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(
                    f"`{name}` must be above 0 and finite; got {getattr(self, name)}. Give a number of seconds."
                )
        if self.max_pending_bytes < self.max_body_bytes:
            raise ValueError(
                f"`max_pending_bytes` must be at least `max_body_bytes`; got {self.max_pending_bytes} and "
                f"{self.max_body_bytes}. One request must fit."
            )

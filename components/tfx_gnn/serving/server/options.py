"""Options of the HTTP server."""

from __future__ import annotations

import dataclasses
import ipaddress
import math
import re
from collections.abc import Sequence

_MODEL_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_HOST_NAME = re.compile(r"\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[a-z0-9_.:\[\]-]+")
_AT_LEAST_ONE = (
    "num_versions",
    "max_batch_size",
    "num_model_threads",
    "max_examples",
    "max_requests",
    "max_connections",
    "max_client_connections",
    "max_id_bytes",
    "max_body_bytes",
    "max_pending_bytes",
    "max_new_rows",
    "max_added_rows",
)
_AT_LEAST_ZERO = ("max_delay_ms", "drain_seconds", "grace_seconds")
_ABOVE_ZERO = ("poll_seconds", "head_seconds", "body_seconds", "timeout_seconds", "max_embedding_age_seconds")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """How a model is served over HTTP.

    Attributes:
        host: address to listen at; "0.0.0.0" for all of this machine, as in a container. Other addresses than those of
            this machine alone need `token_file`, or `without_tokens`.
        port: TCP port; 0 for a free one, which the first line of output names.
        model_name: name of the model in URLs; letters, digits, and `_`, `.` or `-`.
        token_file: file with the tokens of clients, which come as `Authorization: Bearer <token>`. Each line is a role
            and a token of at least 32 characters: "read" to ask, "write" to add to the graph, "admin" for metrics. It
            is read again when it changes, and other users must not be able to read it. Empty: requests need no token.
        without_tokens: whether clients on other machines may ask, and add to the graph, without a token.
        allowed_hosts: names by which clients call the server, as in their header `Host`, without a port;
            "*.example.com" for all below one, "*" for any. `localhost`, `host` and the address that was called are
            allowed anyway.
        allowed_origins: sites whose pages may ask from a browser, as in "https://example.com"; "*" for any.
        num_versions: number of versions that are served: the newest ones of the folder that load, at least 1. The
            newest answers requests that name no version.
        poll_seconds: how often the folder is searched for versions, in seconds; above 0.
        max_batch_size: largest number of examples that one call of the model answers for several requests, at least 1.
            A larger request is answered by a call of its own.
        max_delay_ms: how long a request waits for others to share a call of the model, in milliseconds; at least 0.
            While all threads are busy, requests wait for them and share calls anyway.
        num_model_threads: calls of the model at the same time, at least 1.
        max_examples: largest number of examples in a request, at least 1.
        max_id_bytes: largest id in a request, in bytes of UTF-8, at least 1. Tables and graph indexes take ids of any
            length; the server is not asked about longer ones.
        max_body_bytes: largest body of a request, in bytes, at least 1.
        max_requests: largest number of requests that wait or are answered, at least 1. A request counts from the end
            of its body.
        max_pending_bytes: largest size of the bodies of all these requests, and of those that still arrive, in bytes;
            at least `max_body_bytes`. If they are larger, the one that has been arriving for the longest time is
            refused.
        max_connections: largest number of connections, at least 1. For another one, that one is closed whose client
            has kept the server waiting for the longest time.
        max_client_connections: the same for the connections of one address, at least 1. A proxy is one address.
        max_new_rows: largest number of nodes and edges that a request adds to the graph, or that one example in a
            request brings, at least 1.
        max_added_rows: largest number of nodes and edges on top of the graph index, at least 1. They are kept in
            memory, and the time of a write grows with them.
        max_embedding_age_seconds: largest age of stored embeddings, in seconds; above 0. Older ones are refused; the
            model still answers.
        head_seconds: longest time from the first byte of a request to the end of its headers, in seconds; above 0.
        body_seconds: longest time from there to the end of its body, in seconds; above 0. In this time, a client must
            also take a part of its response.
        timeout_seconds: longest time from the end of a request to its response, in seconds; above 0.
        drain_seconds: time from SIGTERM until no new connection is accepted, in seconds, at least 0. In this time the
            server reports that it is not ready, and still answers. Ctrl-C does not wait.
        grace_seconds: time after that for requests in flight, in seconds; at least 0.
        access_log: whether to write a line of JSON to stderr for each request.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    model_name: str = "default"
    token_file: str = ""
    without_tokens: bool = False
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    num_versions: int = 2
    poll_seconds: float = 2.0
    max_batch_size: int = 64
    max_delay_ms: float = 1.0
    num_model_threads: int = 2
    max_examples: int = 1024
    max_id_bytes: int = 4096
    max_body_bytes: int = 16 * 2**20
    max_requests: int = 256
    max_pending_bytes: int = 256 * 2**20
    max_connections: int = 4096
    max_client_connections: int = 1024
    max_new_rows: int = 10_000
    max_added_rows: int = 500_000
    max_embedding_age_seconds: float = 86_400.0
    head_seconds: float = 30.0
    body_seconds: float = 30.0
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
        self._check_access()
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

    def _check_access(self) -> None:
        if self.token_file and self.without_tokens:
            raise ValueError(
                f"`without_tokens` must be left out with `token_file`; got both, and {self.token_file!r}. Decide for "
                "one."
            )
        if not (self.token_file or self.without_tokens or _is_of_this_machine(self.host)):
            raise ValueError(
                f"`host` must be an address of this machine alone, such as 127.0.0.1, without `token_file`; got "
                f"{self.host!r}. Name a file of tokens; or set `without_tokens`, if whoever reaches the server may "
                "ask, and add to its graph."
            )
        for name, texts, rule, form in (
            ("allowed_hosts", self.allowed_hosts, "a name or an address without a port", _HOST_NAME),
            ("allowed_origins", self.allowed_origins, "of the form https://example.com, in small letters", _ORIGIN),
        ):
            for text in texts:
                if not form.fullmatch(text):
                    raise ValueError(f"`{name}` must each be {rule}; got {text!r}. Write it so.")


def _is_of_this_machine(host: str) -> bool:
    """Tells whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

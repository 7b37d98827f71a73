"""Who may ask the server: names in `Host`, pages of other sites, and tokens.

A page of any site can send requests to servers that its reader's browser reaches. It cannot set `Host`, `Origin` and
`Content-Type: application/json` at will: browsers write the first two, and ask the server before they send the third.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal, malformed, shown
from tfx_gnn.serving.server.token_file import TokenFile

_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARDS = frozenset({"", "0.0.0.0", "::"})
_CHALLENGE = 'Bearer realm="tfx-gnn"'
_HEADERS, _ROLES = "tfx_gnn.headers", "tfx_gnn.roles"

_JSON_TYPE = "application/json"
"""The only type of JSON: pages of other sites cannot send it, unless the browser asks first."""
_BINARY_TYPE = "application/octet-stream"
_JSON_LENGTH = "inference-header-content-length"

_DECISIVE = frozenset(
    {
        b"authorization",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        _JSON_LENGTH.encode(),
        b"origin",
        b"transfer-encoding",
    }
)
"""Headers that decide what happens to a request. Of two, programs on the way might read the other one."""


class Access:
    """Middleware that refuses requests which may not reach the routes."""

    def __init__(
        self, app: ASGIApp, *, options: ServerOptions, tokens: TokenFile | None, open_paths: frozenset[str]
    ) -> None:
        self._app, self._tokens, self._open_paths = app, tokens, open_paths
        self._origins = frozenset(options.allowed_origins)
        names = {name.lower() for name in options.allowed_hosts}
        self._takes_any_host = "*" in names
        self._names = _LOCAL_NAMES | names | ({options.host.lower()} - _WILDCARDS)
        self._suffixes = tuple(name[1:] for name in names if name.startswith("*."))
        # Clients repeat their names; what does not fit is another one each time.
        self._is_known = functools.lru_cache(maxsize=256)(self._is_known_host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or raises its refusal."""
        if scope["type"] == "http":
            headers = scope[_HEADERS] = _decisive_headers(scope)
            # Probes of load balancers and Kubernetes know neither names nor tokens.
            if scope["path"] not in self._open_paths:
                self._check_host(headers.get(b"host"), scope)
                self._check_origin(headers)
                if self._tokens is not None:
                    scope[_ROLES] = roles = self._tokens.roles_of(headers.get(b"authorization"))
                    if not roles:
                        raise _unauthorized()
        await self._app(scope, receive, send)

    def _check_host(self, host: bytes | None, scope: Scope) -> None:
        if host is None:
            if scope["http_version"] == "1.0":
                return  # No browser of this century.
            raise malformed("`Host` must name the server; got none. Send it, as HTTP/1.1 wants.")
        server = scope.get("server")
        if not self._takes_any_host and not self._is_known(host, server[0] if server else ""):
            raise Refusal(
                421,
                "foreign_host",
                f"`Host` must be a name of this server; got {shown(host.decode('latin-1'))}. Call it by another name, "
                "or start it with `--allowed-host` and this one.",
            )

    def _is_known_host(self, host: bytes, address: str) -> bool:
        """Compares the name of a header with those that are allowed, and with the address that was called."""
        name = _without_port(host.decode("latin-1").lower())
        return name in self._names or (bool(name) and name == address) or name.endswith(self._suffixes)

    def _check_origin(self, headers: Mapping[bytes, bytes]) -> None:
        given = headers.get(b"origin")
        if given is None or "*" in self._origins:
            return
        origin, host = given.decode("latin-1").lower(), headers.get(b"host", b"").decode("latin-1").lower()
        if origin not in self._origins and (not host or origin not in (f"http://{host}", f"https://{host}")):
            raise Refusal(
                403,
                "foreign_origin",
                f"`Origin` must be this server; got {shown(origin)}. Ask it from its own pages or from programs, or "
                "start it with `--allowed-origin` and this one.",
            )


def with_role(role: str, endpoint: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes an endpoint that takes requests whose token allows something, on a server with tokens."""

    @functools.wraps(endpoint)
    async def checked(request: Any) -> Any:
        # Here, not by the path: only the router knows which paths are those of a route.
        if role not in request.scope[_ROLES]:
            raise _forbidden()
        return await endpoint(request)

    return checked


def header_of(scope: Scope, name: bytes) -> str | None:
    """Returns the value of one of the headers that may be there once; None without."""
    value = scope.get(_HEADERS, {}).get(name)
    return None if value is None else value.decode("latin-1")


def check_body_headers(scope: Scope, *, may_be_binary: bool) -> None:
    """Refuses bodies that are not what the headers must say."""
    content_type = (header_of(scope, b"content-type") or "").partition(";")[0].strip().lower()
    wanted = (_JSON_TYPE, _BINARY_TYPE) if may_be_binary else (_JSON_TYPE,)
    if content_type not in wanted:
        raise Refusal(
            415,
            "wrong_content_type",
            f"`Content-Type` must be {_JSON_TYPE}, or {_BINARY_TYPE} with binary tensors after "
            f"`{_JSON_LENGTH}` bytes of JSON; got {content_type!r}. Send JSON, with this header.",
        )
    encoding = (header_of(scope, b"content-encoding") or "identity").lower()
    if encoding != "identity":
        raise Refusal(
            415,
            "wrong_content_type",
            f"`Content-Encoding` must be identity; got {encoding!r}. Send the body uncompressed.",
        )
    transfer = (header_of(scope, b"transfer-encoding") or "chunked").strip().lower()
    if transfer != "chunked":
        raise Refusal(
            501,
            "wrong_content_type",
            f"`Transfer-Encoding` must be chunked; got {transfer!r}. Send the body uncompressed.",
        )


def _decisive_headers(scope: Scope) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in scope["headers"]:
        if name in _DECISIVE:
            if name in found:
                title = name.decode().title()
                raise malformed(f"`{title}` must be there once; got it twice. Send it once.")
            found[name] = value
    return found


def _without_port(host: str) -> str:
    """Takes the port off: `localhost`, `127.0.0.1` or `::1` of `[::1]:8080`; empty if it is no name."""
    name, colon, port = host.rpartition(":")
    if colon and (port == "" or (port.isascii() and port.isdigit())) and (":" not in name or name.endswith("]")):
        host = name
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host.removesuffix(".")


def _unauthorized() -> Refusal:
    return Refusal(
        401,
        "unauthorized",
        "A request must come with a token, as in `Authorization: Bearer <token>`.",
        headers={"www-authenticate": _CHALLENGE},
    )


def _forbidden() -> Refusal:
    return Refusal(
        403,
        "forbidden",
        "The token does not allow this request.",
        headers={"www-authenticate": f'{_CHALLENGE}, error="insufficient_scope"'},
    )

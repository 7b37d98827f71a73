"""Failures of a request to a service, each as one line that says what to do."""

from __future__ import annotations

import dataclasses
import datetime as dt
import email.utils
import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_MAX_MESSAGE = 300
_HTML = re.compile(r"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)


class ServiceError(ConnectionError):
    """A service refused a request, or could not be reached.

    Attributes:
        status: HTTP status of the answer; 0 if there was none.
        reason: a few words on what happened, for a progress line.
        is_transient: whether the same request may succeed later.
        is_unreachable: whether no connection was made at all.
        may_be_accepted: whether the service may have done what was asked.
        is_unanswered: whether a connection was made and no answer came in time.
        retry_after: seconds to wait that the service asks for, if it does.
    """

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        status: int = 0,
        is_transient: bool = False,
        is_unreachable: bool = False,
        may_be_accepted: bool = False,
        is_unanswered: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.is_transient = is_transient
        self.is_unreachable = is_unreachable
        self.may_be_accepted = may_be_accepted
        self.is_unanswered = is_unanswered
        self.retry_after = retry_after


@dataclasses.dataclass(frozen=True, kw_only=True)
class Remedies:
    """What the user of a service can do about a failure.

    Attributes:
        flag: option that names the service's address.
        login: how to get valid credentials.
        permission: who grants a permission that is missing.
        lookup: what to check where something does not exist.
        certificate: how to trust a certificate.
    """

    flag: str
    login: str
    permission: str
    lookup: str
    certificate: str


def status_error(
    status: int, body: str, headers: Mapping[str, str], *, place: str, remedies: Remedies, hide: Callable[[str], str]
) -> ServiceError:
    """Describes an answer that is no success.

    Args:
        status: HTTP status.
        body: text of the answer.
        headers: its headers.
        place: method and address of the request.
        remedies: advice for this service.
        hide: replaces secrets in a text.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    if 300 <= status < 400 or (is_html(body) and status < 500 and status != 429):
        return login_page_error(status, place=place, remedies=remedies, location=hide(lower.get("location") or ""))
    said = hide(_message(body))
    got = f"{status}{f' ({said})' if said else ''} from {place}"
    flag = f"`{remedies.flag}`"
    if status == 401:
        line = f"{flag} must be used with valid credentials; got {got}. {remedies.login}"
    elif status == 403:
        line = f"{flag} must be used by somebody with the permission; got {got}. {remedies.permission}"
    elif status == 404:
        line = f"{flag} must have what is asked for; got {got}. {remedies.lookup}"
    elif status == 409:
        line = f"{flag} must not have another one of this name, or in another state; got {got}. Choose another --name."
    elif status == 429:
        line = f"{flag} must have room for the request; got {got}. Try later, or ask for more quota."
    elif status >= 500:
        line = f"{flag} must be a service in order; got {got}. Try later; if it lasts, look at the service's own logs."
    else:
        line = f"{flag} must accept the request; got {got}. Correct what the message names."
    return ServiceError(
        line,
        reason=f"the service answered {status}",
        status=status,
        is_transient=status in (408, 429) or status >= 500,
        may_be_accepted=status == 408 or status >= 500,
        # A proxy gave up waiting; the service behind it may still be at work.
        is_unanswered=status in (408, 504),
        retry_after=parse_retry_after(lower.get("retry-after")),
    )


def login_page_error(status: int, *, place: str, remedies: Remedies, location: str = "") -> ServiceError:
    """Describes a page for people, or a redirection, where an API was expected; redirections are not followed."""
    target = location.partition("?")[0]
    got = f"an HTML page or redirection ({status}{f' to {target}' if target else ''}) from {place}"
    if status == 404:
        advice = f"another server. {remedies.lookup}"
    else:
        advice = f"a login page, or another server. {remedies.login} Or correct {remedies.flag}."
    return ServiceError(
        f"`{remedies.flag}` must be the address of the service's API; got {got}: {advice}",
        reason="the service answered an HTML page",
        status=status,
    )


def is_html(body: str) -> bool:
    """Tells whether a text is an HTML page."""
    return _HTML.match(body[:2000]) is not None


def transport_error(
    error: BaseException, *, place: str, remedies: Remedies, hide: Callable[[str], str]
) -> ServiceError:
    """Describes a request that got no answer, from what urllib3 or requests raised."""
    causes = list(_causes(error))
    names = {type(cause).__name__ for cause in causes}
    flag = f"`{remedies.flag}`"

    def found(kind: type[BaseException]) -> BaseException | None:
        return next((cause for cause in causes if isinstance(cause, kind)), None)

    unresolved, untrusted = found(socket.gaierror), found(ssl.SSLError)
    if unresolved or "NameResolutionError" in names:
        return ServiceError(
            f"{flag} must have a host name that can be resolved; got {place}: {_short(unresolved or error)}. Check the "
            "spelling, and the network of this machine.",
            reason="the host name was not resolved",
            is_transient=True,
            is_unreachable=True,
        )
    if untrusted or "SSLError" in names:
        reason = hide(_short(untrusted or error))
        # What answers without TLS, such as a port forwarding, has no certificate at all.
        has_tls = not any(text in reason.upper() for text in ("WRONG_VERSION", "RECORD_LAYER"))
        advice = remedies.certificate if has_tls else "The service does not speak TLS: begin the address with http://."
        # A server may end TLS in the middle of a request, too.
        if "CERTIFICATE" in reason.upper() or "EOF" not in reason.upper():
            return ServiceError(
                f"{flag} must have a TLS certificate that this machine trusts; got {place}: {reason}. {advice}",
                reason="the certificate is not trusted",
                is_unreachable=True,
            )
    is_refused = found(ConnectionRefusedError) is not None
    is_unconnected = bool(names & {"ConnectTimeoutError", "ConnectTimeout", "NewConnectionError"})
    # Some versions of urllib3 call a connection that broke later an error of the proxy, too.
    has_no_proxy = "ProxyError" in names and (is_refused or is_unconnected)
    if is_refused and not has_no_proxy:
        return ServiceError(
            f"{flag} must be an address where a service listens; got {place}: connection refused. Check the address "
            "and port, or start the port forwarding.",
            reason="the connection was refused",
            is_transient=True,
            is_unreachable=True,
        )
    if has_no_proxy or is_unconnected:
        advice = (
            "This machine's proxy does not answer: check HTTPS_PROXY and HTTP_PROXY, or list the host in NO_PROXY."
            if has_no_proxy
            else "Check the address, the network and firewalls."
        )
        return ServiceError(
            f"{flag} must be an address that this machine can reach; got {place}: {hide(_short(causes[-1]))}. {advice}",
            reason="no connection was made",
            is_transient=True,
            is_unreachable=True,
        )
    if names & {"ReadTimeoutError", "ReadTimeout"} or found(TimeoutError):
        return ServiceError(
            f"{flag} must answer in time; got no answer from {place}. Look at the service's page before you try again.",
            reason="no answer came in time",
            is_transient=True,
            may_be_accepted=True,
            is_unanswered=True,
        )
    return ServiceError(
        f"{flag} must answer; got a broken connection from {place}: {hide(_short(causes[-1]))}. Try again; if it "
        "lasts, look at the service's own logs.",
        reason="the connection broke",
        is_transient=True,
        may_be_accepted=True,
    )


def parse_retry_after(text: str | None) -> float | None:
    """Reads the header Retry-After, seconds or a date; None if there is none that can be read."""
    if not text:
        return None
    if text.strip().isdecimal():
        return float(text.strip())
    try:
        until = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=dt.timezone.utc)
    return max(0.0, (until - dt.datetime.now(dt.timezone.utc)).total_seconds())


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Walks from an error to those that it wraps, outermost first."""
    seen: set[int] = set()
    waiting: list[Any] = [error]
    while waiting:
        one = waiting.pop(0)
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [getattr(one, "reason", None), *one.args, one.__cause__, one.__context__]


def _short(error: BaseException) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:_MAX_MESSAGE]


def _message(body: str) -> str:
    """Finds the message in an answer: of Google's APIs, of grpc-gateway, or the text itself."""
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError):
        found = re.sub(r"<[^>]*>", " ", body) if is_html(body) else body
    for name in ("error", "message", "error_message"):
        if isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, dict) and found.get(name):
            found = found[name]
    text = found if isinstance(found, str) else json.dumps(found)
    return " ".join(text.split())[:_MAX_MESSAGE].rstrip(".")

"""Requests that get no prediction: the HTTP status, the reason as metrics count it, and the message."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping

_MAX_MESSAGE = 2000


class Refusal(Exception):  # noqa: N818 - it is a response as well.
    """A request that is answered by an error.

    Attributes:
        status: HTTP status code.
        reason: short name of the rule, a label of the metric `tfx_gnn_refusals_total`.
        message: what is wrong with which value, and what to do.
        retry_after: seconds after which the same request may succeed; None if it never will.
        headers: headers of the response, beside those of every response.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        message = _readable(message)
        super().__init__(message)
        self.headers = dict(headers or {})
        self.status, self.reason, self.message, self.retry_after = status, reason, message, retry_after


def _readable(message: str) -> str:
    """Makes text of bounded length of a message with names from a request, in which JSON allows anything."""
    # Halves of surrogate pairs are no text.
    text = message.encode(errors="backslashreplace").decode()
    half = _MAX_MESSAGE // 2
    return text if len(text) <= _MAX_MESSAGE else f"{text[:half]} ... {text[-half:]}"


def malformed(message: str) -> Refusal:
    """Makes the refusal of a request that does not have the form of its protocol or of the model's examples."""
    return Refusal(400, "malformed", message)


def shown(value: object) -> str:
    """Writes a value of a request for a message, in at most about a hundred characters."""
    text = reprlib.repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."

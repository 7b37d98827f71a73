"""URLs in messages, which may hold passwords."""

from __future__ import annotations

import re

HIDDEN = "***"
"""What is shown in the place of a password."""
_WITH_PASSWORD = re.compile(r"(\w://[^/\s:@'\"]*):[^\s'\"]*@")
_WITHOUT_SCHEME = re.compile(r"(?<=['\"])([^\s:@'\"]+):(?!//)[^\s'\"]+@(?!sha256:)(?=[\w.\[])")
"""A text in quotes that begins as the address of a database does, such as 'me:hush@host/shop'; not that of an image."""
_PARAMETER = re.compile(r"\b(pass(?:word|wd)?|pwd)(\s*=\s*)[^\s&;'\"]+", re.IGNORECASE)


def hide_passwords_of_urls(message: str) -> str:
    """Replaces the passwords of all URLs in a message, and of addresses in quotes that lack their scheme.

    Example:
        >>> hide_passwords_of_urls("got 'mysql://ann:hu@sh@host/shop'.")
        "got 'mysql://ann:***@host/shop'."
        >>> hide_passwords_of_urls("got 'ann:hush@host/shop' and 'host=h password=hush'.")
        "got 'ann:***@host/shop' and 'host=h password=***'."
    """
    message = _WITH_PASSWORD.sub(rf"\1:{HIDDEN}@", message)
    message = _WITHOUT_SCHEME.sub(rf"\1:{HIDDEN}@", message)
    return _PARAMETER.sub(rf"\1\2{HIDDEN}", message)

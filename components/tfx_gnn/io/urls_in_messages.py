"""URLs in messages, which may hold passwords."""

from __future__ import annotations

import re

HIDDEN = "***"
"""What is shown in the place of a password."""
_WITH_PASSWORD = re.compile(r"(\w://[^/\s:@'\"]*):[^\s'\"]*@")


def hide_passwords_of_urls(message: str) -> str:
    """Replaces the passwords of all URLs in a message.

    Example:
        >>> hide_passwords_of_urls("got 'mysql://ann:hu@sh@host/shop'.")
        "got 'mysql://ann:***@host/shop'."
    """
    return _WITH_PASSWORD.sub(rf"\1:{HIDDEN}@", message)

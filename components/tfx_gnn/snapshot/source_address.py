"""The address of a source: what kind it is, where it is, and how to show it without its secrets."""

from __future__ import annotations

import dataclasses
import os
import re
import urllib.parse
from collections.abc import Iterable

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.urls_in_messages import HIDDEN, hide_passwords_of_urls

FILES = ("sqlite", "duckdb")
"""Kinds of sources that are one file."""
SERVERS = ("postgresql", "bigquery", "snowflake")
"""Kinds of sources that a driver connects to."""

_ALIASES = {"postgres": "postgresql", "file": "folder"}
_SHOWN_PARAMETERS = ("host", "hostaddr", "port", "dbname", "user", "service", "dataset_id", "warehouse", "role")
"""Parameters that say where a source is; all others are left out where it is shown."""
_SECRET_PARAMETER = re.compile(r"pass|pwd|secret|token|key|cred", re.IGNORECASE)
_MAGIC = {"sqlite": (0, b"SQLite format 3\0"), "duckdb": (8, b"DUCK")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceAddress:
    """Where a source is.

    Attributes:
        kind: "postgresql", "bigquery", "snowflake", "sqlite", "duckdb" or "folder".
        text: what the driver is given: the address itself, or a path.
        shown: the address without passwords and other secrets.
        secrets: texts that may not be shown.
    """

    kind: str
    text: str = dataclasses.field(repr=False)
    shown: str
    secrets: tuple[str, ...] = dataclasses.field(repr=False)

    def hide_secrets(self, message: str) -> str:
        """Replaces secrets in the message of a driver, which may repeat what it was given."""
        for secret in self.secrets:
            message = message.replace(secret, HIDDEN)
        return " ".join(hide_passwords_of_urls(message).split())


def parse_address(text: str) -> SourceAddress:
    """Reads the address of a source.

    Args:
        text: a URL such as postgresql://user@host/database or sqlite:///shop.db, as SQLAlchemy writes them; or the path
            of a SQLite file, a DuckDB file or a folder.

    Raises:
        ValueError: if it is none of these; the message does not show what may be a password.
        FileNotFoundError: if there is no such file or folder.
    """
    scheme, separator, rest = text.partition("://")
    kind = _ALIASES.get(scheme, scheme)
    if separator and kind in SERVERS:
        return _server_address(kind, text)
    if separator and kind not in (*FILES, "folder"):
        known = [f"{one}://" for one in (*SERVERS, *FILES)]
        advice = did_you_mean(
            scheme,
            [one.removesuffix("://") for one in known],
            otherwise="Correct it, or export the tables to a folder of Parquet or CSV files and name that.",
        )
        raise ValueError(
            f"`source` must begin with one of {', '.join(known)}, or be a path; got {scheme!r} before '://'. {advice}"
        )
    path = rest if separator else text
    if separator and kind in FILES:
        if not rest.startswith("/"):
            raise ValueError(
                f"`source` must name a file after three slashes, as in {kind}:///shop.db, or four for a path from the "
                "root; got two. Write the path alone, or with these slashes."
            )
        path = rest[1:]
    if not path or not os.path.exists(path):
        raise FileNotFoundError(
            "`source` must be a file or folder that exists, or the URL of a database; got "
            f"{hide_passwords(path)!r}, which does not exist.{_slashes(path, kind)} Correct the path."
        )
    return SourceAddress(kind=_kind_of_path(path, kind if separator else ""), text=path, shown=path, secrets=())


def hide_passwords(text: str) -> str:
    """Replaces what may be a password in a text that is not what it should be, such as a URL without its slashes.

    Example:
        >>> hide_passwords("ann:hush@host/shop"), hide_passwords("host=h password=hush")
        ('ann:***@host/shop', 'host=h password=***')
    """
    login, at, place = text.rpartition("@")
    before, slashes, user = login.rpartition("://")
    user, colon, _ = user.partition(":")
    shown = f"{before}{slashes}{user}{f':{HIDDEN}' if colon else ''}{at}{place}"
    return re.sub(rf"({_SECRET_PARAMETER.pattern})(\w*\s*=\s*)[^\s&;]+", rf"\1\2{HIDDEN}", shown, flags=re.IGNORECASE)


def is_database(text: str) -> bool:
    """Whether a text is the URL of a database, or the path of a file that is one."""
    scheme, separator, _ = text.partition("://")
    if separator:
        return _ALIASES.get(scheme, scheme) in (*SERVERS, *FILES)
    return os.path.isfile(text) and bool(_kind_of_file(text))


def _slashes(path: str, kind: str) -> str:
    is_meant = kind in FILES and os.path.exists(f"/{path}")
    return f" There is /{path}: a path from the root has four slashes." if is_meant else ""


def _server_address(kind: str, text: str) -> SourceAddress:
    try:
        split = urllib.parse.urlsplit(text)
    except ValueError:
        # Its message and its traceback may have the password.
        split = None
    if split is None:
        raise ValueError(
            f"`source` must be {kind}://USER@HOST/DATABASE; got a host that begins with [ and has no ]. Write an IPv6 "
            "address as [::1]; in a password, escape brackets as %5B and %5D."
        )
    parameters = urllib.parse.parse_qsl(split.query)
    secrets = [value for name, value in parameters if _SECRET_PARAMETER.search(name)]
    # The driver of PostgreSQL would take what follows the first @ for the host, and show it.
    has_open_password = kind == "postgresql" and split.netloc.count("@") > 1
    if has_open_password or (split.netloc and "@" not in split.netloc and "@" in text):
        raise ValueError(
            f"`source` must be {kind}://USER@HOST/DATABASE, with special characters escaped, as in %23 for # and %40 "
            "for @; got an @ after what cannot be a host. Escape them, or leave the password to the environment."
        )
    # The password is what stands between the first colon and the last @: it may hold an @ that was not escaped.
    login, _, server = split.netloc.rpartition("@")
    user, _, password = login.partition(":")
    user_and_server = f"{user}@{server}" if user else server
    shown_query = urllib.parse.urlencode([one for one in parameters if one[0] in _SHOWN_PARAMETERS], safe="/")
    return SourceAddress(
        kind=kind,
        text=text,
        shown=f"{split.scheme}://{user_and_server}{split.path}{'?' if shown_query else ''}{shown_query}",
        secrets=tuple(_spellings([password, *secrets])),
    )


def _spellings(secrets: Iterable[str]) -> list[str]:
    found = {spelled(one) for one in secrets for spelled in (str, urllib.parse.unquote, urllib.parse.quote)}
    return sorted(found - {""}, key=len, reverse=True)


def _kind_of_path(path: str, wanted: str) -> str:
    kind = "folder" if os.path.isdir(path) else _kind_of_file(path)
    if not kind or (wanted and kind != wanted):
        raise ValueError(
            f"`source` must be {_NAMES.get(wanted, 'a SQLite file, a DuckDB file or a folder')}; got {path!r}, which "
            f"is {_NAMES.get(kind, 'none')}. For single files of tables, name their folder; otherwise correct the path."
        )
    return kind


def _kind_of_file(path: str) -> str:
    with open(path, "rb") as file:
        start = file.read(16)
    return next((kind for kind, (at, magic) in _MAGIC.items() if start[at:].startswith(magic)), "")


_NAMES = {"sqlite": "a SQLite file", "duckdb": "a DuckDB file", "folder": "a folder"}


def check_shows_no_secret(text: str) -> None:
    """Refuses an address with a password, for places where addresses are stored.

    Raises:
        ValueError: if it has one; the message does not show it.
    """
    scheme, separator, _ = text.partition("://")
    kind = _ALIASES.get(scheme, scheme)
    if not separator or kind not in SERVERS:
        return
    address = _server_address(kind, text)
    if address.secrets:
        raise ValueError(
            f"`source` must hold no password where it is stored; got one for {address.shown}. Leave it to the "
            "environment of the process that reads the source, as PGPASSWORD or PGPASSFILE."
        )

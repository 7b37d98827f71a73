"""Tokens of a server's clients: a file that says which token allows what."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import logging
import os
import re
import stat
import sys
from collections.abc import Mapping

_LOG = logging.getLogger(__name__)

READ, WRITE, ADMIN = "read", "write", "admin"
ROLES = (READ, WRITE, ADMIN)
"""What a token may allow: to ask the model and read descriptions, to add to the graph, and to read metrics."""

_LEAST_CHARACTERS = 32
_MOST_CHARACTERS = 4096
_MOST_LINES = 10_000
_LEAST_DIFFERENT = 8
"""32 random hexadecimal digits have fewer different ones once in ten million times."""
# RFC 6750, section 2.1.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_HEADER = re.compile(rb"bearer +([A-Za-z0-9._~+/=-]{1,%d}) *" % _MOST_CHARACTERS, re.IGNORECASE)
_NOBODY: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class _Known:
    """The tokens of a file, by their SHA-256, and what changes when the file does."""

    roles: Mapping[bytes, frozenset[str]]
    identity: object


class TokenFile:
    """Tokens from a file, which is read again when it changes.

    Each line is a role of `ROLES` and a token of at least 32 characters; a token may be in several lines, and a role,
    too, so that tokens can be replaced. Empty lines and those that begin with `#` do not count.

        read   0Jd2pXqkzRwYcT8s5vNf1gUb7hMeLaQi
        write  Zk4tW9nBy2rHxPs6mDqVf3cJg8uLoEaT

    Only hashes of tokens are kept in memory, and no message has a token.
    """

    def __init__(self, path: str) -> None:
        """Reads the file.

        Raises:
            ValueError: if it cannot be read, others may read or change it, or a line is no role and token.
        """
        self._path = path
        self._known = _read(path)
        self._problem = ""

    def roles_of(self, authorization: bytes | None) -> frozenset[str]:
        """Returns what the value of a header `Authorization` allows; nothing if it has no known token."""
        match = None if authorization is None else _HEADER.fullmatch(authorization)
        if match is None:
            return _NOBODY
        asked, found = hashlib.sha256(match[1]).digest(), _NOBODY
        # All are compared, each in constant time, so that the time tells nothing.
        for known, roles in self._known.roles.items():
            if hmac.compare_digest(known, asked):
                found = roles
        return found

    def refresh(self) -> None:
        """Reads the file again if it changed; tokens stay if it cannot be read, and the log says once why."""
        try:
            if _identity(os.stat(self._path)) == self._known.identity:
                problem = ""
            else:
                self._known, problem = _read(self._path), ""
                _LOG.info("The tokens in `%s` count from now on.", self._path)
        except (OSError, ValueError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            _LOG.error("The tokens from before still count, because the file cannot be used: %s", problem)
        self._problem = problem


def _identity(found: os.stat_result) -> object:
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _read(path: str) -> _Known:
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            _check_permissions(path, found)
            content = file.read(_MOST_LINES * _MOST_CHARACTERS)
    except OSError as error:
        raise ValueError(
            f"`token_file` must be a file that the server may read; got {path!r}: {error.strerror}. Name it, and give "
            "it to the user of the server."
        ) from error
    try:
        lines = content.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`token_file` must be ASCII text; got other bytes in {path!r}. Write a role and a token in each line."
        ) from error
    roles: dict[bytes, set[str]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            role, token = _role_and_token(line, f"line {number} of {path!r}")
            roles.setdefault(hashlib.sha256(token.encode()).digest(), set()).add(role)
    if not roles:
        raise ValueError(
            f"`token_file` must hold a token; got none in {path!r}. Write a line such as 'read <token>', with a token "
            "of `openssl rand -hex 32`."
        )
    return _Known({token: frozenset(allowed) for token, allowed in roles.items()}, _identity(found))


def _check_permissions(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"`token_file` must be a regular file; got {path!r}. Write the tokens into one.")
    if sys.platform == "win32":
        return
    # The group may read: Kubernetes gives files of a Secret to the group of the container's user.
    if found.st_mode & 0o037:
        raise ValueError(
            f"`token_file` must be closed to other users, and its group may only read; got the mode "
            f"{stat.S_IMODE(found.st_mode):04o} of {path!r}. Run: chmod 600 {path}"
        )
    if found.st_uid not in (0, os.geteuid()):
        raise ValueError(
            f"`token_file` must belong to the user of the server, or to root; got user {found.st_uid} of {path!r}. "
            "Change its owner."
        )


def _role_and_token(line: str, place: str) -> tuple[str, str]:
    """Splits a line; its content is in no message."""
    role, *rest = line.split()
    if role not in ROLES or len(rest) != 1:
        raise ValueError(
            f"`token_file` must have one of {list(ROLES)} and a token in each line; got {len(rest) + 1} words in "
            f"{place}{'' if role in ROLES else ', the first of which is no role'}. Write them with a space between."
        )
    (token,) = rest
    if not _LEAST_CHARACTERS <= len(token) <= _MOST_CHARACTERS:
        raise ValueError(
            f"`token_file` must have tokens of {_LEAST_CHARACTERS} to {_MOST_CHARACTERS} characters; got {len(token)} "
            f"in {place}. Make one by `openssl rand -hex 32`."
        )
    if not _TOKEN.fullmatch(token):
        raise ValueError(
            f"`token_file` must have tokens of letters, digits and '-._~+/', with '=' at the end alone; got another "
            f"character in {place}. Make one by `openssl rand -hex 32`."
        )
    if len(set(token)) < _LEAST_DIFFERENT:
        raise ValueError(
            f"`token_file` must have random tokens; got one of {len(set(token))} different characters in {place}. "
            "Make one by `openssl rand -hex 32`."
        )
    return role, token

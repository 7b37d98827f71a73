"""Reads JSON and protobuf text files, with errors that name the file and the problem.

No message quotes a file of another kind, whose content may be anything, even a secret. Pipes and devices, which
cannot be read from beginning to end, are refused.
"""

from __future__ import annotations

import collections
import json
import os
import re
import stat
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import Message

from tfx_gnn.io.file_contents import read_bytes

_LOCAL_SCHEME = "file://"


_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_regular_file(path: str) -> None:
    """Refuses paths whose reading would block or never end.

    Folders and missing files are left to the code that opens the path; broken links are refused. Object stores hold
    only files.
    """
    local = path.removeprefix(_LOCAL_SCHEME)
    if "://" in local:
        return
    try:
        mode = os.stat(local).st_mode
    except (OSError, ValueError) as error:  # the latter for a zero byte in the path
        if isinstance(error, FileNotFoundError) and os.path.islink(local):
            raise ValueError(
                f"`{path}` must be a regular file; got a link to {os.readlink(local)!r}, which does not exist. Remove "
                "it, or put the file in its place."
            ) from error
        return
    kind = _KINDS.get(stat.S_IFMT(mode))
    if kind:
        raise ValueError(
            f"`{path}` must be a regular file; got {kind}. Write what it gives to a file, and name that instead."
        )


_DEEPEST = 100  # levels of objects and lists; this library writes at most ten


_MAX_SHOWN = 240


def parse_json(text: str | bytes) -> Any:
    """Reads JSON of unknown content.

    Raises ValueError if the text is not JSON, is nested more than 100 levels deep, or has an object with a repeated
    key, of which Python's reader would keep only the last value.

    Example:
        >>> parse_json('{"batch_size": 32}')
        {'batch_size': 32}
    """
    too_deep = f"objects and lists must be nested at most {_DEEPEST} deep; got more"
    try:
        value: Any = json.loads(text, object_pairs_hook=_object_of_pairs)
    except RecursionError as error:
        raise ValueError(too_deep) from error
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            child
            for container in level
            if isinstance(container, (dict, list))
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return value
    raise ValueError(too_deep)


def _object_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        again, _ = collections.Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"objects must have each key once; got {again[:_MAX_SHOWN]!r} again")
    return found


def read_json(path: str) -> Any:
    """Reads a JSON file of unknown content; see `parse_json`. A ValueError names the file."""
    data = read_bytes(path)
    try:
        return parse_json(data)
    except ValueError as error:
        reason = "text that is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ValueError(f"`{path}` must be a JSON file; got a mistake in it: {reason}. Write it again.") from error


def describe_mistake(error: Exception, data: bytes | str, message: Message) -> str:
    """Describes in one line an error that `text_format.Parse` raised about a message, and its place.

    Quotes the text only if it has a field of such a message.
    """
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    if isinstance(error, RecursionError):
        return "messages are nested too deeply"
    text = data if isinstance(data, str) else data.decode(errors="replace")
    names = "|".join(message.DESCRIPTOR.fields_by_name)
    if not re.search(rf"^\s*(?:{names})\s*[:{{<]", text, re.MULTILINE):
        place = ""
        if isinstance(error, text_format.ParseError) and error.GetLine():
            place = f" in line {error.GetLine()}, column {error.GetColumn()}"
        return f"text that does not describe a {message.DESCRIPTOR.name}{place}"
    shown = " ".join(str(error).split())
    half = _MAX_SHOWN // 2
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:half]} ... {shown[-half:]}"

"""JSON as both protocols read and write it."""

from __future__ import annotations

import base64
import codecs
import json
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.serving.server.refusals import malformed, shown

MAX_VALUES = 2_000_000
"""Largest number of values in a JSON text, those in lists and objects included: each takes time and memory."""
MAX_LEVELS = 100
MAX_FIELDS = 10_000
"""Largest number of keys in an object."""
MAX_KEY_CHARACTERS = 1000

_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{},"'))
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_OPENING, _COMMA = b"[{", b","


def read_object(body: bytes) -> dict[str, Any]:
    """Reads the JSON object that a request's body, or its part, is."""
    try:
        found = read_json(body)
    except ValueError as error:
        raise malformed(
            f"The body must be JSON in UTF-8; got {shown(bytes(body[:40]))}: {error}. Correct it there."
        ) from error
    if not isinstance(found, dict):
        raise malformed(f"The body must be a JSON object; got {shown(found)}. See /docs for its fields.")
    return found


def read_json(text: bytes) -> Any:
    """Reads JSON of bounded size and depth, without repeated keys.

    Raises:
        ValueError: if it is not; the message is a part of a sentence.
    """
    _check_structure(text)
    try:
        # As text, because of bytes the parser also takes UTF-16.
        return json.loads(text.removeprefix(codecs.BOM_UTF8).decode(errors="surrogatepass"), object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError("too many levels") from error


def _check_structure(text: bytes) -> None:
    """Refuses JSON of too many values or levels before it is parsed, which would take time and memory for them."""
    num_openings = text.count(b"[") + text.count(b"{")
    # An upper bound, because texts may have brackets and commas, too.
    if num_openings <= MAX_LEVELS and num_openings + text.count(_COMMA) < MAX_VALUES:
        return
    # Escapes are in texts alone; what is between two quotes is a text.
    plain = _ESCAPE.sub(b"", text) if b"\\" in text else text
    structure = b"".join(plain.translate(None, _NOT_STRUCTURE).split(b'"')[::2])
    num_values = 1 + structure.count(_COMMA) + structure.count(b"[") + structure.count(b"{")
    if num_values > MAX_VALUES:
        raise ValueError(f"{num_values} values, more than {MAX_VALUES}; split it into several requests")
    brackets = np.frombuffer(structure.replace(_COMMA, b""), np.uint8)
    steps = np.where(np.isin(brackets, list(_OPENING)), 1, -1)
    levels = int(np.cumsum(steps).max(initial=0))
    if levels > MAX_LEVELS:
        raise ValueError(f"too many levels of brackets, {levels}, more than {MAX_LEVELS}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object; refuses a repeated key, of which one value would be lost, and very many or long ones."""
    found = dict(pairs)
    if len(pairs) > MAX_FIELDS:
        raise ValueError(f"an object of {len(pairs)} keys, more than {MAX_FIELDS}")
    for name in found:
        if len(name) > MAX_KEY_CHARACTERS:
            raise ValueError(f"a key of {len(name)} characters, more than {MAX_KEY_CHARACTERS}")
    if len(found) < len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"the key {shown(name)} is there twice in an object")
            names.add(name)
    return found


def is_text(value: object) -> bool:
    """Tells whether a value of JSON is Unicode text, without halves of surrogate pairs, which JSON can hold."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def write_json(content: object) -> bytes:
    """Writes JSON, in which `NaN`, `Infinity` and `-Infinity` are numbers, as in TensorFlow Serving's."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def plain_rows(values: npt.NDArray[Any]) -> list[Any]:
    """Makes nested lists of an array; bytes are texts, or {"b64": <base64>} if they are not UTF-8.

    Floats have the fewest digits that tell them from other float32.
    """
    if values.dtype == object:
        return [_plain(value) for value in values.tolist()]
    if values.dtype.kind == "f" and values.dtype.itemsize < np.dtype(np.float64).itemsize:
        # 0.1 as float32 is 0.10000000149011612 as float64: half of the digits say nothing.
        shortest = values.astype(np.float32).astype("U").astype(np.float64)
        return list(shortest.tolist())
    return list(values.tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}

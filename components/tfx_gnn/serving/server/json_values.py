"""JSON as both protocols read and write it."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.serving.server.refusals import malformed, shown


def read_object(body: bytes) -> dict[str, Any]:
    """Reads the JSON object that a request's body, or its part, is."""
    try:
        found = json.loads(body, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        reason = "too many levels" if isinstance(error, RecursionError) else str(error)
        raise malformed(
            f"The body must be JSON in UTF-8; got {shown(bytes(body[:40]))}: {reason}. Correct it there."
        ) from error
    if not isinstance(found, dict):
        raise malformed(f"The body must be a JSON object; got {shown(found)}. See /docs for its fields.")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Makes an object; refuses a repeated key, of which one value would be lost."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for number, name in enumerate(names) if name in names[:number])
        raise ValueError(f"the key {shown(again)} is there twice in an object")
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

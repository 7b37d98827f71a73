"""Writes protocol buffer messages by field number, for formats whose Python classes live in heavy packages."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

Message = Mapping[int, "Field"]
"""Maps numbers of fields to values; a field that is None is left out."""

Field = bool | int | float | str | bytes | Message | Sequence["Field"] | None
"""An integer, enum or bool; a `double`; a text, bytes or message; or several of these for a repeated field."""

_VARINT, _FIXED64, _LENGTH = 0, 1, 2
_TWO_TO_64 = 1 << 64


def encode_message(message: Message) -> bytes:
    """Encodes a message as its generated class would, without knowing its definition.

    The Python type of a value chooses its wire type, so give a `double` as float and an integer as int. Fields of the
    types `float`, `fixed32` and `sint64` are not supported. A map is a repeated message with the key as field 1 and
    the value as field 2.

    Args:
        message: values by number of the field.

    Returns:
        The serialized message.

    Raises:
        TypeError: if a value has another type.

    Example:
        >>> encode_message({1: 150, 2: "graph", 3: [{1: True}, {1: False}]}).hex()
        '089601120567726170681a0208011a020800'
    """
    return b"".join(part for number, value in message.items() for part in _field(number, value))


def _field(number: int, value: Field) -> Iterator[bytes]:
    if value is None:
        return
    if isinstance(value, (bool, int)):
        yield _varint(number << 3 | _VARINT) + _varint(int(value) % _TWO_TO_64)
    elif isinstance(value, float):
        yield _varint(number << 3 | _FIXED64) + struct.pack("<d", value)
    elif isinstance(value, (str, bytes, Mapping)):
        content = _content(value)
        yield _varint(number << 3 | _LENGTH) + _varint(len(content)) + content
    elif isinstance(value, Sequence):
        for item in value:
            yield from _field(number, item)
    else:
        raise TypeError(
            f"`message` must hold numbers, texts, bytes, messages or lists of them; got {type(value)} in field "
            f"{number}. Convert NumPy's numbers first."
        )


def _content(value: str | bytes | Message) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else encode_message(value)


def _varint(value: int) -> bytes:
    groups = []
    while True:
        value, group = value >> 7, value & 0x7F
        if not value:
            groups.append(group)
            return bytes(groups)
        groups.append(group | 0x80)

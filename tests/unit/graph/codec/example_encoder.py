"""tf.Examples written byte by byte, in all the ways that protobuf allows and in some that it does not.

`SerializeToString` writes each list packed and in one piece, which is one way of many. Here an
`ExampleEncoder` draws how each part is written: packed or not, in one piece or several, with
fields twice, in another order, with lengths longer than needed, with unknown fields. With
`damage` it also draws what is no protobuf: lengths that are not true, and missing ends.

Field numbers: Example.features = 1; Features.feature = 1, a map whose entries have key = 1 and
value = 2; Feature.bytes_list = 1, float_list = 2, int64_list = 3; value = 1 in each list.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

VARINT, LENGTH_DELIMITED, FIXED32 = 0, 2, 5
KINDS = {"bytes_list": 1, "float_list": 2, "int64_list": 3}
#: Lengths that no message here has: just above what fits, and where 31 and 32 bits end.
LIES = (1, 100, 2**14, 2**21, 2**31 - 1, 2**31, 2**32 - 1, 2**32 + 3, 2**63)


def varint(number: int, spare_bytes: int = 0) -> bytes:
    """Writes an integer; negative ones as 64 bits. Spare bytes make it longer, not larger."""
    number &= 2**64 - 1
    groups = []
    while number >= 0x80:
        groups.append(number & 0x7F)
        number >>= 7
    groups += [number] + [0] * spare_bytes
    return bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])


def tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def delimited(field: int, content: bytes, *, length: int | None = None, spare_bytes: int = 0) -> bytes:
    """Writes a field with its length, which is a lie if `length` is given."""
    told = len(content) if length is None else length
    return tag(field, LENGTH_DELIMITED) + varint(told, spare_bytes) + content


def packed(kind: str, values: Sequence[Any]) -> bytes:
    """Writes one piece of a list; bytes have no packed form."""
    if kind == "bytes_list":
        return unpacked(kind, values)
    return delimited(1, b"".join(_plain(kind)(value) for value in values))


def unpacked(kind: str, values: Sequence[Any]) -> bytes:
    """Writes each value of a list as a field of its own."""
    if kind == "bytes_list":
        return b"".join(delimited(1, value) for value in values)
    head = tag(1, FIXED32 if kind == "float_list" else VARINT)
    return b"".join(head + _plain(kind)(value) for value in values)


def feature(kind: str, content: bytes) -> bytes:
    """Puts the content of a list into a Feature."""
    return delimited(KINDS[kind], content)


def entry(key: str, value: bytes) -> bytes:
    """Puts a Feature into the map of a Features."""
    return delimited(1, delimited(1, key.encode()) + delimited(2, value))


def example(*entries: bytes) -> bytes:
    """Puts the map into a tf.Example."""
    return delimited(1, b"".join(entries))


def _plain(kind: str) -> Callable[[Any], bytes]:
    return (lambda value: struct.pack("<f", value)) if kind == "float_list" else varint


class ExampleEncoder:
    """Draws how tf.Examples are written."""

    def __init__(self, rng: random.Random, *, oddity: float = 0.3, damage: float = 0.0) -> None:
        """Takes the probabilities that a part is written in an odd way, or damaged."""
        self._rng = rng
        self._oddity = oddity
        self._damage = damage

    def encode(self, features: Mapping[str, tuple[str, Sequence[Any]]]) -> bytes:
        """Writes an example that holds these kinds and values by key, if nothing is damaged."""
        rng = self._rng
        entries = [self._entry(key, kind, values) for key, (kind, values) in features.items()]
        rng.shuffle(entries)
        if self._is_odd():
            # The last one of a key wins.
            key, (kind, values) = rng.choice(list(features.items()))
            entries.insert(0, entry(key, feature(kind, packed(kind, values[:1] * 3))))
        if self._is_odd(0.05):
            entries.insert(rng.randrange(len(entries) + 1), self._unknown())
        if self._is_odd(0.2):
            half = rng.randrange(len(entries) + 1)
            encoded = example(*entries[:half]) + example(*entries[half:])
        else:
            encoded = example(*entries)
        if self._is_odd(0.1):
            encoded += self._unknown()
        if self._is_damaged():
            encoded = self._damaged(encoded)
        return encoded

    def _entry(self, key: str, kind: str, values: Sequence[Any]) -> bytes:
        rng, spare = self._rng, self._rng.randrange(4) if self._is_odd(0.2) else 0
        head = delimited(1, key.encode())
        value = self._feature(kind, values)
        if self._is_odd(0.1):
            # Two messages of one field are merged.
            half = rng.randrange(len(values) + 1)
            value_fields = delimited(2, self._feature(kind, values[:half])) + delimited(
                2, feature(kind, self._list(kind, values[half:]))
            )
        else:
            value_fields = delimited(2, value, spare_bytes=spare)
        content = value_fields + head if self._is_odd(0.2) else head + value_fields
        if self._is_odd(0.02):
            content += self._unknown()
        return delimited(1, content)

    def _feature(self, kind: str, values: Sequence[Any]) -> bytes:
        rng = self._rng
        if not values and self._is_odd():
            return rng.choice([b"", feature(kind, b""), feature(kind, packed(kind, []))])
        parts = [delimited(KINDS[kind], self._list(kind, values), spare_bytes=rng.randrange(3) * self._is_odd(0.2))]
        if self._is_odd(0.3):
            half = rng.randrange(len(values) + 1)
            parts = [feature(kind, self._list(kind, values[:half])), feature(kind, self._list(kind, values[half:]))]
        if self._is_odd(0.2):
            # Of several kinds the last one wins.
            other = rng.choice([name for name in KINDS if name != kind])
            parts.insert(0, feature(other, packed(other, [b"x"] if other == "bytes_list" else [1])))
        if self._is_odd(0.05):
            parts.insert(rng.randrange(len(parts) + 1), self._unknown())
        return b"".join(parts)

    def _list(self, kind: str, values: Sequence[Any]) -> bytes:
        rng = self._rng
        if not self._is_odd():
            content = packed(kind, values) if values or kind == "bytes_list" else b""
        else:
            cuts = sorted(rng.randrange(len(values) + 1) for _ in range(rng.choice([0, 0, 0, 1, 2, 3])))
            pieces = [values[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(values)], strict=True)]
            content = b"".join(rng.choice([packed, unpacked])(kind, piece) for piece in pieces)
            if self._is_odd(0.05):
                content += self._unknown()
        if self._is_damaged(0.3) and values and kind != "bytes_list":
            plain = b"".join(_plain(kind)(value) for value in values)
            content = delimited(1, plain, length=len(plain) + rng.choice(LIES))
        return content

    def _unknown(self) -> bytes:
        rng = self._rng
        return rng.choice([delimited(9, b"zz"), tag(7, VARINT) + varint(5), tag(8, FIXED32) + b"abcd"])

    def _damaged(self, encoded: bytes) -> bytes:
        rng, content = self._rng, bytearray(encoded)
        action = rng.randrange(4)
        if action == 0:
            del content[rng.randrange(len(content) + 1) :]
        elif action == 1 and content:
            for _ in range(rng.randint(1, 3)):
                content[rng.randrange(len(content))] = rng.randrange(256)
        elif action == 2 and content:
            start = rng.randrange(len(content))
            content[start:start] = content[start : start + rng.randrange(20)]
        else:
            content = bytearray(delimited(1, bytes(content[2:]), length=len(content) + rng.choice(LIES)))
        return bytes(content)

    def _is_odd(self, factor: float = 1.0) -> bool:
        return self._rng.random() < self._oddity * factor

    def _is_damaged(self, factor: float = 1.0) -> bool:
        return self._rng.random() < self._damage * factor

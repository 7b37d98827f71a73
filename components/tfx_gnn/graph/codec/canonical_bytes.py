"""Makes sure that serialized tf.Examples have the one encoding that TensorFlow's parser reads correctly.

`tf.io.parse_example` has its own protobuf reader. Protobuf allows a list to be encoded in several
pieces, but this reader silently drops all pieces after the first. Given a wrong length, or more
unpacked floats than a fixed-size feature takes, it writes outside of its buffers.

All that may go wrong shows in the few bytes with which a list begins. So these are checked, and only a batch with
other encodings is encoded anew.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from google.protobuf import descriptor_pb2

_MESSAGE = "tensorflow.Example"
#: Need not exist in any example: looking for any key makes the parser walk all features.
_ANY_KEY = "#any"


def canonical_examples(serialized: tf.Tensor) -> tf.Tensor:
    """Returns tf.Examples that all parsers read the same way: the same bytes, or else the same values encoded anew.

    In the result, each list of numbers is packed and in one piece. Only TensorFlow's own operations are used, so this
    function can be part of an exported model.

    Two cases, which no known encoder writes, are not read as protobuf defines, because that would take 50% longer:

    - Entries of the map of features that lack the key or the value, or hold unknown fields, are refused. Protobuf's
      own libraries differ in how they treat them.
    - If a key has several entries, the last entry with a list counts, even if an entry without a list follows.

    Refused bytes raise InvalidArgumentError. In a tf.function, they may also raise DataLossError, if only values are
    damaged, or UnicodeDecodeError, if TensorFlow quotes bytes that are not text.

    Example:
        >>> record = tf.train.Example()
        >>> record.features.feature["k"].int64_list.value.extend([5, 6])
        >>> serialized = tf.constant([record.SerializeToString()])
        >>> bool(canonical_examples(serialized)[0] == serialized[0])
        True
    """
    try:
        return _canonical(serialized)
    except (UnicodeDecodeError, tf.errors.DataLossError) as error:
        # TensorFlow's message quotes the bytes, which Python may be unable to decode as text.
        raise tf.errors.InvalidArgumentError(
            None, None, "`serialized` must hold tf.Example protos; got other bytes."
        ) from error


def _canonical(serialized: tf.Tensor) -> tf.Tensor:
    if serialized.shape[0] is None:
        # The decoder does not accept empty batches.
        is_any = tf.size(serialized) > 0
        return tf.cond(is_any, lambda: _canonical_of_some(serialized), lambda: serialized)
    return _canonical_of_some(serialized) if serialized.shape[0] else serialized


def _canonical_of_some(serialized: tf.Tensor) -> tf.Tensor:
    def encode_anew() -> Any:
        sizes, (features,) = tf.io.decode_proto(
            serialized, _MESSAGE, ["features"], [tf.string], "local://", sanitize=True
        )
        return tf.io.encode_proto(sizes, [features], ["features"], _MESSAGE)

    # Runs first: it refuses most bytes that are not tf.Examples, with the right error, and reads integers safely.
    walked = tf.io.parse_example(serialized, {_ANY_KEY: tf.io.FixedLenFeature([], tf.int64, 0)})[_ANY_KEY]
    # Holds always. A mere control dependency on the walk would be optimized away.
    is_walked = tf.raw_ops.Assert(condition=tf.reduce_all(walked >= tf.int64.min), data=["unreachable"])
    with tf.control_dependencies([is_walked]):
        given = tf.identity(serialized)
    return tf.ensure_shape(tf.cond(_are_canonical(given), lambda: serialized, encode_anew), serialized.shape)


def _are_canonical(serialized: tf.Tensor) -> tf.Tensor:
    """Returns whether each list is in one piece, packed if it holds numbers, and as long as it says; bool of shape [].

    The lengths of an entry of the map of features and of its key, and the kind of its list, determine the bytes with
    which the list begins. So these are computed and compared. Small operations dominate the cost, so all are computed
    together, as one integer each.
    """
    entries = _split(_split(serialized, "Example", "features"), "Features", "feature")
    raw = tf.io.decode_raw(entries, tf.uint8, fixed_length=_ENTRY_SIZE)
    key_length = tf.cast(raw[:, 1], tf.int32)
    length = tf.strings.length(entries) - key_length
    headers = _headers()
    group = tf.raw_ops.Bucketize(input=length, boundaries=headers.boundaries)
    start = tf.minimum(key_length, _LONGEST_KEY) + tf.gather(headers.starts, group)
    places = (start + tf.range(0, tf.size(raw), _ENTRY_SIZE))[:, tf.newaxis] + np.arange(_HEADER_SIZE, dtype=np.int32)
    found = tf.bitcast(tf.gather(tf.reshape(raw, [-1]), places), tf.int64)
    kind = tf.bitwise.bitwise_and(tf.bitwise.right_shift(found, _KIND_SHIFT), _NUM_KINDS - 1)
    row = group * _NUM_KINDS + tf.cast(kind, tf.int32)
    digits = tf.cast(length, tf.int64)[:, tf.newaxis] - tf.gather(headers.overheads, row)
    digits = tf.bitwise.bitwise_and(digits, tf.gather(headers.digit_masks, row)) * tf.gather(headers.places, row)
    difference = tf.bitwise.bitwise_xor(tf.reduce_sum(digits, axis=1), found)
    compared = tf.bitwise.bitwise_and(difference, tf.gather(headers.masks, row))
    is_canonical = tf.equal(compared, tf.gather(headers.fixed, row)) & (key_length <= _LONGEST_KEY)
    return tf.reduce_all(is_canonical)


def _split(messages: tf.Tensor, message: str, field: str) -> tf.Tensor:
    """Returns the occurrences of a field in all messages, and empty strings."""
    _, (values,) = tf.io.decode_proto(messages, f"wire.{message}", [field], [tf.string], _wire_format())
    return tf.reshape(values, [-1])


@functools.cache
def _wire_format() -> bytes:
    """Describes tf.Examples down to the entries of the map, but all messages as bytes, so that none is decoded."""
    file = descriptor_pb2.FileDescriptorProto(name="wire.proto", package="wire")
    for message, field in (("Example", "features"), ("Features", "feature")):
        type_of_bytes, repeated = 12, 3
        file.message_type.add(name=message).field.add(name=field, number=1, type=type_of_bytes, label=repeated)
    return b"bytes://" + descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


#: The header of a tf.Feature: tag and length of its list, then tag and length of the packed values. Longer ones, from
#: 2 MB on, do not fit an integer; such features are encoded anew, and so are those with longer keys.
_HEADER_SIZE = 8
_LONGEST_VARINT = 3
_LONGEST_KEY = 96
#: Bytes of an entry that are looked at: tag and length of the key, the key, tag and length of the feature, its header.
_ENTRY_SIZE = 2 + _LONGEST_KEY + 1 + _LONGEST_VARINT + _HEADER_SIZE
#: Tags of the lists of strings, floats and integers. Two of their bits tell them apart.
_LISTS = {1: 0x0A, 2: 0x12, 3: 0x1A}
_STRINGS, _FLOATS = 1, 2
_KIND_SHIFT, _NUM_KINDS = 3, 4
#: Tag of the values in a list.
_VALUES = 0x0A


@dataclasses.dataclass(frozen=True)
class _Headers:
    """What canonical headers look like, by the length of the entry without its key.

    Lengths fall into groups. In the headers of a group, as little-endian integers, the digits (seven bits each) of the
    length of the list and of the length of its values are in the same places. There is a row for each kind of list in
    each group.

    Attributes:
        boundaries: first length of each group but the first.
        starts: where in the entry the header begins, without the key; shape [num_groups].
        overheads: by how much the list, or its values, are shorter than the entry; shape [num_rows, 6], for three
            digits each.
        digit_masks: bits of a length that make a digit, shape [num_rows, 6].
        places: factors that bring digits to their places, 0 for those that the group lacks; shape [num_rows, 6].
        fixed: what else is in the header, shape [num_rows]. Has bits outside of the mask if no header is canonical.
        masks: bits to compare, shape [num_rows].
    """

    boundaries: list[float]
    starts: npt.NDArray[np.int32]
    overheads: npt.NDArray[np.int64]
    digit_masks: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    fixed: npt.NDArray[np.int64]
    masks: npt.NDArray[np.int64]


@functools.cache
def _headers() -> _Headers:
    # Groups begin near the lengths at which varints become longer; in the last one, they are too long.
    near = {128**size + offset for size in range(_LONGEST_VARINT + 1) for offset in range(-20, 40)}
    lengths = [length for length in sorted(near) if length >= 0]
    first = [0, *(length for before, length in itertools.pairwise(lengths) if _group(before) != _group(length))]
    starts = [start for start, _ in map(_group, first)]
    columns = zip(*(row for length in first for row in _group(length)[1]), strict=True)
    overheads, digit_masks, places, fixed, masks = (np.array(column, np.int64) for column in columns)
    return _Headers(
        boundaries=[float(length) for length in first[1:]],
        starts=np.array(starts, np.int32),
        overheads=overheads,
        digit_masks=digit_masks,
        places=places,
        fixed=fixed,
        masks=masks,
    )


class _Row(NamedTuple):
    overheads: list[int]
    digit_masks: list[int]
    places: list[int]
    fixed: int = 0
    mask: int = 0


def _group(length: int) -> tuple[int, list[_Row]]:
    """Returns the start of the header, and a row for each kind, for entries of a length, without the key."""
    # Before the feature are tag and length of the key.
    feature_length, varint = _payload(length - 2)
    is_possible = varint > 0
    rows = [_row(length, feature_length, kind, is_possible=is_possible) for kind in range(_NUM_KINDS)]
    return length - feature_length if is_possible else 0, rows


def _row(length: int, feature_length: int, kind: int, *, is_possible: bool) -> _Row:
    digit_masks = [0x7F << 7 * digit for digit in range(_LONGEST_VARINT)] * 2
    row = _Row([0] * len(digit_masks), digit_masks, [0] * len(digit_masks))
    never = row._replace(fixed=1)
    if length == 0 or (is_possible and feature_length == 0):
        # The filling behind the entries of an example, or a feature without a list.
        return row
    list_length, list_varint = _payload(feature_length)
    if kind not in _LISTS or not is_possible or not list_varint:
        return never
    header = bytes([_LISTS[kind]]) + _continuation_bits(list_varint)
    _place(row, 0, length - list_length, list_varint, at=1)
    if list_length and kind != _STRINGS:
        values_length, values_varint = _payload(list_length)
        if not values_length or not values_varint:
            return never
        _place(row, _LONGEST_VARINT, length - values_length, values_varint, at=len(header) + 1)
        header += bytes([_VALUES]) + _continuation_bits(values_varint)
        if kind == _FLOATS:
            # The length must be a multiple of four.
            digit_masks[_LONGEST_VARINT] &= ~0b11
    return row._replace(fixed=_as_integer(header), mask=_as_integer(b"\xff" * len(header)))


def _as_integer(header: bytes) -> int:
    return int.from_bytes(header.ljust(_HEADER_SIZE, b"\0"), "little", signed=True)


def _payload(length: int) -> tuple[int, int]:
    """Returns what is left of a length behind a tag and the length of the rest, and the size of the latter.

    The size is 0 if no rest has the right length.
    """
    for size in range(1, _LONGEST_VARINT + 1):
        rest = length - 1 - size
        if rest >= 0 and max(1, math.ceil(rest.bit_length() / 7)) == size:
            return rest, size
    return 0, 0


def _continuation_bits(varint_size: int) -> bytes:
    return b"\x80" * (varint_size - 1) + b"\0"


def _place(row: _Row, first: int, overhead: int, varint_size: int, *, at: int) -> None:
    """Puts the digits of a length into a header, from byte `at` on."""
    for digit in range(varint_size):
        row.overheads[first + digit] = overhead
        row.places[first + digit] = 2 ** (8 * (at + digit) - 7 * digit)

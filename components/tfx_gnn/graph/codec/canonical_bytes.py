"""Makes sure that serialized tf.Examples have the one encoding that TensorFlow's parser reads correctly.

`tf.io.parse_example` has its own protobuf reader. Protobuf allows a list to be encoded in several pieces, but this
reader silently drops all pieces after the first. Given a wrong length, or more unpacked floats than a fixed-size
feature takes, it writes outside of its buffers.

All that may go wrong shows in the bytes between the key of a feature and its values: one tag and one length for each
of the messages around the values. In the encoding that protobuf's libraries write, these bytes follow from the length
of the entry. So they are compared with what they should be, which takes a quarter of the time of parsing, merging and
padding, and only a batch with other encodings is encoded anew.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from google.protobuf import descriptor_pb2

_MESSAGE = "tensorflow.Example"
#: Looking for a key that no example has makes the parser walk all features.
_NO_KEY = "#tfx_gnn: the key of no feature"
#: Fewer examples are encoded anew in less time than the many small operations of a comparison take.
_FEW_EXAMPLES = 4
#: More in a batch is encoded anew: the decoder takes at most 2 GB at once.
_MOST_BYTES = 2**31 - 1
#: The decoder pads all examples to the number of entries of the largest one, so that kilobytes could take gigabytes. It
#: may pad this many bytes for each byte, and this many bytes in any batch; otherwise the examples are joined.
_MOST_PADDING, _ANY_PADDING = 3, 2**22
#: Entries of fewer bytes, on average, would take much more memory than their bytes, unless they are few.
_SMALLEST_ENTRY, _FEW_ENTRIES = 16, 2**16


def canonical_examples(serialized: tf.Tensor) -> tf.Tensor:
    """Returns tf.Examples that all parsers read the same way: the same bytes, or else the same values encoded anew.

    In the result, each list of numbers is packed and in one piece. Only TensorFlow's own operations are used, so this
    function can be part of an exported model.

    Two cases, which no known encoder writes, are not read as protobuf defines, because that would take 50% longer:

    - Entries of the map of features that are not one key and one value may be refused, and so may unknown fields in
      anything but the example, unknown groups, and entries whose tag takes two bytes. Protobuf's own libraries differ
      in how they treat some of these.
    - If a key has several entries, features of fixed size are read from the last entry with a list, even if an entry
      without a list follows.

    Numbers of features that are not read may stay unchecked.

    Refused bytes raise InvalidArgumentError. In a tf.function, they may also raise DataLossError, if an example as a
    whole has the right length, or UnicodeDecodeError, if TensorFlow quotes bytes that are not text.

    Example:
        >>> record = tf.train.Example()
        >>> record.features.feature["k"].int64_list.value.extend([5, 6])
        >>> serialized = record.SerializeToString()
        >>> canonical_examples(tf.constant([serialized]))[0].numpy() == serialized
        True
    """
    if not tf.executing_eagerly():
        return _canonical(serialized) if serialized.shape[0] is not None else _copied(serialized)
    try:
        return _traced()(serialized)
    except (UnicodeDecodeError, tf.errors.DataLossError) as error:
        # TensorFlow's message quotes the bytes, which Python may be unable to decode as text.
        raise tf.errors.InvalidArgumentError(
            None, None, "`serialized` must hold tf.Example protos; got other bytes."
        ) from error


@functools.cache
def _traced() -> Any:
    # One call of a function takes less time than each of its operations by itself.
    with tf.init_scope():
        return tf.function(
            _canonical, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False, jit_compile=False
        ).get_concrete_function()


@functools.cache
def _traced_graph() -> tuple[tf.compat.v1.GraphDef, str, str]:
    """Returns the operations of `_traced`, and the names of its input, which is none of them, and of its result."""
    traced = _traced()
    (given,), (result,) = traced.inputs, traced.outputs
    graph = traced.graph.as_graph_def()
    (placeholder,) = (node for node in graph.node if node.name == given.op.name)
    graph.node.remove(placeholder)
    return graph, given.name, result.name


def _copied(serialized: tf.Tensor) -> tf.Tensor:
    """Copies the operations of `_canonical` into the graph that is being built.

    A training parses examples in a dozen functions. To trace them in each takes a third of all its tracing, and to call
    one function in all takes a tenth of the time of parsing.
    """
    graph, given, result = _traced_graph()
    (found,) = tf.graph_util.import_graph_def(
        graph, input_map={given: serialized}, return_elements=[result], name="canonical_examples"
    )
    found.set_shape(serialized.shape)
    return found


def _canonical(serialized: tf.Tensor) -> tf.Tensor:
    num_examples = serialized.shape[0]
    if num_examples is None:
        # The decoder does not accept an empty batch.
        return tf.cond(tf.size(serialized) > 0, lambda: _canonical_of_many(serialized), lambda: serialized)
    if num_examples < _FEW_EXAMPLES:
        return _encode_anew(serialized) if num_examples else serialized
    return _canonical_of_many(serialized)


def _canonical_of_many(serialized: tf.Tensor) -> tf.Tensor:
    entries, are_whole = _split_examples(serialized)
    lists = _find_lists(entries)
    are_ascii = tf.reduce_min(tf.io.decode_raw(lists.keys, tf.int8)) >= 0
    has_headers = ~_differ(lists.found, lists.lengths, lists.rows, _list_headers())
    is_canonical = are_whole & lists.has_key & are_ascii & has_headers

    def unless_canonical() -> tf.Tensor:
        is_canonical = are_whole & _are_canonical_with_strings(entries, lists) & _is_utf8(lists.keys)
        return tf.cond(is_canonical, lambda: serialized, lambda: _encode_anew(serialized))

    return tf.ensure_shape(tf.cond(is_canonical, lambda: serialized, unless_canonical), serialized.shape)


def _encode_anew(serialized: tf.Tensor) -> tf.Tensor:
    def encode_anew() -> Any:
        sizes, (features,) = tf.io.decode_proto(
            serialized, _MESSAGE, ["features"], [tf.string], "local://", sanitize=True
        )
        return tf.io.encode_proto(sizes, [features], ["features"], _MESSAGE)

    # Runs first: it refuses most bytes that are not tf.Examples, with the right error, and reads integers safely.
    walked = tf.io.parse_example(serialized, {_NO_KEY: tf.io.FixedLenFeature([], tf.int64, 0)})[_NO_KEY]
    # True unless there are no examples, which the decoder does not accept. A mere control dependency on the walk would
    # be optimized away.
    is_any = tf.reduce_any(walked >= tf.int64.min)
    return tf.ensure_shape(tf.cond(is_any, encode_anew, lambda: serialized), serialized.shape)


def _split_examples(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the entries of the maps of all examples, and whether the examples hold nothing else.

    Returns:
        entries: string of shape [num_entries], with empty strings behind the last entries of examples that have fewer
            than others. Some or none if the examples have to be encoded anew.
        are_whole: bool of shape [].
    """
    headers = _example_headers()
    lengths = tf.strings.length(serialized)
    group = tf.raw_ops.Bucketize(input=lengths, boundaries=headers.boundaries)
    found = tf.io.decode_raw(serialized, tf.uint8, fixed_length=headers.width)
    num_bytes = tf.reduce_sum(tf.cast(lengths, tf.int64))
    # Bytes that may not be entries are not split, which would be an error.
    is_split = ~_differ(found, lengths, group, headers) & (num_bytes <= _MOST_BYTES)
    lengths *= tf.cast(is_split, tf.int32)
    maps = tf.strings.substr(serialized, tf.minimum(tf.gather(headers.sizes, group), lengths), lengths)
    padded_bytes = tf.cast(tf.reduce_max(lengths), tf.int64) * tf.size(lengths, out_type=tf.int64)
    entries, are_tiled = tf.cond(
        padded_bytes <= _MOST_PADDING * num_bytes + _ANY_PADDING,
        lambda: _split_apart(maps),
        lambda: _split_joined(maps, of_empty=0),
    )
    are_few = tf.size(entries, out_type=tf.int64) <= num_bytes // _SMALLEST_ENTRY + _FEW_ENTRIES
    return entries[: tf.cast(are_few, tf.int32) * tf.size(entries)], is_split & are_few & are_tiled


def _split_apart(messages: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns all occurrences of field 1, with empty strings between, and whether the messages hold nothing else.

    Fields have at least the size of their tag and shortest length. So if the sizes in a message add up to its length,
    then nothing else is in there. An empty field cannot be told from padding, and so does not count.
    """
    fields = _split(messages)
    sizes = tf.reduce_sum(_sizes_of_fields(tf.strings.length(fields), of_empty=0), axis=1)
    return tf.reshape(fields, [-1]), tf.reduce_all(tf.equal(sizes, tf.strings.length(messages)))


def _split_joined(messages: tf.Tensor, *, of_empty: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Does the same without padding, which takes longer; `of_empty` is the size of an empty field, 0 to let none count.

    If there is no field, the first result is one empty string. No field reaches from one message into the next if each
    message ends where a field does.
    """
    fields = _split(tf.strings.reduce_join(messages)[tf.newaxis])[0]
    field_ends = tf.cumsum(tf.concat([[0], _sizes_of_fields(tf.strings.length(fields), of_empty=of_empty)], axis=0))
    ends = tf.cumsum(tf.strings.length(messages))
    place = tf.raw_ops.LowerBound(sorted_inputs=field_ends[tf.newaxis], values=ends[tf.newaxis])[0]
    place = tf.minimum(place, tf.size(fields))
    return fields, tf.reduce_all(tf.equal(tf.gather(field_ends, place), ends))


def _split(messages: tf.Tensor) -> tf.Tensor:
    """Returns all occurrences of field 1 in messages, with empty strings behind them; shape [num_messages, most]."""
    # The decoder's own message does not say what it could not read, but it quotes the name.
    _, (values,) = tf.io.decode_proto(
        messages, "wire.Message", ["field"], [tf.string], _wire_format(), name="serialized_must_hold_tf.Example_protos"
    )
    return values


@functools.cache
def _wire_format() -> bytes:
    """Describes messages whose field 1 is repeated and has a length, as in tf.Examples at all levels."""
    file = descriptor_pb2.FileDescriptorProto(name="wire.proto", package="wire")
    type_of_bytes, repeated = 12, 3
    file.message_type.add(name="Message").field.add(name="field", number=1, type=type_of_bytes, label=repeated)
    return b"bytes://" + descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


def _sizes_of_fields(lengths: tf.Tensor, *, of_empty: int) -> tf.Tensor:
    """Returns how many bytes fields take at least, with their tags and lengths."""
    boundaries = [1.0, 2.0**7, 2.0**14, 2.0**21, 2.0**28]
    return lengths + tf.gather([of_empty, 2, 3, 4, 5, 6], tf.raw_ops.Bucketize(input=lengths, boundaries=boundaries))


class _Lists(NamedTuple):
    """Where the lists of entries begin.

    Attributes:
        starts: where in the entry its key ends, int32 of shape [num_entries].
        lengths: how much of the entry is left from there, same shape.
        found: first bytes of that, uint8 of shape [num_entries, width of the headers].
        kinds: bits that tell kinds of lists apart, int32 of shape [num_entries].
        rows: what the header should be, as the row of the table; same shape.
        has_key: whether each entry begins with a key, of less than 128 bytes; bool of shape [].
        keys: all keys, with line feeds between them; string of shape [].
    """

    starts: tf.Tensor
    lengths: tf.Tensor
    found: tf.Tensor
    kinds: tf.Tensor
    rows: tf.Tensor
    has_key: tf.Tensor
    keys: tf.Tensor


def _find_lists(entries: tf.Tensor) -> _Lists:
    headers = _list_headers()
    # Tag and length of the key as one integer, negative if the length takes several bytes.
    key = tf.cast(tf.io.decode_raw(entries, tf.int16, fixed_length=2)[:, 0], tf.int32)
    entry_lengths = tf.strings.length(entries)
    is_padding = tf.equal(entry_lengths, 0)
    has_key = tf.reduce_all(tf.equal(tf.bitwise.bitwise_and(key, ~0x7F00), _FIRST_FIELD) | is_padding)
    starts = tf.clip_by_value(tf.bitwise.right_shift(key, 8) + 2, 0, entry_lengths)
    lengths = entry_lengths - starts
    first = tf.strings.substr(entries, starts, tf.fill(tf.shape(starts), _LONGEST_LIST_HEADER))
    # The last byte is always zero.
    found = tf.io.decode_raw(first, tf.uint8, fixed_length=headers.width)
    group = tf.raw_ops.Bucketize(input=lengths, boundaries=headers.boundaries)
    tag_places = tf.range(0, tf.size(found), headers.width) + tf.gather(headers.tag_places, group)
    tags = tf.cast(tf.gather(tf.reshape(found, [-1]), tag_places), tf.int32)
    kinds = tf.bitwise.bitwise_and(tf.bitwise.right_shift(tags, _KIND_SHIFT), _NUM_KINDS - 1)
    rows = tf.where(is_padding, len(headers.sizes) - 1, group * _NUM_KINDS + kinds)
    tag_and_length = tf.minimum(starts, 2)
    keys = tf.strings.reduce_join(tf.strings.substr(entries, tag_and_length, starts - tag_and_length), separator="\n")
    return _Lists(starts, lengths, found, kinds, rows, has_key, keys)


def _are_canonical_with_strings(entries: tf.Tensor, lists: _Lists) -> tf.Tensor:
    """Returns whether all lists are canonical, also those of no string or several."""
    headers = _list_headers(only_one_string=False)
    is_canonical = lists.has_key & ~_differ(lists.found, lists.lengths, lists.rows, headers)
    # Nothing is split that may not be a list of strings, which would be an error.
    is_read = tf.cast(is_canonical & tf.equal(lists.kinds, _STRINGS), tf.int32)
    sizes = tf.gather(headers.sizes, lists.rows)
    lengths = (lists.lengths - sizes) * is_read
    contents = tf.strings.substr(entries, lists.starts + sizes * is_read, lengths)
    return is_canonical & _split_joined(contents, of_empty=2)[1]


def _is_utf8(text: tf.Tensor) -> tf.Tensor:
    """Returns whether bytes can be keys of protobuf's map; `text` is a string and the result a bool, of shape []."""
    return tf.equal(tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="replace"), text)


def _differ(found: tf.Tensor, lengths: tf.Tensor, rows: tf.Tensor, headers: _Headers) -> tf.Tensor:
    """Returns whether any header is not as it should be; bool of shape [].

    Args:
        found: uint8 of shape [num_messages, width].
        lengths: of the messages, with their headers; int32 of shape [num_messages].
        rows: of the table, same shape.
        headers: the table.
    """
    payloads = lengths[:, tf.newaxis] - tf.gather(headers.overheads, rows)
    digits = tf.bitwise.right_shift(payloads, tf.gather(headers.shifts, rows))
    digits = tf.bitwise.bitwise_and(digits, tf.gather(headers.digits, rows))
    expected = tf.bitwise.bitwise_or(digits, tf.gather(headers.fixed, rows))
    differences = tf.bitwise.bitwise_xor(expected, tf.cast(found, tf.int32))
    return tf.reduce_any(tf.not_equal(tf.bitwise.bitwise_and(differences, tf.gather(headers.compared, rows)), 0))


@dataclasses.dataclass(frozen=True)
class _Headers:
    """What headers should look like: the tags and lengths before the payload of a message in a message.

    Lengths fall into groups, in which the digits (seven bits each) of all lengths in the header are in the same places.
    There is a row for each group, or for each kind of list in each group, and a last one that fits anything. Arrays
    have shape [num_rows] or [num_rows, width].

    Attributes:
        boundaries: first length of each group but the first.
        tag_places: which byte holds the tag of the list, by group.
        sizes: how many bytes the header has; not of lists of floats.
        overheads: by byte, by how much the length that it is a digit of is less than that of the whole.
        shifts: by byte, where in the length the digit is.
        digits: by byte, bits of the digit; 0 for tags.
        fixed: by byte, what else it holds.
        compared: by byte, bits to compare; one that no byte has, if no header is right.
    """

    boundaries: list[float]
    tag_places: npt.NDArray[np.int32]
    sizes: npt.NDArray[np.int32]
    overheads: npt.NDArray[np.int32]
    shifts: npt.NDArray[np.int32]
    digits: npt.NDArray[np.int32]
    fixed: npt.NDArray[np.int32]
    compared: npt.NDArray[np.int32]

    @property
    def width(self) -> int:
        return int(self.fixed.shape[1])


class _Byte(NamedTuple):
    overhead: int = 0
    shift: int = 0
    digit: int = 0
    fixed: int = 0
    compared: int = 0xFF


_Row = tuple[_Byte, ...]
_NEVER: _Row = (_Byte(fixed=0x100, compared=0x100),)
#: Tags of the first two fields of a message, if they have lengths.
_FIRST_FIELD, _SECOND_FIELD = 0x0A, 0x12
#: Tags of the lists of strings, floats and integers. Two of their bits tell them apart.
_LISTS = {1: 0x0A, 2: 0x12, 3: 0x1A}
_STRINGS, _FLOATS = 1, 2
_KIND_SHIFT, _NUM_KINDS = 3, 4
#: Longer features, from 2 MB on, and longer examples are encoded anew.
_LONGEST_IN_LIST = 3
_LONGEST_IN_EXAMPLE = 4
_LONGEST_LIST_HEADER = 3 * (1 + _LONGEST_IN_LIST)


@functools.cache
def _example_headers() -> _Headers:
    """Describes examples by their length: tag and length of the map of features."""

    def row(length: int) -> _Row:
        if not length:
            return ()
        payload = _payload(length, _LONGEST_IN_EXAMPLE)
        return _NEVER if payload is None else (_Byte(fixed=_FIRST_FIELD), *_length(length, payload))

    return _table(lambda length: [row(length)], 1 + _LONGEST_IN_EXAMPLE)


@functools.cache
def _list_headers(*, only_one_string: bool = True) -> _Headers:
    """Describes entries by their length without the key: tags and lengths of the feature, its list, and the values.

    Args:
        only_one_string: whether the header of a list of strings includes that of its only string.
    """

    def row(length: int, kind: int) -> _Row:
        tags = [_SECOND_FIELD, _LISTS.get(kind), _FIRST_FIELD]
        if kind == _STRINGS and not only_one_string:
            tags.pop()
        header: _Row = ()
        rest: int | None = length
        for tag in tags:
            if header and not rest:
                # A feature without a list, or a list without values.
                return header
            rest = _payload(rest or 0, _LONGEST_IN_LIST)
            if rest is None or tag is None:
                return _NEVER
            header += (_Byte(fixed=tag), *_length(length, rest))
        if kind != _FLOATS:
            return header
        # Floats take four bytes each: the two lowest bits of the length are those of the byte that is always zero.
        unused = (_Byte(compared=0),) * (_LONGEST_LIST_HEADER - len(header))
        return (*header, *unused, _Byte(length - (rest or 0), digit=0b11))

    def tag_place(length: int) -> int:
        feature = _payload(length, _LONGEST_IN_LIST)
        return length - feature if feature else 0

    return _table(lambda length: [row(length, kind) for kind in range(_NUM_KINDS)], _LONGEST_LIST_HEADER + 1, tag_place)


def _payload(length: int, longest: int) -> int | None:
    """Returns what is left of a length without a tag and the length of the rest; None if there is no such rest."""
    for size in range(1, longest + 1):
        rest = length - 1 - size
        if rest >= 0 and _varint_size(rest) == size:
            return rest
    return None


def _varint_size(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _length(whole: int, payload: int) -> Iterator[_Byte]:
    """Yields the bytes of the length of a payload that ends where the whole does."""
    size = _varint_size(payload)
    for place in range(size):
        continues = 0x80 if place < size - 1 else 0
        yield _Byte(whole - payload, 7 * place, 0x7F, continues)


def _table(rows_of: Callable[[int], list[_Row]], width: int, tag_place: Callable[[int], int] = lambda _: 0) -> _Headers:
    # Groups begin near the lengths at which one more digit is needed.
    near = {128**size + offset for size in range(1, _LONGEST_IN_EXAMPLE + 1) for offset in range(-20, 40)}
    lengths = sorted(near | set(range(20)))
    first = [0, *(length for before, length in itertools.pairwise(lengths) if rows_of(before) != rows_of(length))]
    rows = [row for length in first for row in rows_of(length)]
    # The last row fits anything.
    rows.append(())
    padded = [row + (_Byte(compared=0),) * (width - len(row)) for row in rows]
    columns = np.array(padded, np.int32).reshape([len(rows), width, len(_Byte._fields)])
    overheads, shifts, digits, fixed, compared = np.moveaxis(columns, 2, 0)
    return _Headers(
        boundaries=[float(length) for length in first[1:]],
        tag_places=np.array([tag_place(length) for length in first], np.int32),
        sizes=np.array([len(row) for row in rows], np.int32),
        overheads=overheads,
        shifts=shifts,
        digits=digits,
        fixed=fixed,
        compared=compared,
    )

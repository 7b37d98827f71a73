import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from tfx_gnn.sampling.examples.record_encoder import RecordEncoder


def _slices(*records):
    """Rows of each record, one list a record."""
    return np.array([row for rows in records for row in rows], np.int64), np.cumsum([0, *map(len, records)])


def _examples(columns, *records, integers=None):
    asked = len(records), dict.fromkeys(columns, _slices(*records)), integers or {}
    written = RecordEncoder(columns).encode(*asked)
    assert RecordEncoder(columns, ahead=False).encode(*asked) == written
    examples = [tf.train.Example.FromString(record) for record in written]
    # Nothing is written twice or longer than need be. Protobufs differ in which of "x" and "x.d1" comes first.
    assert [example.ByteSize() for example in examples] == [len(record) for record in written]
    return [example.features.feature for example in examples]


@pytest.mark.parametrize(
    ("values", "dtype", "kind"),
    [
        ([[1.5, -2.0], [0.25, 4.0], [8.0, 16.0]], pa.float32(), "float_list"),
        ([[1, -2], [300, 4], [2**40, 0]], pa.int64(), "int64_list"),
        ([["a", ""], ["naïve", "b" * 200], ["c", "d"]], pa.large_string(), "bytes_list"),
        ([[True, False], [False, False], [True, True]], pa.bool_(), "int64_list"),
    ],
    ids=["float", "int", "string", "bool"],
)
def test_fixed_shapes_are_written_flat(values, dtype, kind):
    column = pa.FixedSizeListArray.from_arrays(pa.array([value for row in values for value in row], dtype), 2)

    first, second, none = _examples({"x": column}, [2, 0], [1], [])

    def flat(*rows):
        cells = [value for row in rows for value in values[row]]
        return [cell.encode() if isinstance(cell, str) else cell for cell in cells]

    assert getattr(first["x"], kind).value == flat(2, 0)
    assert getattr(second["x"], kind).value == flat(1)
    assert none["x"].WhichOneof("kind") == kind
    assert "x.d1" not in first


@pytest.mark.parametrize(
    ("values", "dtype", "kind"),
    [
        ([[1.5], [], [8.0, 16.0, 2.0]], pa.float32(), "float_list"),
        ([[-1], [], [300, 4, 5]], pa.int64(), "int64_list"),
        ([["a"], [], ["naïve", "", "c"]], pa.large_string(), "bytes_list"),
    ],
    ids=["float", "int", "string"],
)
@pytest.mark.parametrize("list_type", [pa.list_, pa.large_list])
def test_lists_of_any_size_are_written_with_their_sizes(values, dtype, kind, list_type):
    column = pa.array([[9] if dtype == pa.int64() else values[0], *values], list_type(dtype)).slice(1)

    first, second, none = _examples({"x": column}, [2, 1, 0], [1], [])

    expected = [cell.encode() if isinstance(cell, str) else cell for cell in (*values[2], *values[0])]
    assert getattr(first["x"], kind).value == expected
    assert first["x.d1"].int64_list.value == [3, 0, 1]
    assert second["x.d1"].int64_list.value == [0]
    assert second["x"].WhichOneof("kind") == kind
    assert not none["x.d1"].int64_list.value


def test_integers_of_any_size_stand_beside_columns():
    integers = {"n": (np.array([5, 100_000, 3]), np.array([0, 2, 3]))}

    first, second = _examples({"x": pa.array([1.0], pa.float32())}, [0], [0, 0], integers=integers)

    assert first["n"].int64_list.value == [5, 100_000]
    assert second["n"].int64_list.value == [3]


@pytest.mark.parametrize("dtype", [pa.int64(), pa.uint64()], ids=str)
def test_integers_of_every_length_are_written(dtype):
    largest = 2**63 if dtype == pa.int64() else 2**64
    values = [value for bits in range(65) for value in (2**bits - 1, 2**bits) if value < largest]
    values += [-value for value in values] if dtype == pa.int64() else []

    (example,) = _examples({"x": pa.array(values, dtype)}, range(len(values)))

    as_signed = [value - 2**64 if value >= 2**63 else value for value in values]
    assert example["x"].int64_list.value == as_signed


def test_texts_of_every_length_are_written():
    texts = ["é" * size for size in (0, 1, 63, 64, 8191, 8192)] + ["a" * 127, "a" * 128]

    (example,) = _examples({"x": pa.array(texts, pa.large_string()).slice(1)}, range(len(texts) - 1))

    assert example["x"].bytes_list.value == [text.encode() for text in texts[1:]]


def test_bytes_that_are_no_text_are_written():
    (example,) = _examples({"x": pa.array([b"\xff", b""], pa.large_binary())}, range(2))

    assert example["x"].bytes_list.value == [b"\xff", b""]


def test_a_column_without_rows_is_written_empty():
    columns = {
        "s": pa.array([], pa.large_string()),
        "f": pa.array([], pa.float32()),
        "l": pa.array([], pa.large_list(pa.int64())),
        "v": pa.FixedSizeListArray.from_arrays(pa.array([], pa.float32()), 3),
    }

    (record,) = _examples(columns, [])

    assert {key: value.WhichOneof("kind") for key, value in record.items()} == {
        "s": "bytes_list",
        "f": "float_list",
        "l": "int64_list",
        "l.d1": "int64_list",
        "v": "float_list",
    }


def test_many_values_beside_few_are_written():
    columns = {"many": pa.array(np.arange(-1, 1000)), "few": pa.array(["a"] * 1001), "one": pa.array([2**40] * 1001)}
    encoder = RecordEncoder(columns, ahead=False)

    slices = {"many": _slices(range(1001), [0]), "few": _slices([3], [5, 6]), "one": _slices([], [1])}
    written = encoder.encode(2, slices, {"n": (np.array([300, 2]), np.array([0, 1, 2]))})

    first, second = (tf.train.Example.FromString(record).features.feature for record in written)
    assert first["many"].int64_list.value == list(range(-1, 1000))
    assert (second["many"].int64_list.value, second["one"].int64_list.value) == ([-1], [2**40])
    assert (first["few"].bytes_list.value, second["few"].bytes_list.value) == ([b"a"], [b"a", b"a"])
    assert (first["n"].int64_list.value, second["n"].int64_list.value) == ([300], [2])


def test_records_without_keys_are_empty():
    assert RecordEncoder({}).encode(2, {}, {}) == [b"", b""]

import datetime as dt
import decimal

import pyarrow as pa
import pytest

from tfx_gnn.tables.schema_inference import ColumnEvidence


def _cells(*blocks):
    evidence = ColumnEvidence()
    for block in blocks:
        texts = [None if text is None else text if isinstance(text, bytes) else text.encode() for text in block]
        evidence.add(pa.array(texts, pa.large_binary()), are_cells=True)
    return evidence


@pytest.mark.parametrize(
    ("cells", "dtype"),
    [
        (["1", "-2", "0"], pa.int64()),
        ([str(2**63 - 1), str(-(2**63))], pa.int64()),
        ([str(2**63)], pa.large_string()),
        (["007"], pa.large_string()),
        (["+1"], pa.large_string()),
        (["1", "2.5"], pa.float32()),
        (["1e5", "-.5", "3"], pa.float32()),
        (["2.5", "007"], pa.large_string()),
        (["2.5", "12345678901234567890"], pa.large_string()),
        (["true", "False"], pa.bool_()),
        (["true", "1"], pa.large_string()),
        (["1", "x"], pa.large_string()),
        (["", "1"], pa.large_string()),
        ([b"\xff", "1"], pa.large_string()),
        ([" 1"], pa.large_string()),
        ([None, "4", None], pa.int64()),
    ],
)
def test_cells_are_of_the_type_that_all_of_them_are(cells, dtype):
    together, one_by_one = _cells(cells), _cells(*([cell] for cell in cells))

    assert together.dtype == one_by_one.dtype == dtype
    assert together.shape == ()
    assert (together.num_rows, together.num_missing) == (len(cells), cells.count(None))


def test_numbers_that_are_not_finite_are_counted():
    assert _cells(["1.5", "nan", "inf"], ["1e300"]).num_infinite == 3
    evidence = ColumnEvidence()
    evidence.add(pa.array([1.0, float("nan"), None, 1e300], pa.float64()))
    assert (evidence.num_infinite, evidence.num_missing) == (2, 1)


def test_a_column_without_values_has_no_type():
    assert _cells([None, None]).dtype is None
    assert ColumnEvidence().dtype is None


@pytest.mark.parametrize(
    ("arrays", "dtype"),
    [
        ([pa.array([1], pa.int8())], pa.int8()),
        ([pa.array([1], pa.int8()), pa.array([1], pa.uint16())], pa.int64()),
        ([pa.array([1.0], pa.float64())], pa.float32()),
        ([pa.array([1], pa.int64()), pa.array([1.0], pa.float32())], pa.float32()),
        ([pa.array(["x"])], pa.large_string()),
        ([pa.array([b"x"])], pa.large_string()),
        ([pa.array(["x"]).dictionary_encode()], pa.large_string()),
        ([pa.array([0.5]).dictionary_encode()], pa.float32()),
        ([pa.array([True])], pa.bool_()),
        ([pa.array([dt.date(2020, 1, 1)])], pa.int64()),
        ([pa.array([decimal.Decimal(5)])], pa.int64()),
        ([pa.array([decimal.Decimal("5.1")])], pa.float32()),
        ([pa.array([{"a": 1}])], None),
        ([pa.array(["x"]), pa.array([1])], None),
        ([pa.array([None]), pa.array([1])], pa.int64()),
    ],
)
def test_types_become_those_that_a_feature_has(arrays, dtype):
    evidence = ColumnEvidence()
    for array in arrays:
        evidence.add(array)

    assert evidence.dtype == dtype


@pytest.mark.parametrize(
    ("arrays", "shape"),
    [
        ([pa.array([[1, 2], [3, 4]])], (2,)),
        ([pa.array([[1, 2]]), pa.array([[3]])], (-1,)),
        ([pa.array([[], []], pa.list_(pa.int64()))], (-1,)),
        ([pa.array([[1, 2]], pa.list_(pa.int64(), 2))], (2,)),
        ([pa.array([[1, 2], None], pa.large_list(pa.int64()))], (2,)),
        ([pa.array([[[1, 2, 3]], [[4, 5, 6]]])], (1, 3)),
        ([pa.array([[[1, 2, 3]], [[4, 5]]])], None),
    ],
)
def test_lists_of_one_length_have_a_shape_and_others_any_number_of_values(arrays, shape):
    evidence = ColumnEvidence()
    for array in arrays:
        evidence.add(array)

    assert evidence.dtype == pa.int64()
    assert evidence.shape == shape


@pytest.mark.parametrize("text", ["0x10", "1_000", "+5", "007", "9223372036854775808", "\u0667", " 7", "1,000"])
def test_what_is_read_as_no_number_without_loss_is_inferred_as_text(text):
    evidence = ColumnEvidence()

    evidence.add(pa.array([b"1", text.encode()], pa.large_binary()), are_cells=True)

    assert evidence.dtype == pa.large_string()

import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn.records.example_batches import ExampleDecoder, group_records
from tfx_gnn.records.graph_layout import FeatureColumn
from tfx_gnn.records.value_hashes import by_bucket, hash_items, hash_pairs, hash_values
from tfx_gnn.sampling.random_choice import hash_ids


def test_text_and_numbers_have_the_hashes_of_ids():
    assert (hash_values(pa.array([b"a", b""], pa.large_binary())) == hash_ids(pa.array(["a", ""]))).all()
    assert (hash_values(pa.array([3, -7])) == hash_ids(pa.array([3, -7]))).all()


def test_a_whole_float_is_the_integer_and_other_floats_are_themselves():
    values = [3.0, -7.0, 0.5, -0.5, float("inf"), float("nan"), 2.0**60]

    hashes = hash_values(pa.array(values, pa.float32()))

    assert hashes[:2].tolist() == hash_values(pa.array([3, -7])).tolist()
    assert len(set(hashes.tolist())) == len(values)


def test_pairs_are_ordered():
    ids = hash_values(pa.array([1, 2]))

    assert hash_pairs(ids, ids[::-1])[0] != hash_pairs(ids, ids[::-1])[1]
    assert hash_pairs(ids, ids).tolist() == hash_pairs(ids.copy(), ids).tolist()


@pytest.mark.parametrize(
    ("shape", "lengths", "equal"),
    [((2,), None, [0, 0, 1]), ((None,), [2, 2, 2], [0, 0, 1]), ((None,), [4, 2, 0], [0, 1, 2])],
    ids=["fixed", "ragged", "ragged-with-none"],
)
def test_items_are_equal_where_all_their_values_are(make_record, shape, lengths, equal):
    content = {"nodes/a.#size": [3], "nodes/a.x": [1.0, 2.0, 1.0, 2.0, 2.0, 1.0]}
    if lengths is not None:
        content["nodes/a.x.d1"] = lengths
    (batch,) = ExampleDecoder().decode(0, [make_record(content)]).batches

    hashes = hash_items(batch, FeatureColumn(key="nodes/a.x", name="x", dtype=None, shape=shape), "nodes/a")

    assert np.unique(hashes, return_inverse=True)[1].tolist() in [
        [names[kind] for kind in equal] for names in ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
    ]


def test_records_come_in_pieces_of_bounded_size(monkeypatch):
    monkeypatch.setattr("tfx_gnn.records.example_batches.MAX_RECORDS", 3)
    monkeypatch.setattr("tfx_gnn.records.example_batches.MAX_BYTES", 10)
    records = [b"1", b"2", b"3", b"4", b"5" * 20, b"6" * 9, b"77"]

    pieces = list(group_records(iter(records)))

    assert [(first, len(piece)) for first, piece in pieces] == [(0, 3), (3, 1), (4, 1), (5, 1), (6, 1)]
    assert [record for _, piece in pieces for record in piece] == records


def test_buckets_are_the_highest_bits():
    values = np.array([1, 3 << 62, 2 << 62, (3 << 62) + 5], np.uint64)

    assert {key: rows.tolist() for key, rows in by_bucket(values, 4).items()} == {0: [0], 2: [2], 3: [1, 3]}
    assert {key: rows.tolist() for key, rows in by_bucket(values, 1).items()} == {0: [0, 1, 2, 3]}
    assert by_bucket(np.zeros(0, np.uint64), 4) == {}

"""Padded batches as records."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, NodeSet
from tfx_gnn.training.data.padded_batches import PaddedBatch
from tfx_gnn.training.data.precomputed_batch_records import PrecomputedBatchRecords

NUMBERS = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int8, tf.uint8, tf.int16, tf.int32, tf.uint32, tf.int64)


def make_batch(features, **context):
    graph = GraphTensor.from_pieces(
        context=Context.from_fields(features={name: tf.constant([value] * 2) for name, value in context.items()}),
        node_sets={"a": NodeSet.from_fields(sizes=[1, 2], features=features)},
    )
    return PaddedBatch(graph, tf.constant([True, False]), tf.constant(3, tf.int64), tf.constant(2**40, tf.int64))


def round_trip(batch, spec=None):
    records = PrecomputedBatchRecords(tf.nest.map_structure(tf.type_spec_from_value, batch) if spec is None else spec)
    record, example = records.write(batch)
    assert len(record) == records.num_bytes
    read = tf.function(records.read)
    return records, read(tf.constant(record), tf.constant(example))


def parts_of(batch):
    return tf.nest.flatten(batch, expand_composites=True)


def check_equal(batch, wanted):
    for part, wanted_part in zip(parts_of(batch), parts_of(wanted), strict=True):
        assert part.dtype == wanted_part.dtype
        assert part.shape == wanted_part.shape
        # NaN as well.
        assert part.numpy().tobytes() == wanted_part.numpy().tobytes() or part.dtype == tf.string
        assert part.dtype != tf.string or part.numpy().tolist() == wanted_part.numpy().tolist()


def test_numbers_of_every_dtype_are_kept_to_the_bit():
    features = {dtype.name: tf.cast([[1, 2], [3, 4], [5, 100]], dtype) for dtype in NUMBERS}
    batch = make_batch({**features, "flag": [True, False, True], "odd": [float("nan"), float("inf"), -0.0]}, y=[7, 8])

    records, read = round_trip(batch)

    check_equal(read, batch)
    assert not records.has_example


def test_strings_and_ragged_features_are_kept():
    batch = make_batch(
        {
            "name": [b"", b"\xff\x00", b"long" * 50],
            "names": [[b"a", b"b"], [b"", b"c"], [b"d", b"e"]],
            "words": tf.ragged.constant([[b"x"], [], [b"", b"y"]]),
            "r": tf.RaggedTensor.from_row_splits(tf.cast([1, 2, 3], tf.bfloat16), [0, 0, 3, 3]),
            "flags": tf.ragged.constant([[True], [], [False]]),
            "pairs": tf.RaggedTensor.from_row_splits(tf.constant([[1.0, 2.0]]), [0, 0, 0, 1]),
            "deep": tf.ragged.constant([[[1], []], [], [[2, 3]]]),
        }
    )

    records, read = round_trip(batch)

    check_equal(read, batch)
    assert records.has_example


def test_features_without_values_are_kept():
    batch = make_batch(
        {
            "none": tf.zeros([3, 0]),
            "no_names": tf.zeros([3, 0], tf.string),
            "empty": tf.RaggedTensor.from_row_splits(tf.zeros([0], tf.string), [0, 0, 0, 0]),
            "empty_numbers": tf.RaggedTensor.from_row_splits(tf.zeros([0, 2]), [0, 0, 0, 0]),
        }
    )

    _, read = round_trip(batch)

    check_equal(read, batch)


def test_one_layout_reads_ragged_features_of_any_length():
    short, long = (make_batch({"r": tf.RaggedTensor.from_row_lengths(tf.range(n), [n, 0, 0])}) for n in (1, 9))
    spec = tf.nest.map_structure(tf.type_spec_from_value, short)
    relaxed = tf.RaggedTensorSpec([3, None], tf.int32, row_splits_dtype=tf.int64)

    records = PrecomputedBatchRecords(spec)

    assert spec.graph.node_sets_spec["a"]["r"] == relaxed
    for batch in (short, long):
        check_equal(records.read(*map(tf.constant, records.write(batch))), batch)


def test_each_dtype_begins_where_its_slice_shares_memory():
    batch = make_batch({"a": tf.zeros([3], tf.float64), "b": tf.zeros([3], tf.int8), "c": tf.zeros([3])})

    records, _ = round_trip(batch)

    # bool, float32, float64, int32 (sizes), int64 (counters) and int8, of which each takes less than 64 bytes.
    assert records.num_bytes == 5 * 64 + 3


def test_descriptions_tell_layouts_apart():
    described = [
        PrecomputedBatchRecords(tf.nest.map_structure(tf.type_spec_from_value, make_batch(features))).description
        for features in ({"x": [1, 2, 3]}, {"x": [1.0, 2.0, 3.0]}, {"z": [1, 2, 3]}, {"x": [[1], [2], [3]]})
    ]

    assert len(set(described)) == 4
    assert "nodes/a.x int32 [3]" in described[0]


@pytest.mark.parametrize("wrong", [b"", b"short"])
def test_a_record_of_another_length_is_refused(wrong):
    records = PrecomputedBatchRecords(tf.nest.map_structure(tf.type_spec_from_value, make_batch({"x": [1, 2, 3]})))

    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        records.read(tf.constant(wrong))

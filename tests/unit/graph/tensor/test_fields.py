import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfx_gnn.graph.tensor import fields


def test_values_become_tensors_and_ragged_tensors_stay():
    ragged = tf.ragged.constant([[1], []])

    assert fields.as_field(ragged, "x") is ragged
    assert fields.as_field(np.zeros([2, 3]), "x").shape == [2, 3]


def test_what_is_no_tensor_is_refused():
    with pytest.raises(ValueError, match="`x` must be a tensor or a ragged tensor; got None"):
        fields.as_field(None, "x")


def test_specs_that_are_ragged_in_name_only_become_dense():
    spec = fields.as_field_spec(tf.RaggedTensorSpec([None, 2], tf.int32, ragged_rank=0), "x")

    assert spec == tf.TensorSpec([None, 2], tf.int32)


def test_specs_must_be_specs_of_known_rank():
    with pytest.raises(TypeError, match=r"`x` must be a tf.TensorSpec or tf.RaggedTensorSpec; got list"):
        fields.as_field_spec([1], "x")
    with pytest.raises(ValueError, match="`x` must have a known rank"):
        fields.as_field_spec(tf.TensorSpec(None), "x")


@pytest.mark.parametrize(
    ("field", "rank", "expected"),
    [
        (tf.constant([[1, 2], [3, 4]]), 1, [1, 2, 3, 4]),
        (tf.constant([[[1], [2]], [[3], [4]]]), 1, [[1], [2], [3], [4]]),
        (tf.constant([[[1, 2]], [[3, 4]]]), 2, [1, 2, 3, 4]),
        (tf.ragged.constant([[1], [], [2, 3]]), 1, [1, 2, 3]),
        (tf.ragged.constant([[[1], []], [], [[2, 3]]]), 1, [[1], [], [2, 3]]),
        (tf.ragged.constant([[[1], []], [[2, 3]]]), 2, [1, 2, 3]),
        (tf.RaggedTensor.from_row_lengths(tf.constant([[1, 2], [3, 4]]), [1, 1]), 2, [1, 2, 3, 4]),
        (tf.zeros([2, 3, 0]), 1, [[]] * 6),
        (tf.constant([7]), 0, [7]),
    ],
)
def test_batch_dimensions_merge_into_the_items(run, field, rank, expected):
    merged = run(lambda field: fields.merge_outer_dimensions(field, rank), field)

    values = merged.to_list() if isinstance(merged, tf.RaggedTensor) else merged.numpy().tolist()
    assert values == expected


def test_merging_works_without_static_inner_sizes():
    @tf.function(input_signature=[tf.TensorSpec([None, None, None])])
    def merge(field):
        return fields.merge_outer_dimensions(field, 1)

    assert merge(tf.ones([2, 3, 4])).shape == [6, 4]
    assert merge(tf.ones([2, 3, 0])).shape == [6, 0]


@pytest.mark.parametrize(
    ("field", "rank", "expected"),
    [
        (tf.constant([[1, 2], [3, 4]]), 1, [2, 2]),
        (tf.constant([1, 2, 3]), 0, [3]),
        (tf.ragged.constant([[1], []]), 0, [2]),
        (tf.ragged.constant([[1], [], [2, 3]]), 1, [1, 0, 2]),
        (tf.ragged.constant([[[1], []], [[2, 3]]]), 2, [1, 0, 2]),
        (tf.zeros([2, 1, 4]), 2, [4, 4]),
        (tf.RaggedTensor.from_row_lengths(tf.zeros([3, 5]), [1, 2]), 2, [5, 5, 5]),
    ],
)
def test_items_are_counted_per_graph(run, field, rank, expected):
    counts = run(lambda field: fields.items_per_graph(field, rank, tf.int64), field)

    assert counts.dtype == tf.int64
    assert counts.numpy().tolist() == expected


def test_kinds_of_tensors_are_told_apart():
    assert fields.is_dense_tensor(tf.constant([1]))
    assert not fields.is_dense_tensor(tf.ragged.constant([[1]]))
    assert fields.is_ragged_tensor(tf.ragged.constant([[1]]))
    assert not fields.is_ragged_tensor(3)


def test_batch_dimensions_become_static():
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.RaggedTensorSpec([None, None], tf.int32)])
    def fix(dense, ragged):
        dense = fields.with_batch_shape(dense, tf.TensorShape([3]))
        ragged = fields.with_batch_shape(ragged, tf.TensorShape([3]))
        assert dense.shape == [3, 2]
        assert ragged.shape.as_list() == [3, None]
        return dense, ragged

    dense, ragged = fix(tf.ones([3, 2]), tf.ragged.constant([[1], [], [2]]))

    assert dense.shape == [3, 2]
    assert ragged.to_list() == [[1], [], [2]]


def test_contradicting_batch_dimensions_are_refused():
    with pytest.raises(ValueError, match="Fields batch dimensions do not match"):
        fields.with_batch_shape(tf.ones([2, 2]), tf.TensorShape([3]))
    with pytest.raises(ValueError, match="Field rank must be greater than the batch rank"):
        fields.with_batch_shape(tf.ones([2]), tf.TensorShape([2]))


def test_item_count_becomes_static():
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.RaggedTensorSpec([None, None], tf.int32)])
    def fix(dense, ragged):
        assert fields.with_item_count(dense, 2).shape == [2, 2]
        assert fields.with_item_count(ragged, 2).shape.as_list() == [2, None]

    fix.get_concrete_function()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (tf.TensorSpec([None, 3]), []),
        (tf.TensorSpec([None, 3, None], tf.string), []),
        (tf.TensorSpec([2, None], tf.int64), [[], []]),
        (tf.RaggedTensorSpec([None, None, 2], tf.int32, 1), []),
        (tf.RaggedTensorSpec([2, None, 2], tf.int32, 1, tf.int32), [[], []]),
        (tf.RaggedTensorSpec([2, 2, None], tf.int32, 2, tf.int32), [[[], []], [[], []]]),
        (tf.RaggedTensorSpec([None, 3, None], tf.float32, 2), []),
    ],
)
def test_unknown_dimensions_are_zero(spec, expected):
    field = fields.empty_field(spec)

    assert spec.is_compatible_with(field)
    assert (field.to_list() if isinstance(field, tf.RaggedTensor) else field.numpy().tolist()) == expected


def test_what_must_be_there_is_filled():
    assert fields.empty_field(tf.TensorSpec([2, 1], tf.int32), fill=1).numpy().tolist() == [[1], [1]]
    assert fields.empty_field(tf.TensorSpec([1], tf.int64), fill=0).numpy().tolist() == [0]
    with pytest.raises(ValueError, match=r"must allow a field without values; got non-empty shape \(2, 1\)"):
        fields.empty_field(tf.TensorSpec([2, 1], tf.int32))


def test_items_of_a_component_follow_each_other(run):
    indices = run(lambda sizes: fields.component_indices(sizes, tf.reduce_sum(sizes)), tf.constant([0, 2, 0, 0, 3, 0]))

    assert indices.numpy().tolist() == [1, 1, 4, 4, 4]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), max_size=6), st.sampled_from([tf.int32, tf.int64]))
def test_each_component_occurs_as_often_as_its_size(sizes, dtype):
    indices = fields.component_indices(tf.constant(sizes, dtype, [len(sizes)]), sum(sizes))

    assert indices.dtype == dtype
    assert indices.shape.as_list() == [sum(sizes)]
    assert indices.numpy().tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 5), max_size=6), st.sampled_from([tf.int32, tf.int64]))
def test_each_row_occurs_as_often_as_it_has_values(lengths, dtype):
    values = tf.zeros([sum(lengths), 2])
    ragged = tf.RaggedTensor.from_row_lengths(values, tf.constant(lengths, dtype, [len(lengths)]))

    rows = fields.row_indices(ragged)

    assert rows.dtype == dtype
    assert rows.numpy().tolist() == ragged.value_rowids().numpy().tolist()

import itertools
import types

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

import tfx_gnn.graph as lib
from tfx_gnn.graph.batching.dynamic_batch_sampler import DynamicBatchSampler


def batches(sampler):
    return [batch.tolist() for batch in sampler]


@pytest.mark.parametrize(
    ("sizes", "max_num", "options", "expected", "num_skipped"),
    [
        ([400, 100, 101, 102, 103], 300, {}, [[0], [1, 2], [3, 4]], 0),
        ([2, 100, 3], 5, {"skip_too_big": True}, [[0], [2]], 1),
        ([2, 100, 3], 5, {}, [[0], [1], [2]], 0),
        ([7, 8, 9], 5, {"skip_too_big": True}, [], 3),
        ([0, 0, 3], 2, {}, [[0, 1], [2]], 0),
        ([0, 0, 3], 2, {"skip_too_big": True}, [[0, 1]], 1),
        ([3, 0, 0], 2, {}, [[0], [1, 2]], 0),
        ([2, 3, 1], 5, {}, [[0, 1], [2]], 0),
        ([1, 1, 9, 1], 2, {"num_steps": 2, "skip_too_big": True}, [[0, 1], [3]], 1),
        ([1, 1, 1], 1, {"num_steps": 2}, [[0], [1]], 0),
        ([1, 1], 2**63, {}, [[0, 1]], 0),
        ([], 5, {}, [], 0),
    ],
)
def test_consecutive_examples_are_batched_up_to_a_number(sizes, max_num, options, expected, num_skipped):
    sampler = DynamicBatchSampler(sizes, max_num, **options)

    assert batches(sampler) == expected
    assert batches(sampler) == expected
    assert len(sampler) == len(expected)
    assert sampler.num_skipped == num_skipped


def test_indices_are_numpy_arrays():
    (batch,) = DynamicBatchSampler([1, 2], 3)

    assert isinstance(batch, np.ndarray)
    assert batch.dtype == np.int64


@given(
    sizes=st.lists(st.integers(0, 12), max_size=40),
    max_num=st.integers(1, 15),
    shuffle=st.booleans(),
    skip_too_big=st.booleans(),
)
def test_every_example_is_in_one_batch_that_is_as_long_as_possible(sizes, max_num, shuffle, skip_too_big):
    sampler = DynamicBatchSampler(sizes, max_num, shuffle=shuffle, skip_too_big=skip_too_big, seed=3)
    length = len(sampler)

    found = batches(sampler)

    assert length == len(found)
    wanted = [i for i, size in enumerate(sizes) if size <= max_num or not skip_too_big]
    assert sorted(i for batch in found for i in batch) == wanted
    assert all(len(batch) == 1 or sum(sizes[i] for i in batch) <= max_num for batch in found)
    if not skip_too_big:
        for batch, following in itertools.pairwise(found):
            assert sum(sizes[i] for i in [*batch, following[0]]) > max_num


def test_the_order_depends_on_seed_and_epoch_only():
    first = DynamicBatchSampler([1] * 50, 7, shuffle=True, seed=5)
    epochs = [batches(first) for _ in range(3)]
    resumed = DynamicBatchSampler([1] * 50, 7, shuffle=True, seed=5)
    resumed.epoch = 2

    assert batches(resumed) == epochs[2]
    assert len({str(epoch) for epoch in epochs}) == 3
    assert batches(DynamicBatchSampler([1] * 50, 7, shuffle=True, seed=6)) != epochs[0]
    # Written down: a checkpoint must find the same order in every release.
    assert batches(DynamicBatchSampler([1] * 6, 6, shuffle=True, seed=5)) == [[1, 4, 2, 5, 0, 3]]


def test_the_length_is_that_of_the_next_epoch():
    sampler = DynamicBatchSampler(np.arange(40) % 7, 9, shuffle=True)

    for _ in range(5):
        length = len(sampler)
        assert length == len(batches(sampler))


def test_two_iterations_at_a_time_do_not_disturb_each_other():
    sampler = DynamicBatchSampler([1, 1, 1], 2)

    pairs = list(zip(sampler, sampler, strict=True))

    assert [(one.tolist(), other.tolist()) for one, other in pairs] == [([0, 1], [0, 1]), ([2], [2])]


def graph(num_nodes, num_edges):
    ends = tf.zeros([num_edges], tf.int32)
    return lib.homogeneous(source=ends, target=ends, node_features=tf.zeros([num_nodes, 1]))


@pytest.mark.parametrize(("mode", "expected"), [("node", [[0, 1], [2]]), ("edge", [[0], [1, 2]])])
@pytest.mark.parametrize(
    "make",
    [graph, lambda num_nodes, num_edges: types.SimpleNamespace(num_nodes=num_nodes, num_edges=num_edges)],
    ids=["graph tensors", "examples of another library"],
)
def test_sizes_are_read_from_examples(make, mode, expected):
    examples = [make(1, 4), make(2, 1), make(3, 2)]

    assert batches(DynamicBatchSampler(examples, 4, mode)) == expected


@pytest.mark.parametrize(
    "sizes", [(1, 2), np.array([1, 2], np.uint8), tf.constant([1, 2])], ids=["tuple", "array", "tensor"]
)
def test_sizes_may_come_in_any_sequence(sizes):
    assert batches(DynamicBatchSampler(sizes, 2)) == [[0], [1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], 0), "`max_num` must be a whole number of at least 1; got 0"),
        (([1], 300.0), "`max_num` must be a whole number of at least 1; got 300.0"),
        (([1], 5, "graph"), "`mode` must be 'node' or 'edge'; got 'graph'"),
        (([1], 5, "node", False, False, 0), "`num_steps` must be a whole number of at least 1; got 0"),
        (([1], 5, "node", False, False, None, -1), "`seed` must be a whole number of at least 0; got -1"),
        (([1, -2], 5), "sizes from 0; got -2 at 1"),
        (([1.5], 5), "one integer for each example; got an array of dtype=float64"),
        (([True], 5), "one integer for each example"),
        (([[1, 2]], 5), "must hold numbers, scalar graphs, or examples with `num_nodes`; got list at 0"),
        (([2**62, 2**62, 2**62], 5), "sum is below"),
    ],
)
def test_unsuitable_arguments_are_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        DynamicBatchSampler(*arguments)

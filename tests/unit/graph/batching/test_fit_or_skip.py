import math

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn.graph as lib
from tfx_gnn.graph.batching.size_checks import satisfies_size_constraints
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.batching.size_search import learn_fit_or_skip_size_constraints

RANDOM = np.random.default_rng(1)


def make_dataset(a, b=None):
    """Graphs whose node sets "a" and "b" have the given numbers of nodes."""
    table = np.stack([np.asarray(a), np.zeros_like(a) if b is None else np.asarray(b)], axis=1).astype(np.int32)

    def graph(sizes):
        return lib.GraphTensor.from_pieces(
            node_sets={
                "a": lib.NodeSet.from_fields(sizes=sizes[:1]),
                "b": lib.NodeSet.from_fields(sizes=sizes[1:]),
            }
        )

    return tf.data.Dataset.from_tensor_slices(table).map(graph)


@pytest.mark.parametrize(("batch_size", "ratio", "quantile"), [(100, 0.99, 2.326), (400, 0.999, 3.09), (100, 0.5, 0.0)])
def test_the_budget_is_the_quantile_of_the_batch_sum(batch_size, ratio, quantile):
    dataset = make_dataset(np.arange(20_000) % 2)

    learned = learn_fit_or_skip_size_constraints(dataset, batch_size, success_ratio=ratio, sample_size=20_000)

    normal_limit = batch_size / 2 + quantile * math.sqrt(batch_size) / 2
    assert learned.total_num_nodes["a"] == pytest.approx(normal_limit, abs=1.5)
    assert learned.total_num_nodes["b"] == 0
    assert learned.total_num_components == batch_size + 1


def test_certain_success_means_the_largest_drawn_batch():
    learned = learn_fit_or_skip_size_constraints(make_dataset([3, 3, 3], [1, 5, 2]), 1, sample_size=300)

    assert learned == SizeConstraints(2, {"a": 3, "b": 5}, {})


def test_sizes_that_do_not_vary_keep_their_maximum():
    learned = learn_fit_or_skip_size_constraints(
        make_dataset([4] * 100, np.arange(100)), 1, success_ratio=0.9, sample_size=100, num_thresholds=100
    )

    assert learned.total_num_nodes == {"a": 4, "b": 89}


def test_the_optimum_of_one_size_is_found_exactly():
    sizes = np.arange(1000)

    learned = learn_fit_or_skip_size_constraints(make_dataset(sizes), 1, success_ratio=0.75, sample_size=1000)

    assert learned.total_num_nodes["a"] == 749


def test_the_ratio_is_reached_jointly():
    dataset = make_dataset(RANDOM.poisson(5, 2000), RANDOM.poisson(20, 2000))

    learned = learn_fit_or_skip_size_constraints(dataset, 8, success_ratio=0.9, sample_size=2000)

    batches = dataset.repeat().shuffle(2000, seed=3).batch(8).take(400)
    share = np.mean([bool(satisfies_size_constraints(batch, learned)) for batch in batches])
    assert share == pytest.approx(0.9, abs=0.05)


def test_lists_of_batch_sizes_and_ratios_give_nested_lists():
    dataset = make_dataset(RANDOM.integers(0, 9, 200))
    learn = learn_fit_or_skip_size_constraints

    nested = learn(dataset, [1, 4], success_ratio=[0.5, 1.0], sample_size=200)
    by_batch = learn(dataset, [1, 4], success_ratio=1.0, sample_size=200)
    by_ratio = learn(dataset, 4, success_ratio=(0.5, 1.0), sample_size=200)

    assert [[one.total_num_components for one in row] for row in nested] == [[2, 2], [5, 5]]
    assert by_batch == [nested[0][1], nested[1][1]]
    assert by_ratio == nested[1]
    assert nested[1][0].total_num_nodes["a"] < nested[1][1].total_num_nodes["a"]


def test_the_demand_makes_room_and_is_carried_along():
    learned = learn_fit_or_skip_size_constraints(
        make_dataset([2, 2]), 3, min_nodes_per_component={"a": 2}, sample_size=10
    )

    assert learned == SizeConstraints(4, {"a": 8, "b": 0}, {}, {"a": 2})


def test_an_infinite_dataset_is_sampled_and_results_repeat():
    dataset = make_dataset(RANDOM.integers(0, 9, 50)).repeat()

    first, second = (learn_fit_or_skip_size_constraints(dataset, 4, success_ratio=0.9, sample_size=100) for _ in "ab")

    assert first == second


def test_constraints_are_near_those_of_the_oracle(oracle):
    sizes = RANDOM.poisson(10, 3000).astype(np.int32)

    def learn(library):
        def graph(size):
            return library.GraphTensor.from_pieces(node_sets={"a": library.NodeSet.from_fields(sizes=size)})

        dataset = tf.data.Dataset.from_tensor_slices(sizes[:, np.newaxis]).map(graph)
        return library.learn_fit_or_skip_size_constraints(dataset, 10, success_ratio=0.95, sample_size=3000)

    ours, theirs = learn(lib), learn(oracle)

    assert ours.total_num_components == theirs.total_num_components
    assert ours.total_num_nodes["a"] == pytest.approx(theirs.total_num_nodes["a"], abs=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, r"The `batch_size` must be positive; got \[0\]"),
        ({"batch_size": []}, "The `batch_size` must be positive"),
        ({"batch_size": 1.5}, r"Expected `batch_size` of type int or List\[int\]; got 1\.5"),
        ({"batch_size": [1.5]}, "Expected `batch_size` of type int"),
        ({"batch_size": "2"}, "Expected `batch_size` of type int"),
        ({"success_ratio": ["all"]}, r"Expected `success_ratio` of type float or List\[float\]"),
        ({"success_ratio": -0.1}, r"The `success_ratio` must be between 0 and 1; got \[-0\.1\]"),
        ({"success_ratio": [0.5, 1.1]}, "The `success_ratio` must be between 0 and 1"),
        ({"sample_size": 0}, "The `sample_size` must be positive"),
        ({"num_thresholds": 0}, "The `num_thresholds` must be positive"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        learn_fit_or_skip_size_constraints(**{"dataset": make_dataset([1]), "batch_size": 1, **arguments})


def test_an_empty_dataset_is_refused():
    with pytest.raises(ValueError, match="`dataset` must hold at least one graph; got none"):
        learn_fit_or_skip_size_constraints(make_dataset([1]).take(0), 1)


def test_only_graphs_are_measured():
    with pytest.raises(ValueError, match="element of dataset must be GraphTensor"):
        learn_fit_or_skip_size_constraints(tf.data.Dataset.range(3), 1)

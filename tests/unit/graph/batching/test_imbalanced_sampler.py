import itertools

import numpy as np
import pytest

from tfx_gnn.graph.batching.imbalanced_sampler import ImbalancedSampler

LABELS = [0] * 10 + [1] * 30 + [2] * 60


def test_an_example_weighs_the_inverse_of_its_class():
    weights = ImbalancedSampler(LABELS).weights

    assert weights.dtype == np.float64
    assert weights.tolist() == [1 / 10] * 10 + [1 / 30] * 30 + [1 / 60] * 60


def test_classes_are_drawn_equally_often_and_examples_of_a_class_too():
    drawn = ImbalancedSampler(LABELS, num_samples=90_000).indices(0)

    # 30,000 draws of each class, and 5 standard deviations of a binomial: sqrt(90,000 * 1/3 * 2/3) = 141.
    by_class = np.bincount(np.array(LABELS)[drawn])
    assert np.all(np.abs(by_class - 30_000) < 5 * 141)
    by_example = np.bincount(drawn, minlength=100)
    expected = np.array([3000] * 10 + [1000] * 30 + [500] * 60)
    # Chi-square with 99 degrees of freedom: mean 99, standard deviation 14.
    assert np.sum((by_example - expected) ** 2 / expected) < 99 + 5 * 14


def test_unknown_labels_are_never_drawn():
    sampler = ImbalancedSampler([-1, 4, -1, 9, 9], num_samples=2000)

    assert sampler.weights.tolist() == [0.0, 1.0, 0.0, 0.5, 0.5]
    assert set(sampler) == {1, 3, 4}
    assert len(ImbalancedSampler([-1, 4, -1, 9, 9])) == 3


@pytest.mark.parametrize("input_nodes", [[1, 2, 4], np.array([False, True, True, False, True])], ids=["ids", "mask"])
def test_input_nodes_are_drawn_by_their_position(input_nodes):
    sampler = ImbalancedSampler([0, 1, 1, 0, 0], input_nodes, num_samples=300)

    assert sampler.weights.tolist() == [0.5, 0.5, 1.0]
    assert set(sampler) == {0, 1, 2}


def test_the_draws_depend_on_seed_and_epoch_only():
    sampler = ImbalancedSampler(LABELS, seed=4)
    epochs = [list(sampler) for _ in range(3)]
    resumed = ImbalancedSampler(LABELS, seed=4)
    resumed.epoch = 2

    assert list(resumed) == epochs[2]
    assert len({str(epoch) for epoch in epochs}) == 3
    assert list(ImbalancedSampler(LABELS, seed=5)) != epochs[0]
    assert [len(epoch) for epoch in epochs] == [100] * 3
    # Written down: a checkpoint must find the same draws in every release.
    assert list(itertools.islice(ImbalancedSampler(LABELS, seed=4), 5)) == [21, 2, 3, 11, 29]


def test_there_is_no_limit_of_two_to_the_24th():
    labels = np.zeros(2**24 + 2, np.int8)
    labels[-1] = 1

    drawn = ImbalancedSampler(labels, num_samples=1000).indices(0)

    assert 400 < np.count_nonzero(drawn == 2**24 + 1) < 600
    assert np.count_nonzero(drawn > 2**23) > 650


def test_labels_may_be_bools_or_a_column():
    assert ImbalancedSampler([True, False, True]).weights.tolist() == [0.5, 1.0, 0.5]
    assert ImbalancedSampler(np.array([[1], [0], [1]])).weights.tolist() == [0.5, 1.0, 0.5]
    assert ImbalancedSampler([10**6, 0, 10**6]).weights.tolist() == [0.5, 1.0, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([-1, -1],), "`labels` must have a class other than -1; got 2 examples"),
        (([],), "`labels` must hold one integer for each example; got dtype=float64"),
        (([0.5, 1.0],), "`labels` must hold one integer for each example"),
        (([0, -2],), "`labels` must be at least -1; got -2 at 1"),
        (([0, 1], None, 0), "`num_samples` must be a whole number of at least 1; got 0"),
        (([0, 1], [2]), r"`input_nodes` must lie in \[0, 2\), the number of labels; got 2"),
        (([0, 1], [True]), "`input_nodes` must hold indices, or a bool for each of 2 labels"),
        (([0, 1], []), "`labels` must have a class other than -1; got 0 examples"),
        (([0, 1], None, None, -3), "`seed` must be a whole number of at least 0; got -3"),
    ],
)
def test_unsuitable_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ImbalancedSampler(*arguments)

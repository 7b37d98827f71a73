import itertools

import numpy as np
import pytest

from tfx_gnn.components.size_constraint_learner.fit_or_skip_budget import BatchDraws, find_cheapest_caps
from tfx_gnn.components.size_constraint_learner.size_summary import SplitSummary, sample_graphs


def test_caps_are_quantiles_if_there_is_one_size():
    sums = np.arange(1, 101)[:, np.newaxis]

    assert find_cheapest_caps(sums, 0.9).tolist() == [90]
    assert find_cheapest_caps(sums, 1.0).tolist() == [100]


def test_the_size_that_costs_most_is_cut_first():
    # Four batches in a hundred are large in the first set, four others in the second, ten times as large there.
    sums = np.full([100, 2], 10)
    sums[:4, 0] = 20
    sums[4:8, 1] = 110

    assert find_cheapest_caps(sums, 0.96).tolist() == [20, 10]
    assert find_cheapest_caps(sums, 0.92).tolist() == [10, 10]


def test_sets_that_are_large_together_are_lost_together():
    sums = np.full([100, 3], 10)
    sums[:5] = 50

    assert find_cheapest_caps(sums, 0.95).tolist() == [10, 10, 10]
    assert find_cheapest_caps(sums, 0.96).tolist() == [50, 50, 50]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("success_ratio", [0.5, 0.8])
def test_caps_are_close_to_the_best_of_all_choices(seed, success_ratio):
    random = np.random.default_rng(seed)
    sums = random.integers(0, 12, [20, 3]) * np.array([1, 2, 5])
    choices = itertools.product(*(np.unique(column) for column in sums.T))
    best = min(sum(caps) for caps in choices if (sums <= np.array(caps)).all(axis=1).mean() >= success_ratio)

    caps = find_cheapest_caps(sums, success_ratio)

    assert (sums <= caps).all(axis=1).mean() >= success_ratio
    assert best <= caps.sum() <= 1.12 * best


def test_success_on_other_draws_is_the_exact_one():
    # Half of the graphs have 1 item, the others 3: a batch of 4 with k large ones has 4 + 2k items, and k is
    # binomial. P(k <= 3) = 15/16, P(k <= 2) = 11/16. Drawn without replacement from many graphs.
    sizes = np.array([[1], [3]] * 5000, np.int32)
    caps = find_cheapest_caps(BatchDraws.enough(sizes, 4, seed=1).sums(), 0.9)

    other = BatchDraws.enough(sizes, 4, seed=2).sums()

    assert caps.tolist() == [10]
    assert (other <= caps).mean() == pytest.approx(15 / 16, abs=0.002)
    assert (other <= 8).mean() == pytest.approx(11 / 16, abs=0.004)


def test_joint_success_of_two_sets_is_the_exact_one():
    # Of two graphs, each with sizes (1, 1), (1, 2), (2, 1) or (2, 2), both sums are at most 3 in 9 of 16 cases.
    sizes = np.array([[1, 1], [1, 2], [2, 1], [2, 2]] * 2000, np.int32)

    sums = BatchDraws.enough(sizes, 2, seed=3).sums()

    assert (sums <= 3).all(axis=1).mean() == pytest.approx(9 / 16, abs=0.004)


def test_draws_take_each_graph_equally_often_and_none_twice_in_a_batch():
    sizes = np.arange(10, dtype=np.int32)[:, np.newaxis]
    draws = BatchDraws(sizes, 5, 40, seed=0)

    members = np.concatenate(list(draws.members()))

    assert members.shape == (40, 5)
    assert np.bincount(members.ravel()).tolist() == [20] * 10
    assert all(len(set(batch)) == 5 for batch in members.tolist())
    assert draws.sums()[:, 0].tolist() == members.sum(axis=1).tolist()


def test_a_batch_may_be_larger_than_the_data():
    draws = BatchDraws(np.array([[2], [4]], np.int32), 4, 3, seed=0)

    assert draws.sums().tolist() == [[12], [12], [12]]


def test_graphs_stand_for_as_many_as_there_are(monkeypatch):
    rows = np.array([[1, 0, 0]] * 6 + [[5, 0, 0]] * 2, np.int32)
    summary = SplitSummary.of_graphs(rows, np.arange(8, dtype=np.uint64), {})

    assert sample_graphs(summary).sizes[:, 0].tolist() == [1] * 6 + [5] * 2
    assert sample_graphs(summary, 0).sizes[:, 0].tolist() == [1] * 3 + [5]
    monkeypatch.setattr("tfx_gnn.components.size_constraint_learner.size_summary.MAX_GRAPHS", 4)
    some = sample_graphs(summary)
    assert some.sizes[:, 0].tolist() == [1] * 3 + [5]
    assert some.weight == 2.0

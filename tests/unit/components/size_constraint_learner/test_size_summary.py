import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.components.size_constraint_learner import size_summary
from tfx_gnn.components.size_constraint_learner.size_summary import (
    SizeSummary,
    SplitSummary,
    merge_size_summaries,
    merge_split_summaries,
    read_summary,
    write_summary,
)

# Sizes of three sets, label class, degree bucket. The third set is tied to the first.
ROWS = np.array([[1, 0, 1, 7, 2], [4, 3, 4, 7, 2], [1, 0, 1, 7, 2], [5, 8, 5, 6, 0]], np.int32)
HASHES = np.array([20, 11, 20, 30], np.uint64)


def summary_of(rows, hashes):
    return SplitSummary.of_graphs(np.asarray(rows, np.int32), np.asarray(hashes, np.uint64), {2: 0})


def test_totals_are_exact_and_distinct_rows_are_counted_by_half():
    summary = summary_of(ROWS, HASHES)

    assert summary.num_graphs == 4
    assert summary.totals.tolist() == [11, 11, 11]
    assert (summary.minima.tolist(), summary.maxima.tolist()) == ([1, 0, 1], [5, 8, 5])
    assert summary.is_tied.tolist() == [False, False, True]
    assert summary.rows.tolist() == [[1, 0, 1, 7, 2], [4, 3, 4, 7, 2], [5, 8, 5, 6, 0]]
    # Graphs with odd hashes are the second half.
    assert summary.counts.tolist() == [[2, 0], [0, 1], [1, 0]]


def test_histograms_count_sizes_between_powers_of_two():
    histograms = summary_of([[size, 0, 0, 0, 0] for size in (0, 1, 2, 3, 4, 7, 8)], range(7)).histograms

    # 0; 1; 2 and 3; 4 to 7; 8 to 15
    assert histograms[0, :6].tolist() == [1, 1, 2, 2, 1, 0]
    assert histograms.sum(axis=1).tolist() == [7, 7, 7]


def test_the_sample_holds_the_graphs_of_smallest_hash(monkeypatch):
    monkeypatch.setattr(size_summary, "SAMPLE_SIZE", 3)

    summary = summary_of(ROWS, HASHES)

    assert summary.sample_hashes.tolist() == [11, 20, 20]
    assert summary.sample_rows.tolist() == [ROWS[1].tolist(), ROWS[0].tolist(), ROWS[2].tolist()]


def test_too_many_distinct_rows_leave_the_sample_alone(monkeypatch):
    monkeypatch.setattr(size_summary, "MAX_DISTINCT", 2)

    summary = summary_of(ROWS, HASHES)

    assert summary.rows is None
    assert summary.counts is None
    assert len(summary.sample_rows) == 4


def test_a_set_is_tied_only_if_it_is_in_every_part():
    tied, loose = summary_of([[2, 0, 2, 0, 0]], [1]), summary_of([[2, 0, 1, 0, 0]], [2])

    assert not merge_split_summaries([tied, loose]).is_tied[2]


graphs = st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(0, 2**40))


@given(
    parts=st.lists(st.lists(graphs, min_size=1, max_size=6), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
    limit=st.sampled_from([2, 5, 1000]),
)
def test_parts_may_be_merged_in_any_order_and_grouping(parts, order, limit):
    def summary(part):
        # A record has one content: equal hashes mean equal rows, but for a collision.
        return SizeSummary(
            splits={"train": summary_of([[a, b, a, a % 2, b % 3] for a, b, _ in part], [h for *_, h in part])}
        )

    flat = [graph for part in parts for graph in part]
    shuffled = order.sample(flat, len(flat))
    cut = order.randint(0, len(flat))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(size_summary, "MAX_DISTINCT", limit)
        patch.setattr(size_summary, "SAMPLE_SIZE", limit)
        at_once = summary(flat)
        merged = merge_size_summaries(summary(part) for part in parts)
        nested = merge_size_summaries(
            merge_size_summaries(summary([graph]) for graph in piece) for piece in (shuffled[:cut], shuffled[cut:])
        )

    assert merged == at_once
    assert nested == at_once


def test_splits_stay_apart_and_the_first_problem_is_kept():
    train, val = (
        SizeSummary(splits={"train": summary_of(ROWS, HASHES)}),
        SizeSummary(splits={"val": summary_of(ROWS[:1], [1])}),
    )

    merged = merge_size_summaries([val, SizeSummary(problem="b"), train, SizeSummary(problem="a")])

    assert list(merged.splits) == ["train", "val"]
    assert merged.splits["val"].num_graphs == 1
    assert merged.problem == "a"
    assert merge_size_summaries([]) == SizeSummary()


@pytest.mark.parametrize("limit", [2, 1000])
def test_what_is_written_is_read_back(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(size_summary, "MAX_DISTINCT", limit)
    summary = SizeSummary(splits={"train": summary_of(ROWS, HASHES), "val": summary_of(ROWS[:1], [1])}, problem="none")
    path = str(tmp_path / "summary.npz")

    write_summary(summary, path)

    assert read_summary(path) == summary
    assert read_summary(path) != dataclasses.replace(summary, problem="")

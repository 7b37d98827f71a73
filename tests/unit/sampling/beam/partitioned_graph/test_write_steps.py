"""Summaries of degrees."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.sampling.beam.partitioned_graph.write_steps import DegreeSummary, MergeDegrees, summarize_degrees


def test_degrees_are_counted_between_powers_of_two_and_the_largest_are_named() -> None:
    summary = summarize_degrees(np.array([50, 40, 30, 20], np.uint64), np.array([1, 3, 4, 4]))

    assert summary.histogram == (1, 1, 2)
    assert summary.top == ((4, 20), (4, 30), (3, 40), (1, 50))
    assert summary.num_nodes == 4


def test_no_nodes_have_an_empty_summary() -> None:
    assert MergeDegrees().create_accumulator() == DegreeSummary(histogram=(), top=())
    assert MergeDegrees().merge_accumulators([]).num_nodes == 0


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=40), st.integers(0, 40))
def test_summaries_of_parts_make_that_of_the_whole(degrees: list[int], cut: int) -> None:
    codes, counts = np.arange(len(degrees)).astype(np.uint64), np.array(degrees)

    merged = MergeDegrees().create_accumulator()
    for part in (slice(0, cut), slice(cut, None)):
        if len(codes[part]):
            merged = MergeDegrees().add_input(merged, summarize_degrees(codes[part], counts[part]))

    assert MergeDegrees().extract_output(merged) == summarize_degrees(codes, counts)

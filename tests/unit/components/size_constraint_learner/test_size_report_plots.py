from __future__ import annotations

import re

import pytest

from tfx_gnn.components.size_constraint_learner.size_report import is_heavy_tailed, size_histogram


def _drawn(sizes, room=None, main_split="train"):
    return size_histogram(sizes, room or {}, main_split=main_split, identity="x", title="a <b> & c")


@pytest.fixture(scope="module")
def made_sizes(size_constraints_by_hand):
    return size_constraints_by_hand.made_sizes


def _texts(drawing):
    return re.findall(r"<text[^>]*>([^<]+)</text>", drawing)


def test_bars_are_shares_of_graphs_over_doubling_sizes(made_sizes):
    drawing = _drawn({"train": made_sizes([1, 1, 1, 4])})

    # From 1, the smallest size, to 8; 75% and 25% of the graphs.
    assert _texts(drawing) == ["1", "2", "4", "8", "0%", "20%", "40%", "60%"]


def test_a_heavy_tail_is_drawn_on_a_logarithmic_axis(made_sizes):
    sizes = {"train": made_sizes([1] * 999 + [64])}

    assert is_heavy_tailed(sizes)
    assert not is_heavy_tailed({"train": made_sizes([1] * 999 + [7])})
    assert [text for text in _texts(_drawn(sizes)) if "%" in text] == ["0.1%", "1%", "10%", "100%"]


def test_an_axis_reaches_as_far_as_the_room_of_a_budget(made_sizes):
    assert _texts(_drawn({"train": made_sizes([1])}, {"tight": 9.0}))[:5] == ["1", "2", "4", "8", "16"]


@pytest.mark.parametrize("sizes", [[0], [0, 0, 0], [5000], [1, 100_000]])
def test_few_and_extreme_sizes_are_drawn(sizes, made_sizes):
    drawing = _drawn({"train": made_sizes(sizes), "val": made_sizes([0])}, {"packing": 0.0, "tight": max(sizes)})

    assert drawing.startswith("<svg ")
    assert drawing.endswith("</svg>")


def test_colours_are_the_pages_and_split_by_split(made_sizes):
    drawing = _drawn({"val": made_sizes([1]), "train": made_sizes([1])}, {"packing": 1.5})

    assert "stroke: var(--series-0)" in drawing
    assert "fill: var(--series-1)" in drawing
    assert "var(--ink)" in drawing
    assert "#0" not in drawing
    assert "DejaVu" not in drawing


def test_the_title_is_for_those_who_do_not_see_the_drawing(made_sizes):
    drawing = _drawn({"train": made_sizes([1])})

    assert 'role="img" aria-labelledby="x-title"' in drawing
    assert '<title id="x-title">a &lt;b&gt; &amp; c</title>' in drawing
    assert all(name.startswith("x-") for name in re.findall(r' id="([^"]+)"', drawing))

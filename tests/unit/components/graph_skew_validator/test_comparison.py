from __future__ import annotations

import numpy as np
import pytest

from tfx_gnn.components.graph_skew_validator.comparison import (
    FLOAT,
    INTEGER,
    STRING,
    STRUCTURE,
    FeatureComparison,
    GraphComparison,
    RecordPlace,
)

PLACES = [RecordPlace(split="val", file="f.gz", record=record, id=f"seed{record}") for record in range(3)]


def flat_graph(**changes):
    """Three graphs of 2, 0 and 3 papers, whose words are ragged."""
    graph = {
        "context/#size": np.ones(3, np.int64),
        "nodes/paper.#size": np.array([2, 0, 3]),
        "nodes/paper.x": np.array([0.5, 1.5, -2.0, np.nan, 1e8]),
        "nodes/paper.point": np.arange(10.0).reshape(5, 2),
        "nodes/paper.kind": np.array([1, 2, 3, 4, 2**62]),
        "nodes/paper.#id": np.array([b"a", b"b", b"c", b"d", b"\xff"], object),
        "nodes/paper.words": np.array([7, 8, 9], np.int64),
        "nodes/paper.words.splits1": np.array([0, 1, 1, 3, 3, 3]),
        "edges/cites.#size": np.array([1, 0, 2]),
        "edges/cites.#source": np.array([0, 2, 3]),
        "edges/cites.#target": np.array([1, 4, 4]),
    }
    return {**graph, **changes}


def compare(training, served):
    comparison = GraphComparison()
    comparison.compare_sizes(training, served, PLACES)
    comparison.compare(training, served, PLACES)
    return comparison, {feature.key: feature for feature in comparison.features}


def changed(key, index, value):
    values = flat_graph()[key].copy()
    values[index] = value
    return flat_graph(**{key: values})


def test_equal_graphs_have_no_difference():
    comparison, features = compare(flat_graph(), flat_graph())

    assert set(features) == set(flat_graph()) - {"nodes/paper.words.splits1"}
    assert all(feature.is_within(0.0) for feature in features.values())
    assert {feature.largest_difference for feature in features.values()} == {0.0}
    assert (features["nodes/paper.x"].num_values, features["nodes/paper.x"].num_nan) == (5, 1)
    assert features["nodes/paper.point"].num_values == 10
    assert (comparison.only_in_training, comparison.only_served) == (set(), set())
    assert {feature.kind for feature in features.values()} == {FLOAT, INTEGER, STRING, STRUCTURE}
    assert features["edges/cites.#source"].kind == STRUCTURE


@pytest.mark.parametrize(
    ("key", "change", "largest", "place", "words"),
    [
        ("nodes/paper.x", (2, -2.25), 0.25, (2, 0), "-2 in training, -2.25 when served"),
        ("nodes/paper.x", (3, 1.0), np.inf, (2, 1), "nan in training, 1 when served"),
        ("nodes/paper.x", (0, np.inf), np.inf, (0, 0), "0.5 in training, inf when served"),
        ("nodes/paper.point", ((1, 1), 3.5), 0.5, (0, 1), "3 in training, 3.5 when served"),
        ("nodes/paper.kind", (1, 3), 1.0, (0, 1), "2 in training, 3 when served"),
        ("nodes/paper.kind", (4, 2**62 + 1), 1.0, (2, 2), "4611686018427387904 in training, 4611686018427387905"),
        ("nodes/paper.#id", (3, b"e"), 1.0, (2, 1), "'d' in training, 'e' when served"),
        ("nodes/paper.words", (2, 10), 1.0, (2, 0), "9 in training, 10 when served"),
        ("edges/cites.#source", (1, 4), 2.0, (2, 0), "2 in training, 4 when served"),
    ],
)
def test_changed_value_is_found_where_it_is(key, change, largest, place, words):
    _, features = compare(flat_graph(), changed(key, *change))
    found = features.pop(key)
    record, item = place

    assert (found.num_differing, found.largest_difference) == (1, largest)
    assert (found.example, found.item) == (PLACES[record].text(), item)
    assert words in found.text()
    assert not found.is_within(1e-6)
    assert all(feature.is_within(0.0) for feature in features.values())


def test_floats_may_differ_a_little_and_integers_not_at_all():
    _, features = compare(flat_graph(), changed("nodes/paper.x", 1, 1.5 + 0.75e-6))

    assert features["nodes/paper.x"].is_within(1e-6)
    assert not features["nodes/paper.x"].is_within(0.5e-6)
    assert features["nodes/paper.x"].largest_relative_difference == pytest.approx(0.5e-6, rel=1e-5)

    _, features = compare(flat_graph(), changed("nodes/paper.kind", 1, 3))
    assert not features["nodes/paper.kind"].is_within(10.0)


def test_largest_of_several_batches_is_kept():
    comparison = GraphComparison()
    for value in (0.6, 0.9, 0.7):
        comparison.compare(flat_graph(), changed("nodes/paper.x", 0, value), PLACES)
    (x,) = [feature for feature in comparison.features if feature.key == "nodes/paper.x"]

    assert (x.num_values, x.num_differing, x.num_nan, x.served) == (15, 3, 3, "0.9")
    assert x.largest_difference == pytest.approx(0.4)


def test_row_of_another_length_is_found_and_its_values_have_no_counterpart():
    served = flat_graph(**{"nodes/paper.words.splits1": np.array([0, 1, 1, 2, 3, 3])})

    _, features = compare(flat_graph(), served)
    words = features["nodes/paper.words"]

    assert (words.num_rows_of_other_length, words.num_without_counterpart, words.num_values) == (2, 3, 0)
    assert (words.example, words.item) == (PLACES[2].text(), 0)
    assert not words.is_within(1.0)
    assert "2 rows have another number of values; 3 values have no counterpart; 2 values in training, 1 values" in (
        words.text()
    )


def test_other_dtype_or_shape_cannot_be_compared():
    for value in (np.arange(5), np.arange(15.0).reshape(5, 3)):
        _, features = compare(flat_graph(), flat_graph(**{"nodes/paper.point": value}))
        point = features["nodes/paper.point"]

        assert point.num_without_counterpart == max(10, value.size)
        assert point.training == "float64[5, 2]"
        assert not point.is_within(np.inf)


def test_keys_of_one_side_are_told():
    served = flat_graph(**{"nodes/paper.new": np.zeros(5)})
    del served["nodes/paper.kind"]

    comparison, _ = compare(flat_graph(), served)

    assert (comparison.only_in_training, comparison.only_served) == ({"nodes/paper.kind"}, {"nodes/paper.new"})


def test_graphs_of_another_size_are_named():
    comparison = GraphComparison()
    served = flat_graph(**{"edges/cites.#size": np.array([1, 1, 1])})

    equal = comparison.compare_sizes(flat_graph(), served, PLACES)

    assert equal.tolist() == [True, False, False]
    (cites,) = [feature for feature in comparison.features if feature.num_differing]
    assert (cites.key, cites.num_differing, cites.example) == ("edges/cites.#size", 2, PLACES[1].text())


def test_items_are_found_in_sets_whose_names_have_dots():
    def graph(value):
        return {
            "nodes/a.#size": np.array([1, 1, 0]),
            "nodes/a.b.#size": np.array([0, 2, 3]),
            "nodes/a.b.x": np.array([0, 0, 0, value, 0]),
        }

    _, features = compare(graph(0), graph(1))

    assert (features["nodes/a.b.x"].example, features["nodes/a.b.x"].item) == (PLACES[2].text(), 1)


def test_scale_divides_differences():
    comparison = FeatureComparison("logits", FLOAT)

    comparison.add(
        np.array([[1.0, 200.0]]), np.array([[1.0, 201.0]]), lambda row: (f"row {row}", -1), np.array([[200.0]])
    )

    assert comparison.result.largest_difference == pytest.approx(0.005)
    assert comparison.result.example == "row 0"

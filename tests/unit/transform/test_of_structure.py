"""Features and statistics that depend on sizes and edges."""

import numpy as np
import pytest

from tfx_gnn.transform.application import SavedGraphTransform


@pytest.fixture(scope="module")
def of_several_sets(transform_star, tmp_path_factory):
    return transform_star(tmp_path_factory.mktemp("several"), preprocessing_fn="star_graph:features_of_several_sets")


@pytest.fixture(scope="module")
def train(of_several_sets, read_examples):
    return read_examples(of_several_sets.transformed_examples_dir, "train")


def test_every_occurrence_counts_as_sampled(transform_star, read_examples, tmp_path):
    star = transform_star(tmp_path, preprocessing_fn="star_graph:statistics_of_occurrences", analyze="as_sampled")

    train = read_examples(star.transformed_examples_dir, "train")
    val = read_examples(star.transformed_examples_dir, "val")
    # The hub's 100 in 10 of 28 occurrences; sizes are 10 and nine times 2; the hub has nine edges or one.
    np.testing.assert_allclose(train[0]["context/mean"], [1000 / 28], rtol=1e-6)
    np.testing.assert_allclose([content["context/size"][0] for content in train[:2]], [7.2, -0.8], rtol=1e-6)
    np.testing.assert_allclose(train[0]["nodes/item.degree"], [1.0] + [0.0] * 9)
    np.testing.assert_allclose(train[1]["nodes/item.degree"], [0.0, 1 / 9], rtol=1e-6)
    assert val[0]["nodes/item.degree"] == [0.0]


def test_operations_on_graphs_make_features(train, star_graph):
    hub = train[0]

    assert hub["nodes/item.degree"] == [9] + [0] * 9
    assert hub["nodes/item.year"] == [2000] * 10
    assert hub["nodes/item.pairs_of_neighbours"] == [45.0, 450.0] + [0.0] * 18
    assert hub["nodes/item.heaviest"] == [18.0] + [0.0] * 9
    assert hub["nodes/item.num_words"] == [len(words) for words in star_graph.WORDS]
    assert hub["edges/link.difference"] == [-100.0] * 9


def test_statistics_beside_them_still_count_every_item_once(train):
    # Ten nodes, one of 100: mean 10, variance 900.
    np.testing.assert_allclose(train[0]["nodes/item.value"], [3.0] + [-1 / 3] * 9, rtol=1e-6)
    np.testing.assert_allclose(train[1]["context/total"], [90.0], rtol=1e-6)
    np.testing.assert_allclose(train[0]["edges/link.weight"], np.arange(1, 10) / 9, rtol=1e-6)


def test_graphs_do_not_mix_and_empty_sets_stay_empty(read_examples, of_several_sets):
    stranger, hub = read_examples(of_several_sets.transformed_examples_dir, "val")

    assert stranger["nodes/item.year"] == [2001]
    assert stranger["nodes/item.heaviest"] == [0.0]
    assert stranger["edges/link.difference"] == []
    assert hub["nodes/item.year"] == [2000] * 10


def test_no_graph_is_in_the_signature_of_what_is_saved(of_several_sets, star_graph):
    transform = SavedGraphTransform(of_several_sets.transform_graph_dir)

    names = ("degree", "heaviest", "num_words", "pairs_of_neighbours", "value", "year")
    assert transform.transformed_keys == (
        "context/total",
        "edges/link.difference",
        "edges/link.weight",
        "nodes/_readout.color",
        *(f"nodes/item.{name}" for name in names),
    )

"""Statistics of the star graph's items, before and after its transform."""

import apache_beam as beam
import numpy as np
import pytest
import tensorflow_data_validation as tfdv
from google.protobuf import text_format

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.records.examples_folder import record_files
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.transform.shards import TransformFiles
from tfx_gnn.transform.statistics import WriteItemStatistics
from tfx_gnn.transform.unique_items import REPRESENTATIVES, SUMMARIES, UniqueItems


def statistics(transformed_star, star_graph, folder, splits, *, as_sampled=False):
    """Features by key, before and after the transform, by split."""
    layout = graph_layout(text_format.Parse(star_graph.SCHEMA, graph_schema_pb2.GraphSchema()))
    files = record_files(transformed_star.examples_dir)
    with make_pipeline() as pipeline:
        counted = (
            pipeline
            | "Analyzed" >> beam.Create([file for file in files if file.split in splits])
            | UniqueItems(layout, (), summarizes=True, as_sampled=as_sampled, num_buckets=2)
        )
        _ = counted[SUMMARIES] | "Before" >> WriteItemStatistics(str(folder / "before"), splits)
        transformed = (
            pipeline
            | beam.Create(files)
            | TransformFiles(
                transformed_star.transform_graph_dir,
                str(folder / "examples"),
                pipeline | "Written" >> beam.Create([None]),
                representatives=counted[REPRESENTATIVES],
                summarized_splits=splits,
                as_sampled=as_sampled,
            )
        )
        _ = transformed[SUMMARIES] | "After" >> WriteItemStatistics(str(folder / "after"), splits)
    found = {}
    for name in ("before", "after"):
        for split in splits:
            content = tfdv.load_stats_binary(str(folder / name / f"Split-{split}" / "FeatureStats.pb"))
            found[name, split] = {feature.path.step[0]: feature for feature in content.datasets[0].features}
            found[name, split]["num_examples"] = content.datasets[0].num_examples
    return found


@pytest.fixture(scope="module")
def found(transformed_star, star_graph, tmp_path_factory):
    return statistics(transformed_star, star_graph, tmp_path_factory.mktemp("statistics"), ("train", "val"))


def test_a_hub_counts_once_before_the_transform(found):
    values = found["before", "train"]["nodes/item.value"].num_stats

    assert (values.mean, values.min, values.max, values.num_zeros) == (10.0, 0.0, 100.0, 9)
    assert values.std_dev == pytest.approx(30.0)
    assert (values.common_stats.num_non_missing, values.common_stats.num_missing) == (10, 0)
    assert (values.common_stats.min_num_values, values.common_stats.max_num_values) == (1, 1)
    assert found["before", "train"]["num_examples"] == 10


def test_every_feature_is_there(found, star_graph, transformed_star):
    before, after = found["before", "train"], found["after", "train"]

    assert set(before) == {
        "num_examples", "context/year", "nodes/_readout.color", "edges/link.#id", "edges/link.weight",
        *(f"nodes/item.{name}" for name in ("#id", "value", "pair", "words", "words.d1", "boxes", "boxes.d2")),
    }  # fmt: skip
    assert set(after) == {
        "num_examples", "context/year", "nodes/_readout.color", "edges/link.weight", "edges/link.mean",
        *(f"nodes/item.{name}" for name in ("mean", "offset", "pair", "id", "degree")),
        *(f"nodes/item.{name}" for name in ("words", "words.d1", "boxes", "boxes.d1", "boxes.d2")),
    }  # fmt: skip
    words = before["nodes/item.words"].string_stats
    assert words.common_stats.tot_num_values == sum(map(len, star_graph.WORDS))
    assert {value.value: value.frequency for value in words.top_values}["hub"] == 3
    assert before["nodes/item.#id"].string_stats.unique == 10


def test_a_scaled_feature_has_mean_0_and_deviation_1_afterwards(found):
    after = found["after", "train"]

    offset = after["nodes/item.offset"].num_stats
    assert (offset.mean, offset.min, offset.max) == (pytest.approx(0.0), -10.0, 90.0)
    pair = after["nodes/item.pair"].num_stats
    assert (pair.mean, pair.common_stats.min_num_values) == (pytest.approx(0.0, abs=1e-6), 2)
    # Ids were all different, so each position in their vocabulary is there once.
    ids = after["nodes/item.id"].num_stats
    assert (ids.min, ids.max, ids.mean) == (0.0, 9.0, 4.5)
    assert after["edges/link.mean"].num_stats.common_stats.num_non_missing == 9


def test_items_without_identity_count_in_each_example(found):
    assert found["before", "train"]["nodes/_readout.color"].string_stats.common_stats.num_non_missing == 10
    assert found["after", "train"]["nodes/_readout.color"].num_stats.mean == pytest.approx(0.1)
    assert found["before", "train"]["context/year"].num_stats.mean == 2000.0


def test_features_of_the_structure_are_those_of_the_first_subgraph(found, star_graph):
    # The first record is the hub's, so that all nodes are first seen there: the hub has nine leaves.
    degree = found["after", "train"]["nodes/item.degree"].num_stats

    assert (degree.mean, degree.max) == (pytest.approx(0.9), 9.0)


def test_an_item_belongs_to_the_first_split(found):
    # All but the stranger are in "train" already.
    assert found["before", "val"]["nodes/item.value"].num_stats.mean == 110.0
    assert found["after", "val"]["nodes/item.offset"].num_stats.common_stats.num_non_missing == 1
    assert "edges/link.weight" not in found["before", "val"]
    assert found["before", "val"]["num_examples"] == 2


def test_every_occurrence_counts_as_sampled(transformed_star, star_graph, tmp_path):
    found = statistics(transformed_star, star_graph, tmp_path, ("train",), as_sampled=True)

    mean = np.mean([100.0] * 10 + [0.0] * 18)
    assert found["before", "train"]["nodes/item.value"].num_stats.mean == pytest.approx(mean)
    assert found["after", "train"]["nodes/item.offset"].num_stats.mean == pytest.approx(mean - 10.0)
    assert found["before", "train"]["edges/link.weight"].num_stats.common_stats.num_non_missing == 18

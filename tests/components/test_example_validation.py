"""What GraphExampleValidator writes is what stock tools write and read."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
from tensorflow_data_validation.utils import anomalies_util, display_util
from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.types import artifact_utils, channel_utils, standard_artifacts
from tfx_bsl.coders import example_coder

from tfx_gnn.components import (
    ExamplesBlessingArtifact,
    GraphExampleValidator,
    GraphExampleValidatorOptions,
    GraphSchemaArtifact,
    artifacts,
    parameters,
)
from tfx_gnn.graph.schema import schema_io as graph_schema_io
from tfx_gnn.records import read_split, write_split_shard
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.transform.feature_preparations import Drop, ZScore
from tfx_gnn_pipelines.config import quickstart
from tfx_gnn_pipelines.task import load_task

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT64 } } }
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "color" value { dtype: DT_STRING } }
    features { key: "weight" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
node_sets { key: "_readout" value { features { key: "topic" value { dtype: DT_STRING } } } }
edge_sets { key: "link" value { source: "item" target: "item" } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""


def record(rng: np.random.Generator, number: int, shift: float) -> bytes:
    """A graph of some items, each linked to the first; `shift` moves the weights."""
    size = int(rng.integers(1, 6))
    lengths = rng.integers(0, 3, size)
    texts = {
        "nodes/item.#id": [f"{number}-{item}" for item in range(size)],
        "nodes/item.color": rng.choice(["red", "blue", "green", "grün"], size, p=[0.6, 0.2, 0.1, 0.1]).tolist(),
        "nodes/item.words": ["w"] * int(lengths.sum()),
        "nodes/_readout.topic": [f"topic{number % 2}"],
    }
    ints = {
        "context/year": [1990 + number % 7],
        "nodes/item.#size": [size],
        "nodes/item.words.d1": lengths.tolist(),
        "nodes/_readout.#size": [1],
        "edges/link.#size": [size - 1],
        "edges/link.#source": list(range(1, size)),
        "edges/link.#target": [0] * (size - 1),
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }
    example = tf.train.Example()
    for key, values in texts.items():
        example.features.feature[key].bytes_list.value.extend(value.encode() for value in values)
    for key, values in ints.items():
        example.features.feature[key].int64_list.value.extend(values)
    weights = (rng.normal(size=2 * size) + shift).astype(np.float32)
    example.features.feature["nodes/item.weight"].float_list.value.extend(weights.tolist())
    return example.SerializeToString()


def write_span(folder: Path, seed: int, shift: float) -> str:
    rng = np.random.default_rng(seed)
    for split, count in (("train", 300), ("val", 100)):
        records = [record(rng, number + 1000 * (split == "val"), shift) for number in range(count)]
        for shard in range(2):
            write_split_shard(str(folder), split, shard, 2, records[shard::2])
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    return str(folder)


def run_executor(folder: Path, examples_dir: str, baseline: Any = None) -> dict[str, Any]:
    """Runs the executor; gives the artifacts it wrote."""
    executor = importlib.import_module("tfx_gnn.components.graph_example_validator.executor")
    examples, schema = standard_artifacts.Examples(), GraphSchemaArtifact()
    examples.uri = schema.uri = examples_dir
    examples.span = 7
    outputs = {
        "statistics": standard_artifacts.ExampleStatistics(),
        "anomalies": standard_artifacts.ExampleAnomalies(),
        "blessing": ExamplesBlessingArtifact(),
    }
    for name, artifact in outputs.items():
        artifact.uri = str(folder / name)
    options = GraphExampleValidatorOptions(label_features=("topic",), max_jensen_shannon_drift=0.2)
    executor.Executor(
        base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=["--direct_running_mode=in_memory"])
    ).Do(
        {"examples": [examples], "graph_schema": [schema], **({"baseline_statistics": [baseline]} if baseline else {})},
        {name: [artifact] for name, artifact in outputs.items()},
        parameters.to_exec_properties(options),
    )
    return outputs


@pytest.fixture(scope="module")
def first_span(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    examples_dir = write_span(folder / "examples", seed=1, shift=0.0)
    return examples_dir, run_executor(folder, examples_dir)


@pytest.fixture(scope="module")
def second_span(tmp_path_factory, first_span):
    """A span whose weights have moved, against the first one."""
    folder = tmp_path_factory.mktemp("second")
    examples_dir = write_span(folder / "examples", seed=2, shift=2.0)
    return examples_dir, run_executor(folder, examples_dir, first_span[1]["statistics"])


@pytest.fixture(scope="module")
def tfmd_schema(first_span) -> schema_pb2.Schema:
    return make_tfmd_schema(graph_layout(graph_schema_io.read_schema(f"{first_span[0]}/graph_schema.pbtxt")))


def by_key(statistics: statistics_pb2.DatasetFeatureStatisticsList) -> dict[str, Any]:
    (dataset,) = statistics.datasets
    return {feature.path.step[0]: feature for feature in dataset.features}


def test_artifacts_are_marked_as_stock_components_mark_them(first_span):
    _, outputs = first_span

    assert artifact_utils.decode_split_names(outputs["statistics"].split_names) == ["train", "val"]
    assert outputs["statistics"].span == 7
    assert artifact_utils.decode_split_names(outputs["anomalies"].split_names) == ["train", "val"]
    assert outputs["anomalies"].get_json_value_custom_property("blessed") == {"train": 1, "val": 1}
    assert outputs["blessing"].get_int_custom_property("blessed") == 1
    assert outputs["blessing"].get_string_custom_property("examples") == first_span[0]


def test_a_stock_component_reads_the_statistics_of_each_split(first_span):
    statistics = first_span[1]["statistics"]

    counts = {split: stats_artifact_utils.load_statistics(statistics, split).proto() for split in ("train", "val")}

    assert {split: found.datasets[0].num_examples for split, found in counts.items()} == {"train": 300, "val": 100}


def test_statistics_are_those_that_tensorflow_data_validation_computes(first_span):
    examples_dir, outputs = first_span
    records = list(read_split(examples_dir, "train").as_numpy_iterator())
    batch = example_coder.ExamplesToRecordBatchDecoder().DecodeBatch(records)
    expected = by_key(tfdv.statistics.stats_impl.generate_statistics_in_memory(batch, tfdv.StatsOptions()))

    ours = by_key(tfdv.load_stats_binary(f"{outputs['statistics'].uri}/Split-train/FeatureStats.pb"))

    assert ours.keys() == expected.keys()
    for key, feature in ours.items():
        kind = feature.WhichOneof("stats")
        assert kind == expected[key].WhichOneof("stats")
        assert feature.type == expected[key].type
        stats, wanted = getattr(feature, kind), getattr(expected[key], kind)
        for name in ("num_non_missing", "num_missing", "min_num_values", "max_num_values", "tot_num_values"):
            assert getattr(stats.common_stats, name) == getattr(wanted.common_stats, name), (key, name)
        assert stats.common_stats.avg_num_values == pytest.approx(wanted.common_stats.avg_num_values)
        if kind == "num_stats":
            for name in ("mean", "std_dev", "num_zeros", "min", "max"):
                assert getattr(stats, name) == pytest.approx(getattr(wanted, name), rel=1e-6, abs=1e-6), (key, name)
            assert stats.median == pytest.approx(wanted.median, abs=0.05)
            for histogram, other in zip(stats.histograms, wanted.histograms, strict=True):
                assert histogram.type == other.type
                assert sum(bucket.sample_count for bucket in histogram.buckets) == pytest.approx(
                    stats.common_stats.tot_num_values
                )
        else:
            assert stats.unique == wanted.unique
            assert stats.avg_length == pytest.approx(wanted.avg_length)
            frequencies = {item.value: item.frequency for item in stats.top_values}
            if stats.unique <= 20:
                assert frequencies == {item.value: item.frequency for item in wanted.top_values}


def test_statistics_of_whole_examples_have_no_anomaly_for_stock_tools(first_span, tfmd_schema):
    statistics = tfdv.load_stats_binary(f"{first_span[1]['statistics'].uri}/Split-train/FeatureStats.pb")

    anomalies = tfdv.validate_statistics(statistics, tfmd_schema)

    assert not anomalies.anomaly_info


def test_a_page_shows_the_statistics_of_graphs_beside_those_of_features(first_span):
    statistics = tfdv.load_stats_binary(f"{first_span[1]['statistics'].uri}/Split-train/FeatureStats.pb")

    page = display_util.get_statistics_html(statistics)

    assert "facets-overview" in page
    custom = {item.name for feature in statistics.datasets[0].features for item in feature.custom_stats}
    assert {"in_degree", "out_degree_mean", "isolated_nodes", "dangling_edges"} <= custom


def test_drift_is_what_tensorflow_data_validation_measures(first_span, second_span, tfmd_schema):
    earlier, current = (
        tfdv.load_stats_binary(f"{outputs['statistics'].uri}/Split-train/FeatureStats.pb")
        for _, outputs in (first_span, second_span)
    )
    weight = tfdv.get_feature(tfmd_schema, "nodes/item.weight")
    weight.drift_comparator.jensen_shannon_divergence.threshold = 0.2
    weight.drift_comparator.jensen_shannon_divergence.source.type = schema_pb2.HistogramSelection.QUANTILES
    tfdv.get_feature(tfmd_schema, "nodes/item.color").drift_comparator.infinity_norm.threshold = 0.3

    theirs = tfdv.validate_statistics(current, tfmd_schema, previous_statistics=earlier)
    ours = anomalies_util.load_anomalies_binary(f"{second_span[1]['anomalies'].uri}/Split-train/SchemaDiff.pb")

    drifts = {info.path.step[0]: info.drift_measurements[0] for info in ours.drift_skew_info}
    for info in theirs.drift_skew_info:
        found = drifts[info.path.step[0]]
        assert found.type == info.drift_measurements[0].type
        assert found.value == pytest.approx(info.drift_measurements[0].value, abs=1e-6)
        assert found.threshold == info.drift_measurements[0].threshold
    assert len(theirs.drift_skew_info) == 2
    assert list(theirs.anomaly_info) == ["'nodes/item.weight'"] == list(ours.anomaly_info)
    (found,), (expected,) = ours.anomaly_info.values(), theirs.anomaly_info.values()
    assert found.path == expected.path
    assert found.severity == anomalies_pb2.AnomalyInfo.WARNING
    assert second_span[1]["blessing"].get_int_custom_property("blessed") == 1


def test_stock_tools_show_the_anomalies(second_span):
    anomalies = anomalies_util.load_anomalies_binary(f"{second_span[1]['anomalies'].uri}/Split-train/SchemaDiff.pb")

    frame = display_util.get_anomalies_dataframe(anomalies)

    (name,) = frame.index
    assert "nodes/item.weight" in name
    assert "Jensen-Shannon divergence" in frame["Anomaly long description"].iloc[0]


def test_baseline_is_optional_and_at_most_one():
    assert artifacts.optional_uri(None) == artifacts.optional_uri([]) == ""
    with pytest.raises(ValueError, match="2"):
        artifacts.optional_uri([standard_artifacts.ExampleStatistics()] * 2)


@pytest.mark.parametrize("has_baseline", [True, False])
def test_component_takes_statistics_of_an_earlier_span(has_baseline):
    component = GraphExampleValidator(
        examples=channel_utils.as_channel([standard_artifacts.Examples()]),
        graph_schema=channel_utils.as_channel([GraphSchemaArtifact()]),
        baseline_statistics=(
            channel_utils.as_channel([standard_artifacts.ExampleStatistics()]) if has_baseline else None
        ),
        options=GraphExampleValidatorOptions(inductive=True, severities={"skew": "off"}),
    )

    assert ("baseline_statistics" in component.inputs) is has_baseline
    assert component.exec_properties["inductive"] == "true"
    assert component.exec_properties["severities"] == '{"skew": "off"}'
    assert parameters.from_exec_properties(GraphExampleValidatorOptions, component.exec_properties).inductive is True


def test_what_no_feature_reads_may_change(tiny_project, tmp_path):
    features = {"nodes/paper": {"score": Drop()}, "nodes/author": {"age": ZScore()}}
    task = dataclasses.replace(load_task("tiny_project.task:TASK"), preprocessing_fn="", features=features)

    assert quickstart(task, root=str(tmp_path)).graph_example_validator.unstable_features == ("nodes/paper.score",)

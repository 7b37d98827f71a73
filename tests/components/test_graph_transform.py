"""GraphTransform's executor on two spans of a graph, whose statistics it keeps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_data_validation as tfdv
import tensorflow_transform as tft
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.types import channel_utils, standard_artifacts

from tfx_gnn.components import GraphSchemaArtifact, GraphTransform, GraphTransformOptions, artifacts, parameters
from tfx_gnn.components.graph_transform import executor
from tfx_gnn.records import examples_folder
from tfx_gnn_pipelines.assembly import build_components

SCHEMA = """
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "value" value { dtype: DT_FLOAT } } } }
"""


def preprocessing_fn(graph):
    """A mean over all spans."""
    value = graph.node_sets["item"]["value"]
    return graph.replace_features(node_sets={"item": {"value": value - tft.mean(value)}})


OPTIONS = GraphTransformOptions(preprocessing_fn=f"{__name__}:preprocessing_fn")


def write_span(folder, items):
    """One example in split "train", with items by id."""
    example = tf.train.Example()
    feature = example.features.feature
    feature["nodes/item.#size"].int64_list.value.append(len(items))
    feature["nodes/item.#id"].bytes_list.value.extend(name.encode() for name in items)
    feature["nodes/item.value"].float_list.value.extend(items.values())
    examples_folder.write_split_shard(str(folder), "train", 0, 1, [example.SerializeToString()])
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """Artifacts by output; the later span is given first."""
    folder = tmp_path_factory.mktemp("spans")
    spans = []
    for span, items in ((7, {"hub": 100.0, "b": 20.0}), (3, {"hub": 100.0, "a": 0.0})):
        write_span(folder / f"span{span}", items)
        examples = standard_artifacts.Examples()
        examples.uri, examples.span = str(folder / f"span{span}"), span
        spans.append(examples)
    schema = GraphSchemaArtifact()
    schema.uri = spans[0].uri
    component = GraphTransform(
        examples=channel_utils.as_channel(spans),
        graph_schema=channel_utils.as_channel([schema]),
        options=OPTIONS,
        keep_analyzer_cache=True,
    )
    written = {}
    for name, channel in component.outputs.items():
        artifact = channel.type()
        artifact.uri = str(folder / name)
        written[name] = [artifact]
    executor.Executor().Do({"examples": spans, "graph_schema": [schema]}, written, dict(component.exec_properties))
    return {name: artifact for name, (artifact,) in written.items()}


def test_statistics_are_of_all_spans_and_the_last_one_is_transformed(outputs):
    transformed = outputs["transformed_examples"]

    (record,) = examples_folder.read_split(transformed.uri, "train").as_numpy_iterator()

    # The hub, a and b have the mean 40.
    values = tf.train.Example.FromString(record).features.feature["nodes/item.value"].float_list.value
    assert list(values) == [60.0, -20.0]
    assert transformed.span == 7
    assert transformed.get_string_custom_property(artifacts.FILE_FORMAT_PROPERTY) == "tfrecords_gzip"


@pytest.mark.parametrize(("name", "mean"), [("pre_transform_stats", 60.0), ("post_transform_stats", 20.0)])
def test_stock_tools_read_the_statistics_of_the_last_span(outputs, name, mean):
    assert outputs[name].span == 7

    statistics = stats_artifact_utils.load_statistics(outputs[name], "train")

    assert (
        tfdv.get_feature_stats(statistics.proto().datasets[0], tfdv.FeaturePath(["nodes/item.value"])).num_stats.mean
        == mean
    )


def test_the_cache_has_an_entry_a_span(outputs):
    assert len(list(Path(outputs["updated_analyzer_cache"].uri).iterdir())) == 2


def test_no_cache_is_kept_unless_asked_for():
    examples, schema = standard_artifacts.Examples(), GraphSchemaArtifact()
    component = GraphTransform(
        examples=channel_utils.as_channel([examples]), graph_schema=channel_utils.as_channel([schema]), options=OPTIONS
    )

    assert "updated_analyzer_cache" not in component.outputs
    assert parameters.TABLES_FINGERPRINT in component.exec_properties
    assert component.exec_properties["tables_dir"] == component.exec_properties["tables_fingerprint"] == ""


def test_tables_are_hashed(tmp_path):
    (tmp_path / "graph_schema.pbtxt").write_text('node_sets { key: "item" value { metadata { filename: "a.csv" } } }')
    (tmp_path / "a.csv").write_text("id\nhub\n")

    def fingerprint():
        component = GraphTransform(
            examples=channel_utils.as_channel([standard_artifacts.Examples()]),
            graph_schema=channel_utils.as_channel([GraphSchemaArtifact()]),
            options=GraphTransformOptions(preprocessing_fn=OPTIONS.preprocessing_fn, analyze="tables"),
            tables_dir=str(tmp_path),
        )
        return component.exec_properties["tables_fingerprint"]

    before = fingerprint()
    (tmp_path / "a.csv").write_text("id\nhub\nb\n")

    assert len(parameters.tables_contents({"tables_fingerprint": before})) == 64
    assert fingerprint() != before


@pytest.mark.parametrize("analyze", ["unique_items", "tables"])
def test_pipelines_give_it_the_tables_that_it_analyzes(tiny_config, analyze):
    options = dataclasses.replace(tiny_config.graph_transform, analyze=analyze)
    config = dataclasses.replace(tiny_config, graph_transform=options)

    components = {component.id: component for component in build_components(config)}

    sampled_from = components["SubgraphExampleGen"].exec_properties
    given = components["GraphTransform"].exec_properties
    for name in ("tables_dir", "tables_fingerprint"):
        assert sampled_from[name]
        assert given[name] == (sampled_from[name] if analyze == "tables" else "")

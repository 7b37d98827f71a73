"""The preprocessing of the quickstart's task, traced on the graph that its plan samples."""

from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_transform as tft
from tfx_bsl.public import tfxio

import tfx_gnn_pipelines
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.transform.preprocessing import analyzed_keys, tensor_preprocessing_fn
from tfx_gnn_pipelines.tasks.debian_sections.plan import PLAN
from tfx_gnn_pipelines.tasks.debian_sections.preprocessing import preprocessing_fn

DATA_DIR = str(Path(tfx_gnn_pipelines.__file__).parent / "tasks" / "debian_sections" / "data")


@pytest.fixture(scope="module")
def layout():
    return graph_layout(make_subgraph_schema(read_tables_schema(DATA_DIR), PLAN))


@pytest.fixture(scope="module")
def type_specs(layout):
    schema = make_tfmd_schema(layout)
    return tfxio.TFExampleBeamRecord(physical_format="tfrecord", schema=schema).TensorAdapter().TypeSpecs()


@pytest.fixture(scope="module")
def outputs(layout, type_specs):
    """Features after the transform, as dtypes and shapes of one item."""
    found = {}

    def traced(tensors):
        results = tensor_preprocessing_fn(preprocessing_fn, layout)(tensors)
        found.update({key: (value.dtype, value.shape[2:].as_list()) for key, value in results.items()})
        return results

    tft.get_transform_input_columns(traced, type_specs)
    structure = {key for one_set in layout.sets for key in one_set.structure_keys}
    return {key: found[key] for key in found if key not in structure}


def test_every_feature_is_a_number_or_an_index(outputs):
    assert {key: value for key, value in outputs.items() if key.startswith("nodes/")} == {
        "nodes/_readout.section": (tf.int64, []),
        "nodes/maintainer.maintainer_id": (tf.int64, []),
        "nodes/maintainer.numbers": (tf.float32, [1]),
        "nodes/package.multi_arch": (tf.int64, []),
        "nodes/package.numbers": (tf.float32, [5]),
        "nodes/package.package_id": (tf.int64, []),
        "nodes/package.priority": (tf.int64, []),
        "nodes/source.format": (tf.int64, []),
        "nodes/source.numbers": (tf.float32, [4]),
        "nodes/source.source_id": (tf.int64, []),
        "nodes/source.standards_version": (tf.int64, []),
        "nodes/tag.facet": (tf.int64, []),
        "nodes/tag.tag_id": (tf.int64, []),
    }
    edges = {key: value for key, value in outputs.items() if key.startswith("edges/")}
    assert edges["edges/depends.numbers"] == (tf.float32, [3])
    assert {(key.rpartition(".")[2], dtype) for key, (dtype, _) in edges.items()} == {("numbers", tf.float32)}


def test_nothing_that_gives_the_section_away_is_read(layout, type_specs):
    wrapped = tensor_preprocessing_fn(preprocessing_fn, layout)

    read = set(tft.get_transform_input_columns(wrapped, type_specs))

    assert [key for key in layout.features if "section" in key] == ["nodes/_readout.section"]
    # All that is sampled is used, but for the row numbers of edges.
    unused = set(layout.features) - read
    assert all(key.startswith("edges/") and key.endswith(".#id") for key in unused)


def test_statistics_are_taken_of_nodes_alone(layout, type_specs):
    keys = analyzed_keys(tensor_preprocessing_fn(preprocessing_fn, layout), type_specs)

    assert keys
    assert all(key.startswith("nodes/") for key in keys)

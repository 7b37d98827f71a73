"""The quickstart's own data and plan: facts about the data, and nothing that gives the answer away."""

import hashlib
from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf

import tfx_gnn_pipelines
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.schema import schema_io as graph_schema
from tfx_gnn.graph.schema import schema_validation
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.records import examples_folder
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn_pipelines.tasks.debian_sections.plan import PLAN

DATA_DIR = str(Path(tfx_gnn_pipelines.__file__).parent / "tasks" / "debian_sections" / "data")


@pytest.fixture(scope="module")
def tables():
    return read_tables(DATA_DIR, extra_columns={"package": ["split"]})


@pytest.fixture(scope="module")
def generated(tmp_path_factory):
    examples_dir = str(tmp_path_factory.mktemp("debian") / "examples")
    options = SubgraphExampleGenOptions(plan=PLAN)
    report = generate_subgraph_examples(tables_dir=DATA_DIR, examples_dir=examples_dir, options=options)
    statistics = report.statistics
    return examples_dir, statistics


def test_every_table_is_read_whole(tables):
    assert {name: table.num_nodes for name, table in tables.node_tables.items()} == {
        "maintainer": 370,
        "package": 3013,
        "source": 1649,
        "tag": 447,
    }
    assert {name: table.num_edges for name, table in tables.edge_tables.items()} == {
        "breaks": 180,
        "build_depends": 5839,
        "built_from": 3013,
        "conflicts": 76,
        "depends": 9505,
        "enhances": 25,
        "maintained_by": 3013,
        "recommends": 1166,
        "replaces": 173,
        "suggests": 847,
        "tagged": 6745,
    }
    assert len(set(tables.node_tables["package"].features["section"].to_pylist())) == 53


def test_the_split_column_follows_from_the_name(tables):
    packages = tables.node_tables["package"]

    def split_of(name):
        bucket = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 10
        return "train" if bucket < 8 else "val" if bucket == 8 else "test"

    assert packages.extra_columns["split"].to_pylist() == [split_of(name) for name in packages.ids.to_pylist()]


def test_every_package_has_one_subgraph_of_moderate_size(generated):
    _, statistics = generated

    assert statistics.num_subgraphs == {"test": 290, "train": 2380, "val": 343}
    assert 30 < statistics.all_nodes.mean < 150
    assert statistics.all_nodes.max < 600


def test_labels_are_at_the_readout_alone(generated):
    examples_dir, _ = generated

    schema = graph_schema.read_schema(examples_folder.graph_schema_path(examples_dir))
    schema_validation.validate_schema(schema)
    holders = {
        (name, feature) for _, name, feature, _ in graph_schema.iter_features(schema) if feature in ("section", "split")
    }
    assert holders == {("_readout", "section")}


def test_no_subgraph_shows_the_tags_of_its_seed(generated):
    examples_dir, _ = generated
    spec = {"sources": tf.io.RaggedFeature(tf.int64, value_key="edges/tagged.#source")}

    shown = 0
    for split in examples_folder.split_names(examples_dir):
        records = examples_folder.read_split(examples_dir, split).batch(4096).get_single_element()
        sources = tf.io.parse_example(records, spec)["sources"]
        assert not tf.reduce_any(sources.values == 0)
        shown += int(sources.flat_values.shape[0])
    assert shown > 1000


def test_labels_of_the_records_are_those_of_the_table(generated, tables):
    examples_dir, _ = generated
    spec = {
        "ids": tf.io.RaggedFeature(tf.string, value_key="nodes/package.#id"),
        "nodes/_readout.section": tf.io.FixedLenFeature([], tf.string),
    }

    found = {}
    for split in examples_folder.split_names(examples_dir):
        records = examples_folder.read_split(examples_dir, split).batch(4096).get_single_element()
        parsed = tf.io.parse_example(records, spec)
        seeds = tf.gather(parsed["ids"].values, parsed["ids"].row_starts()).numpy()
        found.update(zip(seeds.tolist(), parsed["nodes/_readout.section"].numpy().tolist(), strict=True))

    packages = tables.node_tables["package"]
    expected = zip(packages.ids.to_pylist(), packages.features["section"].to_pylist(), strict=True)
    assert found == {name.encode(): section.encode() for name, section in expected}
    assert Counter(found.values())[b"libs"] == 395


def test_the_records_of_a_split_merge_into_one_graph(generated):
    examples_dir, statistics = generated
    schema = graph_schema.read_schema(examples_folder.graph_schema_path(examples_dir))
    records = examples_folder.read_split(examples_dir, "val").batch(343).get_single_element()

    graph = parse_and_merge(create_graph_spec_from_schema_pb(schema), records)

    assert int(graph.num_components) == statistics.num_subgraphs["val"] == 343
    assert graph.node_sets["_readout"]["section"].shape == [343]
    # Each readout node belongs to the first package of its subgraph.
    sizes = graph.node_sets["package"].sizes
    firsts = tf.cumsum(sizes, exclusive=True)
    tf.debugging.assert_equal(graph.edge_sets["_readout/seed"].adjacency.source, firsts)
    tf.debugging.assert_equal(graph.edge_sets["_readout/seed"].adjacency.target, tf.range(343))

import os
import shutil

import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_transform.tf_metadata import schema_utils

from tfx_gnn.components.graph_schema_gen.options import GraphSchemaGenOptions
from tfx_gnn.components.graph_schema_gen.stage import generate_graph_schema
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.records.tfmd_schema import read_tfmd_schema

SCHEMA = """
node_sets { key: "a" value { features { key: "x" value { dtype: DT_FLOAT } } } }
edge_sets { key: "e" value { source: "a" target: "a" } }
info { graph_type: SUBGRAPH }
"""
EXAMPLE = {
    "nodes/a.#size": [2],
    "nodes/a.x": [1.0, 2.0],
    "edges/e.#size": [1],
    "edges/e.#source": [0],
    "edges/e.#target": [1],
}


@pytest.fixture
def generate(tmp_path, write_examples):
    """Runs the stage on splits of examples; gives the graph schema and the folder of the standard one."""

    def run(contents, schema=None, **options):
        examples_dir = write_examples(str(tmp_path / "examples"), contents, schema)
        written = generate_graph_schema(
            examples_dir=examples_dir,
            graph_schema_dir=str(tmp_path / "graph_schema"),
            schema_dir=str(tmp_path / "schema"),
            options=GraphSchemaGenOptions(**options),
        )
        on_disk = text_format.Parse((tmp_path / "graph_schema" / "graph_schema.pbtxt").read_text(), type(written)())
        assert on_disk == written
        return written, str(tmp_path / "schema")

    return run


def test_a_schema_beside_the_examples_is_checked_and_kept(generate):
    schema, schema_dir = generate({"train": [[EXAMPLE], [EXAMPLE]], "val": [[{}]]}, SCHEMA)

    assert schema == text_format.Parse(SCHEMA, graph_schema_pb2.GraphSchema())
    spec = schema_utils.schema_as_feature_spec(read_tfmd_schema(schema_dir)).feature_spec
    assert set(spec) == set(EXAMPLE)
    assert spec["nodes/a.x"].dtype == tf.float32


def test_only_chosen_splits_are_read(generate):
    broken = {**EXAMPLE, "nodes/a.x": [1.0]}

    _, schema_dir = generate({"train": [[EXAMPLE]], "val": [[broken]]}, SCHEMA, splits=("train",))

    required = {feature.name for feature in read_tfmd_schema(schema_dir).feature if feature.presence.min_fraction == 1}
    assert required == set(EXAMPLE)


def test_an_example_against_its_schema_is_named_by_split_file_record_key_and_rule(generate, tmp_path):
    broken = {**EXAMPLE, "nodes/a.x": [1.0]}

    with pytest.raises(
        ValueError,
        match=r"^`examples_dir` must hold examples that match the graph schema next to them; got 'nodes/a.x': 1 values "
        r"instead of 2, for 2 items of shape \[\] in record 1 of graphs-00001-of-00002.gz \(split 'val'\)\. The number "
        r"of values does not match the number of items\. Write all values.* Examples that break a rule: 2\.$",
    ):
        generate({"train": [[EXAMPLE]], "val": [[EXAMPLE], [EXAMPLE, broken, broken]]}, SCHEMA)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["examples"]


@pytest.mark.parametrize(
    ("key", "values", "message"),
    [
        ("nodes/a.x", None, "'nodes/a.x': absent although there are 2 items in record 1 .* Write the declared feature"),
        ("nodes/a.x", [1, 2], "'nodes/a.x': int64_list instead of float_list in record 1 .* of another kind"),
        ("nodes/a.#size", [1, 1], r"'nodes/a.#size': \[1, 1\] in record 1 .* not one number, at least 0"),
        ("edges/e.#target", [5], "'edges/e.#target': index 5 with 2 nodes in node set 'a' in record 1 .* not there"),
        ("nodes/a.y", [], "'nodes/a.y': not in the graph schema in record 1 .* Declare it, or leave it out"),
    ],
)
def test_the_first_broken_example_is_named_with_its_rule(generate, key, values, message):
    broken = {**EXAMPLE, key: values}
    if values is None:
        del broken[key]
    broken_twice = {**EXAMPLE, "nodes/a.v": [1], "nodes/a.w": [1], "edges/e.#source": [7]}

    with pytest.raises(ValueError, match=rf"got {message}.* Examples that break a rule: 2\."):
        generate({"train": [[EXAMPLE, broken, broken_twice]]}, SCHEMA)


def test_values_that_are_no_numbers_and_readouts_without_items_keep_the_schema(generate):
    readout = """
        node_sets { key: "_readout" }
        edge_sets { key: "_readout/seed" value { source: "a" target: "_readout" } }"""

    _, schema_dir = generate({"train": [[EXAMPLE, {**EXAMPLE, "nodes/a.x": [1.0, float("nan")]}]]}, SCHEMA + readout)

    required = {feature.name for feature in read_tfmd_schema(schema_dir).feature if feature.presence.min_fraction == 1}
    assert required == set(EXAMPLE)


def test_only_keys_of_all_examples_are_required(generate):
    _, schema_dir = generate({"train": [[EXAMPLE], [{"nodes/a.#size": [0]}]]}, SCHEMA)

    required = {feature.name for feature in read_tfmd_schema(schema_dir).feature if feature.presence.min_fraction == 1}
    assert required == {"nodes/a.#size"}


def test_without_schema_kinds_and_shapes_are_read_off_the_data(generate):
    example = {
        "context/year": [1999, 2000],
        "nodes/a.#size": [2],
        "nodes/a.#id": ["i", "j"],
        "nodes/a.v": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        "nodes/a.w": ["p", "q", "r"],
        "nodes/a.w.d1": [1, 2],
        "nodes/a.q": [1, 2, 3, 4, 5, 6],
        "nodes/a.q.d2": [1, 0, 2, 0, 0, 0],
        "edges/e.#size": [1],
        "edges/e.#source": [0],
        "edges/e.#target": [1],
        "edges/e.n": [7],
    }
    empty = {"context/year": [1, 2], "nodes/a.#size": [0], "nodes/a.q": [], "edges/e.#size": [0]}

    schema, _ = generate({"train": [[empty], [example]]})

    assert schema == text_format.Parse(
        """
        context { features { key: "year" value { dtype: DT_INT64 shape { dim { size: 2 } } } } }
        node_sets { key: "a" value {
            features { key: "#id" value { dtype: DT_STRING } }
            features { key: "v" value { dtype: DT_FLOAT shape { dim { size: 3 } } } }
            features { key: "w" value { dtype: DT_STRING shape { dim { size: -1 } } } }
            features { key: "q" value { dtype: DT_INT64 shape {
                dim { size: 3 } dim { size: -1 } dim { size: 2 } } } } } }
        edge_sets { key: "e" value { source: "a" target: "a" features { key: "n" value { dtype: DT_INT64 } } } }
        """,
        graph_schema_pb2.GraphSchema(),
    )


ONE_NODE = {"nodes/a.#size": [1], "nodes/a.x": [1.0]}


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (
            [{**EXAMPLE, "nodes/b.#size": [1]}],
            r"must say which .*; got edge sets 'e' from 'a' or 'b' to 'a'\. Set .*, which an Importer provides",
        ),
        ([ONE_NODE, {"nodes/a.#size": [1], "nodes/a.x": [1]}], "one kind for 'nodes/a.x'; got float_list in record 0"),
        ([{"nodes/a.#size": [0], "nodes/a.x": []}], "'nodes/a.x'; got no value in any example. Give a graph schema"),
        ([ONE_NODE, {"nodes/a.#size": [1], "nodes/a.x": [1.0, 2.0]}], "in 'nodes/a.x'; got 1 in record 0 .*; 2 in"),
        ([ONE_NODE, {"nodes/a.#size": [1]}], "'nodes/a.x' in every example in which .*; got it in 1 of 2"),
        ([{"nodes/a.#size": [2], "nodes/a.x": [1.0, 2.0, 3.0]}], "as many values for each of its 2 rows; got 3"),
        ([{"nodes/a.#size": [0], "nodes/a.x": [1.0]}], "'nodes/a.x' is empty where its set is; got 1 values"),
        ([{"nodes/a.x": [1.0]}], "belongs to the context or to a set with `#size`; got 'nodes/a.x'"),
        ([{"nodes/a.#size": [1, 2]}], "is one number, at least 0"),
        ([{**EXAMPLE, "edges/e.#target": [5]}], "points into node set 'a'; got index 5 with 2 nodes"),
        ([{**EXAMPLE, "edges/e.#target": [-1]}], "points into node set 'a'; got index -1 with 2 nodes"),
        ([{**EXAMPLE, "edges/e.#source": []}], "'edges/e.#source' has one node index .*; got 0 values for 1 edges"),
        ([{**EXAMPLE, "edges/e.#source": [1.0]}], "'edges/e.#source' is a int64_list; got a float_list"),
        (
            [{**EXAMPLE, "nodes/b.#size": [1], "edges/e.#target": [2]}],
            "'edges/e.#target' points into a node set; got index 2 with at most 2 nodes in a set",
        ),
        (
            [
                {**EXAMPLE, "nodes/b.#size": [1], "edges/e.#target": [1]},
                {"nodes/a.#size": [1], "nodes/a.x": [0.0], "nodes/b.#size": [2], "edges/e.#size": [1]}
                | {"edges/e.#source": [0], "edges/e.#target": [1]},
            ],
            "#target of edge set 'e', which fits no node set: 'a': index 1 with 1 nodes in record 1 .*; 'b': index 1",
        ),
        (
            [{**EXAMPLE, "nodes/b.#size": [1], "edges/e.#target": [0, 1]}],
            "one node index for each of the edges; got 2 values for 1 edges",
        ),
        (
            [{"nodes/a.#size": [1], "nodes/a.x": [1.0], "nodes/a.x.d3": [1, 0]}],
            "got 2 row lengths for each row in 'nodes/a.x.d3', which implies 2 dimensions",
        ),
    ],
)
def test_without_schema_what_data_leave_open_is_asked_for(generate, examples, message):
    with pytest.raises(ValueError, match=message):
        generate({"train": [examples]})


SEEDS = {
    "nodes/_readout.#size": [1],
    "edges/_readout/seed.#size": [1],
    "edges/_readout/seed.#source": [0],
    "edges/_readout/seed.#target": [0],
}


def test_without_schema_edges_join_the_only_node_sets_that_have_all_their_nodes(generate, caplog):
    # `e` leads to node 1, so b, which has one node in record 0, is no target; record 1 rules b out as its source.
    first = {**EXAMPLE, **SEEDS, "nodes/b.#size": [1], "edges/_readout/seed.#source": [1]}
    second = {**first, "edges/e.#source": [1]}

    schema, _ = generate({"train": [[first, second]]})

    edges = schema.edge_sets["e"]
    assert (edges.source, edges.target) == ("a", "a")
    assert edges.description == (
        "#source is 'a', as others have too few nodes: 'b': index 1 with 1 nodes in record 1 of "
        "graphs-00000-of-00001.gz (split 'train'). #target is 'a', as others have too few nodes: 'b': index 1 with 1 "
        "nodes in record 0 of graphs-00000-of-00001.gz (split 'train')."
    )
    assert f"Inferred that edge set 'e' leads from 'a' to 'a'. {edges.description}" in caplog.text
    seeds = schema.edge_sets["_readout/seed"]
    assert (seeds.source, seeds.target) == ("a", "_readout")
    assert seeds.description.endswith("#target is '_readout' by the name of the edge set.")


def test_without_schema_readouts_do_not_make_the_only_node_set_unclear(generate):
    schema, _ = generate({"train": [[{**EXAMPLE, **SEEDS, "edges/e.#target": [0]}]]})

    assert {name: (edges.source, edges.target) for name, edges in schema.edge_sets.items()} == {
        "e": ("a", "a"),
        "_readout/seed": ("a", "_readout"),
    }
    assert schema.edge_sets["e"].description == (
        "#source is 'a', as there is no other node set. #target is 'a', as there is no other node set."
    )


TWO_SETS = {**EXAMPLE, "nodes/b.#size": [1]}


def test_ends_that_examples_leave_open_are_those_of_the_option(generate):
    schema, _ = generate({"train": [[TWO_SETS]]}, edge_set_ends={"e": ("b", "a")})

    assert schema.edge_sets["e"] == graph_schema_pb2.EdgeSet(source="b", target="a")


@pytest.mark.parametrize(
    ("schema", "ends", "message"),
    [
        (
            None,
            {"e": ("a", "b")},
            "got 'b' for edge set 'e', with index 1 with 1 nodes in record 0 of .*Correct the pair",
        ),
        (
            None,
            {"e": ("a", "c")},
            r"name node sets of the examples; got 'c' for edge set 'e', not one of \['a', 'b'",
        ),
        (None, {"f": ("a", "a")}, r"name edge sets of the examples; got 'f', not one of \['e'\]"),
        (SCHEMA, {"e": ("b", "a")}, r"agree with the graph schema; got \('b', 'a'\) .* declares \('a', 'a'\)"),
        (SCHEMA, {"f": ("a", "a")}, "agree with the graph schema; got .* for edge set 'f', .* declares None"),
    ],
)
def test_ends_of_the_option_that_cannot_be_right_are_refused(generate, schema, ends, message):
    with pytest.raises(ValueError, match=f"`edge_set_ends` must .*{message}"):
        generate({"train": [[TWO_SETS]]}, schema, edge_set_ends=ends)


@pytest.mark.parametrize("ends", [["a", "a"], ("a",), ("a", ""), "ab", ("a", 1)])
def test_ends_that_are_no_pair_of_names_are_refused(ends):
    with pytest.raises(ValueError, match=r"`edge_set_ends` must give the node sets .*Write a pair of names\."):
        GraphSchemaGenOptions(edge_set_ends={"e": ends})


def test_a_declared_schema_is_the_one_that_examples_are_checked_against(tmp_path, write_examples):
    examples_dir = write_examples(str(tmp_path / "examples"), {"train": [[TWO_SETS]]}, SCHEMA)
    declared = SCHEMA + 'node_sets { key: "b" value {} }'
    (tmp_path / "declared").mkdir()
    folders = {name: str(tmp_path / name) for name in ("graph_schema_dir", "schema_dir")}

    def run(folder):
        return generate_graph_schema(
            examples_dir=examples_dir,
            declared_schema_dir=str(tmp_path / folder),
            options=GraphSchemaGenOptions(),
            **folders,
        )

    with pytest.raises(ValueError, match=r"`declared_graph_schema` must hold graph_schema\.pbtxt; got none in"):
        run("declared")
    (tmp_path / "declared" / "graph_schema.pbtxt").write_text(declared)
    assert run("declared") == text_format.Parse(declared, graph_schema_pb2.GraphSchema())


def test_a_schema_that_is_not_valid_is_refused(generate):
    with pytest.raises(ValueError, match="'b'"):
        generate({"train": [[EXAMPLE]]}, SCHEMA.replace('target: "a"', 'target: "b"'))


def test_data_without_examples_are_refused(generate):
    with pytest.raises(ValueError, match="must hold at least one example; got none in 1 files"):
        generate({"train": [[]]}, SCHEMA)


def test_a_record_that_is_no_example_is_refused(generate, tmp_path):
    folder = tmp_path / "examples" / "Split-train"
    folder.mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "graphs-00000-of-00001.gz"), options="GZIP") as writer:
        writer.write(b"\xff\xff")

    with pytest.raises(ValueError, match=r"got 2 other bytes in record 0 of .*Write serialized tf\.Examples\. "):
        generate({}, SCHEMA)
    (tmp_path / "examples" / "graph_schema.pbtxt").unlink()
    with pytest.raises(ValueError, match=r"every record is a serialized tf\.Example; got 2 other bytes in record 0"):
        generate({})


def test_run_after_a_kill_between_its_two_outputs_completes(tmp_path, write_examples, monkeypatch):
    (tmp_path / "project").mkdir()
    write_examples(str(tmp_path / "project" / "examples"), {"train": [[EXAMPLE]]}, SCHEMA)
    rename = os.rename

    def generate(project):
        generate_graph_schema(
            examples_dir=str(project / "examples"),
            graph_schema_dir=str(project / "graph_schema"),
            schema_dir=str(project / "schema"),
            options=GraphSchemaGenOptions(),
        )
        return {path.relative_to(project): path.is_file() and path.read_bytes() for path in project.rglob("*")}

    def copy_what_a_kill_leaves(source, target):
        rename(source, target)
        if target.endswith("/graph_schema"):
            shutil.copytree(tmp_path / "project", tmp_path / "killed")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", copy_what_a_kill_leaves)
        expected = generate(tmp_path / "project")
    assert (tmp_path / "killed" / "graph_schema").exists()
    assert not (tmp_path / "killed" / "schema").exists()

    assert generate(tmp_path / "killed") == expected

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.context_labels import context_labels
from tfx_gnn.graph.schema.index_features import index_features
from tfx_gnn.io import options_json
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.graph_level_tables import (
    check_graph_level_examples,
    graph_level_tables,
    make_graph_level_schema,
)
from tfx_gnn.sampling.plan.graph_pairs import GraphPairs
from tfx_gnn.sampling.plan.split_plan import SplitPlan

SCHEMA = text_format.Parse(
    """
    context {
      features { key: "weight" value { dtype: DT_FLOAT } }
      features { key: "center" value { dtype: DT_INT64 } }
      metadata { filename: "molecules.csv" extra { key: "index_feature/center" value: "atoms" } } }
    node_sets { key: "atoms" value {
      description: "An atom."
      features { key: "element" value { dtype: DT_STRING } }
      features { key: "twin" value { dtype: DT_INT64 } }
      metadata { filename: "atoms.csv" extra { key: "index_feature/twin" value: "atoms" } } } }
    edge_sets { key: "bonds" value { source: "atoms" target: "atoms" metadata { filename: "bonds.csv" } } }
    """,
    GraphSchema(),
)
PAIRS = GraphPairs(filename="pairs.csv", features={"alike": "int64", "part": "string"}, left="s", right="t")
SPEC = GraphLevelExamples(label_features=("alike",), pairs=PAIRS, splits=SplitPlan(column="part"))


def test_a_spec_with_pairs_survives_json():
    assert options_json.from_json(options_json.to_json(SPEC), GraphLevelExamples) == SPEC


def test_examples_have_each_set_and_context_feature_on_both_sides():
    schema = make_graph_level_schema(SCHEMA, SPEC)

    assert sorted(schema.context.features) == ["#id", "alike", "s_center", "s_weight", "t_center", "t_weight"]
    assert sorted(schema.node_sets) == ["s_atoms", "t_atoms"]
    assert sorted(schema.node_sets["t_atoms"].features) == ["element", "twin"]
    assert schema.node_sets["s_atoms"].description == "An atom."
    assert {name: (edges.source, edges.target) for name, edges in schema.edge_sets.items()} == {
        "s_bonds": ("s_atoms", "s_atoms"),
        "t_bonds": ("t_atoms", "t_atoms"),
    }
    assert context_labels(schema) == {"alike"}


def test_features_that_hold_indices_refer_to_nodes_of_their_own_side():
    assert index_features(make_graph_level_schema(SCHEMA, SPEC)) == {
        "context": {"s_center": "s_atoms", "t_center": "t_atoms"},
        "nodes/s_atoms": {"twin": "s_atoms"},
        "nodes/t_atoms": {"twin": "t_atoms"},
    }


def test_both_copies_leave_excluded_features_out():
    spec = GraphLevelExamples(pairs=PAIRS, excluded_features={"atoms": ("twin",), "context": ("weight", "center")})

    schema = make_graph_level_schema(SCHEMA, spec)

    assert sorted(schema.context.features) == ["#id", "alike", "part"]
    assert [list(nodes.features) for nodes in schema.node_sets.values()] == [["element"], ["element"]]
    assert index_features(schema) == {}


@pytest.mark.parametrize(
    ("split_by", "of_pairs", "of_graphs"),
    [
        ("pair", ["#source", "#target", "alike", "#column.part"], ["#column.graph_id"]),
        ("graph", ["#source", "#target", "alike"], ["#column.graph_id", "#column.part"]),
    ],
)
def test_the_table_that_decides_splits_has_their_column(tmp_path, split_by, of_pairs, of_graphs):
    for name in ("molecules", "atoms", "bonds", "pairs"):
        (tmp_path / f"{name}.csv").write_text("graph_id\n")
    pairs = GraphPairs(filename="pairs.csv", features={"alike": "int64"}, split_by=split_by)
    spec = GraphLevelExamples(pairs=pairs, splits=SplitPlan(column="part"))

    layouts = {layout.label: layout for layout in graph_level_tables(str(tmp_path), SCHEMA, spec)}

    assert list(layouts) == ["nodes/atoms", "edges/bonds", "context", "pairs"]
    assert list(layouts["pairs"].columns) == of_pairs
    assert [key for key in layouts["context"].columns if key.startswith("#column.")] == of_graphs


def test_a_table_of_pairs_must_exist(tmp_path):
    for name in ("molecules", "atoms", "bonds"):
        (tmp_path / f"{name}.csv").write_text("graph_id\n")

    with pytest.raises(ValueError, match=r"`pairs.filename` must name a file that exists.*got 'pairs.csv'"):
        graph_level_tables(str(tmp_path), SCHEMA, SPEC)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"filename": ""}, ValueError, "`filename` must be a name; got '' in `pairs`"),
        ({"id_column": None}, ValueError, "`id_column` must be a name; got None"),
        ({"right_column": "left"}, ValueError, "must name different columns; got"),
        ({"features": ("alike",)}, TypeError, "`features` must give the type of each column"),
        ({"features": {"alike": "bool"}}, ValueError, "got 'alike' with 'bool' in `pairs`"),
        ({"features": {"#id": "int64"}}, ValueError, "got '#id' with 'int64' in `pairs`"),
        ({"left": "_s"}, ValueError, "`left` must be letters, digits and underscores"),
        ({"left": "right"}, ValueError, "`left` and `right` must be different"),
        ({"split_by": "node"}, ValueError, r"`split_by` must be one of \['pair', 'graph'\]; got 'node'"),
    ],
)
def test_pairs_check_themselves(fields, error, message):
    with pytest.raises(error, match=message):
        GraphPairs(**{"filename": "pairs.csv", **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pairs": PAIRS, "label_features": ("weight",)}, "`label_features` must be one of .*of `pairs`; got 'weight'"),
        ({"pairs": PAIRS, "splits": SplitPlan(time_feature="weight", until={"a": None})}, "must be a column of type"),
        (
            {"pairs": GraphPairs(filename="pairs.csv", features={"left_weight": "float32"})},
            r"got \['left_weight'\] twice in the context",
        ),
    ],
)
def test_what_does_not_fit_the_graphs_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        check_graph_level_examples(GraphLevelExamples(**fields), SCHEMA)


def test_names_of_sides_may_not_make_two_sets_one():
    schema = text_format.Parse(
        'node_sets { key: "x" value { } } node_sets { key: "b_x" value { } }', GraphSchema()
    )  # a_b + x is a + b_x
    pairs = GraphPairs(filename="pairs.csv", left="a", right="a_b")

    with pytest.raises(ValueError, match=r"got \['a_b_x'\] twice in the node sets"):
        check_graph_level_examples(GraphLevelExamples(pairs=pairs), schema)


def test_a_label_of_pairs_is_not_the_column_of_their_splits():
    with pytest.raises(ValueError, match=r"`label_features` must be features of the examples; got \['part'\]"):
        GraphLevelExamples(pairs=PAIRS, label_features=("part",), splits=SplitPlan(column="part"))
    with pytest.raises(TypeError, match=r"`pairs` must be a GraphPairs; got 'pairs\.csv'"):
        GraphLevelExamples(pairs="pairs.csv")

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.context_labels import context_labels
from tfx_gnn.io import options_json
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.graph_level_tables import (
    check_graph_level_examples,
    graph_level_layouts,
    make_graph_level_schema,
)
from tfx_gnn.sampling.plan.split_plan import SplitPlan

SCHEMA_TEXT = """
context {
  features { key: "graph_id" value { dtype: DT_STRING } }
  features { key: "toxic" value { dtype: DT_INT64 source: "is_toxic" } }
  features { key: "part" value { dtype: DT_STRING } }
  features { key: "weight" value { dtype: DT_FLOAT } }
  metadata { filename: "molecules.csv" } }
node_sets { key: "atom" value {
  description: "An atom."
  features { key: "#id" value { dtype: DT_INT64 } }
  features { key: "element" value { dtype: DT_STRING } }
  metadata { filename: "atoms.csv" } } }
edge_sets { key: "bond" value { source: "atom" target: "atom"
  features { key: "order" value { dtype: DT_INT64 } }
  metadata { filename: "bonds.csv" } } }
"""
SCHEMA = text_format.Parse(SCHEMA_TEXT, GraphSchema())


def test_a_spec_survives_json():
    spec = GraphLevelExamples(
        graph_id_column="molecule",
        label_features=("toxic",),
        splits=SplitPlan(column="part", order=("b", "a")),
        excluded_features={"atom": ("element",), "context": ("weight",)},
        allows_empty_graphs=True,
    )

    assert options_json.from_json(options_json.to_json(spec), GraphLevelExamples) == spec


def test_examples_have_the_features_but_ids_and_splits():
    spec = GraphLevelExamples(splits=SplitPlan(column="part"), excluded_features={"context": ("weight",)})

    schema = make_graph_level_schema(SCHEMA, spec)

    expected = text_format.Parse(
        """
        context {
          features { key: "#id" value { dtype: DT_STRING description: "Id of the graph." } }
          features { key: "toxic" value { dtype: DT_INT64 } } }
        node_sets { key: "atom" value {
          description: "An atom."
          features { key: "element" value { dtype: DT_STRING } } } }
        edge_sets { key: "bond" value { source: "atom" target: "atom"
          features { key: "order" value { dtype: DT_INT64 } } } }
        info { graph_type: FULL }
        """,
        GraphSchema(),
    )
    assert schema == expected


def test_labels_are_marked_in_the_schema_of_the_examples():
    schema = make_graph_level_schema(SCHEMA, GraphLevelExamples(label_features=("toxic",)))

    assert context_labels(schema) == {"toxic"}
    assert context_labels(SCHEMA) == frozenset()


def test_every_table_is_read_with_the_graphs_id(tmp_path):
    for name in ("molecules", "atoms", "bonds"):
        (tmp_path / f"{name}.csv").write_text("graph_id\n")

    layouts = graph_level_layouts(str(tmp_path), SCHEMA, GraphLevelExamples(splits=SplitPlan(column="part")))

    extra = {layout.label: [key for key in layout.columns if key.startswith("#column.")] for layout in layouts.all}
    assert extra == {
        "nodes/atom": ["#column.graph_id"],
        "edges/bond": ["#column.graph_id"],
        "context": ["#column.graph_id", "#column.part"],
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"graph_id_column": ""}, "`graph_id_column` must name a column of every table; got ''"),
        ({"label_features": "toxic"}, "`label_features` must be a tuple of names; got 'toxic'"),
        ({"excluded_features": {"atom": "element"}}, r"`excluded_features\['atom'\]` must be a tuple of names"),
        ({"splits": SplitPlan(visibility="inductive")}, "`splits` must leave `visibility`"),
        ({"splits": SplitPlan(disjoint_train_share=0.5)}, "`splits` must leave `visibility`"),
        (
            {"label_features": ("a", "b", "c"), "excluded_features": {"context": ("a",)}},
            r"`label_features` must be features of the examples; got \['a'\]",
        ),
        ({"label_features": ("part",), "splits": SplitPlan(column="part")}, r"got \['part'\]"),
        ({"label_features": ("graph_id",)}, r"got \['graph_id'\]"),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        GraphLevelExamples(**fields)


def test_splits_must_be_a_plan():
    with pytest.raises(TypeError, match="`splits` must be a SplitPlan; got 'train'"):
        GraphLevelExamples(splits="train")


WITHOUT_CONTEXT = 'node_sets { key: "atom" value { metadata { filename: "atoms.csv" } } }'


@pytest.mark.parametrize(
    ("spec", "schema", "message"),
    [
        (
            GraphLevelExamples(label_features=("toxc",)),
            SCHEMA_TEXT,
            r"`label_features` must be one of .* for the context",
        ),
        (
            GraphLevelExamples(excluded_features={"atoms": ("x",)}),
            SCHEMA_TEXT,
            r"must be one of \['atom', 'bond', 'context'\]",
        ),
        (
            GraphLevelExamples(excluded_features={"atom": ("x",)}),
            SCHEMA_TEXT,
            "`excluded_features` must be .* for 'atom'",
        ),
        (
            GraphLevelExamples(splits=SplitPlan(time_feature="year", until={"a": None})),
            SCHEMA_TEXT,
            "`splits.time_feature` must be one of .* for the context; got 'year'",
        ),
        (
            GraphLevelExamples(splits=SplitPlan(time_feature="weight", until={"a": None})),
            SCHEMA_TEXT,
            "`splits.time_feature` must be one integer for each graph; got 'weight' of type float32",
        ),
        (
            GraphLevelExamples(splits=SplitPlan(column="part")),
            WITHOUT_CONTEXT,
            r"`splits` must be by hash of the graph id where there is no context table; got \['part'\]",
        ),
        (GraphLevelExamples(), "", "`schema` must have a node set; got none"),
        (GraphLevelExamples(), 'node_sets { key: "_atom" value { } }', "must not name a set with a leading underscore"),
    ],
)
def test_a_spec_that_does_not_fit_the_tables_is_refused(spec, schema, message):
    with pytest.raises(ValueError, match=message):
        check_graph_level_examples(spec, text_format.Parse(schema, GraphSchema()))

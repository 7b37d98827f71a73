import re

import pytest
import tensorflow as tf

import tfx_gnn.graph as lib
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import (
    check_compatible_with_schema_pb,
    create_graph_spec_from_schema_pb,
    create_schema_pb_from_graph_spec,
)
from tfx_gnn.graph.schema.schema_validation import ValidationError, validate_schema
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.tables.schema_layouts import layouts_of


def feature(name="x", dtype="DT_FLOAT", *sizes, shape=""):
    dims = "".join(f"dim {{ size: {size} }}" for size in sizes)
    shape = shape or (f"shape {{ {dims} }}" if sizes else "")
    return f'features {{ key: "{name}" value {{ dtype: {dtype} {shape} }} }} '


def nodes(features="", name="a"):
    return f'node_sets {{ key: "{name}" value {{ {features} }} }} '


def edges(features="", name="e", source="a", target="a"):
    return f'edge_sets {{ key: "{name}" value {{ source: "{source}" target: "{target}" {features} }} }} '


def context(features=""):
    return f"context {{ {features} }} "


FULL = context(feature("c")) + nodes(feature("x", "DT_FLOAT", 2)) + edges(feature("w"))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((), tf.TensorSpec([None], tf.float32)),
        ((3,), tf.TensorSpec([None, 3], tf.float32)),
        ((0,), tf.TensorSpec([None, 0], tf.float32)),
        ((-1,), tf.RaggedTensorSpec([None, None], tf.float32, 1, tf.int32)),
        ((3, -1), tf.RaggedTensorSpec([None, 3, None], tf.float32, 2, tf.int32)),
        ((-1, 3), tf.RaggedTensorSpec([None, None, 3], tf.float32, 1, tf.int32)),
        ((-1, 3, -1), tf.RaggedTensorSpec([None, None, 3, None], tf.float32, 3, tf.int32)),
    ],
)
def test_shapes_become_dense_or_ragged_up_to_the_last_ragged_dimension(sizes, expected):
    spec = create_graph_spec_from_schema_pb(parse_schema(nodes(feature("x", "DT_FLOAT", *sizes))))

    found = spec.node_sets_spec["a"]["x"]
    assert (type(found), found.shape.as_list(), found.dtype) == (type(expected), expected.shape.as_list(), tf.float32)
    assert getattr(found, "ragged_rank", 0) == getattr(expected, "ragged_rank", 0)


def test_one_component_is_declared_for_context_and_sizes():
    spec = create_graph_spec_from_schema_pb(parse_schema(FULL))

    assert spec.shape.as_list() == []
    assert spec.total_num_components == 1
    assert spec.context_spec["c"] == tf.TensorSpec([1], tf.float32)
    assert spec.node_sets_spec["a"].sizes_spec == tf.TensorSpec([1], tf.int32)
    assert spec.edge_sets_spec["e"].adjacency_spec.source == tf.TensorSpec([None], tf.int32)


def test_a_ragged_context_feature_keeps_its_component_static():
    spec = create_graph_spec_from_schema_pb(parse_schema(context(feature("c", "DT_FLOAT", -1))))

    assert isinstance(spec.context_spec["c"], tf.RaggedTensorSpec)
    assert spec.context_spec["c"].shape.as_list() == [1, None]


def test_the_index_dtype_is_that_of_sizes_ends_and_row_splits():
    schema = parse_schema(nodes(feature("x", "DT_FLOAT", -1)) + edges())

    spec = create_graph_spec_from_schema_pb(schema, indices_dtype=tf.int64)

    assert spec.indices_dtype == tf.int64
    assert spec.node_sets_spec["a"]["x"].row_splits_dtype == tf.int64
    assert spec.edge_sets_spec["e"].adjacency_spec.target.dtype == tf.int64


DTYPES = [
    "BOOL",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "HALF",
    "BFLOAT16",
    "FLOAT",
    "DOUBLE",
    "STRING",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_survive_the_way_there_and_back(dtype):
    schema = parse_schema(nodes(feature("x", f"DT_{dtype}", 2)))

    assert create_schema_pb_from_graph_spec(create_graph_spec_from_schema_pb(schema)) == schema


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        nodes(),
        nodes(feature("#id", "DT_STRING")) + nodes(feature("l", "DT_INT64"), "_readout") + edges("", "_readout/s"),
        nodes(feature("x", "DT_FLOAT", 3, -1) + feature("y", "DT_STRING", -1, 2)),
        context(feature("c", "DT_FLOAT", 2)),
    ],
)
def test_schemas_survive_the_way_there_and_back(text):
    schema = parse_schema(text)

    assert create_schema_pb_from_graph_spec(create_graph_spec_from_schema_pb(schema)) == schema


@pytest.mark.parametrize("indices_dtype", [tf.int32, tf.int64])
@pytest.mark.parametrize(
    "text", ["", "context {}", FULL, nodes(), FULL + nodes(feature("x", "DT_HALF", -1, 3), "b"), context(feature("c"))]
)
def test_specs_agree_with_the_oracle(oracle, text, indices_dtype):
    ours = create_graph_spec_from_schema_pb(parse_schema(text), indices_dtype=indices_dtype)
    theirs = oracle.create_graph_spec_from_schema_pb(oracle.parse_schema(text), indices_dtype=indices_dtype)

    assert ours.total_num_components == theirs.total_num_components
    assert ours.indices_dtype == theirs.indices_dtype
    assert ours.row_splits_dtype == theirs.row_splits_dtype
    assert dict(ours.context_spec.features_spec) == dict(theirs.context_spec.features_spec)
    assert ours.context_spec.sizes_spec == theirs.context_spec.sizes_spec
    for name, node_set_spec in theirs.node_sets_spec.items():
        assert dict(ours.node_sets_spec[name].features_spec) == dict(node_set_spec.features_spec)
        assert ours.node_sets_spec[name].sizes_spec == node_set_spec.sizes_spec
    assert set(ours.edge_sets_spec) == set(theirs.edge_sets_spec)


def test_the_schema_of_a_value_forgets_its_numbers_of_items(graph):
    with pytest.raises(ValueError, match="single graph component, got a scalar GraphTensor with 2 components"):
        create_schema_pb_from_graph_spec(graph)

    single = lib.GraphTensor.from_pieces(
        node_sets={"a": lib.NodeSet.from_fields(sizes=[3], features={"x": tf.zeros([3, 2])})}
    )

    assert create_schema_pb_from_graph_spec(single) == parse_schema(nodes(feature("x", "DT_FLOAT", 2)))
    assert check_compatible_with_schema_pb(single, parse_schema(nodes(feature("x", "DT_FLOAT", 2)))) is None


def node_spec(x, sizes_shape=(1,)):
    return lib.GraphTensorSpec.from_piece_specs(
        node_sets_spec={
            "a": lib.NodeSetSpec.from_field_specs(
                features_spec={"x": x}, sizes_spec=tf.TensorSpec(list(sizes_shape), tf.int32)
            )
        }
    )


@pytest.mark.parametrize("dtype", [tf.complex64, tf.qint8, tf.variant, tf.resource])
def test_dtypes_that_no_example_can_hold_are_refused(dtype):
    with pytest.raises(
        ValueError, match=f"Node set a feature x has dtype=<dtype: '{dtype.name}'> which is not supported"
    ):
        create_schema_pb_from_graph_spec(node_spec(tf.TensorSpec([None], dtype)))


def hyper_spec():
    return lib.GraphTensorSpec.from_piece_specs(
        node_sets_spec={
            name: lib.NodeSetSpec.from_field_specs(sizes_spec=tf.TensorSpec([1], tf.int32)) for name in "ab"
        },
        edge_sets_spec={
            "e": lib.EdgeSetSpec.from_field_specs(
                sizes_spec=tf.TensorSpec([1], tf.int32),
                adjacency_spec=lib.HyperAdjacencySpec.from_incident_node_sets(
                    {0: "a", 2: "a", 10: "b"}, tf.TensorSpec([None], tf.int32)
                ),
            )
        },
    )


def test_hyperedges_name_their_node_sets_in_the_metadata():
    schema = create_schema_pb_from_graph_spec(hyper_spec())

    assert not schema.edge_sets["e"].HasField("source")
    assert {entry.key: entry.value for entry in schema.edge_sets["e"].metadata.extra} == {
        "node_set/0": "a",
        "node_set/2": "a",
        "node_set/10": "b",
    }
    assert validate_schema(schema) == []
    assert create_graph_spec_from_schema_pb(parse_schema(str(schema))) == hyper_spec()
    check_compatible_with_schema_pb(hyper_spec(), schema)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ('key: "node_set/x" value: "a"', r"by tags 0, 1, 2, .* got tags \['x'\]"),
        ('key: "node_set/01" value: "a"', r"got tags \['01'\]"),
        ('key: "node_set/0" value: "c"', "referencing unknown node set 'c' as `node_set/0`"),
    ],
)
def test_wrong_hyperedges_are_refused(extra, message):
    schema = parse_schema(
        f'node_sets {{ key: "a" value {{}} }} edge_sets {{ key: "e" value {{ metadata {{ extra {{ {extra} }} }} }} }}'
    )

    with pytest.raises(ValidationError, match=message):
        validate_schema(schema)


def test_two_node_sets_of_one_end_are_refused():
    schema = create_schema_pb_from_graph_spec(hyper_spec())
    schema.edge_sets["e"].metadata.extra.add(key="node_set/0", value="b")

    with pytest.raises(ValueError, match=r"each end of hyperedges once; got tags \['0', '0', '10', '2'\].*'e'"):
        create_graph_spec_from_schema_pb(schema)


def test_hyperedges_with_a_source_are_refused():
    schema = create_schema_pb_from_graph_spec(hyper_spec())
    schema.edge_sets["e"].source = "a"

    with pytest.raises(ValueError, match=r"without `source` and `target`; got .* source 'a' and target ''.*'e'"):
        create_graph_spec_from_schema_pb(schema)


def test_tables_and_components_refuse_hyperedges(tmp_path):
    schema = create_schema_pb_from_graph_spec(hyper_spec())

    with pytest.raises(ValueError, match=r"for tables; got hyperedges in edge sets \['e'\]"):
        layouts_of(schema, str(tmp_path))
    with pytest.raises(ValueError, match=r"for examples of the components; got hyperedges in edge sets \['e'\]"):
        graph_layout(schema)


def test_graphs_that_no_schema_describes_are_refused():
    spec = create_graph_spec_from_schema_pb(parse_schema(FULL))

    with pytest.raises(ValueError, match="requires a scalar GraphTensor"):
        create_schema_pb_from_graph_spec(spec._batch(3))
    with pytest.raises(ValueError, match="with None components"):
        create_schema_pb_from_graph_spec(spec.relax(num_components=True))
    with pytest.raises(ValueError, match="Unsupported value type int"):
        create_schema_pb_from_graph_spec(3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FULL + nodes("", "b"), "the graph lacks the node set 'b'"),
        (nodes(feature("x", "DT_FLOAT", 2)) + edges(feature("w")), "the context has a feature 'c' that the schema"),
        (FULL.replace("DT_FLOAT", "DT_INT64", 1), "feature 'c' of the context is dense float32[] but the schema says"),
        (FULL.replace("size: 2", "size: 3"), "is dense float32[2] but the schema says dense float32[3]"),
        (FULL.replace("size: 2", "size: -1"), "schema says ragged float32[None]"),
        (FULL.replace('"x"', '"y"'), "node set 'a' lacks the feature 'y'"),
        (
            FULL.replace('target: "a"', 'target: "b"') + nodes("", "b"),
            "connects 'a' to 'a' but the schema says 'a' to 'b'",
        ),
        (FULL.replace('"e"', '"f"'), "the graph lacks the edge set 'f'; the graph has a edge set 'e'"),
    ],
)
def test_differences_to_a_schema_are_named(text, message):
    spec = create_graph_spec_from_schema_pb(parse_schema(FULL))

    with pytest.raises(ValueError, match="not compatible with the graph schema.*" + re.escape(message)):
        check_compatible_with_schema_pb(spec, parse_schema(text))


@pytest.mark.parametrize("change", [{}, {"num_nodes": True}, {"num_edges": True}])
def test_sizes_and_index_dtypes_do_not_matter_for_compatibility(change):
    for indices_dtype in (tf.int32, tf.int64):
        spec = create_graph_spec_from_schema_pb(parse_schema(FULL), indices_dtype=indices_dtype)

        assert check_compatible_with_schema_pb(spec.relax(**change), parse_schema(FULL)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            nodes('features { key: "x" value { } }'),
            "`dtype` must be declared; got none for feature 'x' of node set 'a'",
        ),
        (nodes(feature(shape="shape { unknown_rank: true }")), "`shape` must have a known rank"),
        (nodes(feature("x", "DT_FLOAT", -2)), "`shape` must hold sizes of at least 0"),
    ],
)
def test_features_without_type_or_rank_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        create_graph_spec_from_schema_pb(parse_schema(text))


def test_only_index_dtypes_index():
    with pytest.raises(ValueError, match=r"`indices_dtype` must be int32 or int64; got tf\.float32"):
        create_graph_spec_from_schema_pb(parse_schema(FULL), indices_dtype=tf.float32)

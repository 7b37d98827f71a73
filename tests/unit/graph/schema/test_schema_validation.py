import re

import pytest

from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_validation import ValidationError, check_required_features, validate_schema


def feature(name="x", fields="dtype: DT_FLOAT"):
    return f'features {{ key: "{name}" value {{ {fields} }} }} '


def nodes(features="", name="a"):
    return f'node_sets {{ key: "{name}" value {{ {features} }} }} '


def edges(features="", name="e", source="a", target="a"):
    return f'edge_sets {{ key: "{name}" value {{ source: "{source}" target: "{target}" {features} }} }} '


def context(features=""):
    return f"context {{ {features} }} "


READOUT = nodes(name="_readout") + edges(name="_readout/seed", target="_readout")


@pytest.mark.parametrize(
    "text",
    [
        "",
        context(),
        context(feature()),
        nodes(feature()) + edges(feature()),
        nodes(feature("#id", "dtype: DT_STRING")) + edges(feature("#id", "dtype: DT_INT64")),
        nodes() + READOUT,
        nodes()
        + READOUT
        + nodes(name="_shadow/e")
        + edges()
        + edges(name="_readout/e", source="_shadow/e", target="_readout"),
        nodes(feature("x", "dtype: DT_FLOAT shape { dim { size: 3 } dim { size: -1 } }")),
        context(feature("c")) + nodes('context: "c"') + edges('context: "c"'),
        nodes(name="_other"),
        nodes(feature("x", 'dtype: DT_FLOAT description: "d" shape { dim { size: 3 name: "k" } }')),
    ],
)
def test_valid_schemas_pass_without_warnings(text):
    assert validate_schema(parse_schema(text)) == []


@pytest.mark.parametrize("dtype", ["BOOL", "UINT64", "BFLOAT16", "HALF", "DOUBLE", "STRING", "INT8"])
def test_dtypes_of_examples_pass(dtype):
    assert validate_schema(parse_schema(nodes(feature("x", f"dtype: DT_{dtype}")))) == []


def test_shapes_that_should_be_scalar_give_warnings():
    (warning,) = validate_schema(parse_schema(nodes(feature("x", "dtype: DT_FLOAT shape { dim { size: 1 } }"))))

    assert isinstance(warning, ValidationError)
    assert "Unnecessary shape of [1] in nodes set 'a' / 'x'" in str(warning)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nodes(feature("#x")), "Feature '#x' from nodes set 'a' should not start with '#'"),
        (context(feature("#size")), "Feature '#size' from context set '' should not start with '#'"),
    ],
)
def test_doubtful_names_are_logged(text, message, caplog):
    warnings = validate_schema(parse_schema(text))

    assert warnings == []
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert message in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nodes(feature("x", "")), "Missing 'dtype' field on nodes set 'a' feature 'x'"),
        (nodes(feature("x", "dtype: DT_INVALID")), "Invalid 'dtype' field on nodes set 'a' feature 'x': DT_INVALID"),
        (nodes(feature("x", "dtype: DT_COMPLEX64")), "'x': DT_COMPLEX64. Supported types are boolean"),
        (context(feature("x", "dtype: DT_QINT8")), "Invalid 'dtype' field on context set '' feature 'x'"),
        (nodes(feature("x", "dtype: DT_VARIANT")), "DT_VARIANT"),
        (nodes(feature("x", "dtype: DT_FLOAT_REF")), "DT_FLOAT_REF"),
        (
            nodes(feature("x", "dtype: DT_FLOAT shape { unknown_rank: true }")),
            "Shapes must have a known rank; on nodes",
        ),
        (nodes(feature("x", "dtype: DT_FLOAT shape { dim { size: -2 } }")), "at least 0, or -1 if ragged; got [-2]"),
        (
            nodes(feature("x", 'dtype: DT_FLOAT shape { dim { size: 3 name: "k" } }')),
            "incorrectly locating the description on the shape dimensions 'name' field: ('nodes', 'a', 'x')",
        ),
        (nodes(feature("#size")), "Feature '#size' from nodes set 'a' is reserved"),
        (nodes() + edges(feature("#source")), "Feature '#source' from edges set 'e' is reserved"),
        (nodes() + edges(feature("#target")), "Feature '#target' from edges set 'e' is reserved"),
        (nodes() + edges(name=""), "Edge set name cannot be empty"),
        (nodes() + edges(source=""), "Edge set e must specify a `source`"),
        (nodes() + edges(target=""), "Edge set e must specify a `target`"),
        (nodes() + edges(target="b"), "Edge set 'e' referencing unknown node set 'b'"),
        (nodes('context: "d"'), "Context feature 'd' does not exist (from node set 'a')"),
        (nodes() + edges('context: "d"'), "Context feature 'd' does not exist (from edge set 'e')"),
        (nodes(name="_readout"), "Found node set '_readout' but no edge sets for readout into it"),
        (
            nodes() + nodes(name="_readout") + edges(name="_readout/s"),
            "Expected target node set '_readout' but found 'a'",
        ),
        (
            nodes()
            + nodes(name="_readout")
            + nodes(name="_shadow/f")
            + edges(name="_readout/s", source="_shadow/f", target="_readout"),
            "lacks edge set 'f' referenced by auxiliary edge set '_readout/s'",
        ),
    ],
)
def test_broken_rules_are_named(text, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        validate_schema(parse_schema(text))


def test_named_readout_node_sets_must_be_there():
    schema = parse_schema(nodes() + READOUT)

    assert validate_schema(schema, readout_node_sets=["_readout"]) == []
    assert validate_schema(schema, readout_node_sets=[]) == []
    with pytest.raises(ValidationError, match=r"readout_node_set='_readout:x'\) failed: GraphTensor lacks auxiliary"):
        validate_schema(schema, readout_node_sets=["_readout:x"])
    with pytest.raises(ValidationError, match="Malformed name of readout_node_set"):
        validate_schema(schema, readout_node_sets=["a"])


def test_a_validation_error_is_a_value_error():
    assert issubclass(ValidationError, ValueError)


@pytest.mark.parametrize(
    ("required", "actual"),
    [
        ("", ""),
        (nodes(), ""),
        (nodes(feature()), nodes(feature() + feature("y"))),
        (nodes(feature("x", "")), nodes(feature())),
        (nodes(feature()), nodes(feature("x", "dtype: DT_FLOAT shape { dim { size: 5 } }"))),
        (
            nodes(feature("x", "shape { dim { size: 0 } dim { size: 3 } }")),
            nodes(feature("x", "dtype: DT_FLOAT shape { dim { size: -1 } dim { size: 3 } }")),
        ),
        (context(feature()), context(feature())),
        (edges(feature()), edges(feature())),
    ],
)
def test_sufficient_schemas_pass(required, actual):
    assert check_required_features(parse_schema(required), parse_schema(actual)) is None


FIVE = nodes(feature("x", "dtype: DT_FLOAT shape { dim { size: 5 } }"))


@pytest.mark.parametrize(
    ("required", "actual", "message"),
    [
        (nodes(feature()), "", "Nodes feature 'x' from set 'a' is missing from given schema"),
        (nodes(feature()), nodes(), "Nodes feature 'x' from set 'a' is missing from given schema"),
        (context(feature()), nodes(), "Context feature 'x' from set '' is missing from given schema"),
        (edges(feature()), edges(), "Edges feature 'x' from set 'e' is missing from given schema"),
        (nodes(feature("x", "dtype: DT_INT64")), FIVE, "has invalid type: DT_FLOAT; required is DT_INT64"),
        (nodes(feature("x", "shape { }")), FIVE, "has invalid shape: [5]; required is []"),
        (nodes(feature("x", "shape { dim { size: 3 } }")), FIVE, "has invalid shape: [5]; required is [3]"),
        (nodes(feature("x", "shape { dim { size: -1 } }")), FIVE, "has invalid shape: [5]; required is [-1]"),
        (nodes(feature("x", "shape { dim { size: 5 } dim { } }")), FIVE, "has invalid shape: [5]; required is [5, 0]"),
    ],
)
def test_what_is_required_and_missing_is_named(required, actual, message):
    with pytest.raises(ValidationError, match=re.escape(message)):
        check_required_features(parse_schema(required), parse_schema(actual))


def test_checking_does_not_change_the_schema():
    actual = parse_schema(nodes())

    with pytest.raises(ValidationError):
        check_required_features(parse_schema(nodes(feature(), "b")), actual)

    assert list(actual.node_sets) == ["a"]

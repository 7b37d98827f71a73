"""Mutated schema texts give graphs of a type that works, or are refused by a clear error."""

import os
import random
from collections import Counter

from google.protobuf import text_format
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph.codec.example_layout import get_io_spec
from tfx_gnn.graph.proto import graph_schema_pb2 as schema_pb2
from tfx_gnn.graph.schema.schema_io import iter_features, parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb, create_schema_pb_from_graph_spec
from tfx_gnn.graph.schema.schema_validation import ValidationError, check_required_features, validate_schema

#: Of the whole campaign, which TFX_GNN_FUZZ=20000 runs; that variable counts mutated tf.Examples.
NUM_MUTANTS = max(int(os.environ.get("TFX_GNN_FUZZ", "1200")) // 4, 1)

DTYPES = ("DT_FLOAT", "DT_INT64", "DT_STRING", "DT_BOOL", "DT_UINT8", "DT_DOUBLE", "DT_BFLOAT16")
#: Values of each kind: at the edges, or with a meaning elsewhere.
DTYPE_VALUES = (
    *("DT_COMPLEX64", "DT_QINT8", "DT_VARIANT", "DT_RESOURCE", "DT_FLOAT_REF", "DT_INVALID", "DT_INT4", "DT_STRING"),
    *("DT_HALF", "DT_UINT64", "0", "1", "7", "999", "-1"),
)
NUMBER_VALUES = (
    *("0", "1", "2", "-1", "-2", "1e3", "1.5", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "UNDEFINED", "SUBGRAPH"),
)
STRING_VALUES = (
    *(
        '""',
        '"#size"',
        '"#source"',
        '"#id"',
        '"#x"',
        '"_readout"',
        '"_readout/seed"',
        '"_readout/seed/0"',
        '"a"',
        '"b"',
    ),
    *('"\\377"', '"é"', '"a.b/c"', "'a'"),
)
#: Pieces of form.
TOKENS = (
    "{",
    "}",
    ":",
    "[",
    "]",
    "<",
    ">",
    ",",
    ";",
    "'",
    '"',
    "key",
    "dim",
    "features",
    "[x.y]",
    "é",
    "\x00",
    "{" * 2000,
)
GARBAGE = b"\x00\xff\xc3\x80\n\"'{}:\\#-0a"


def valid_schema(rng):
    schema = schema_pb2.GraphSchema()
    nodes = rng.sample(["a", "b", "c d", "_readout"], rng.randint(1, 4))
    for name in nodes:
        declare_features(schema.node_sets[name].features, rng)
    for name in rng.sample(["e", "f", "_readout/seed"], rng.randint(0, 3)):
        edge_set = schema.edge_sets[name]
        edge_set.source, edge_set.target = rng.choice(nodes), rng.choice(nodes)
        declare_features(edge_set.features, rng)
    if rng.random() < 0.5:
        declare_features(schema.context.features, rng)
    if rng.random() < 0.3:
        schema.node_sets[nodes[0]].metadata.cardinality = rng.randint(0, 9)
        schema.info.graph_type = rng.randint(0, 3)
    return schema


def declare_features(features, rng):
    for name in rng.sample(["x", "y", "#id", "hidden_state"], rng.randint(0, 3)):
        features[name].dtype = types_pb2.DataType.Value(rng.choice(DTYPES))
        for _ in range(rng.randint(0, 3)):
            features[name].shape.dim.add(size=rng.choice([-1, 0, 1, 2, 3]))


def values_like(value, rng):
    if rng.random() < 0.1:
        return TOKENS
    if value.startswith('"'):
        return STRING_VALUES
    return DTYPE_VALUES if value.startswith("DT_") else NUMBER_VALUES


def mutate(text, rng):
    for _ in range(rng.randint(1, 2)):
        lines = text.splitlines(keepends=True) or ["\n"]
        at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
        values = [number for number, line in enumerate(lines) if ": " in line]
        action = rng.randrange(10)
        if action < 7 and values:
            # A field gets another value: the text stays in form.
            at = rng.choice(values)
            name, value = lines[at].split(": ", 1)
            lines[at] = f"{name}: {rng.choice(values_like(value, rng))}\n"
        elif action == 7:
            lines.insert(
                at, rng.choice(("dim { size: -1 }", "unknown_rank: true", "shape {}", "#", 'name: "n"')) + "\n"
            )
        elif action == 8 and at != other:
            del lines[at]
        elif action == 9 and rng.random() < 0.5:
            lines[at], lines[other] = lines[other], lines[at]
        else:
            tokens = lines[at].split() or [""]
            tokens[rng.randrange(len(tokens))] = rng.choice(TOKENS)
            lines[at] = " ".join(tokens) + "\n"
        text = "".join(lines)
    if rng.random() < 0.05:
        text = text[: rng.randrange(len(text) + 1)]
    if rng.random() < 0.1:
        damaged = bytearray(text.encode())
        for _ in range(rng.randint(1, 3)):
            damaged.insert(rng.randrange(len(damaged) + 1), rng.choice(GARBAGE))
        return bytes(damaged)
    return text


def attempt(function, *args, errors):
    """Returns the result of a call and the error that it raised, of the given types with a message."""
    try:
        return function(*args), None
    except errors as error:
        if not str(error):
            raise
        return None, error


def use(text):
    """Goes the way of a schema from its text to graphs; returns how far it came."""
    schema, error = attempt(parse_schema, text, errors=(text_format.ParseError, UnicodeDecodeError))
    if error:
        return "refused by parse_schema"
    assert parse_schema(text_format.MessageToString(schema)) == schema
    warnings, invalid = attempt(validate_schema, schema, errors=ValidationError)
    assert invalid or all(isinstance(warning, Exception) for warning in warnings)
    assert check_required_features(schema, schema) is None
    spec, error = attempt(create_graph_spec_from_schema_pb, schema, errors=ValueError)
    if error:
        # What passed validation must be usable.
        assert invalid
        return "refused by create_graph_spec_from_schema_pb"
    assert_works(spec, schema, is_valid=not invalid)
    return "refused by validate_schema" if invalid else "valid"


def assert_works(spec, schema, *, is_valid):
    assert spec.relax(num_components=True, num_nodes=True, num_edges=True).is_compatible_with(spec)
    assert spec._batch(2)._unbatch() == spec
    declared = [(kind, name, feature) for kind, name, feature, _ in iter_features(schema)]
    pieces = [("context", "", spec.context_spec)]
    pieces += [("nodes", name, piece) for name, piece in spec.node_sets_spec.items()]
    pieces += [("edges", name, piece) for name, piece in spec.edge_sets_spec.items()]
    assert declared == [
        (kind, name, feature) for kind, name, piece in pieces for feature in sorted(piece.features_spec)
    ]
    if not is_valid:
        return
    again = create_schema_pb_from_graph_spec(spec)
    assert create_graph_spec_from_schema_pb(again) == spec
    assert {key.split(".d")[0] for key in get_io_spec(spec)} >= {
        {"context": f"context/{feature}"}.get(kind, f"{kind}/{name}.{feature}") for kind, name, feature in declared
    }


def test_no_mutant_escapes_the_declared_errors():
    rng = random.Random(3)
    outcomes = Counter()
    for number in range(NUM_MUTANTS):
        text = mutate(text_format.MessageToString(valid_schema(rng)), rng)
        try:
            outcomes[use(text)] += 1
        except Exception as error:
            raise AssertionError(f"mutant {number} was not handled: {text!r}") from error
    print(f"{NUM_MUTANTS} schema texts: {dict(outcomes)}")  # noqa: T201 - with -s, the campaign tells its figures
    assert len(outcomes) == 4


def test_unmutated_schemas_pass():
    rng = random.Random(4)
    assert {use(text_format.MessageToString(valid_schema(rng))) for _ in range(20)} >= {"valid"}

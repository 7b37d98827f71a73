from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf import text_format

import tfx_gnn.graph
from tfx_gnn.graph.proto import graph_schema_pb2 as schema_pb2
from tfx_gnn.graph.schema.schema_io import iter_features, iter_sets, parse_schema, read_schema, write_schema

TEXT = """
context { features { key: "c" value { dtype: DT_FLOAT } } }
node_sets { key: "b" value { } }
node_sets { key: "a" value {
  features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 3 } } } }
  features { key: "#id" value { dtype: DT_STRING } } } }
edge_sets { key: "e" value { source: "a" target: "b" features { key: "w" value { dtype: DT_INT64 } } } }
"""


@pytest.mark.parametrize("text", [TEXT, TEXT.encode()], ids=["str", "bytes"])
def test_text_is_parsed(text):
    schema = parse_schema(text)

    assert set(schema.node_sets) == {"a", "b"}
    assert schema.node_sets["a"].features["x"].shape.dim[0].size == 3
    assert (schema.edge_sets["e"].source, schema.edge_sets["e"].target) == ("a", "b")


def test_a_written_schema_reads_back_equal_and_equal_schemas_give_equal_files(tmp_path):
    schema = parse_schema(TEXT)
    first, second = str(tmp_path / "first.pbtxt"), str(tmp_path / "second.pbtxt")

    write_schema(schema, first)
    write_schema(read_schema(first), second)

    assert read_schema(first) == schema
    assert (tmp_path / "first.pbtxt").read_text() == (tmp_path / "second.pbtxt").read_text()


def test_files_interchange_with_the_oracle(oracle, tmp_path):
    ours, theirs = str(tmp_path / "ours.pbtxt"), str(tmp_path / "theirs.pbtxt")

    write_schema(parse_schema(TEXT), ours)
    oracle.write_schema(oracle.read_schema(ours), theirs)

    assert read_schema(theirs) == parse_schema(TEXT)


def test_messages_fields_and_numbers_are_those_of_the_oracle(oracle):
    from google.protobuf import descriptor_pb2
    from tensorflow_gnn.proto import graph_schema_pb2 as oracle_pb2

    def described(module, package):
        proto = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(proto)
        for field in ("name", "package", "options"):
            proto.ClearField(field)
        return str(proto).replace(f".{package}.", ".")

    assert described(schema_pb2, "tfx_gnn.v1") == described(oracle_pb2, "tensorflow_gnn")


def test_sets_and_features_of_a_schema_are_walked_in_order():
    schema = parse_schema(TEXT)

    assert [(kind, name) for kind, name, _ in iter_sets(schema)] == [
        ("context", ""),
        ("nodes", "a"),
        ("nodes", "b"),
        ("edges", "e"),
    ]
    assert [walked[:3] for walked in iter_features(schema)] == [
        ("context", "", "c"),
        ("nodes", "a", "#id"),
        ("nodes", "a", "x"),
        ("edges", "e", "w"),
    ]
    assert all(isinstance(feature, schema_pb2.Feature) for *_, feature in iter_features(schema))


def test_a_schema_without_context_yields_none():
    assert list(iter_sets(schema_pb2.GraphSchema())) == []


def test_sets_and_features_of_a_graph_are_walked(graph):
    sets = list(iter_sets(graph))

    assert [(kind, name) for kind, name, _ in sets][:3] == [("context", ""), ("nodes", "a"), ("nodes", "b")]
    assert sets[0][2].features.keys() == {"c"}
    assert ("edges", "late", "w") in [walked[:3] for walked in iter_features(graph)]


def test_other_values_are_not_walked():
    with pytest.raises(TypeError, match="must be a GraphSchema or a GraphTensor; got int"):
        list(iter_sets(3))


@pytest.mark.parametrize("text", ["bla", "node_sets { key: 1 }", "node_sets {", b"\xff\xfe"])
def test_malformed_text_is_refused(text, tmp_path):
    path = tmp_path / "graph_schema.pbtxt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())

    with pytest.raises((text_format.ParseError, UnicodeDecodeError)):
        parse_schema(text)
    with pytest.raises(text_format.ParseError, match=r"graph_schema\.pbtxt"):
        read_schema(str(path))


def test_a_file_name_is_not_mistaken_for_text():
    with pytest.raises(TypeError, match="`schema_text` must be str or bytes; got PosixPath"):
        parse_schema(Path("x"))


def test_missing_files_and_folders_are_named(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="absent"):
        read_schema(str(tmp_path / "absent.pbtxt"))
    with pytest.raises(tf.errors.NotFoundError, match="absent"):
        write_schema(schema_pb2.GraphSchema(), str(tmp_path / "absent" / "graph_schema.pbtxt"))


def test_the_walk_of_a_graph_gives_tensors(graph):
    features = {walked[:3]: walked[3] for walked in iter_features(graph)}

    assert features["nodes", "a", "x"].numpy().tolist() == [1.0, 2.0, 3.0]
    assert isinstance(graph, tfx_gnn.graph.GraphTensor)

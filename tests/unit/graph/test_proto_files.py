"""The generated modules are those of the .proto files beside them, and hold TF-GNN's messages."""

import re
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

import tfx_gnn.graph.proto
from tfx_gnn.graph.proto import graph_schema_pb2, sampling_spec_pb2

FOLDER = Path(tfx_gnn.graph.proto.__file__).parent
MODULES = {"graph_schema": graph_schema_pb2, "sampling_spec": sampling_spec_pb2}


def _declared(text):
    """Reads the fields and enum values of a .proto file, by the full name of what holds them."""
    tokens = re.findall(r'"[^"]*"|[\w.]+|[{}=;<>,\[\]]', re.sub(r"//[^\n]*", "", text))
    found, scope, statement = {}, [], []
    for token in tokens:
        if token == "{":
            scope.append((statement[0], statement[1]))
            statement = []
        elif token == "}":
            scope.pop()
        elif token == ";":
            holder = ".".join(name for kind, name in scope if kind != "oneof")
            if "=" in statement and statement[0] not in ("syntax", "option"):
                place = statement.index("=")
                found[f"{holder}.{statement[place - 1]}"] = int(statement[place + 1])
            statement = []
        else:
            statement.append(token)
    return found


def _generated(proto):
    found = {}

    def add_enum(enum, prefix):
        found.update({f"{prefix}{enum.name}.{value.name}": value.number for value in enum.value})

    def add_message(message, prefix):
        if not message.options.map_entry:
            found.update({f"{prefix}{message.name}.{field.name}": field.number for field in message.field})
        for enum in message.enum_type:
            add_enum(enum, f"{prefix}{message.name}.")
        for nested in message.nested_type:
            add_message(nested, f"{prefix}{message.name}.")

    for message in proto.message_type:
        add_message(message, "")
    for enum in proto.enum_type:
        add_enum(enum, "")
    return found


def _file_proto(module):
    proto = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(proto)
    return proto


@pytest.mark.parametrize("name", MODULES)
def test_a_generated_module_has_the_fields_and_numbers_of_its_proto_file(name):
    declared = _declared((FOLDER / f"{name}.proto").read_text())

    assert declared
    assert _generated(_file_proto(MODULES[name])) == declared


@pytest.mark.parametrize("name", MODULES)
def test_the_types_beside_a_generated_module_name_each_message_and_field(name):
    types = (FOLDER / f"{name}_pb2.pyi").read_text()

    for path in _generated(_file_proto(MODULES[name])):
        holder, field = path.split(".")[-2:]
        assert re.search(rf"class {holder}\b", types)
        assert re.search(rf"^\s*{field}: ", types, re.MULTILINE)


def test_sampling_specs_have_the_messages_fields_and_numbers_of_the_oracle(oracle):
    from tensorflow_gnn.sampler import sampling_spec_pb2 as oracle_pb2

    def described(module, package):
        proto = _file_proto(module)
        for field in ("name", "package", "options"):
            proto.ClearField(field)
        return str(proto).replace(f".{package}.", ".")

    assert described(sampling_spec_pb2, "tfx_gnn.v1") == described(oracle_pb2, "tensorflow_gnn.sampler")

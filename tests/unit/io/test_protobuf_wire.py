from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, struct_pb2

from tfx_gnn.io.protobuf_wire import encode_message


def test_generated_classes_read_what_was_encoded():
    field = descriptor_pb2.FieldDescriptorProto.FromString(
        encode_message({1: "knoten_größe", 3: 300, 5: 14, 7: None, 8: {2: True}, 9: -1})
    )

    assert field == descriptor_pb2.FieldDescriptorProto(
        name="knoten_größe",
        number=300,
        type=descriptor_pb2.FieldDescriptorProto.TYPE_ENUM,
        options=descriptor_pb2.FieldOptions(packed=True),
        oneof_index=-1,
    )


def test_maps_and_lists_are_repeated_messages():
    values = struct_pb2.Struct.FromString(
        encode_message({1: [{1: "rate", 2: {2: 0.25}}, {1: "sizes", 2: {6: {1: [{2: 8.0}, {4: False}]}}}]})
    )

    assert values["rate"] == 0.25
    assert list(values["sizes"]) == [8.0, False]


def test_a_value_of_another_type_is_refused_with_its_field():
    with pytest.raises(TypeError, match=r"`message` must hold numbers.*got <class 'numpy.int64'> in field 3. Convert"):
        encode_message({3: np.int64(1)})

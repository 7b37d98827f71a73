from __future__ import annotations

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.context_labels import context_labels, mark_context_labels, remove_lost_marks

TEXT = 'context { features { key: "heat" value {} } features { key: "is_even" value {} } }'


def test_labels_are_those_that_were_marked():
    schema = text_format.Parse(TEXT, GraphSchema())
    schema.context.metadata.extra.add(key="note", value="heat")

    before = context_labels(schema)
    mark_context_labels(schema, ["is_even"])

    assert before == frozenset()
    assert context_labels(schema) == {"is_even"}
    assert [(entry.key, entry.value) for entry in schema.context.metadata.extra] == [
        ("note", "heat"),
        ("label_feature", "is_even"),
    ]


def test_mark_of_no_feature_is_refused():
    schema = text_format.Parse(TEXT, GraphSchema())
    mark_context_labels(schema, ["is_odd"])

    with pytest.raises(ValueError, match=r"must mark features of the context as 'label_feature'; got \['is_odd'\]"):
        context_labels(schema)


def test_marks_go_with_their_features():
    schema = text_format.Parse(TEXT, GraphSchema())
    mark_context_labels(schema, ["heat", "is_even"])
    schema.context.metadata.extra.add(key="note", value="is_even")
    del schema.context.features["is_even"]

    remove_lost_marks(schema)

    assert context_labels(schema) == {"heat"}
    assert [entry.key for entry in schema.context.metadata.extra] == ["label_feature", "note"]

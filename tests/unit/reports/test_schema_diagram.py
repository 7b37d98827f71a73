from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.reports.schema_diagram import draw_schema


def _schema(node_sets, edge_sets):
    schema = GraphSchema()
    for name in node_sets:
        schema.node_sets[name].SetInParent()
    for name, (source, target) in edge_sets.items():
        schema.edge_sets[name].source, schema.edge_sets[name].target = source, target
    return schema


def test_node_sets_and_edge_sets_are_named_and_the_readout_is_left_out():
    schema = _schema(
        ["_readout", "a", "b"],
        {"ab": ("a", "b"), "more": ("a", "b"), "aa": ("a", "a"), "_readout/seed": ("a", "_readout")},
    )

    drawing = ET.fromstring(draw_schema(schema))

    texts = ["".join(text.itertext()) for text in drawing.iter("text")]
    assert sorted(texts) == ["a", "aaaa", "abmoreab, more", "b"]
    assert len(list(drawing.iter("rect"))) == 2
    assert sum(path.get("class") == "edge" for path in drawing.iter("path")) == 2
    assert drawing.find("title").text == "2 node sets: a, b; 3 edge sets"


@pytest.mark.parametrize("number", [0, 1, 40])
def test_any_number_of_sets_and_any_names_give_an_element(number):
    names = [f"<set & '{i}\">" for i in range(number)]
    edges = {f"<e{i}>": (name, names[-1]) for i, name in enumerate(names)}

    drawing = ET.fromstring(draw_schema(_schema(names, edges)))

    assert len(list(drawing.iter("rect"))) == number

from __future__ import annotations

from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.reports.data_figures import set_rows


def test_sets_have_their_sizes_and_features():
    schema = text_format.Parse(
        'node_sets { key: "p" value { features { key: "x" value { '
        "dtype: DT_FLOAT shape { dim { size: -1 } dim { size: 2 } } } } } } "
        'edge_sets { key: "e" value { source: "p" target: "p" } }',
        GraphSchema(),
    )

    node_set, edge_set = set_rows(schema, {"statistics": {"node_sets": {"p": {"mean": 2.5, "max": 7}}}})

    assert (node_set.mean, node_set.largest) == (2.5, 7)
    assert node_set.features == (("x", "float32 [?, 2]", ""),)
    assert (edge_set.ends, edge_set.mean) == ("p to p", None)

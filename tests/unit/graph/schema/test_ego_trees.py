from __future__ import annotations

import pytest

import tfx_gnn
from tfx_gnn.graph.batching.ego_batches import EgoHop, EgoTrees
from tfx_gnn.graph.schema.ego_trees import ego_trees, mark_ego_hops

SCHEMA = """
context {
  features { key: "hop_0" value { dtype: DT_INT64 shape { dim { size: 3 } } } }
  features { key: "hop_1" value { dtype: DT_INT64 shape { dim { size: 6 } } } }
  features { key: "hop_2" value { dtype: DT_INT64 shape { dim { size: 6 } } } } }
node_sets { key: "user" value {} }
node_sets { key: "item" value {} }
node_sets { key: "_readout" value {} }
edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }
"""
ENDS = {"context": {"hop_0": "item", "hop_1": "user", "hop_2": "item"}}
RELATIONS = {"hop_0": "buys", "hop_1": "buys_reverse", "hop_2": "buys"}


def marked(text: str = SCHEMA) -> tfx_gnn.GraphSchema:
    schema = tfx_gnn.parse_schema(text)
    tfx_gnn.mark_index_features(schema, ENDS)
    mark_ego_hops(schema, RELATIONS)
    return schema


def test_marks_give_the_form_of_trees() -> None:
    assert ego_trees(marked()) == EgoTrees(
        seed_node_set="user",
        hops=(
            EgoHop(feature="hop_0", relation="buys", node_set="item", fan_out=3),
            EgoHop(feature="hop_1", relation="buys_reverse", node_set="user", fan_out=2),
            EgoHop(feature="hop_2", relation="buys", node_set="item", fan_out=1),
        ),
    )


def test_schema_without_marks_has_no_trees() -> None:
    assert ego_trees(tfx_gnn.parse_schema(SCHEMA)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SCHEMA.replace("size: 6", "size: 7"), "got 'hop_1' with 7 indices of 'user' after 3"),
        (
            SCHEMA.replace('edge_sets { key: "_readout/seed"', 'edge_sets { key: "other"'),
            "must have edge set '_readout/seed'",
        ),
    ],
)
def test_marks_that_do_not_fit_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ego_trees(marked(text))


def test_marks_of_features_that_are_no_indices_are_refused() -> None:
    schema = tfx_gnn.parse_schema(SCHEMA)
    mark_ego_hops(schema, RELATIONS)

    with pytest.raises(ValueError, match="got 'hop_0' with 3 indices of None"):
        ego_trees(schema)

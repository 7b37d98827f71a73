"""Answers layer by layer are those from whole subgraphs, for every network that allows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_layerwise_inferrer.rules import check_subgraphs_are_whole
from tfx_gnn.components.graph_layerwise_inferrer.states import LayerStates
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.hop import SEED
from tfx_gnn.sampling.plan.inference_plan import plan_of_ids
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.serving.layerwise_model import LayerwiseModel
from tfx_gnn.transform.transform_layer import without_reserved_features

NETWORKS: dict[str, dict[str, Any]] = {
    "gcn": {"degree_normalization": "in"},
    "graph_sage": {"aggregator": "pool", "jumping_knowledge": "concat"},
    "gat_v2": {"num_heads": 2},
    "mpnn": {"features": {"encode_edges": True}},
    "gin": {"normalization": "layer", "jumping_knowledge": "max"},
    "rgcn": {},
    "hgt": {"num_heads": 2},
}


@pytest.fixture(scope="module")
def subgraphs(shop_graph, shop_index):
    """The whole subgraphs of all users, merged into one graph."""
    sampler = RecordSampler(shop_index, RecordedPlan(plan=shop_graph.PLAN, sampling_seed=0))
    records = sampler.sample({SEED: np.arange(shop_graph.NUM_USERS)})
    graph = parse_and_merge(create_graph_spec_from_schema_pb(sampler.schema), tf.constant(records))
    return without_reserved_features(graph)


@pytest.fixture(params=NETWORKS)
def network(request, shop_graph, shop_index, shop_transform_dir):
    """A model, and the functions of its layers."""
    plan = shop_graph.PLAN
    model = shop_graph.make_model(request.param, shop_index, plan, **NETWORKS[request.param])
    served = shop_graph.served_model(model, shop_index, plan, shop_transform_dir, layerwise_inference=True)
    return model, LayerwiseModel(served, served.layer_plan)


def test_states_computed_once_give_the_answers_of_whole_subgraphs(network, shop_graph, shop_index, subgraphs, tmp_path):
    plan = plan_of_ids(shop_graph.PLAN, shop_index.schema)
    model, layerwise = network
    encoder = SubgraphExampleEncoder(shop_index, plan)

    check_subgraphs_are_whole(plan, layerwise.plan, shop_index)
    # Few edges at once, so that batches need states of other batches.
    states = LayerStates(layerwise, shop_index, encoder, folder=str(tmp_path), batch_edges=20).compute()

    np.testing.assert_allclose(layerwise.answer(states)["logits"], model(subgraphs).numpy(), atol=1e-5)

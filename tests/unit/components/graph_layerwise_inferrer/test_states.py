"""Answers layer by layer are those from whole subgraphs, for every network that allows it."""

from __future__ import annotations

import functools
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

#: Layers, and hyperparameters. The second layer of a network is like its first, unless all of them are read.
NETWORKS: dict[str, tuple[int, dict[str, Any]]] = {
    "gcn": (1, {"degree_normalization": "in"}),
    "graph_sage": (2, {"aggregator": "pool", "jumping_knowledge": "concat"}),
    "gat_v2": (1, {"num_heads": 2}),
    "mpnn": (1, {"features": {"encode_edges": True}}),
    "gin": (2, {"normalization": "layer", "jumping_knowledge": "max"}),
    "rgcn": (2, {}),
    "hgt": (1, {"num_heads": 2}),
}


@pytest.fixture(scope="module")
def plans(shop_graph, shop_index, task_graphs, tmp_path_factory):
    """Gives, by number of layers, the plan, the transform of its examples, and the whole subgraphs of all users.

    The subgraphs are merged into one graph.
    """

    @functools.cache
    def make(num_layers):
        plan = shop_graph.plan_of(num_layers)
        sampler = RecordSampler(shop_index, RecordedPlan(plan=plan, sampling_seed=0))
        records = sampler.sample({SEED: np.arange(shop_graph.NUM_USERS)})
        graph = parse_and_merge(create_graph_spec_from_schema_pb(sampler.schema), tf.constant(records))
        text = shop_graph.schema_text(shop_index, plan)
        folder = str(tmp_path_factory.mktemp("plan") / "transform")
        return plan, task_graphs.write_identity_transform(folder, text), without_reserved_features(graph)

    return make


@pytest.mark.parametrize("network", NETWORKS)
def test_states_computed_once_give_the_answers_of_whole_subgraphs(network, shop_graph, shop_index, plans, tmp_path):
    num_layers, hyperparameters = NETWORKS[network]
    sampled, transform_dir, subgraphs = plans(num_layers)
    model = shop_graph.make_model(network, shop_index, sampled, **hyperparameters, num_layers=num_layers)
    served = shop_graph.served_model(model, shop_index, sampled, transform_dir, layerwise_inference=True)
    layerwise = LayerwiseModel(served, served.layer_plan)
    plan = plan_of_ids(sampled, shop_index.schema)
    encoder = SubgraphExampleEncoder(shop_index, plan)

    check_subgraphs_are_whole(plan, layerwise.plan, shop_index)
    # Few edges at once, so that batches need states of other batches.
    states = LayerStates(layerwise, shop_index, encoder, folder=str(tmp_path), batch_edges=20).compute()

    np.testing.assert_allclose(layerwise.answer(states)["logits"], model(subgraphs).numpy(), atol=1e-5)

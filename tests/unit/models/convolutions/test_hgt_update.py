from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.graph.graph_constants import TARGET
from tfx_gnn.models.convolutions.hgt_update import HGTGraphUpdate
from tfx_gnn.models.relations import relations_of


def _layer(graph, **options):
    relations = relations_of(graph.spec, options.pop("receiver_tags", (0, 1)))
    arguments = {
        "num_heads": 2,
        "per_head_channels": 1,
        "node_sets": ["paper"],
        "relations": [way for way in relations if way.receiver == "paper"],
        "dropout_rate": 0.0,
        **options,
    }
    return HGTGraphUpdate(**arguments)


def test_one_softmax_runs_over_all_relations_that_reach_a_node(library_graph):
    layer = _layer(library_graph, receiver_tags=(TARGET,), normalization="none", skip="sum", activation="linear")
    updated = layer(library_graph).node_sets["paper"]["hidden_state"].numpy()
    weights = {weight.name.split("/", 1)[1]: weight.numpy() for weight in layer.weights}

    def dense(kind, name, state):
        return state @ weights[f"{kind}_{name}/kernel:0"] + weights[f"{kind}_{name}/bias:0"]

    papers = library_graph.node_sets["paper"]["hidden_state"].numpy()
    authors = library_graph.node_sets["author"]["hidden_state"].numpy()
    # Paper 0 hears of papers 1 and 2 and of author 0. With one channel a head, matrices are numbers.
    told = [("cites", "paper", papers[1]), ("cites", "paper", papers[2]), ("writes", "author", authors[0])]
    query = dense("query", "paper", papers[0])
    logits, messages = [], []
    for edge_set, sender, state in told:
        attention = weights[f"attention_{edge_set}_{TARGET}:0"][:, 0, 0]
        logits.append(query * attention * dense("key", sender, state) * weights[f"prior_{edge_set}_{TARGET}:0"])
        messages.append(dense("message", sender, state) * weights[f"message_{edge_set}_{TARGET}:0"][:, 0, 0])
    attention = np.exp(logits) / np.exp(logits).sum(axis=0)
    heard = (attention * messages).sum(axis=0)

    np.testing.assert_allclose(updated[0], dense("output", "paper", heard) + papers[0], rtol=1e-4)


def test_a_share_of_the_old_state_is_learned(library_graph):
    layer = _layer(library_graph, normalization="none")
    layer(library_graph)
    weights = {weight.name.split("/", 1)[1]: weight for weight in layer.weights}
    weights["output_paper/kernel:0"].assign(tf.zeros([2, 2]))
    share = 1 / (1 + math.exp(-1.0))

    updated = layer(library_graph).node_sets["paper"]["hidden_state"]

    np.testing.assert_allclose(updated, (1 - share) * library_graph.node_sets["paper"]["hidden_state"], rtol=1e-5)


def test_a_skip_needs_states_of_the_new_width(library_graph):
    layer = _layer(library_graph, per_head_channels=3)

    with pytest.raises(ValueError, match="`skip` must be 'none' where a state changes its width; got 'weighted'"):
        layer(library_graph)


def test_wrong_arguments_are_refused(library_graph):
    with pytest.raises(ValueError, match="`skip` must be one of"):
        _layer(library_graph, skip="all")
    with pytest.raises(ValueError, match="`normalization` must be one of"):
        _layer(library_graph, normalization="batch")


def test_layer_is_made_again_from_its_config(library_graph, remade):
    layer = _layer(library_graph)
    result = layer(library_graph).node_sets["paper"]["hidden_state"]

    again = remade(layer, library_graph).node_sets["paper"]["hidden_state"]

    np.testing.assert_array_equal(again, result)

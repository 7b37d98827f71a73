from __future__ import annotations

import inspect

import pytest

from tfx_gnn.models import model_fns
from tfx_gnn.models.hyperparameter_list import list_hyperparameters
from tfx_gnn.models.networks import ego_gnn, gat_v2, gcn, gin, graph_sage, hgt, mpnn, rgcn

NETWORKS = {
    network.__name__: network
    for network in (
        gcn.gcn, graph_sage.graph_sage, gat_v2.gat_v2, mpnn.mpnn, gin.gin, rgcn.rgcn, hgt.hgt,
        ego_gnn.ego_sage, ego_gnn.ego_gat, ego_gnn.ego_gin,
    )
}  # fmt: skip


def _of(network):
    def takes(meaning):
        words = meaning.rpartition("Taken by ")[2].rstrip(".")
        if words.startswith("all networks"):
            return network not in words.removeprefix("all networks but ").split(", ")
        return network in words.split(", ")

    return [entry for entry in list_hyperparameters() if takes(entry.meaning)]


@pytest.mark.parametrize("network", NETWORKS)
def test_all_arguments_of_a_network_are_listed_once(network):
    assert hasattr(model_fns, network)
    listed = [entry.name for entry in _of(network)]

    arguments = set(inspect.signature(NETWORKS[network]).parameters) - {"graph_spec"}
    others = {"features", "input_dropout_rate", "l2", "learning_rate"}
    others |= set() if network.startswith("ego_") else {"sort_edges", "shared_node_sets"}
    assert sorted(listed) == sorted(arguments | others)


def test_defaults_are_those_of_the_model_functions():
    defaults = {entry.name: entry.default for entry in _of("gat_v2")}

    assert (defaults["dropout_rate"], defaults["num_layers"], defaults["num_heads"]) == ("0.1", "2", "4")
    assert {entry.name: entry.default for entry in _of("ego_gat")}["num_layers"] == "0"


def test_every_hyperparameter_says_what_it_means():
    for entry in list_hyperparameters("of."):
        assert entry.name.startswith("of.")
        assert "as for" not in entry.meaning
        assert not entry.meaning.startswith("Taken by"), entry.name
        assert entry.default

import numpy as np
import pytest
import tf_keras

import tfx_gnn
from tfx_gnn.keras.layers import (
    AddReadoutFromFirstNode,
    Broadcast,
    Pool,
    ReadoutFirstNode,
    ReadoutNamed,
    ReadoutNamedIntoFeature,
    StructuredReadout,
    StructuredReadoutIntoFeature,
)

SEEDS = [[2.0, 3.0], [4.0, 5.0]]


def test_seeds_are_read(graph):
    assert StructuredReadout("seed")(graph).numpy().tolist() == SEEDS
    assert StructuredReadout()(graph, key="seed").numpy().tolist() == SEEDS
    assert StructuredReadout("seed", feature_name="x", validate=False)(graph, key="seed").numpy().tolist() == [
        [2.0],
        [3.0],
    ]


def test_older_names_are_the_same_layers():
    assert ReadoutNamed is StructuredReadout
    assert ReadoutNamedIntoFeature is StructuredReadoutIntoFeature


def test_seeds_are_stored_on_the_readout_nodes(graph):
    stored = StructuredReadoutIntoFeature("seed", feature_name="x", new_feature_name="y", remove_input_feature=True)(
        graph
    )

    assert stored.node_sets["_readout"]["y"].numpy().tolist() == [[2.0], [3.0]]
    assert set(stored.node_sets["a"].features) == {"hidden_state"}


def test_a_stored_feature_is_only_replaced_on_demand(graph):
    with pytest.raises(ValueError, match="Output feature 'label' already exists"):
        StructuredReadoutIntoFeature("seed", feature_name="x", new_feature_name="label")(graph)
    replaced = StructuredReadoutIntoFeature("seed", feature_name="x", new_feature_name="label", overwrite=True)(graph)

    assert replaced.node_sets["_readout"]["label"].numpy().tolist() == [[2.0], [3.0]]


def test_a_structure_to_first_nodes_is_added(graph):
    with_root = AddReadoutFromFirstNode("root", node_set_name="a")(graph)

    assert StructuredReadout("root", feature_name="x")(with_root).numpy().tolist() == [[1.0], [3.0]]


@pytest.mark.parametrize("layer", [StructuredReadout, StructuredReadoutIntoFeature])
def test_exactly_one_key_is_needed(graph, layer):
    options = {"feature_name": "x"}

    with pytest.raises(
        ValueError, match=f"{layer.__name__} layer requires a readout key to be set at init or call time"
    ):
        layer(**options)(graph)
    with pytest.raises(ValueError, match="initialized with key=seed but called with key=other"):
        layer("seed", **options)(graph, key="other")


def test_a_model_is_made_again(graph, spec, again):
    inputs = tf_keras.Input(type_spec=spec)
    with_root = AddReadoutFromFirstNode("root", node_set_name="a")(inputs)
    stored = StructuredReadoutIntoFeature("root", feature_name="x")(with_root)
    model = tf_keras.Model(inputs, [StructuredReadout("seed")(stored), stored.node_sets["_readout"]["x"]])

    seeds, roots = again(model)(graph)

    np.testing.assert_array_equal(seeds, SEEDS)
    np.testing.assert_array_equal(roots, [[1.0], [3.0]])


@pytest.mark.parametrize(
    "layer",
    [
        StructuredReadout("seed"),
        StructuredReadoutIntoFeature("seed", feature_name="x"),
        AddReadoutFromFirstNode("root", node_set_name="a"),
        ReadoutFirstNode(node_set_name="a"),
        Broadcast(tfx_gnn.CONTEXT, node_set_name="a"),
        Pool(tfx_gnn.CONTEXT, "sum", node_set_name="a"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_batch_of_graphs_is_refused(batch, layer):
    with pytest.raises(ValueError, match=f"{type(layer).__name__} requires a scalar GraphTensor"):
        layer(batch)

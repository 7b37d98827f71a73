"""Networks on trees, against the networks on the subgraphs from which the trees were copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.graph.batching.ego_batches import ego_batch
from tfx_gnn.graph.schema.ego_trees import ego_trees
from tfx_gnn.keras.layers import StructuredReadout
from tfx_gnn.models.networks import ego_gnn
from tfx_gnn.models.networks.gat_v2 import gat_v2
from tfx_gnn.models.networks.gin import gin
from tfx_gnn.models.networks.graph_sage import graph_sage
from tfx_gnn.records import read_split
from tfx_gnn.sampling import Hop, SamplingPlan, SplitPlan

SCHEMA = """
node_sets { key: "paper" value {
  metadata { filename: "papers.csv" } features { key: "x" value { dtype: DT_FLOAT } } } }
edge_sets { key: "cites" value { source: "paper" target: "paper" metadata { filename: "cites.csv" } } }
"""
NUM_PAPERS = 40


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("papers")
    random = np.random.default_rng(5)
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    papers = "".join(f"p{number},{value}\n" for number, value in enumerate(random.normal(size=NUM_PAPERS)))
    (folder / "papers.csv").write_text(f"id,x\n{papers}")
    # Without loops: subgraphs do not tell which of two hops found an edge of the seed.
    pairs = {(a, b) for a, b in random.integers(NUM_PAPERS, size=[90, 2]).tolist() if a != b}
    (folder / "cites.csv").write_text("source,target\n" + "".join(f"p{a},p{b}\n" for a, b in sorted(pairs)))
    plan = SamplingPlan(
        seed_node_set="paper",
        hops=(
            Hop(edge_set="cites", fan_out=3, name="first", padding="replicate"),
            Hop(edge_set="cites", fan_out=2, name="second", inputs=("first",), padding="replicate"),
        ),
        expands_seed_again=True,
        is_ego=True,
        splits=SplitPlan(weights={"train": 1}),
    )
    examples_dir = str(folder / "examples")
    generate_subgraph_examples(
        tables_dir=str(folder), examples_dir=examples_dir, options=SubgraphExampleGenOptions(plan=plan)
    )
    return examples_dir


Batches = tuple[tfx_gnn.GraphTensor, tfx_gnn.GraphTensor]


@pytest.fixture(scope="module")
def batches(examples: str) -> Batches:
    """All examples as one graph, and as one batch of trees, with random states."""
    schema = tfx_gnn.read_schema(f"{examples}/graph_schema.pbtxt")
    spec = tfx_gnn.create_graph_spec_from_schema_pb(schema)
    serialized = tf.stack(list(read_split(examples, "train")))
    graph = tfx_gnn.parse_and_merge(spec, serialized, index_features=tfx_gnn.index_features(schema))
    x = graph.node_sets["paper"]["x"][:, tf.newaxis]
    state = tf.concat([x, x**2, tf.sin(x), tf.cos(5.0 * x)], axis=1)
    graph = graph.replace_features(node_sets={"paper": {"hidden_state": state}})
    trees = ego_trees(schema)
    assert trees is not None
    assert (trees.seed_node_set, [hop.relation for hop in trees.hops]) == ("paper", ["cites", "cites"])
    return graph, ego_batch(graph, trees)[0]


@pytest.mark.parametrize(
    ("of_trees", "of_graphs"),
    [
        *(
            (
                lambda spec, name=name: ego_gnn.ego_sage(spec, units=5, aggregator=name),
                lambda spec, name=name: graph_sage(
                    spec, units=5, num_layers=2, aggregator=name, receiver_tags=(tfx_gnn.SOURCE,)
                ),
            )
            for name in ("mean", "pool")
        ),
        (
            lambda spec: ego_gnn.ego_gat(spec, units=6, num_heads=2, residual=True),
            lambda spec: gat_v2(
                spec, units=6, num_layers=2, num_heads=2, residual=True, receiver_tags=(tfx_gnn.SOURCE,)
            ),
        ),
        (
            lambda spec: ego_gnn.ego_gin(spec, units=6),
            lambda spec: gin(spec, units=6, num_layers=2, normalization="layer", receiver_tags=(tfx_gnn.SOURCE,)),
        ),
    ],
)
def test_seeds_get_the_states_of_the_network_on_subgraphs(
    batches: Batches,
    of_trees: Callable[[tfx_gnn.GraphTensorSpec], tf_keras.layers.Layer],
    of_graphs: Callable[[tfx_gnn.GraphTensorSpec], tf_keras.layers.Layer],
) -> None:
    graph, dense = batches
    sparse_network, dense_network = of_graphs(graph.spec), of_trees(dense.spec)
    expected = StructuredReadout("seed")(sparse_network(graph))
    assert StructuredReadout("seed")(dense_network(dense)).shape == expected.shape
    assert [weight.shape for weight in dense_network.weights] == [weight.shape for weight in sparse_network.weights]
    dense_network.set_weights(sparse_network.get_weights())

    np.testing.assert_allclose(StructuredReadout("seed")(dense_network(dense)), expected, atol=1e-5)


def test_fewer_layers_than_hops_leave_out_the_last_ones(batches: Batches) -> None:
    _, dense = batches
    one = ego_gnn.ego_sage(dense.spec, units=5, num_layers=1)

    assert StructuredReadout("seed")(one(dense)).shape == [NUM_PAPERS, 5]
    assert len(one.weights) == 3


def test_more_layers_than_hops_are_refused(batches: Batches) -> None:
    with pytest.raises(ValueError, match=r"`num_layers` must lie in \[0, 2\], the number of hops of the trees; got 3"):
        ego_gnn.ego_sage(batches[1].spec, units=5, num_layers=3)


def test_other_graphs_are_refused(batches: Batches) -> None:
    with pytest.raises(ValueError, match="must be that of a batch of ego graphs"):
        ego_gnn.ego_sage(batches[0].spec, units=5)


def test_network_is_rebuilt_from_its_config(batches: Batches) -> None:
    _, dense = batches
    network: Any = ego_gnn.ego_sage(dense.spec, units=5)
    expected = network(dense).node_sets["paper"]["hidden_state"]
    again = ego_gnn.EgoGNN.from_config(network.get_config())
    again(dense)
    again.set_weights(network.get_weights())

    np.testing.assert_array_equal(again(dense).node_sets["paper"]["hidden_state"], expected)

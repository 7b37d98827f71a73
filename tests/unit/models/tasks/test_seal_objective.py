"""Links scored by the subgraph around each pair: one candidate for each example."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.models import model_fns
from tfx_gnn.models.tasks import GraphRegression, LinkPrediction, MultiTask
from tfx_gnn.sampling import Hop, Negatives, SamplingPlan, SplitPlan, make_seeds, rank_edges, read_tables
from tfx_gnn.sampling.examples.subgraph_examples import subgraph_dataset

SEAL = LinkPrediction(scoring="seal", pooling="mean|sum")


def test_score_is_made_of_the_states_of_all_nodes(single_pairs):
    layers = SEAL.objective().output_layers()

    embeddings = layers.readout(single_pairs).numpy()

    states = np.split(single_pairs.node_sets["item"]["hidden_state"].numpy(), [2, 6])
    expected = [[*of_graph.mean(axis=0), *of_graph.sum(axis=0)] for of_graph in states]
    np.testing.assert_allclose(embeddings, expected, rtol=1e-5)
    scores = layers(single_pairs).numpy()
    bias, kernel = sorted(layers.trainable_variables, key=lambda variable: variable.shape.rank)
    np.testing.assert_allclose(scores, embeddings @ kernel.numpy()[:, 0] + bias.numpy(), rtol=1e-4)


def test_hidden_layers_come_between_states_and_score(single_pairs):
    layers = LinkPrediction(scoring="seal", hidden_units=(3,)).objective().output_layers()

    assert layers(single_pairs).shape == (3,)
    shapes = [variable.shape.as_list() for variable in layers.trainable_variables]
    assert sorted(shapes) == [[1], [3], [3, 1], [4, 3]]


def test_metrics_are_those_that_need_no_ranks():
    assert [metric.name for metric in SEAL.objective().weighted_metrics()] == ["auc", "average_precision"]


def test_several_candidates_in_one_example_are_refused(pairs, single_pairs):
    objective = SEAL.objective()

    assert objective.served_outputs(tf.constant([1.0, 2.0, 3.0]), single_pairs)["scores"].numpy().tolist() == [
        [1.0],
        [2.0],
        [3.0],
    ]
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have one candidate pair each"):
        objective.served_outputs(tf.range(6.0), pairs)


def test_budget_must_hold_one_candidate_for_each_component(single_pairs):
    edges = {"_readout/source": 4, "_readout/target": 4}
    good = SizeConstraints(4, {"item": 12, "_readout": 4}, edges, {"_readout": 1})

    SEAL.objective().check_budget(good, single_pairs.spec)

    with pytest.raises(ValueError, match="one '_readout' node per component"):
        SEAL.objective().check_budget(good._replace(total_num_components=3), single_pairs.spec)


def test_examples_in_which_nothing_tells_the_pair_are_warned_of(single_pairs, caplog):
    labels = tf.zeros([single_pairs.node_sets["item"].total_size], tf.int64)
    labeled = single_pairs.replace_features(node_sets={"item": {"structure_label": labels}})

    SEAL.objective().check_spec(labeled.spec)
    assert not caplog.records
    SEAL.objective().check_spec(single_pairs.spec)

    assert "got no feature 'structure_label' in any node set. Set `structure_labels`" in caplog.text


def test_tasks_on_the_same_pairs_read_out_in_their_own_ways(single_pairs):
    label = single_pairs.node_sets["_readout"]["label"]
    graph = single_pairs.replace_features(node_sets={"_readout": {"label": label, "other": label}})
    task = MultiTask(tasks={"ends": LinkPrediction(label_feature="other"), "around": SEAL})

    outputs = task.objective().output_layer()(graph)

    assert {name: tuple(output.shape) for name, output in outputs.items()} == {"ends": (3,), "around": (3,)}


@pytest.mark.parametrize(
    ("features", "tables"),
    [
        ({}, [[103, 16]]),
        ({"units": 4}, [[103, 4]]),
        ({"embeddings": {"nodes.structure_label": {"rows": 12, "units": 2}}}, [[13, 2]]),
        ({"embeddings": {"nodes/nodes.structure_label": {"rows": 12, "units": 2}}}, [[13, 2]]),
        ({"numeric": ["nodes.structure_label"]}, []),
        ({"ignored": ["nodes.structure_label"]}, []),
    ],
)
def test_structure_labels_are_embedded_unless_told_otherwise(features, tables):
    labels = tf.constant([[0, 11], [11, 0], [1, 1]], tf.int64)
    graph = tfx_gnn.homogeneous(
        source=tf.constant([0]), target=tf.constant([2]), node_features={"structure_label": labels}
    )
    objective = GraphRegression(label_feature="y").objective()

    model = model_fns.gcn(
        graph.spec, objective=objective, hyperparameters={"units": 8, "num_layers": 1, "features": features}
    )

    shapes = [weight.shape.as_list() for weight in model.weights if "tables" in weight.name]
    assert shapes == tables


# Where common neighbors decide -------------------------------------------------------------------------------------

NUM_USERS, NUM_GROUPS = 60, 30
SCHEMA = """
node_sets { key: "user" value { metadata { filename: "users.csv" } } }
node_sets { key: "group" value { metadata { filename: "groups.csv" } } }
edge_sets { key: "in" value { source: "user" target: "group" metadata { filename: "in.csv" } } }
edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows.csv" } } }
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Users in two groups each; those who share a group know each other. Nothing has a feature."""
    folder = tmp_path_factory.mktemp("groups")
    order = np.random.default_rng(0).permutation(2 * NUM_USERS) % NUM_GROUPS
    groups = [{int(order[user]), int(order[user + NUM_USERS])} for user in range(NUM_USERS)]
    pairs = [(a, b) for a, b in itertools.combinations(range(NUM_USERS), 2) if groups[a] & groups[b]]
    rows = {
        "users": ("id", [(user,) for user in range(NUM_USERS)]),
        "groups": ("id", [(group,) for group in range(NUM_GROUPS)]),
        "in": ("source,target", [(user, group) for user, of_user in enumerate(groups) for group in sorted(of_user)]),
        "knows": ("source,target", [pair for one in pairs for pair in (one, one[::-1])]),
    }
    Path(folder / "graph_schema.pbtxt").write_text(SCHEMA)
    for name, (header, values) in rows.items():
        Path(folder / f"{name}.csv").write_text(
            "\n".join([header, *(",".join(map(str, row)) for row in values)]) + "\n"
        )
    return read_tables(str(folder))


def _plan(**options: Any) -> SamplingPlan:
    return SamplingPlan(
        seed_edge_set="knows",
        hops=(Hop(edge_set="in", strategy="full", inputs=("source", "target")),),
        reverse_edge_sets=("knows",),
        splits=SplitPlan(weights={"train": 2, "test": 1}),
        **options,
    )


def _graph(tables: Any, plan: SamplingPlan, split: str) -> GraphTensor:
    """All examples of a split as one graph."""
    seeds, _ = make_seeds(tables, plan, sampling_seed=1)
    examples = subgraph_dataset(tables, plan, seeds[split], edge_ranks=rank_edges(tables, plan))
    graph = next(iter(examples.batch(len(examples)))).merge_batch_to_components()
    return graph.remove_features(node_sets={"user": ["#id"], "group": ["#id"]}, edge_sets={"in": ["#id"]})


def _auc(tables: Any, task: LinkPrediction, plan: SamplingPlan) -> float:
    """Of the test pairs, after a few steps on all training pairs at once."""
    tf_keras.utils.set_random_seed(1)
    objective = task.objective()
    train, test = (objective.split_off_labels(_graph(tables, plan, split)) for split in ("train", "test"))
    spec = train[0].spec.relax(num_components=True, num_nodes=True, num_edges=True)
    model = model_fns.graph_sage(spec, objective=objective, hyperparameters={"units": 8, "dropout_rate": 0.0})
    model.compile(tf_keras.optimizers.Adam(0.03), **objective.compile_arguments())
    model.fit(tf.data.Dataset.from_tensors(train).repeat(40), verbose=0)
    found: dict[str, float] = model.evaluate(tf.data.Dataset.from_tensors(test), verbose=0, return_dict=True)
    return found["auc"]


def test_links_are_told_by_labels_of_the_subgraph(tables):
    plan = _plan(negatives=Negatives(num_per_positive=2, own_subgraphs=True), structure_labels="distance")

    assert _auc(tables, SEAL, plan) > 0.99


def test_links_are_not_told_by_the_ends_of_subgraphs_without_labels(tables):
    plan = _plan(negatives=Negatives(num_per_positive=2))

    assert _auc(tables, LinkPrediction(scoring="hadamard", hidden_units=(8,)), plan) < 0.6

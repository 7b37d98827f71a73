"""What explanations attribute, worked out by hand, and that gates of all networks agree with deleted edges."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn
from tfx_gnn import models
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.ops.edge_edits import mask_edges
from tfx_gnn.graph.ops.gates import Gates, gated
from tfx_gnn.models.tasks import GraphRegression, LinkPrediction, MultiTask, NodeClassification
from tfx_gnn.serving.explanation import Explainer
from tfx_gnn.serving.model_interface import read_served_task
from tfx_gnn.training.export.explanations import explain_graph
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.transform.transform_layer import without_reserved_features

GRAPH = tfx_gnn.homogeneous(
    source=tf.constant([0, 1, 2, 2]),
    target=tf.constant([1, 2, 0, 0]),
    node_features=tf.constant(np.random.default_rng(0).normal(size=(3, 4)), tf.float32),
    edge_features={"relation": tf.constant([0, 1, 1, 0])},
)
NETWORKS: dict[str, dict[str, Any]] = {
    "gcn": {},
    "graph_sage": {"aggregator": "pool"},
    "gat_v2": {"num_heads": 2},
    "mpnn": {},
    "gin": {},
    "rgcn": {"relation_feature": "relation", "num_relations": 2},
    "hgt": {"num_heads": 2},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_gates_of_0_equal_deleted_edges_and_gates_of_1_change_nothing(name: str) -> None:
    tf_keras.utils.set_random_seed(0)
    network = getattr(models, name)(GRAPH.spec, units=4, num_layers=2, **NETWORKS[name])
    deleted = mask_edges(GRAPH, "edges", tf.zeros([4], tf.bool))

    def states(graph: tfx_gnn.GraphTensor, gate: float | None = None) -> Any:
        gates = None if gate is None else Gates(graph=graph, edges={"edges": tf.fill([4], gate)}, features={})
        with gated(gates):
            return network(graph).node_sets["nodes"]["hidden_state"].numpy()

    np.testing.assert_allclose(states(GRAPH, 1.0), states(GRAPH), atol=1e-5)
    np.testing.assert_allclose(states(GRAPH, 0.0), states(deleted), atol=1e-5)
    assert np.abs(states(GRAPH) - states(deleted)).max() > 1e-2


def _two_graphs() -> tfx_gnn.GraphTensor:
    """Two graphs, of three and two nodes, with two edges and one."""
    return tfx_gnn.GraphTensor.from_pieces(
        context=tfx_gnn.Context.from_fields(features={}, shape=[]),
        node_sets={
            "n": tfx_gnn.NodeSet.from_fields(
                sizes=tf.constant([3, 2]), features={"x": tf.constant([1.0, 2.0, 5.0, 3.0, 4.0])}
            )
        },
        edge_sets={
            "e": tfx_gnn.EdgeSet.from_fields(
                sizes=tf.constant([2, 1]),
                adjacency=tfx_gnn.Adjacency.from_indices(("n", tf.constant([0, 1, 3])), ("n", tf.constant([2, 2, 4]))),
            )
        },
    )


def _sum_of_messages(graph: tfx_gnn.GraphTensor) -> Mapping[str, tf.Tensor]:
    received = tfx_gnn.pool_neighbors_to_node(graph, "e", tfx_gnn.TARGET, reduce_type="sum", feature_name="x")
    total = tfx_gnn.pool_nodes_to_context(graph, "n", "sum", feature_value=received * received)
    return {"prediction": tf.stack([total, -total], axis=1)}


@functools.lru_cache
def _explained(steps: int) -> dict[str, Any]:
    found = tf.function(explain_graph)(_sum_of_messages, _two_graphs(), tf.constant([-1, 1], tf.int64), steps=steps)
    return {name: value.numpy().tolist() for name, value in found.items()}


def test_edges_share_the_value_by_the_integral_of_their_gradient() -> None:
    found = _explained(4)

    # (1 + 2)^2 falls to the edges as 3 * 1 and 3 * 2; -(3^2) to the only edge.
    assert found["target"] == [0, 1]
    assert found["value"] == [9.0, -9.0]
    assert found["value_without_edges"] == [0.0, 0.0]
    np.testing.assert_allclose(found["edges/e"], [[3.0, 6.0], [-9.0, 0.0]], rtol=1e-5)
    np.testing.assert_allclose(found["edges_error"], [0.0, 0.0], atol=1e-5)


def test_features_share_it_by_item_and_rows_are_padded() -> None:
    found = _explained(4)

    np.testing.assert_allclose(found["nodes/n.x"], [[3.0, 6.0, 0.0], [-9.0, 0.0, 0.0]], rtol=1e-5)
    np.testing.assert_allclose(found["features_error"], [0.0, 0.0], atol=1e-5)


def test_one_step_too_few_shows_in_the_errors() -> None:
    # With points t^2 and weights 2t, one point at t = 1/2 turns the integral of 18a = 18t^2 into 18 / 4.
    assert _explained(1)["edges_error"] == [4.5, -4.5]


def test_messages_that_cannot_be_gated_show_in_the_error() -> None:
    def own_pooling(graph: tfx_gnn.GraphTensor) -> Mapping[str, tf.Tensor]:
        ends = graph.edge_sets["e"].adjacency
        sent = tf.gather(graph.node_sets["n"]["x"], ends.source)
        received = tf.math.unsorted_segment_sum(sent, ends.target, graph.node_sets["n"].total_size)
        return {"prediction": tfx_gnn.pool_nodes_to_context(graph, "n", "sum", feature_value=received)[:, tf.newaxis]}

    found = tf.function(explain_graph)(own_pooling, _two_graphs(), tf.constant([0, 0], tf.int64), steps=2)

    assert "edges/e" not in found
    assert found["edges_error"].numpy().tolist() == [3.0, 3.0]


def test_a_target_that_does_not_exist_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="`target` must hold, for each example, the position"):
        explain_graph(_sum_of_messages, _two_graphs(), tf.constant([0, 2], tf.int64), steps=1)


def test_a_candidate_is_explained_by_the_ends_of_its_pair(task_graphs: Any, make_record: Callable[..., bytes]) -> None:
    task = LinkPrediction(projects_states=False)
    objective, model = task.objective(), task_graphs.model_of(task, task_graphs.LINK_SCHEMA)
    spec = objective.without_labels(task_graphs.raw_spec(task_graphs.LINK_SCHEMA))
    records = [make_record(example) for example in task_graphs.LINK_EXAMPLES[:2]]
    graph = without_reserved_features(parse_and_merge(spec, tf.constant(records)))

    found = explain_graph(
        lambda graph: objective.served_outputs(model(graph), graph), graph, tf.constant([1, -1], tf.int64), steps=3
    )

    # States are [x, -x], so the score of 1 and -2 is -4, and that of -1 and 2, too; no edge is read.
    assert found["target"].numpy().tolist() == [1, 0]
    assert found["value"].numpy().tolist() == [-4.0, -4.0]
    np.testing.assert_allclose(found["nodes/item.x"], [[-2.0, 0.0, -2.0, 0.0], [-2.0, -2.0, 0.0, 0.0]], atol=1e-5)
    assert "edges/link" not in found


@pytest.fixture(scope="module")
def saved_model_dir(task_graphs: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An export of two tasks, about nodes and about graphs."""
    tasks = {
        "color": NodeClassification(label_feature="color", num_classes=2),
        "shape": GraphRegression(label_feature="shape"),
    }
    schema = task_graphs.NODE_SCHEMA.replace('"shape" value { dtype: DT_INT64 }', '"shape" value { dtype: DT_FLOAT }')
    folder = str(tmp_path_factory.mktemp("two") / "model")
    with libraries_traced_as_written():
        task_graphs.export(folder, MultiTask(tasks=tasks), schema, explanation_steps=4, embedding_normalization="l2")
    return str(Path(folder) / "Format-Serving")


def test_each_task_of_several_has_a_signature(
    saved_model_dir: str, task_graphs: Any, make_record: Callable[..., bytes]
) -> None:
    record = make_record({**task_graphs.NODE_EXAMPLES[0], "context/shape": [0.0]})

    color, shape = (next(Explainer(saved_model_dir, task=task).explain([record])) for task in ("color", "shape"))

    # The seed of 0.5 has the logits [0.5, -0.5]; the graph of 1 and 0.5 has the mean state [0.75, -0.75].
    assert (color.method, color.task, color.target_name, color.value) == ("gradients", "color", "0", 1.0)
    assert [(node.id, round(node.weight, 4)) for node in color.nodes] == [("a1", 1.0), ("a0", 0.0)]
    assert shape.value == pytest.approx(0.75)
    assert {node.id: round(node.weight, 4) for node in shape.nodes} == {"a0": 0.5, "a1": 0.25}
    assert color.features == {"nodes/item.x": pytest.approx(1.0)}
    assert [(edge.source_id, edge.target_id, edge.weight) for edge in color.edges] == [("a0", "a1", 0.0)]


def test_the_export_declares_its_classes_edges_and_normalized_embeddings(
    saved_model_dir: str, task_graphs: Any, make_record: Callable[..., bytes]
) -> None:
    served = read_served_task(saved_model_dir)
    signature = tf.saved_model.load(saved_model_dir).signatures["embeddings"]
    record = make_record(task_graphs.NODE_EXAMPLES[0])

    assert served is not None
    assert (served.classes, served.edge_ends) == (
        {"color": ["0", "1"]},
        {"_readout/seed": ["item", "_readout"], "link": ["item", "item"]},
    )
    assert served.embedding_normalization == "l2"
    assert served.embedding_dimensions == {"color/embedding": 2, "shape/embedding": 2}
    found = signature(examples=tf.constant([record]))
    np.testing.assert_allclose(found["color/embedding"], [[0.5**0.5, -(0.5**0.5)]], rtol=1e-5)


def test_a_task_among_several_must_be_named(saved_model_dir: str) -> None:
    with pytest.raises(ValueError, match=r"`task` must be one of \['color', 'shape'\]"):
        Explainer(saved_model_dir)

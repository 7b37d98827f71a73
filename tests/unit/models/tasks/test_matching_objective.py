"""Classes of pairs of graphs."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.models.tasks import GraphMatching, Task
from tfx_gnn.models.tasks.label_places import GraphReadout
from tfx_gnn.models.tasks.matching_objective import GraphPairReadout, MatchLogits


@pytest.fixture
def graph():
    """Two pairs with states; the second pair has no node on its right side."""
    states = {"s": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "t": [[-1.0, 1.0], [1.0, 3.0]]}
    sizes = {"s": [2, 1], "t": [2, 0]}
    return tfx_gnn.GraphTensor.from_pieces(
        tfx_gnn.Context.from_fields(features={"alike": tf.constant([1, 0], tf.int64)}),
        node_sets={
            name: tfx_gnn.NodeSet.from_fields(sizes=sizes[name], features={"hidden_state": tf.constant(states[name])})
            for name in "st"
        },
    )


def test_each_side_is_pooled_by_itself(graph):
    layer = GraphPairReadout(["s"], ["t"], "mean|max")

    again = GraphPairReadout.from_config(layer.get_config())

    expected = [[2, 3, 3, 4, 0, 2, 1, 3], [5, 6, 5, 6, 0, 0, 0, 0]]
    assert again(graph).numpy().tolist() == expected


def test_chosen_node_sets_are_pooled(graph):
    layer = GraphReadout.from_config(GraphReadout("sum", node_sets=["t"]).get_config())

    assert layer(graph).numpy().tolist() == [[0, 4], [0, 0]]
    with pytest.raises(ValueError, match=r"`node_sets` must name node sets with feature 'hidden_state'; got \['u'\]"):
        GraphReadout(node_sets=["u"])(graph)


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [("dot", [[0.0, 11.0], [0.0, 0.0]]), ("hadamard", [[0.0, 11.0], [0.0, 0.0]]), ("difference", [[0.0, 4.0]] * 2)],
)
def test_vectors_are_compared(scoring, expected):
    vectors = tf.constant([[1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 3.0]])
    layer = MatchLogits(scoring)
    layer(vectors)
    # The bias of a sum stays 0; its weights are made 1.
    layer.set_weights([np.ones_like(weight) if weight.ndim == 2 else weight for weight in layer.get_weights()])

    assert MatchLogits.from_config(layer.get_config())(vectors).shape.as_list() == [2, 2]
    assert layer(vectors).numpy().tolist() == expected


def test_it_is_a_classification_of_graphs(graph):
    task = GraphMatching(label_feature="alike", left=("s",), right=("t",), class_weights={"1": 2.0})
    assert options_json.from_json(options_json.to_json(task), Task) == task
    objective = task.objective()

    objective.check_spec(graph.spec)
    without, labels = objective.split_off_labels(graph)
    output = objective.output_layer()(without)

    assert labels.numpy().tolist() == [1, 0]
    assert objective.weights(labels).numpy().tolist() == [2.0, 1.0]
    assert sorted(objective.served_outputs(output, without)) == ["label", "logits", "probabilities", "score"]
    assert [metric.name for metric in objective.weighted_metrics()] == ["accuracy", "macro_f1"]


def test_examples_without_one_side_are_refused(graph):
    objective = GraphMatching(label_feature="alike", left=("s",), right=("u",)).objective()

    with pytest.raises(ValueError, match=r"must name node sets of the examples as `left` and `right`; got \['u'\]"):
        objective.check_spec(graph.spec)


def test_states_of_different_widths_are_refused(graph):
    wide = graph.replace_features(node_sets={"t": {"hidden_state": tf.zeros([2, 5])}})

    with pytest.raises(ValueError, match="states of the same widths on both sides"):
        GraphPairReadout(["s"], ["t"])(wide)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scoring": "cosine"}, r"`scoring` must be one of \['dot', 'hadamard', 'difference'\]; got 'cosine'"),
        ({"num_classes": 3}, "`num_classes` must be 2 for pairs of graphs; got 3"),
        ({"left": ()}, "must name different node sets, as many; got"),
        ({"left": ("t",)}, "must name different node sets, as many; got"),
        ({"right": ("t", "u")}, "must name different node sets, as many; got"),
        ({"scoring": "dot", "hidden_units": (4,)}, "`hidden_units` must be positive, and empty for scoring='dot'"),
        ({"hidden_units": (0,)}, "`hidden_units` must be positive"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GraphMatching(**{"label_feature": "alike", "left": ("s",), "right": ("t",), **options})


def test_vocabulary_of_three_classes_is_refused():
    task = GraphMatching(label_feature="alike", left=("s",), right=("t",), num_classes=0, class_vocabulary="kinds")

    with pytest.raises(ValueError, match="must have two classes for pairs of graphs"):
        task.objective(lambda _: [b"a", b"b", b"c"])

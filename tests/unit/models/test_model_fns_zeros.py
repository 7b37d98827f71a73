"""All ready networks where there is nothing: no features, features of no width, no items, no edges, no graphs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors, graph_to_flat_tensors
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.models import model_fns as ready
from tfx_gnn.models.tasks import GraphRegression, LinkPrediction, NodeClassification, NodeRegression

CLASSES = NodeClassification(label_feature="label", num_classes=3)
ENERGY = GraphRegression(label_feature="energy")
# Each network with one of the ways to have no width, and each task with some network.
CASES = {
    "gcn": ("no features", CLASSES),
    "graph_sage": ("no width", ENERGY),
    "gat_v2": ("no width", LinkPrediction()),
    "mpnn": ("no features", NodeRegression(label_feature="price")),
    "gin": ("no width", CLASSES),
    "rgcn": ("no features", LinkPrediction()),
    "hgt": ("no features", ENERGY),
}


def _graph(width, num_graphs=2, num_users=3, num_items=2):
    """Users know and buy, if there are any; nobody haunts anything. The seed of a graph is its first user."""

    def nodes(number):
        features = {"z": tf.zeros([number * num_graphs, 0])} if width == "no width" else {}
        return NodeSet.from_fields(sizes=tf.fill([num_graphs], number), features=features)

    def edges(source, target, number, *, of_width):
        name_of_source, ends_of_source = source
        name_of_target, ends_of_target = target
        ends = [
            tf.constant([end + graph * size for graph in range(num_graphs) for end in ends], tf.int32)
            for ends, size in (ends_of_source, ends_of_target)
        ]
        features = {"w": tf.zeros([number * num_graphs, 0])} if of_width and width == "no width" else {}
        adjacency = Adjacency.from_indices((name_of_source, ends[0]), (name_of_target, ends[1]))
        return EdgeSet.from_fields(sizes=tf.fill([num_graphs], number), features=features, adjacency=adjacency)

    def root(name, size):
        return edges((name, ([0], size)), ("_readout", ([0], 1)), 1, of_width=False)

    buys = range(min(num_users, num_items))
    return GraphTensor.from_pieces(
        context=Context.from_fields(sizes=tf.fill([num_graphs], 1)),
        node_sets={name: nodes(number) for name, number in (("user", num_users), ("item", num_items), ("ghost", 0))}
        | {"_readout": NodeSet.from_fields(sizes=tf.fill([num_graphs], 1))},
        edge_sets={
            "knows": edges(
                ("user", (range(1, num_users), num_users)), ("user", ([0] * (num_users - 1), num_users)),
                num_users - 1, of_width=True,
            ),
            "buys": edges(("user", (buys, num_users)), ("item", (buys, num_items)), len(buys), of_width=True),
            "haunts": edges(("ghost", ([], 0)), ("item", ([], num_items)), 0, of_width=False),
            "_readout/seed": root("user", num_users),
            "_readout/source": root("user", num_users),
            "_readout/target": root("user", num_users),
        },
    )  # fmt: skip


class _Served(tf.Module):
    """A model that is saved; graphs are flat tensors."""

    def __init__(self, model, spec):
        super().__init__()
        self.saved_variables = list(model.variables)
        self.answer = tf.function(
            lambda flat: model(graph_from_flat_tensors(spec, flat), training=False),
            input_signature=[graph_flat_tensor_specs(spec)],
            autograph=False,
        )


@pytest.mark.parametrize("name", CASES)
def test_network_learns_and_answers_of_nothing(name, tmp_path):
    width, task = CASES[name]
    objective = task.objective()
    graph = _graph(width)
    spec = graph.spec.relax(num_components=True, num_nodes=True, num_edges=True)
    model = getattr(ready, name)(spec, objective=objective, hyperparameters={"units": 4, "num_layers": 1})
    assert all(weight.shape.num_elements() for weight in model.weights)
    before = model.get_weights()
    model.compile(optimizer=tf_keras.optimizers.SGD(0.1), loss="mse")
    target = tf.reshape(tf.range(tf.size(model(graph)), dtype=tf.float32), model(graph).shape)

    tf.function(model.train_step, autograph=False)((graph, target))
    tf.saved_model.save(_Served(model, spec), str(tmp_path))
    served = tf.saved_model.load(str(tmp_path))

    # Alike beside others: of no items and no edges, of one item, and of no graph at all.
    graphs = [graph, _graph(width, num_items=0), _graph(width, 1, 1, 1), _graph(width, 0)]
    requests = [graph_to_flat_tensors(one) for one in graphs]
    expected = [model(one).numpy() for one in graphs]
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(served.answer, requests * 5))
    for given, alone in zip(answers, expected * 5, strict=True):
        np.testing.assert_allclose(given, alone, rtol=1e-4, atol=1e-5)
        assert np.isfinite(given).all()
    assert [len(alone) for alone in expected] == [2, 2, 1, 0]
    assert all(np.isfinite(weight).all() for weight in model.get_weights())
    assert not all(map(np.array_equal, before, model.get_weights()))


@pytest.mark.parametrize("name", CASES)
def test_states_of_no_width_are_refused(name):
    with pytest.raises(ValueError, match="`units` must be at least 1; got 0"):
        getattr(ready, name)(_graph("no features").spec, objective=CLASSES.objective(), hyperparameters={"units": 0})

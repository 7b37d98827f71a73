"""Graphs for the tests of the graph core, and its oracle."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import tfx_gnn.graph


@pytest.fixture(scope="session")
def oracle() -> types.ModuleType:
    """tensorflow-gnn, where there is one for this Python."""
    return pytest.importorskip("tensorflow_gnn", reason="tensorflow-gnn ends with Python 3.10")


@pytest.fixture(params=["eager", "traced"])
def run(request):
    """Calls a function of tensors or graphs eagerly, and from a tf.function without static sizes."""
    if request.param == "eager":
        return lambda function, *args: function(*args)

    def traced(function, *args):
        specs = [_relaxed_spec(arg) for arg in args]
        return tf.function(function, input_signature=specs)(*args)

    return traced


def _relaxed_spec(value):
    spec = tf.type_spec_from_value(value)
    if hasattr(spec, "relax"):
        return spec.relax(num_components=True, num_nodes=True, num_edges=True)
    return spec


def plain(value):
    """Turns tensors, ragged tensors and graphs into lists and dicts with dtypes, to compare."""
    if isinstance(value, tf.RaggedTensor):
        return "ragged", value.dtype.name, value.to_list()
    if isinstance(value, tf.Tensor):
        return "dense", value.dtype.name, value.shape.as_list(), value.numpy().tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "node_sets"):
        return {
            "context": _plain_piece(value.context),
            "nodes": {name: _plain_piece(piece) for name, piece in value.node_sets.items()},
            "edges": {name: _plain_piece(piece) for name, piece in value.edge_sets.items()},
        }
    return value


def _plain_piece(piece):
    described = {name: plain(value) for name, value in piece.features.items()}
    described["sizes"] = plain(piece.sizes)
    if hasattr(piece, "adjacency"):
        for tag, (name, index) in piece.adjacency.get_indices_dict().items():
            described["end", tag] = name, plain(index)
    return described


@pytest.fixture(scope="session", name="plain")
def plain_fixture():
    return plain


@dataclasses.dataclass(frozen=True)
class GraphPlan:
    """What `build` makes a scalar graph from, for either library.

    Node sets "a" and "b"; edge sets "ab" (a to b), "ba" (b to a), "aa" (a to a).
    """

    node_sizes: dict[str, list[int]]
    edge_sizes: dict[str, list[int]]
    seed: int

    def build(self, library):
        """Makes the graph with dense, ragged, integer and string features of small whole numbers."""
        random = np.random.default_rng(self.seed)
        num_components = len(self.node_sizes["a"])

        def features(num_items):
            row_lengths = random.integers(0, 3, num_items)
            return {
                "scalar": random.integers(-4, 5, num_items).astype(np.float32),
                "vector": random.integers(-4, 5, [num_items, 2]).astype(np.float32),
                "count": random.integers(-4, 5, [num_items]).astype(np.int64),
                "name": random.integers(0, 9, [num_items]).astype(str).astype(object),
                "ragged": tf.RaggedTensor.from_row_lengths(
                    tf.constant(random.integers(-4, 5, row_lengths.sum()), tf.float32),
                    tf.constant(row_lengths, tf.int64),
                ),
            }

        def tensors(num_items):
            return {
                name: value
                if isinstance(value, tf.RaggedTensor)
                else tf.constant(value, tf.string if value.dtype == object else None)
                for name, value in features(num_items).items()
            }

        def ends(edge_set, end):
            node_sizes = self.node_sizes[end]
            starts = np.cumsum([0, *node_sizes])
            index = [
                starts[component] + random.integers(0, node_sizes[component])
                for component, num_edges in enumerate(self.edge_sizes[edge_set])
                for _ in range(num_edges)
            ]
            return end, tf.constant(np.array(index, dtype=np.int32))

        return library.GraphTensor.from_pieces(
            context=library.Context.from_fields(
                features=tensors(num_components), sizes=tf.ones([num_components], tf.int32)
            ),
            node_sets={
                name: library.NodeSet.from_fields(
                    sizes=tf.constant(sizes, tf.int32, shape=[num_components]), features=tensors(sum(sizes))
                )
                for name, sizes in self.node_sizes.items()
            },
            edge_sets={
                name: library.EdgeSet.from_fields(
                    sizes=tf.constant(sizes, tf.int32, shape=[num_components]),
                    features=tensors(sum(sizes)),
                    adjacency=library.Adjacency.from_indices(ends(name, name[0]), ends(name, name[1])),
                )
                for name, sizes in self.edge_sizes.items()
            },
        )


@st.composite
def graph_plans(draw, *, min_components=0, max_components=3, min_nodes=0):
    """Draws plans of graphs with some components, any of which may be empty."""
    num_components = draw(st.integers(min_components, max_components))
    node_sizes = {
        name: draw(st.lists(st.integers(min_nodes, 4), min_size=num_components, max_size=num_components))
        for name in ("a", "b")
    }
    edge_sizes = {
        name: [
            draw(st.integers(0, 5)) if node_sizes[name[0]][c] and node_sizes[name[1]][c] else 0
            for c in range(num_components)
        ]
        for name in ("ab", "ba", "aa")
    }
    return GraphPlan(node_sizes, edge_sizes, draw(st.integers(0, 999)))


@pytest.fixture(scope="session", name="graph_plans")
def graph_plans_fixture():
    return graph_plans


@pytest.fixture(scope="session", name="graph_plan_type")
def graph_plan_type_fixture():
    return GraphPlan


@pytest.fixture
def graph():
    """Two components: nodes a0 a1 | a2, b0 | b1; edges a0-b0 a1-b0 | a2-b1."""
    library = tfx_gnn.graph
    return library.GraphTensor.from_pieces(
        context=library.Context.from_fields(features={"c": tf.constant([10.0, 20.0])}),
        node_sets={
            "a": library.NodeSet.from_fields(
                sizes=[2, 1],
                features={
                    "x": tf.constant([1.0, 2.0, 3.0]),
                    "r": tf.ragged.constant([[1.0, 2.0], [3.0], []]),
                    "id": tf.constant(["p", "q", "r"]),
                },
            ),
            "b": library.NodeSet.from_fields(sizes=[1, 1], features={"x": tf.constant([5.0, 6.0])}),
        },
        edge_sets={
            "ab": library.EdgeSet.from_fields(
                sizes=[2, 1],
                features={"w": tf.constant([1.0, 2.0, 3.0])},
                adjacency=library.Adjacency.from_indices(("a", [0, 1, 2]), ("b", [0, 0, 1])),
            ),
            "late": library.EdgeSet.from_fields(
                sizes=[0, 1],
                features={"w": tf.constant([7.0])},
                adjacency=library.Adjacency.from_indices(("a", [2]), ("b", [1])),
            ),
            "ba": library.EdgeSet.from_fields(
                sizes=[0, 1],
                features={"w": tf.constant([8.0])},
                adjacency=library.Adjacency.from_indices(("b", [1]), ("a", [2])),
            ),
        },
    )

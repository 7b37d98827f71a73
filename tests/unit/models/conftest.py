from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import EdgeSet, NodeSet
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


@pytest.fixture(autouse=True)
def _traced_as_in_training():
    """Without it, AutoGraph reads all of Keras for seconds in each test that traces a layer."""
    with libraries_traced_as_written():
        yield


@pytest.fixture
def library_graph():
    """Two components: papers 0-2 and 3, authors 0 and 1-2; the seeds are papers 0 and 3.

    cites: 1->0, 2->0 | 3->3; writes: author 0 -> papers 0 and 1 | author 1 -> paper 3.
    """
    return GraphTensor.from_pieces(
        node_sets={
            "paper": NodeSet.from_fields(
                sizes=[3, 1],
                features={"hidden_state": [[1.0, 2.0], [3.0, 4.0], [5.0, 8.0], [7.0, 0.0]], "id": [10, 11, 12, 13]},
            ),
            "author": NodeSet.from_fields(sizes=[1, 2], features={"hidden_state": [[1.0], [2.0], [3.0]]}),
            "_readout": NodeSet.from_fields(sizes=[1, 1], features={}),
        },
        edge_sets={
            "cites": EdgeSet.from_fields(
                sizes=[2, 1],
                features={"weight": [[0.5], [1.5], [4.0]]},
                adjacency=Adjacency.from_indices(("paper", tf.constant([1, 2, 3])), ("paper", tf.constant([0, 0, 3]))),
            ),
            "writes": EdgeSet.from_fields(
                sizes=[2, 1],
                features={},
                adjacency=Adjacency.from_indices(("author", tf.constant([0, 0, 1])), ("paper", tf.constant([0, 1, 3]))),
            ),
            "_readout/seed": EdgeSet.from_fields(
                sizes=[1, 1],
                features={},
                adjacency=Adjacency.from_indices(("paper", tf.constant([0, 3])), ("_readout", tf.constant([0, 1]))),
            ),
        },
    )

"""The tables, and the model on one small subgraph."""

import tensorflow as tf
import tfx_gnn as tfgnn
from tfx_gnn.components import SubgraphExampleGenOptions, generate_subgraph_examples

from my_graph import TASK
from my_graph.model import model_fn

NUM_CLASSES = 4


class Vocabularies:
    """Stands in for the transform's output: the vocabulary sizes that `model_fn` asks for."""

    def vocabulary_size_by_name(self, name: str) -> int:
        return {"category": 7, "interest": NUM_CLASSES}[name]


def subgraph(categories: list[int]) -> tfgnn.GraphTensor:
    """Two users who both bought the first of two products, with features as `preprocessing_fn` makes them.

    User 0 is the seed and also bought the second product.
    """
    return tfgnn.GraphTensor.from_pieces(
        node_sets={
            "user": tfgnn.NodeSet.from_fields(
                sizes=tf.constant([2]), features={"numbers": tf.constant([[0.5, 1.0], [-1.0, 0.0]])}
            ),
            "product": tfgnn.NodeSet.from_fields(
                sizes=tf.constant([2]),
                features={"numbers": tf.constant([[0.3], [-0.7]]), "category": tf.constant(categories, tf.int64)},
            ),
            "_readout": tfgnn.NodeSet.from_fields(sizes=tf.constant([1]), features={}),
        },
        edge_sets={
            "purchase": tfgnn.EdgeSet.from_fields(
                sizes=tf.constant([3]),
                features={"numbers": tf.zeros([3, 1])},
                adjacency=tfgnn.Adjacency.from_indices(
                    source=("user", tf.constant([0, 0, 1])), target=("product", tf.constant([0, 1, 0]))
                ),
            ),
            "_readout/seed": tfgnn.EdgeSet.from_fields(
                sizes=tf.constant([1]),
                features={},
                adjacency=tfgnn.Adjacency.from_indices(
                    source=("user", tf.constant([0])), target=("_readout", tf.constant([0]))
                ),
            ),
        },
    )


def test_model_gives_one_row_of_logits_for_the_seed():
    graph = subgraph(categories=[2, 5])

    model = model_fn(graph.spec, Vocabularies(), {})

    assert model(graph).shape == (1, NUM_CLASSES)


def test_what_was_bought_reaches_the_seed():
    model = model_fn(subgraph(categories=[2, 5]).spec, Vocabularies(), {})

    before, after = model(subgraph(categories=[2, 5])), model(subgraph(categories=[2, 6]))

    assert tf.reduce_max(tf.abs(before - after)) > 1e-4


def test_tables_fit_the_sampling_plan(tmp_path):
    report = generate_subgraph_examples(
        tables_dir=TASK.tables_dir,
        examples_dir=str(tmp_path / "examples"),
        options=SubgraphExampleGenOptions(plan=TASK.plan),
    )

    assert set(report.num_seeds) == {"train", "val", "test"}

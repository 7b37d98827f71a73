"""Exports what training computes as a SavedModel, which GraphSkewValidator compares with serving.

It is stored in the model run, so that both models can get the same requests later,
without Keras, tf.Transform and the user's code. See
`tfx_gnn.components.graph_skew_validator.stage`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.ego_batches import EgoTrees
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.codec.flat_tensors import graph_to_flat_tensors
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.index_features import IndexFeatures
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.models.tasks import Objective
from tfx_gnn.serving import model_interface
from tfx_gnn.training.data.input_pipeline import LabelledBatch
from tfx_gnn.training.export.request_checks import RequestForm

TRAINING_REFERENCE_DIR = model_interface.TRAINING_REFERENCE_FOLDER
"""Folder of this SavedModel in a model run."""

Preprocess = Callable[[tf.Tensor], LabelledBatch]
"""Maps serialized transformed examples to a padded graph, as the model gets it, and its labels."""


class TrainingReference(tf.Module):
    """What training sees, ready to be saved.

    Its only signature, `transformed_graph`, takes serialized transformed tf.Examples, string [n], with n up to
    `batch_size`. It returns, with the prefix "output/", what the served model would return for the padded batch, and
    the original ids if the transform kept `#id`, [n, ...]. Under the keys of `tfx_gnn.graph.codec.flat_tensors`, it
    returns the graph that the model got, without padding, together with the features whose names begin with `#`, which
    the model does not get.

    Attributes:
        batch_size: int64 scalar, largest number of examples in a batch.
    """

    def __init__(
        self,
        *,
        graph_spec: GraphTensorSpec,
        preprocess: Preprocess,
        model: tf_keras.Model,
        objective: Objective,
        batch_size: int,
        index_features: IndexFeatures | None = None,
        trees: EgoTrees | None = None,
    ) -> None:
        """Assembles the computation.

        Args:
            graph_spec: spec of one transformed graph with labels.
            preprocess: the function that makes the evaluation batches.
            model: the trained model.
            objective: what it predicts.
            batch_size: largest number of examples in a batch.
            index_features: features of transformed graphs that hold indices of nodes.
            trees: form of the sampled trees that the model gets. The graph that they were copied from is returned.
        """
        super().__init__(name="training_reference")
        self.batch_size = tf.Variable(batch_size, trainable=False, dtype=tf.int64, name="batch_size")
        self._variables = list(model.variables)
        form = RequestForm.of(graph_spec, objective)

        # Model and preprocessing stay in this closure: as attributes, they would also be saved as Keras models.
        def answer(examples: tf.Tensor) -> dict[str, tf.Tensor]:
            num_examples = tf.size(examples)
            padded = preprocess(examples).graph
            of_padded = objective.served_outputs(model(padded, training=False), padded)
            parsed = parse_and_merge(graph_spec, examples, index_features=index_features)
            if trees is not None:
                graph, _ = objective.split_off_labels(parsed)
            else:
                graph = _with_reserved_features(_first_components(padded, num_examples), parsed)
            outputs = {**_first_answers(of_padded, num_examples), **form.ids(parsed)}
            named = {f"{model_interface.TRAINING_OUTPUT_PREFIX}{name}": value for name, value in outputs.items()}
            return {**named, **graph_to_flat_tensors(graph)}

        self.transformed_graph = tf.function(
            answer, input_signature=[tf.TensorSpec([None], tf.string, name=model_interface.EXAMPLES_INPUT)]
        )

    def save(self, saved_model_dir: str) -> None:
        """Writes the SavedModel into a new folder."""
        tf.saved_model.save(
            self,
            saved_model_dir,
            signatures={model_interface.TRANSFORMED_GRAPH_SIGNATURE: self.transformed_graph},
            options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
        )


def _first_answers(outputs: Mapping[str, tf.Tensor], count: tf.Tensor) -> dict[str, tf.Tensor]:
    """Returns the outputs of the first `count` components, with rows as long as the longest of them."""
    first = {name: value[:count] for name, value in outputs.items()}
    for name in [name for name in first if name.endswith(model_interface.SCORES_OUTPUT)]:
        counts = first[name.removesuffix(model_interface.SCORES_OUTPUT) + model_interface.NUM_CANDIDATES_OUTPUT]
        first[name] = first[name][:, : tf.reduce_max(tf.concat([counts, [0]], axis=0))]
    return first


def _first_components(graph: GraphTensor, count: tf.Tensor) -> GraphTensor:
    """Returns the first `count` components of a scalar graph, which are the real ones of a padded batch."""

    def cut(piece: Any) -> tuple[dict[str, const.Field], tf.Tensor, tf.Tensor]:
        sizes = piece.sizes[:count]
        total = tf.reduce_sum(sizes)
        return {name: value[:total] for name, value in piece.features.items()}, sizes, total

    node_sets = {}
    for name, node_set in graph.node_sets.items():
        features, sizes, _ = cut(node_set)
        node_sets[name] = NodeSet.from_fields(features=features, sizes=sizes)
    edge_sets = {}
    for name, edge_set in graph.edge_sets.items():
        features, sizes, total = cut(edge_set)
        ends = edge_set.adjacency
        source, target = (ends.source_name, ends.source[:total]), (ends.target_name, ends.target[:total])
        adjacency = Adjacency.from_indices(source, target, validate=False)
        edge_sets[name] = EdgeSet.from_fields(features=features, sizes=sizes, adjacency=adjacency)
    features, sizes, _ = cut(graph.context)
    context = Context.from_fields(features=features, sizes=sizes)
    return GraphTensor.from_pieces(context=context, node_sets=node_sets, edge_sets=edge_sets)


def _with_reserved_features(graph: GraphTensor, parsed: GraphTensor) -> GraphTensor:
    def added(piece: Any, parsed_piece: Any) -> Mapping[str, const.Field]:
        reserved = {name: value for name, value in parsed_piece.features.items() if name.startswith("#")}
        return {**piece.features, **reserved}

    return graph.replace_features(
        context=added(graph.context, parsed.context),
        node_sets={name: added(piece, parsed.node_sets[name]) for name, piece in graph.node_sets.items()},
        edge_sets={name: added(piece, parsed.edge_sets[name]) for name, piece in graph.edge_sets.items()},
    )

"""The trained model as one SavedModel: raw tf.Examples in, classes out.

Parsing, the saved transform, merging, the network and the names of the classes
are one graph of plain TensorFlow operations. The root is a tf.Module that holds
the variables and the vocabulary files; Keras itself is not in it. A second
signature shows the transformed graph that the network gets, so that it can be
compared with what training saw.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.example_parsing import parse_and_merge
from tfx_gnn.graph.feature_piece_spec import NodeSetSpec
from tfx_gnn.graph.flat_tensors import graph_to_flat_tensors
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.models.tasks import READOUT_NODE_SET
from tfx_gnn.serving import signature
from tfx_gnn.stages.training.model_graph import without_reserved_features
from tfx_gnn.stages.transform.application import SavedGraphTransform
from tfx_gnn.stages.transform_layer import transform_graph_tensor

_SEED_EDGE_SET = f"{READOUT_NODE_SET}/seed"


class ServedClassifier(tf.Module):
    """What is exported.

    Args:
        raw_spec: spec of one raw graph; labels may be in it.
        transformed_spec: spec of one transformed graph without its label. The model gets its features,
            save those whose names begin with `#`.
        transform: the saved transform.
        model: the trained model.
        class_names: names of the classes by index.
    """

    def __init__(
        self,
        *,
        raw_spec: GraphTensorSpec,
        transformed_spec: GraphTensorSpec,
        transform: SavedGraphTransform,
        model: tf_keras.Model,
        class_names: Sequence[bytes],
    ) -> None:
        super().__init__(name="served_classifier")
        self._transform = transform
        self._variables = list(model.variables)
        raw_spec = _without_labels(raw_spec)
        names = list(class_names)

        # The model stays in this closure: as an attribute it would be saved as a Keras model, too.
        def predict(examples: tf.Tensor) -> dict[str, tf.Tensor]:
            raw = parse_and_merge(raw_spec, examples)
            with tf.control_dependencies(_readout_checks(raw)):
                seed = tf.identity(raw.edge_sets[_SEED_EDGE_SET].adjacency.source)
            graph = without_reserved_features(transform_graph_tensor(raw, transform, transformed_spec))
            logits = tf.cast(model(graph, training=False), tf.float32)
            probabilities = tf.nn.softmax(logits)
            seed_set = raw.edge_sets[_SEED_EDGE_SET].adjacency.source_name
            return {
                signature.LOGITS_OUTPUT: logits,
                signature.PROBABILITIES_OUTPUT: probabilities,
                signature.LABEL_OUTPUT: tf.gather(tf.constant(names, tf.string), tf.argmax(logits, axis=1)),
                signature.SCORE_OUTPUT: tf.reduce_max(probabilities, axis=1),
                signature.ID_OUTPUT: tf.gather(raw.node_sets[seed_set]["#id"], seed),
            }

        def transformed_graph(examples: tf.Tensor) -> dict[str, tf.Tensor]:
            raw = parse_and_merge(raw_spec, examples)
            return graph_to_flat_tensors(transform_graph_tensor(raw, transform, transformed_spec))

        examples_spec = tf.TensorSpec([None], tf.string, name=signature.EXAMPLES_INPUT)
        self.predict = tf.function(predict, input_signature=[examples_spec])
        self.transformed_graph = tf.function(transformed_graph, input_signature=[examples_spec])

    def save(self, saved_model_dir: str) -> None:
        """Writes the SavedModel.

        The function is traced once, so saving an untrained model as a trial, before
        hours are spent on training, makes the second time cheap.

        Args:
            saved_model_dir: folder to make.

        Raises:
            ValueError: if the model needs a resource that is no variable, such as a lookup table.
        """
        try:
            tf.saved_model.save(
                self,
                saved_model_dir,
                signatures={
                    signature.SIGNATURE: self.predict,
                    signature.TRANSFORMED_GRAPH_SIGNATURE: self.transformed_graph,
                },
                options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
            )
        except AssertionError as error:
            raise ValueError(
                "`model_fn` must give a model of variables and operations only; got one with another resource, such as "
                f"a lookup table. Look values up in `preprocessing_fn`. Cause: {error}"
            ) from error


def _without_labels(spec: GraphTensorSpec) -> GraphTensorSpec:
    """Spec of a request: of `_readout`, only what begins with `#` is read."""
    node_sets = dict(spec.node_sets_spec)
    readout = node_sets[READOUT_NODE_SET]
    kept = {name: feature for name, feature in readout.features_spec.items() if name.startswith("#")}
    node_sets[READOUT_NODE_SET] = NodeSetSpec.from_field_specs(features_spec=kept, sizes_spec=readout.sizes_spec)
    return GraphTensorSpec.from_piece_specs(spec.context_spec, node_sets, dict(spec.edge_sets_spec))


def _readout_checks(raw: GraphTensor) -> list[tf.Operation]:
    """Each example has one readout, tied to one seed."""
    edges = raw.edge_sets[_SEED_EDGE_SET]
    message = (
        f"`{signature.EXAMPLES_INPUT}` must have exactly one node in node set `{READOUT_NODE_SET}` and one edge in "
        f"`{_SEED_EDGE_SET}` in every example; got others. Send one rooted subgraph an example."
    )
    return [
        tf.debugging.assert_equal(sizes, tf.ones_like(sizes), message=message)
        for sizes in (raw.node_sets[READOUT_NODE_SET].sizes, edges.sizes)
    ]

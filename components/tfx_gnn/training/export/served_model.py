"""Exports the trained model as one SavedModel: raw tf.Examples in, answers out.

Parsing, the saved transform, merging, the network and what makes answers of its output
are one graph of plain TensorFlow operations. The root is a tf.Module that holds
the variables and the vocabulary files; Keras itself is not in it. A second
signature shows the transformed graph that the network gets, so that it can be
compared with what training saw; a third answers embeddings, what the last layer computes the
output from.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors, graph_to_flat_tensors
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.run_time_checks import assert_constraints
from tfx_gnn.io import options_json
from tfx_gnn.models.tasks import Objective
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.model_interface import ServedTask, write_served_task
from tfx_gnn.training.export.request_checks import RequestForm, by_example, finite_checks
from tfx_gnn.training.export.unsafe_operations import check_operations
from tfx_gnn.transform.application import SavedGraphTransform
from tfx_gnn.transform.transform_layer import transform_graph_tensor, without_reserved_features

EMBEDDINGS_LAYER = "embeddings"
"""Name of the layer that gives the embeddings; of links, `source_` and `target_` come before it."""


_ENDS = {
    "": model_interface.EMBEDDING_OUTPUT,
    "source_": model_interface.SOURCE_EMBEDDING_OUTPUT,
    "target_": model_interface.TARGET_EMBEDDING_OUTPUT,
}


def embedding_model(model: tf_keras.Model, objective: Objective) -> tf_keras.Model | None:
    """Finds the embeddings of a model of the functional API, as a model of the same variables; None if it has none.

    They are what the layer named `embeddings` gives, or those named `source_embeddings` and `target_embeddings`; of
    several tasks that do not share them, `<task>_embeddings` and so on. Models that end with
    `objective.output_layer()` have them. Of other models with one output, they are what the layer that
    gives it gets. Each is floats [rows, units], by the name of the output that serves it; of several tasks that do not
    share them, with "<task>/" before.
    """
    if not getattr(model, "_is_graph_network", False):
        return None
    named = {layer.name: layer for layer in model.layers}
    starts = {"": "", **{f"{name}_": f"{name}/" for name in objective.parts if name}}
    found = {}
    for start, prefix in starts.items():
        for end, output in _ENDS.items():
            layer = named.get(f"{end}{start}{EMBEDDINGS_LAYER}")
            if layer is not None and _is_embedding(layer.output):
                found[prefix + output] = layer.output
    if not found and tf_keras.backend.is_keras_tensor(model.output):
        # Not by way of `layer.output`, which layers such as a tf_keras.Sequential over graphs do not tell.
        before = model.output.node.keras_inputs
        found = {model_interface.EMBEDDING_OUTPUT: before[0]} if len(before) == 1 and _is_embedding(before[0]) else {}
    return tf_keras.Model(model.input, found) if found else None


def _is_embedding(value: Any) -> bool:
    """Whether something has rows of floats."""
    return tf_keras.backend.is_keras_tensor(value) and value.shape.rank == 2 and value.dtype.is_floating


_LOG = logging.getLogger(__name__)


_PAIR_EMBEDDINGS = (model_interface.SOURCE_EMBEDDING_OUTPUT, model_interface.TARGET_EMBEDDING_OUTPUT)


class ServedModel(tf.Module):
    """What is exported.

    Signatures, whose names are in `tfx_gnn.serving.model_interface`: `serving_default` answers as
    `Objective.served_outputs` says, with original ids beside it; `embeddings` answers what the last layer sees, if the
    model tells it; `transformed_graph` shows what the model gets; `tensors`, if asked for, answers raw graphs that are
    no tf.Examples. Inputs without labels are answered as those with.
    """

    def __init__(
        self,
        *,
        raw_spec: GraphTensorSpec,
        transformed_spec: GraphTensorSpec,
        transform: SavedGraphTransform,
        model: tf_keras.Model,
        objective: Objective,
        other_labels: Collection[str] = (),
        raw_tensor_signature: bool = False,
        allow_unsafe_operations: bool = False,
    ) -> None:
        """Puts the model together.

        Args:
            raw_spec: spec of one raw graph; labels may be in it.
            transformed_spec: spec of one transformed graph without labels. The model gets its features,
                save those whose names begin with `#`.
            transform: the saved transform.
            model: the trained model.
            objective: what it predicts.
            other_labels: features of the raw context that are labels of other tasks.
            raw_tensor_signature: whether there is a signature `tensors`.
            allow_unsafe_operations: whether operations are exported that abort a server of several threads.
        """
        super().__init__(name="served_model")
        self._transform = transform
        self._allows_unsafe_operations = allow_unsafe_operations
        self._variables = list(model.variables)
        form = RequestForm.of(raw_spec, objective, other_labels=other_labels)
        # The models stay in closures: as attributes they would be saved as Keras models, too.
        embeddings = embedding_model(model, objective)

        def transformed(raw: GraphTensor) -> GraphTensor:
            with tf.control_dependencies(form.checks(raw)):
                raw = tf.nest.map_structure(tf.identity, raw, expand_composites=True)
            graph = transform_graph_tensor(raw, transform, transformed_spec, labels=form.label_keys)
            with tf.control_dependencies(finite_checks(graph, transform.nonfinite_features)):
                return tf.nest.map_structure(tf.identity, graph, expand_composites=True)

        def predicted(raw: GraphTensor) -> dict[str, tf.Tensor]:
            graph = without_reserved_features(transformed(raw))
            return {**objective.served_outputs(model(graph, training=False), graph), **form.ids(raw)}

        def embedded(raw: GraphTensor) -> dict[str, tf.Tensor]:
            assert embeddings is not None
            graph = without_reserved_features(transformed(raw))
            return {**_embedding_outputs(embeddings(graph, training=False), graph), **form.ids(raw)}

        functions: dict[str, Callable[[GraphTensor], dict[str, tf.Tensor]]] = {
            model_interface.SERVING_SIGNATURE: predicted
        }
        functions[model_interface.TRANSFORMED_GRAPH_SIGNATURE] = lambda raw: graph_to_flat_tensors(transformed(raw))
        if embeddings is not None:
            functions[model_interface.EMBEDDINGS_SIGNATURE] = embedded
        else:
            _LOG.warning(
                "The model is served without signature `%s`: no layer is named %r, and it cannot be told what the last "
                "one gets. End a functional model with `objective.output_layer()`, or name a layer so.",
                model_interface.EMBEDDINGS_SIGNATURE,
                EMBEDDINGS_LAYER,
            )
        self._served = {name: _of_examples(function, form.spec) for name, function in functions.items()}
        names: dict[str, str] = {}
        if raw_tensor_signature:
            self._served[model_interface.TENSORS_SIGNATURE], names = _of_tensors(predicted, form.spec)
        self._description = ServedTask(
            task=json.loads(options_json.to_json(objective.task)),
            label_keys=form.label_keys,
            roots=form.roots,
            tensor_inputs=names,
        )

    def save(self, saved_model_dir: str) -> None:
        """Writes the SavedModel.

        The functions are traced once, so saving an untrained model as a trial, before
        hours are spent on training, makes the second time cheap.

        Args:
            saved_model_dir: folder to make.

        Raises:
            ValueError: if the model needs a resource that is no variable, such as a lookup table, or holds an
                operation that aborts a server; see `tfx_gnn.training.export.unsafe_operations`.
        """
        try:
            tf.saved_model.save(
                self,
                saved_model_dir,
                signatures=dict(self._served),
                options=tf.saved_model.SaveOptions(experimental_custom_gradients=False),
            )
        except AssertionError as error:
            raise ValueError(
                "`model_fn` must give a model of variables and operations only; got one with another resource, such as "
                f"a lookup table. Look values up in `preprocessing_fn`. Cause: {error}"
            ) from error
        if not self._allows_unsafe_operations:
            check_operations(saved_model_dir)
        write_served_task(self._description, saved_model_dir)


def _of_examples(function: Callable[[GraphTensor], dict[str, tf.Tensor]], spec: GraphTensorSpec) -> Any:
    """Makes a signature of serialized tf.Examples."""
    examples_spec = tf.TensorSpec([None], tf.string, name=model_interface.EXAMPLES_INPUT)
    return tf.function(lambda examples: function(parse_and_merge(spec, examples)), input_signature=[examples_spec])


def _of_tensors(
    function: Callable[[GraphTensor], dict[str, tf.Tensor]], spec: GraphTensorSpec
) -> tuple[Any, dict[str, str]]:
    """Makes a signature of plain tensors; tells their keys by the names of its inputs."""
    merged = spec.relax(num_components=True, num_nodes=True, num_edges=True)
    specs = graph_flat_tensor_specs(merged)
    names = {model_interface.tensor_input_name(key): key for key in specs}
    if len(names) < len(specs):
        twice = sorted(key for key in specs if names[model_interface.tensor_input_name(key)] != key)
        raise ValueError(
            f"`raw_tensor_signature` must be False where keys of tensors differ in other characters than letters and "
            f"digits only; got {twice}. Rename these features."
        )

    def answer(tensors: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        raw = graph_from_flat_tensors(merged, {names[name]: value for name, value in tensors.items()})
        with tf.control_dependencies([assert_constraints(raw)]):
            return function(tf.nest.map_structure(tf.identity, raw, expand_composites=True))

    inputs = {name: tf.TensorSpec(specs[key].shape, specs[key].dtype, name=name) for name, key in names.items()}
    return tf.function(answer, input_signature=[inputs]), names


def _embedding_outputs(found: Mapping[str, tf.Tensor], graph: GraphTensor) -> dict[str, tf.Tensor]:
    """One row an example, whatever the dtype of the network."""
    outputs = {}
    for name, values in found.items():
        values = tf.cast(values, tf.float32)
        if name.endswith(_PAIR_EMBEDDINGS):
            outputs[name] = by_example(values, graph, 0.0)
            continue
        message = f"The layer of `{name}` must have one row an example. Name the layer behind the readout so."
        check = tf.debugging.assert_equal(tf.shape(values)[0], tf.size(graph.context.sizes), message=message)
        with tf.control_dependencies([check]):
            outputs[name] = tf.identity(values)
    return outputs

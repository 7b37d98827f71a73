"""Exports the trained model as one SavedModel: raw tf.Examples in, predictions out.

Parsing, the saved transform, merging, the network and the postprocessing of its output
form one graph of plain TensorFlow operations. The root is a tf.Module that holds
the variables and the vocabulary files; Keras itself is not included. A second
signature returns the transformed graph that the network gets, so that it can be
compared with what training saw; a third returns embeddings, the input of the last layer.
"""

from __future__ import annotations

import functools
import json
import logging
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.batching.ego_batches import EgoTrees, ego_batch
from tfx_gnn.graph.batching.index_shifts import component_sizes
from tfx_gnn.graph.codec.example_parsing import parse_and_merge
from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors, graph_to_flat_tensors
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.schema.feature_defaults import copy_all_feature_defaults
from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.graph.schema.schema_spec import create_schema_pb_from_graph_spec
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.index_features import IndexFeatures, present_index_features, shifted_index_features
from tfx_gnn.graph.tensor.run_time_checks import assert_constraints
from tfx_gnn.io import options_json
from tfx_gnn.models.candidate_groups import pad_candidates
from tfx_gnn.models.tasks import Objective
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.layerwise_model import LayerPlan
from tfx_gnn.serving.model_interface import ServedTask, write_served_task
from tfx_gnn.training.export.explanations import explain_graph
from tfx_gnn.training.export.layer_functions import layer_functions
from tfx_gnn.training.export.model_layers import find_layers
from tfx_gnn.training.export.request_checks import RequestForm, finite_checks
from tfx_gnn.training.export.saved_weights import write_saved_weights
from tfx_gnn.training.export.stock_signatures import stock_component_signatures
from tfx_gnn.training.export.unsafe_operations import check_operations
from tfx_gnn.transform.application import SavedGraphTransform
from tfx_gnn.transform.id_tables import find_id_tables
from tfx_gnn.transform.transform_layer import transform_graph_tensor, without_reserved_features

EMBEDDINGS_LAYER = "embeddings"
"""Name of the layer that outputs the embeddings; for links, with the prefix `source_` or `target_`."""


_ENDS = {
    "": model_interface.EMBEDDING_OUTPUT,
    "source_": model_interface.SOURCE_EMBEDDING_OUTPUT,
    "target_": model_interface.TARGET_EMBEDDING_OUTPUT,
}


def embedding_model(model: tf_keras.Model, objective: Objective) -> tf_keras.Model | None:
    """Finds the embeddings of a functional model, as a model with the same variables; None if it has none.

    They are the output of the layer named `embeddings`, or of those named `source_embeddings` and
    `target_embeddings`; for several tasks that do not share them, of `<task>_embeddings` and so on. Models that end
    with `objective.output_layer()` have such layers. For other models with one output, they are the input of the layer
    that computes this output. Each is floats [rows, units], keyed by the name of the output that serves it; for several
    tasks that do not share them, with the prefix "<task>/".
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
        # Not `layer.output`, which layers such as a tf_keras.Sequential over graphs do not have.
        before = model.output.node.keras_inputs
        found = {model_interface.EMBEDDING_OUTPUT: before[0]} if len(before) == 1 and _is_embedding(before[0]) else {}
    return tf_keras.Model(model.input, found) if found else None


def _is_embedding(value: Any) -> bool:
    """Returns whether a value has rows of floats."""
    return tf_keras.backend.is_keras_tensor(value) and value.shape.rank == 2 and value.dtype.is_floating


_LOG = logging.getLogger(__name__)


_EXAMPLES_SPEC = tf.TensorSpec([None], tf.string, name=model_interface.EXAMPLES_INPUT)
_PAIR_EMBEDDINGS = (model_interface.SOURCE_EMBEDDING_OUTPUT, model_interface.TARGET_EMBEDDING_OUTPUT)


class ServedModel(tf.Module):
    """The exported model.

    Its signatures, whose names are in `tfx_gnn.serving.model_interface`: `serving_default` returns
    `Objective.served_outputs` and the original ids; `embeddings` returns the input of the last layer, if it can be
    found; `bulk_inferrer` and `evaluator` return predictions in the forms that TFX's components take;
    `transformed_graph` returns what the model gets; `tensors`, which is optional, takes raw graphs as plain tensors
    instead of tf.Examples; `explanations`, which is optional, says what predictions rest on. Responses do not depend on
    whether inputs have labels. `layer_functions`, which are optional, are no signatures; see
    `tfx_gnn.serving.layerwise_model`.
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
        index_features: IndexFeatures | None = None,
        trees: EgoTrees | None = None,
        raw_tensor_signature: bool = False,
        explanation_steps: int = 0,
        layerwise_inference: bool = False,
        embedding_normalization: str = "none",
        allow_unsafe_operations: bool = False,
        vocabulary_files: Mapping[str, str] | None = None,
        raw_schema: GraphSchema | None = None,
    ) -> None:
        """Assembles the model.

        Args:
            raw_spec: spec of one raw graph, with or without labels.
            transformed_spec: spec of one transformed graph without labels. The model gets its features,
                except those whose names begin with `#`.
            transform: the saved transform.
            model: the trained model.
            objective: what it predicts.
            other_labels: features of the raw context that are labels of other tasks.
            index_features: features of raw graphs, and of transformed ones, that hold indices of nodes. They count
                from the first node of their example in tf.Examples, and of all examples in the signature `tensors`.
            trees: form of the sampled trees that the model gets; None: it gets whole graphs.
            raw_tensor_signature: whether to add the signature `tensors`.
            explanation_steps: points of each integral of the signature `explanations`; 0: no such signature.
            layerwise_inference: whether to add the functions of `tfx_gnn.serving.layerwise_model`.
            embedding_normalization: "l2" to scale embeddings to length 1, or "none".
            allow_unsafe_operations: whether to export operations that abort a multi-threaded server.
            vocabulary_files: names of the files of the transform's vocabularies, by name of the vocabulary; a later
                training finds the rows of their terms by them.
            raw_schema: schema of raw graphs; what it declares for missing values is exported for requests.
        """
        super().__init__(name="served_model")
        self._transform = transform
        self._allows_unsafe_operations = allow_unsafe_operations
        self._variables = list(model.variables)
        # In a closure, as below.
        files = dict(vocabulary_files or {})
        self._write_weights: Callable[[str], None] = lambda folder: write_saved_weights(model, folder, files)
        form = RequestForm.of(raw_spec, objective, other_labels=other_labels, id_tables=find_id_tables(transform))
        # The models stay in closures: as attributes, they would also be saved as Keras models.
        embeddings = embedding_model(model, objective)

        transformed = functools.partial(_transformed, transform, transformed_spec, form)

        def batch_of(raw: GraphTensor) -> GraphTensor:
            graph = without_reserved_features(transformed(raw))
            return graph if trees is None else ego_batch(graph, trees)[0]

        def predicted(raw: GraphTensor) -> dict[str, tf.Tensor]:
            graph = batch_of(raw)
            return {**objective.served_outputs(model(graph, training=False), graph), **form.ids(raw)}

        def embedded(raw: GraphTensor) -> dict[str, tf.Tensor]:
            assert embeddings is not None
            graph = batch_of(raw)
            found = embeddings(graph, training=False)
            return {**_embedding_outputs(found, graph, embedding_normalization), **form.ids(raw)}

        def explained(prefix: str, raw: GraphTensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
            served = functools.partial(_served_part, model, objective, prefix)
            return {**explain_graph(served, batch_of(raw), target, steps=explanation_steps), **form.ids(raw)}

        functions: dict[str, Callable[[GraphTensor], dict[str, tf.Tensor]]] = {
            model_interface.SERVING_SIGNATURE: predicted
        }
        functions[model_interface.TRANSFORMED_GRAPH_SIGNATURE] = lambda raw: graph_to_flat_tensors(transformed(raw))
        if embeddings is not None:
            functions[model_interface.EMBEDDINGS_SIGNATURE] = embedded
        else:
            _LOG.warning(
                "The model is served without signature `%s`: no layer is named %r, and the input of the last layer is "
                "unknown. End a functional model with `objective.output_layer()`, or give a layer that name.",
                model_interface.EMBEDDINGS_SIGNATURE,
                EMBEDDINGS_LAYER,
            )
        indices = present_index_features(form.spec, index_features or {})
        served = {name: _of_examples(function, form.spec, indices) for name, function in functions.items()}
        self._served = served | stock_component_signatures(served[model_interface.SERVING_SIGNATURE], objective)
        names: dict[str, str] = {}
        if raw_tensor_signature:
            self._served[model_interface.TENSORS_SIGNATURE], names = _of_tensors(predicted, form.spec, indices)
        self._request_schema = create_schema_pb_from_graph_spec(form.spec)
        copy_all_feature_defaults(self._request_schema, raw_schema or GraphSchema())
        if explanation_steps:
            _check_explainable(trees)
            for name in objective.parts:
                signature = f"{name}/{model_interface.EXPLANATIONS_SIGNATURE}".removeprefix("/")
                self._served[signature] = _of_examples_and_targets(
                    functools.partial(explained, f"{name}/" if name else ""), form.spec, indices
                )
        self.layer_plan: LayerPlan | None = None
        if layerwise_inference:
            _check_no_indices(indices)
            self.layer_functions, self.layer_plan = layer_functions(
                find_layers(model, objective, embeddings=embeddings),
                encoder_inputs=functools.partial(_part_of_graph, transformed, form.spec),
                served_outputs=functools.partial(_outputs_of_seeds, objective, embedding_normalization),
            )
        self._description = ServedTask(
            task=json.loads(options_json.to_json(objective.task)),
            label_keys=form.label_keys,
            roots=form.roots,
            tensor_inputs=names,
            classes=_class_names(objective),
            edge_ends=form.edge_ends(),
            embedding_dimensions=_embedding_dimensions(embeddings),
            embedding_normalization=embedding_normalization,
        )

    def save(self, saved_model_dir: str) -> None:
        """Writes the SavedModel.

        The functions are traced only once, so after a trial save of the untrained model, before hours of training,
        the second save is cheap.

        Args:
            saved_model_dir: folder to create.

        Raises:
            ValueError: if the model needs a resource other than a variable, such as a lookup table, or contains an
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
        self._write_weights(saved_model_dir)
        write_served_task(self._description, saved_model_dir)
        if self.layer_plan is not None:
            self.layer_plan.write(saved_model_dir)
        write_schema(self._request_schema, os.path.join(saved_model_dir, model_interface.REQUEST_SCHEMA_FILE))


def _of_examples(
    function: Callable[[GraphTensor], dict[str, tf.Tensor]], spec: GraphTensorSpec, index_features: IndexFeatures
) -> Any:
    """Makes a signature that takes serialized tf.Examples."""
    return tf.function(
        lambda examples: function(parse_and_merge(spec, examples, index_features=index_features)),
        input_signature=[_EXAMPLES_SPEC],
    )


def _of_examples_and_targets(
    function: Callable[[GraphTensor, tf.Tensor], dict[str, tf.Tensor]],
    spec: GraphTensorSpec,
    index_features: IndexFeatures,
) -> Any:
    """Makes a signature that takes serialized tf.Examples, and which prediction of each it is about."""

    def answer(examples: tf.Tensor, target: tf.Tensor) -> dict[str, tf.Tensor]:
        check = tf.debugging.assert_equal(
            tf.size(target),
            tf.size(examples),
            message=f"`{model_interface.TARGET_INPUT}` must have one number per example; got another number of them.",
        )
        with tf.control_dependencies([check]):
            target = tf.identity(target)
        return function(parse_and_merge(spec, examples, index_features=index_features), target)

    return tf.function(
        answer,
        input_signature=[
            _EXAMPLES_SPEC,
            tf.TensorSpec([None], tf.int64, name=model_interface.TARGET_INPUT),
        ],
    )


def _served_part(model: tf_keras.Model, objective: Objective, prefix: str, graph: GraphTensor) -> dict[str, tf.Tensor]:
    """Returns the served outputs of one task, without its prefix."""
    outputs = objective.served_outputs(model(graph, training=False), graph)
    return {name.removeprefix(prefix): value for name, value in outputs.items() if name.startswith(prefix)}


def _check_explainable(trees: EgoTrees | None) -> None:
    if trees is not None:
        raise ValueError(
            "`explanation_steps` must be 0 with batching 'ego', whose trees have no edges to weigh; got another "
            "number. Explain such a model by occlusion, which needs no signature."
        )


def _transformed(
    transform: SavedGraphTransform,
    spec: GraphTensorSpec,
    form: RequestForm,
    raw: GraphTensor,
    *,
    is_whole: bool = True,
) -> GraphTensor:
    """Transforms a request, or a part of a graph, which needs no readouts."""
    with tf.control_dependencies(form.checks(raw) if is_whole else []):
        raw = tf.nest.map_structure(tf.identity, raw, expand_composites=True)
    graph = transform_graph_tensor(raw, transform, spec, labels=form.label_keys)
    with tf.control_dependencies(finite_checks(graph, transform.nonfinite_features)):
        return tf.nest.map_structure(tf.identity, graph, expand_composites=True)


def _part_of_graph(transformed: Callable[..., GraphTensor], spec: GraphTensorSpec, examples: tf.Tensor) -> GraphTensor:
    """Parses and transforms parts of a graph for the encoder."""
    return without_reserved_features(transformed(parse_and_merge(spec, examples), is_whole=False))


def _check_no_indices(index_features: IndexFeatures) -> None:
    if index_features:
        raise ValueError(
            "`layerwise_inference` must be False for features that hold indices of nodes, which count within a "
            f"subgraph; got {sorted(index_features)}. Leave it out, and infer from subgraphs."
        )


def _outputs_of_seeds(
    objective: Objective, normalization: str, output: Any, embeddings: Mapping[str, tf.Tensor], graph: GraphTensor
) -> dict[str, tf.Tensor]:
    """Returns what signatures `serving_default` and `embeddings` do, without ids."""
    return {**objective.served_outputs(output, graph), **_embedding_outputs(embeddings, graph, normalization)}


def _of_tensors(
    function: Callable[[GraphTensor], dict[str, tf.Tensor]], spec: GraphTensorSpec, index_features: IndexFeatures
) -> tuple[Any, dict[str, str]]:
    """Makes a signature that takes plain tensors; also returns their keys by the names of its inputs."""
    merged = spec.relax(num_components=True, num_nodes=True, num_edges=True)
    specs = graph_flat_tensor_specs(merged)
    names = {model_interface.tensor_input_name(key): key for key in specs}
    if len(names) < len(specs):
        twice = sorted(key for key in specs if names[model_interface.tensor_input_name(key)] != key)
        raise ValueError(
            f"`raw_tensor_signature` must be False if keys of tensors differ only in characters other than letters and "
            f"digits; got {twice}. Rename these features."
        )

    def answer(tensors: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        raw = graph_from_flat_tensors(merged, {names[name]: value for name, value in tensors.items()})
        with tf.control_dependencies([assert_constraints(raw)]):
            if index_features:
                # There and back: on the way, indices of nodes of other graphs are refused, as in tf.Examples.
                sizes = component_sizes(raw)
                is_real = tf.fill(tf.shape(raw.context.sizes), value=True)  # requests have no padding
                raw = shifted_index_features(raw, sizes, index_features, backward=True, is_real=is_real)
                raw = shifted_index_features(raw, sizes, index_features, validate=False)
            return function(tf.nest.map_structure(tf.identity, raw, expand_composites=True))

    inputs = {name: tf.TensorSpec(specs[key].shape, specs[key].dtype, name=name) for name, key in names.items()}
    return tf.function(answer, input_signature=[inputs]), names


def _embedding_dimensions(embeddings: tf_keras.Model | None) -> dict[str, int]:
    return {} if embeddings is None else {name: int(one.shape[-1]) for name, one in sorted(embeddings.output.items())}


def _class_names(objective: Objective) -> dict[str, list[str]]:
    """Returns the names of the classes by task."""
    return {
        name: [class_name.decode("utf-8", "replace") for class_name in part.class_names]
        for name, part in objective.parts.items()
        if part.class_names
    }


def _embedding_outputs(found: Mapping[str, tf.Tensor], graph: GraphTensor, normalization: str) -> dict[str, tf.Tensor]:
    """Makes float32 outputs with one row per example, whatever the dtype of the network."""
    outputs = {}
    for name, values in found.items():
        values = tf.cast(values, tf.float32)
        if normalization == "l2":
            values = tf.math.l2_normalize(values, axis=-1)
        if name.endswith(_PAIR_EMBEDDINGS):
            outputs[name] = pad_candidates(values, graph.node_sets[READOUT_NODE_SET].sizes, 0.0)
            continue
        message = f"The layer of `{name}` must have one row per example. Give that name to a layer after the readout."
        check = tf.debugging.assert_equal(tf.shape(values)[0], tf.size(graph.context.sizes), message=message)
        with tf.control_dependencies([check]):
            outputs[name] = tf.identity(values)
    return outputs

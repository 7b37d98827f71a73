"""Traces the preprocessing function on the schema, and compares its features with the task, without data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow_transform import analyzer_nodes
from tfx_bsl.public import tfxio

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.user_code import load_function
from tfx_gnn.io.user_errors import UserPlace, place_of_result
from tfx_gnn.models.tasks import MultiTask, Task
from tfx_gnn.records.graph_layout import GraphLayout, graph_layout, schema_features
from tfx_gnn.records.tfmd_schema import make_tfmd_schema
from tfx_gnn.transform.analyze_modes import AS_SAMPLED
from tfx_gnn.transform.preprocessing import (
    RULE_OF_PREPROCESSING,
    analyzed_keys,
    check_nonfinite_features,
    check_statistics_of_items,
    tensor_preprocessing_fn,
)
from tfx_gnn.transform.ready_preprocessing import load_preprocessing_fn
from tfx_gnn.transform.transform_layer import check_numeric_features
from tfx_gnn_pipelines.checks.findings import FindingsCollector
from tfx_gnn_pipelines.checks.places import place_of_message
from tfx_gnn_pipelines.config import PipelineConfig

_STEP = "GraphTransform"
_OF_THE_PLAN = " The plan's `label_features` go there."


@dataclasses.dataclass(frozen=True, kw_only=True)
class TracedTransform:
    """What a preprocessing function makes.

    Attributes:
        schema: graph schema of the transformed graphs.
        spec: spec of one transformed graph.
        vocabularies: `vocab_filename`s of the vocabularies that it makes.
    """

    schema: GraphSchema
    spec: GraphTensorSpec
    vocabularies: frozenset[str]


def check_transform(config: PipelineConfig, schema: GraphSchema, found: FindingsCollector) -> TracedTransform | None:
    """Traces the preprocessing function on the schema of the examples; None if it cannot be."""
    traced = None
    reference = config.graph_transform.preprocessing_fn
    function = load_function(reference) if reference else None
    argument = "preprocessing_fn" if reference else "features"
    if not reference and not _check_declared_labels(config.graph_trainer.task, schema, found):
        return None
    with found.caught(_STEP, argument=argument, rule=RULE_OF_PREPROCESSING, function=function):
        traced = _trace(config.graph_transform, schema)
        found.looked_at.append(f"{'the preprocessing function' if reference else 'the features'}, traced on the schema")
    if traced is not None:
        _check_task(config, traced, function, found)
    return traced


def _trace(options: GraphTransformOptions, schema: GraphSchema) -> TracedTransform:
    layout = graph_layout(schema)
    inner = tensor_preprocessing_fn(load_preprocessing_fn(options.preprocessing_fn, options.features, layout), layout)
    outputs: dict[str, tf.RaggedTensor] = {}
    vocabularies: set[str] = set()

    def noted(tensors: Mapping[str, Any]) -> dict[str, tf.RaggedTensor]:
        made = inner(tensors)
        outputs.update(made)
        vocabularies.update(_vocabulary_names(tf.compat.v1.get_default_graph()))
        return made

    source = tfxio.TFExampleBeamRecord(
        physical_format="tfrecord", telemetry_descriptors=["tfx_gnn"], schema=make_tfmd_schema(layout)
    )
    type_specs = source.TensorAdapter().TypeSpecs()
    keys = analyzed_keys(noted, type_specs)
    check_nonfinite_features(options.nonfinite_features, inner, type_specs)
    if options.analyze != AS_SAMPLED:
        check_statistics_of_items(keys, layout)
    transformed = _transformed_schema(schema, layout, outputs)
    return TracedTransform(
        schema=transformed,
        spec=create_graph_spec_from_schema_pb(transformed),
        vocabularies=frozenset(vocabularies),
    )


def _vocabulary_names(graph: tf.Graph) -> set[str]:
    """Finds the vocabularies that are made for the analyzers of a traced graph."""
    names: set[str] = set()
    open_nodes = [sink.future for sink in graph.get_collection(analyzer_nodes.TENSOR_REPLACEMENTS)]
    seen: set[int] = set()
    while open_nodes:
        operation = open_nodes.pop().parent_operation
        if id(operation) in seen:
            continue
        seen.add(id(operation))
        name = getattr(operation.operation_def, "vocab_filename", "")
        names |= {name} if name else set()
        open_nodes += list(operation.inputs)
    return names


def _transformed_schema(
    schema: GraphSchema, layout: GraphLayout, outputs: Mapping[str, tf.RaggedTensor]
) -> GraphSchema:
    transformed = GraphSchema()
    transformed.CopyFrom(schema)
    transformed.context.features.clear()
    for sets in (transformed.node_sets, transformed.edge_sets):
        for name in sets:
            sets[name].features.clear()
    structure = {key for one_set in layout.sets for key in one_set.structure_keys}
    for key, value in outputs.items():
        if key in structure:
            continue
        owner = layout.owner_of(key)
        feature = schema_features(transformed, owner.prefix)[key[len(owner.prefix) + 1 :]]
        feature.dtype = value.dtype.as_datatype_enum
        for size in value.shape[2:]:
            feature.shape.dim.add(size=-1 if size is None else size)
    return transformed


def _check_task(
    config: PipelineConfig, traced: TracedTransform, function: Callable[..., Any] | None, found: FindingsCollector
) -> None:
    task = config.graph_trainer.task
    num_findings = len(found.findings)
    _check_label_names(task, traced, found)
    if len(found.findings) == num_findings:
        try:
            # The names of classes are known only after the analysis; here they are of no matter.
            task.objective(lambda _: [b"0", b"1"]).check_spec(traced.spec)
        except ValueError as error:
            place = _place_of_label(task, function)
            found.add("GraphTrainer", str(error), place=place, argument="" if function else "prediction")
    if len(found.findings) == num_findings:
        _check_vocabularies(task, traced, found)
    if len(found.findings) == num_findings:
        with found.caught(_STEP, function=function):
            check_numeric_features(traced.spec, is_declared=function is None)


def _place_of_label(task: Task, function: Callable[..., Any] | None) -> UserPlace | None:
    """Finds where a preprocessing function makes the label; else where it makes all that it returns."""
    place = place_of_result(function)
    label = next((getattr(part, "label_feature", "") for part in _parts(task)), "")
    made = place_of_message(f"'nodes/{READOUT_NODE_SET}.{label}'", [place.path]) if place else None
    return made or place


def _parts(task: Task) -> Sequence[Task]:
    return list(task.tasks.values()) if isinstance(task, MultiTask) else [task]


def _check_declared_labels(task: Task, schema: GraphSchema, found: FindingsCollector) -> bool:
    """Checks that labels are in the examples, where no preprocessing function can make them; tells if all are."""
    is_right = True
    for part, label, known, place in _labels(task, create_graph_spec_from_schema_pb(schema)):
        if label not in known:
            is_right = False
            found.add(
                "GraphTrainer",
                f"`label_feature` must be a feature of {place}, among {sorted(known)}; got {label!r}. "
                f"{did_you_mean(label, known)}{'' if part.reads_context else _OF_THE_PLAN}",
            )
    return is_right


def _labels(task: Task, spec: GraphTensorSpec) -> Iterator[tuple[Task, str, set[str], str]]:
    """Yields each part of a task with a label, that label, the features it may be, and where they are."""
    node_sets = spec.node_sets_spec
    readout = set(node_sets[READOUT_NODE_SET].features_spec) if READOUT_NODE_SET in node_sets else set()
    context = set(spec.context_spec.features_spec)
    for part in _parts(task):
        label = getattr(part, "label_feature", "")
        known, place = (context, "the context") if part.reads_context else (readout, f"node set {READOUT_NODE_SET!r}")
        if label:
            yield part, label, {name for name in known if not name.startswith("#")}, place


def _check_label_names(task: Task, traced: TracedTransform, found: FindingsCollector) -> None:
    for _, label, known, place in _labels(task, traced.spec):
        if label not in known:
            found.add(
                "GraphTrainer",
                f"`label_feature` must be a feature of {place} after `preprocessing_fn`, among "
                f"{sorted(known)}; got {label!r}. {did_you_mean(label, known)} The plan's `label_features` go there, "
                "and `preprocessing_fn` keeps them or makes them anew.",
            )


def _check_vocabularies(task: Task, traced: TracedTransform, found: FindingsCollector) -> None:
    for part in _parts(task):
        name = getattr(part, "class_vocabulary", "")
        if name and name not in traced.vocabularies:
            found.add(
                "GraphTrainer",
                f"`class_vocabulary` must be a vocabulary that `preprocessing_fn` makes, among "
                f"{sorted(traced.vocabularies)}; got {name!r}. {did_you_mean(name, traced.vocabularies)} Give "
                "tft.compute_and_apply_vocabulary of the label this `vocab_filename`.",
            )

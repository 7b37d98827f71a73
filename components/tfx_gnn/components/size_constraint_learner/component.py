"""The TFX component SizeConstraintLearner and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import GraphSchemaArtifact, SizeConstraintsArtifact
from tfx_gnn.components.size_constraint_learner import executor
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions


class SizeConstraintLearnerSpec(ComponentSpec):
    """Inputs, outputs and parameters of SizeConstraintLearner."""

    PARAMETERS = parameters.execution_parameters(SizeConstraintLearnerOptions)
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph, optional=True),
    }
    OUTPUTS = {"size_constraints": ChannelParameter(type=SizeConstraintsArtifact)}
    TYPE_ANNOTATION = system_executions.Process


class SizeConstraintLearner(base_beam_component.BaseBeamComponent):
    """Learns padding budgets: the fixed sizes to which batches of graphs are padded (TF-GNN's `SizeConstraints`).

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | the graph tf.Examples that will be batched |
    | input | graph_schema | tfx_gnn.GraphSchemaArtifact | schema of the examples |
    | input | transform_graph | TransformGraph | optional: the transform that made the examples, for class names |
    | output | size_constraints | tfx_gnn.SizeConstraintsArtifact | budgets by name, and a report on them |
    | parameter | batch_size | int | graphs per batch |
    | parameter | extra_batch_sizes | JSON | further batch sizes to learn budgets for |
    | parameter | success_ratios | JSON | fraction of random batches that fit, one per fit-or-skip budget |
    | parameter | splits | JSON | splits to read; empty for all |
    | parameter | train_split | str | split that fit-or-skip and packing budgets are optimized for |
    | parameter | window | int | look-ahead of `pack_batches` that packing budgets are chosen for |
    | parameter | label_feature | str | feature of `_readout` with the class, by which losses are broken down |
    | parameter | class_vocabulary | str | vocabulary of the transform graph that names the classes |
    | parameter | warn_slice_loss | float | fraction of a slice that may be lost without a warning |
    | parameter | max_slice_loss | float | fraction of a slice that may be lost without an error |
    | parameter | seed | int | seed of the random draws |
    | parameter | library_version | str | version of this library |

    Args:
        examples: channel of Examples.
        graph_schema: channel of GraphSchemaArtifact.
        options: batch sizes, splits, and the requirements on the budgets.
        transform_graph: channel of TransformGraph; required if `options` names a class vocabulary.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.
    """

    SPEC_CLASS = SizeConstraintLearnerSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: BaseChannel,
        graph_schema: BaseChannel,
        options: SizeConstraintLearnerOptions,
        transform_graph: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                SizeConstraintLearnerSpec,
                options,
                runtime_parameters,
                examples=examples,
                graph_schema=graph_schema,
                transform_graph=transform_graph,
            )
        )

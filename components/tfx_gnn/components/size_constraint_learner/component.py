"""Contract of SizeConstraintLearner."""

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
    """Learns the fixed sizes to which a batch of graphs is padded.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | the graph tf.Examples that will be batched |
    | input | graph_schema | tfx_gnn.GraphSchemaArtifact | their schema |
    | input | transform_graph | TransformGraph | optional: the transform that made them, for names of classes |
    | output | size_constraints | tfx_gnn.SizeConstraintsArtifact | budgets by name, and a report on them |
    | parameter | batch_size | int | graphs of a batch |
    | parameter | extra_batch_sizes | JSON | further batch sizes to learn budgets for |
    | parameter | success_ratios | JSON | shares of random batches that fit, one fit-or-skip budget for each |
    | parameter | splits | JSON | splits to read; none means all |
    | parameter | train_split | str | split that fit-or-skip and packing budgets are shaped after |
    | parameter | window | int | look-ahead of `pack_batches` that packing budgets are chosen for |
    | parameter | label_feature | str | feature of `_readout` with the class, by which losses are told |
    | parameter | class_vocabulary | str | vocabulary of the transform graph that names the classes |
    | parameter | warn_slice_loss | float | share of a slice that may be lost without a warning |
    | parameter | max_slice_loss | float | share of a slice that may be lost at all |
    | parameter | seed | int | seed of the draws |
    | parameter | library_version | str | version of this library |

    Args:
        examples: channel of Examples.
        graph_schema: channel of GraphSchemaArtifact.
        options: batch sizes, splits, and what to ask of the budgets.
        transform_graph: channel of TransformGraph; needed if `options` name a class vocabulary.
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

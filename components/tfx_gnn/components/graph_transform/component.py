"""Contract of GraphTransform."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import GraphSchemaArtifact
from tfx_gnn.components.graph_transform import executor
from tfx_gnn.stages.graph_transform import GraphTransformOptions


class GraphTransformSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphTransform."""

    PARAMETERS = parameters.execution_parameters(GraphTransformOptions, parameters.CODE_FINGERPRINT)
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "graph_schema": ChannelParameter(type=GraphSchemaArtifact),
    }
    OUTPUTS = {
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph),
        "transformed_examples": ChannelParameter(type=standard_artifacts.Examples),
        "transformed_graph_schema": ChannelParameter(type=GraphSchemaArtifact),
    }
    TYPE_ANNOTATION = system_executions.Transform


class GraphTransform(base_beam_component.BaseBeamComponent):
    """Applies the user's `preprocessing_fn`, with full-pass statistics, to every graph.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | raw graph tf.Examples |
    | input | graph_schema | tfx_gnn.GraphSchemaArtifact | their schema |
    | output | transform_graph | TransformGraph | the transform, for training and serving |
    | output | transformed_examples | Examples | transformed graph tf.Examples, same splits |
    | output | transformed_graph_schema | tfx_gnn.GraphSchemaArtifact | schema after the transform |
    | parameter | preprocessing_fn | str | the user's function, "package.module:function" |
    | parameter | analyze_splits | JSON | splits that statistics come from |
    | parameter | code_fingerprint | str | hash of the user's code |
    | parameter | library_version | str | version of this library |

    Args:
        examples: channel of Examples.
        graph_schema: channel of GraphSchemaArtifact.
        options: what to apply.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.

    Raises:
        ModuleNotFoundError: if the user's module cannot be found.
    """

    SPEC_CLASS = GraphTransformSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: BaseChannel,
        graph_schema: BaseChannel,
        options: GraphTransformOptions,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphTransformSpec,
                options,
                runtime_parameters,
                code="preprocessing_fn",
                examples=examples,
                graph_schema=graph_schema,
            )
        )

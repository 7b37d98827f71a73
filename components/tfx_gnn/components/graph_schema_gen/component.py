"""The TFX component GraphSchemaGen and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import GraphSchemaArtifact
from tfx_gnn.components.graph_schema_gen import executor
from tfx_gnn.components.graph_schema_gen.options import GraphSchemaGenOptions


class GraphSchemaGenSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphSchemaGen."""

    PARAMETERS = parameters.execution_parameters(GraphSchemaGenOptions)
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "declared_graph_schema": ChannelParameter(type=GraphSchemaArtifact, optional=True),
    }
    OUTPUTS = {
        "graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "schema": ChannelParameter(type=standard_artifacts.Schema),
    }
    TYPE_ANNOTATION = system_executions.Process


class GraphSchemaGen(base_beam_component.BaseBeamComponent):
    """Checks every graph tf.Example and writes two schemas: one of the graphs, one of their plain features.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | graph tf.Examples |
    | input | declared_graph_schema | tfx_gnn.GraphSchemaArtifact | optional: schema that the examples must have |
    | output | graph_schema | tfx_gnn.GraphSchemaArtifact | node sets, edge sets, context and their features |
    | output | schema | Schema | schema of the same records as plain features, for stock components |
    | parameter | splits | JSON | splits to read; empty for all |
    | parameter | schema_file | str | file name of the graph schema next to the splits, if there is one |
    | parameter | edge_set_ends | JSON | node sets at both ends of an edge set, where nothing else tells them |
    | parameter | library_version | str | version of this library |

    Args:
        examples: channel of Examples, of SubgraphExampleGen or of a stock component such as ImportExampleGen.
        options: which splits to read, and what edges join where nothing else tells it.
        declared_graph_schema: graph schema of the examples, as an Importer provides it, for examples that have none
            next to their splits; it takes precedence over one that lies there.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.
    """

    SPEC_CLASS = GraphSchemaGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: BaseChannel,
        options: GraphSchemaGenOptions,
        declared_graph_schema: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphSchemaGenSpec,
                options,
                runtime_parameters,
                examples=examples,
                declared_graph_schema=declared_graph_schema,
            )
        )

"""The TFX component GraphLayerwiseInferrer and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import GraphIndexArtifact, InferenceTableArtifact
from tfx_gnn.components.graph_layerwise_inferrer import executor
from tfx_gnn.components.graph_layerwise_inferrer.options import GraphLayerwiseInferrerOptions


class GraphLayerwiseInferrerSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphLayerwiseInferrer."""

    PARAMETERS = parameters.execution_parameters(GraphLayerwiseInferrerOptions)
    INPUTS = {
        "graph_index": ChannelParameter(type=GraphIndexArtifact),
        "model": ChannelParameter(type=standard_artifacts.Model),
        "blessing": ChannelParameter(type=standard_artifacts.ModelBlessing, optional=True),
        "infra_blessing": ChannelParameter(type=standard_artifacts.InfraBlessing, optional=True),
    }
    OUTPUTS = {"inference": ChannelParameter(type=InferenceTableArtifact)}
    TYPE_ANNOTATION = system_executions.Process


class GraphLayerwiseInferrer(base_component.BaseComponent):
    """Writes what the exported model answers to every node of a graph, computing each state once, layer by layer.

    The tables are those of GraphBulkInferrer for the examples of all nodes. The model must have been trained with
    `layerwise_inference`.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | graph_index | tfx_gnn.GraphIndexArtifact | the whole graph, from GraphIndexer |
    | input | model | Model | the exported model |
    | input | blessing | ModelBlessing | optional: if given, only a blessed model is asked |
    | input | infra_blessing | InfraBlessing | optional: if given, only a blessed model is asked |
    | output | inference | tfx_gnn.InferenceTableArtifact | tables of the split `all`, and `inference.json` |
    | parameter | outputs | JSON | predictions, scores and embeddings, or some of them |
    | parameter | file_format | JSON | parquet, csv or tfrecord |
    | parameter | neighborhoods | JSON | as_trained or full: whether fan-outs may leave out edges |
    | parameter | batch_edges | int | edges whose messages are computed at once |
    | parameter | num_verified | int | nodes whose answers are also computed from their subgraphs |
    | parameter | bigquery_table | str | table of BigQuery that gets the rows, too; empty for none |
    | parameter | library_version | str | version of this library |

    Args:
        graph_index: channel of GraphIndexArtifact.
        model: channel of Model.
        options: what to infer, and how to write it.
        blessing: channel of ModelBlessing.
        infra_blessing: channel of InfraBlessing, from GraphSkewValidator.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.
    """

    SPEC_CLASS = GraphLayerwiseInferrerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        graph_index: BaseChannel,
        model: BaseChannel,
        options: GraphLayerwiseInferrerOptions,
        blessing: BaseChannel | None = None,
        infra_blessing: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphLayerwiseInferrerSpec,
                options,
                runtime_parameters,
                graph_index=graph_index,
                model=model,
                blessing=blessing,
                infra_blessing=infra_blessing,
            )
        )

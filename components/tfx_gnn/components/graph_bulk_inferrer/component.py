"""The TFX component GraphBulkInferrer and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import InferenceTableArtifact
from tfx_gnn.components.graph_bulk_inferrer import executor
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions


class GraphBulkInferrerSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphBulkInferrer."""

    PARAMETERS = parameters.execution_parameters(GraphBulkInferrerOptions)
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "model": ChannelParameter(type=standard_artifacts.Model),
        "blessing": ChannelParameter(type=standard_artifacts.ModelBlessing, optional=True),
        "infra_blessing": ChannelParameter(type=standard_artifacts.InfraBlessing, optional=True),
    }
    OUTPUTS = {"inference": ChannelParameter(type=InferenceTableArtifact)}
    TYPE_ANNOTATION = system_executions.Process


class GraphBulkInferrer(base_beam_component.BaseBeamComponent):
    """Writes what the exported model answers to every example, as tables with the original ids.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | raw graph tf.Examples |
    | input | model | Model | the exported model |
    | input | blessing | ModelBlessing | optional: if given, only a blessed model is asked |
    | input | infra_blessing | InfraBlessing | optional: if given, only a blessed model is asked |
    | output | inference | tfx_gnn.InferenceTableArtifact | tables by split, and `inference.json` |
    | parameter | splits | JSON | splits to take examples from; empty for all |
    | parameter | outputs | JSON | predictions, scores and embeddings, or some of them |
    | parameter | file_format | JSON | parquet, csv or tfrecord |
    | parameter | batch_size | int | examples per call of the model |
    | parameter | max_refused_share | float | fraction of the examples that the model may refuse |
    | parameter | bigquery_table | str | table of BigQuery that gets the rows, too; empty for none |
    | parameter | library_version | str | version of this library |

    Args:
        examples: channel of Examples.
        model: channel of Model.
        options: what to infer, and how to write it.
        blessing: channel of ModelBlessing.
        infra_blessing: channel of InfraBlessing, from GraphSkewValidator.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.
    """

    SPEC_CLASS = GraphBulkInferrerSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: BaseChannel,
        model: BaseChannel,
        options: GraphBulkInferrerOptions,
        blessing: BaseChannel | None = None,
        infra_blessing: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphBulkInferrerSpec,
                options,
                runtime_parameters,
                examples=examples,
                model=model,
                blessing=blessing,
                infra_blessing=infra_blessing,
            )
        )

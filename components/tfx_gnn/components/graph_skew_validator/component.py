"""The TFX component GraphSkewValidator and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import GraphIndexArtifact, SkewReportArtifact
from tfx_gnn.components.graph_skew_validator import executor
from tfx_gnn.components.graph_skew_validator.options import GraphSkewValidatorOptions


class GraphSkewValidatorSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphSkewValidator."""

    PARAMETERS = parameters.execution_parameters(GraphSkewValidatorOptions)
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "transformed_examples": ChannelParameter(type=standard_artifacts.Examples),
        "model": ChannelParameter(type=standard_artifacts.Model),
        "model_run": ChannelParameter(type=standard_artifacts.ModelRun),
        "graph_index": ChannelParameter(type=GraphIndexArtifact, optional=True),
    }
    OUTPUTS = {
        "skew": ChannelParameter(type=SkewReportArtifact),
        "infra_blessing": ChannelParameter(type=standard_artifacts.InfraBlessing),
    }
    TYPE_ANNOTATION = system_executions.Evaluate


class GraphSkewValidator(base_component.BaseComponent):
    """Checks that the exported model computes from raw examples what training got from transformed ones.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | raw graph tf.Examples |
    | input | transformed_examples | Examples | the same examples after GraphTransform |
    | input | model | Model | the exported model |
    | input | model_run | ModelRun | model run of the same training, which records how the model was trained |
    | input | graph_index | tfx_gnn.GraphIndexArtifact | optional: the graph of the examples, with `asks_server` |
    | output | skew | tfx_gnn.SkewReportArtifact | `skew.json`: what differs, by how much and where |
    | output | infra_blessing | InfraBlessing | `INFRA_BLESSED` or `INFRA_NOT_BLESSED`, with the reasons |
    | parameter | splits | JSON | splits to take examples from; empty for all |
    | parameter | max_examples | int | maximum number of examples per split |
    | parameter | batch_size | int | examples per batch |
    | parameter | max_float_difference | float | allowed difference of floating point features |
    | parameter | max_rounding_difference | float | allowed difference of features between batches |
    | parameter | max_output_difference | float | allowed difference of model outputs |
    | parameter | asks_server | JSON | whether a server is asked about some of the examples by id |
    | parameter | max_served_by_id | int | maximum number of examples that it is asked about |
    | parameter | refuses_nonfinite_answers | JSON | whether a NaN output for a finite value withholds the blessing |
    | parameter | library_version | str | version of this library |

    Args:
        examples: channel of Examples, before the transform.
        transformed_examples: channel of Examples, after the transform.
        model: channel of Model.
        model_run: channel of ModelRun, of the same training.
        options: what to compare, and what difference is allowed.
        graph_index: channel of GraphIndexArtifact, of the same tables and span; given with `asks_server`.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.
    """

    SPEC_CLASS = GraphSkewValidatorSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: BaseChannel,
        transformed_examples: BaseChannel,
        model: BaseChannel,
        model_run: BaseChannel,
        options: GraphSkewValidatorOptions,
        graph_index: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        if (graph_index is not None) is not options.asks_server:
            raise ValueError(
                "`graph_index` must be given with `asks_server`, and only then; got "
                f"asks_server={options.asks_server}. Add GraphIndexer, or "
                "`graph_skew_validator: {asks_server: true}` to a project."
            )
        super().__init__(
            spec=parameters.fill_spec(
                GraphSkewValidatorSpec,
                options,
                runtime_parameters,
                examples=examples,
                transformed_examples=transformed_examples,
                model=model,
                model_run=model_run,
                graph_index=graph_index,
            )
        )

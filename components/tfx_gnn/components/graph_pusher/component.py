"""The TFX component GraphPusher and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from tfx_gnn.components import parameters
from tfx_gnn.components.graph_pusher import executor
from tfx_gnn.components.graph_pusher.options import GraphPusherOptions


class GraphPusherSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphPusher."""

    PARAMETERS = {
        "push_destination": ExecutionParameter(type=str),
        **parameters.execution_parameters(GraphPusherOptions),
    }
    INPUTS = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "blessing": ChannelParameter(type=standard_artifacts.ModelBlessing),
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "infra_blessing": ChannelParameter(type=standard_artifacts.InfraBlessing, optional=True),
        "statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics, optional=True),
        "analyzer_cache": ChannelParameter(type=standard_artifacts.TransformCache, optional=True),
    }
    OUTPUTS = {"pushed_model": ChannelParameter(type=standard_artifacts.PushedModel)}
    TYPE_ANNOTATION = system_executions.Deploy


class GraphPusher(base_component.BaseComponent):
    """Pushes a blessed model to a new version folder after it has answered real requests.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | model | Model | the exported model |
    | input | blessing | ModelBlessing | the evaluator's verdict on the model |
    | input | examples | Examples | raw graph tf.Examples to verify it with |
    | input | infra_blessing | InfraBlessing | optional: if given, only a blessed model is pushed |
    | input | statistics | ExampleStatistics | optional: of the training data, to be pushed with the model |
    | input | analyzer_cache | TransformCache | optional: what GraphTransform counted, to be pushed with the model |
    | output | pushed_model | PushedModel | copy of the pushed model, with version and path as properties |
    | parameter | push_destination | str | folder or URI of version folders |
    | parameter | num_verification_requests | int | requests that the model must answer |
    | parameter | num_verification_threads | int | threads that then send requests concurrently; 0 for none |
    | parameter | verification_seconds | float | how long the threads send requests |
    | parameter | warmup | JSON | whether to add warm-up requests to the copy if the model has none |
    | parameter | refuses_nonfinite_answers | JSON | whether a NaN output for a finite value prevents the push |
    | parameter | publishing | JSON | "auto", "rename" or "copy" |
    | parameter | library_version | str | version of this library |

    Args:
        model: channel of Model.
        blessing: channel of ModelBlessing.
        examples: channel of Examples.
        push_destination: folder or URI that a model server watches.
        options: how to verify the model.
        infra_blessing: channel of InfraBlessing, from GraphSkewValidator or the stock InfraValidator.
        statistics: channel of ExampleStatistics, from GraphExampleValidator, with which that of a later run compares
            its data.
        analyzer_cache: channel of TransformCache, from GraphTransform, from which that of a later run takes what it
            counted in spans that both have.
        runtime_parameters: name of `push_destination` or of a scalar option to the
            parameter that sets it when a compiled pipeline runs.
    """

    SPEC_CLASS = GraphPusherSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        model: BaseChannel,
        blessing: BaseChannel,
        examples: BaseChannel,
        push_destination: str,
        options: GraphPusherOptions,
        infra_blessing: BaseChannel | None = None,
        statistics: BaseChannel | None = None,
        analyzer_cache: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphPusherSpec,
                options,
                runtime_parameters,
                model=model,
                blessing=blessing,
                examples=examples,
                infra_blessing=infra_blessing,
                statistics=statistics,
                analyzer_cache=analyzer_cache,
                push_destination=push_destination,
            )
        )

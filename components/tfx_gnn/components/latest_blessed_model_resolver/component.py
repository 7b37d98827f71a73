"""The TFX component LatestBlessedModelResolver and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from tfx_gnn.components import parameters
from tfx_gnn.components.latest_blessed_model_resolver import executor
from tfx_gnn.components.latest_blessed_model_resolver.options import LatestBlessedModelResolverOptions
from tfx_gnn.components.latest_blessed_model_resolver.stage import describe_latest_version


class LatestBlessedModelResolverSpec(ComponentSpec):
    """Outputs and parameters of LatestBlessedModelResolver."""

    PARAMETERS = {
        "push_destination": ExecutionParameter(type=str),
        "latest_version": ExecutionParameter(type=str),
        **parameters.execution_parameters(LatestBlessedModelResolverOptions),
    }
    INPUTS: Mapping[str, ChannelParameter] = {}
    OUTPUTS = {"blessed_model": ChannelParameter(type=standard_artifacts.Model)}
    TYPE_ANNOTATION = system_executions.Process


class LatestBlessedModelResolver(base_component.BaseComponent):
    """Finds the model that was blessed and pushed last, in the push destination itself, on every runner.

    | kind | name | type | meaning |
    |---|---|---|---|
    | output | blessed_model | Model | a copy of the newest version, or the record that there is none yet |
    | parameter | push_destination | str | folder or URI of version folders |
    | parameter | latest_version | str | folder name and fingerprint of the version; "0": none; empty: the newest then |
    | parameter | must_exist | JSON | whether a destination without a version is an error |
    | parameter | library_version | str | version of this library |

    The result is cached under the version that is the newest when the pipeline is built. If `push_destination` is a
    runtime parameter, it is known to nobody then: give the component no cache.

    Args:
        push_destination: folder or URI where GraphPusher pushes to.
        options: whether there must be a model.
        runtime_parameters: name of `push_destination` to the parameter that sets it when a compiled pipeline runs.
    """

    SPEC_CLASS = LatestBlessedModelResolverSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        push_destination: str,
        options: LatestBlessedModelResolverOptions,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        is_open = "push_destination" in (runtime_parameters or {})
        super().__init__(
            spec=parameters.fill_spec(
                LatestBlessedModelResolverSpec,
                options,
                runtime_parameters,
                push_destination=push_destination,
                latest_version="" if is_open else describe_latest_version(push_destination),
            )
        )

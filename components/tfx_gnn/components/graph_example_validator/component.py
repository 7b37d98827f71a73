"""The TFX component GraphExampleValidator and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import ExamplesBlessingArtifact, GraphSchemaArtifact
from tfx_gnn.components.graph_example_validator import executor
from tfx_gnn.components.graph_example_validator.options import GraphExampleValidatorOptions


class GraphExampleValidatorSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphExampleValidator."""

    PARAMETERS = parameters.execution_parameters(GraphExampleValidatorOptions)
    INPUTS = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "baseline_statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics, optional=True),
        "blessed_model": ChannelParameter(type=standard_artifacts.Model, optional=True),
    }
    OUTPUTS = {
        "statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "anomalies": ChannelParameter(type=standard_artifacts.ExampleAnomalies),
        "blessing": ChannelParameter(type=ExamplesBlessingArtifact),
    }
    TYPE_ANNOTATION = system_executions.Process


class GraphExampleValidator(base_beam_component.BaseBeamComponent):
    """Checks graph examples against their schema and against each other, and blesses them for training.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | examples | Examples | raw graph tf.Examples |
    | input | graph_schema | tfx_gnn.GraphSchemaArtifact | schema of the examples |
    | input | baseline_statistics | ExampleStatistics | optional: statistics of earlier data, for drift |
    | input | blessed_model | Model | optional: the latest blessed model, with statistics of its data, for drift |
    | output | statistics | ExampleStatistics | statistics of features and graphs, in TFDV's form |
    | output | anomalies | ExampleAnomalies | anomalies in TFDV's form, and `anomalies.json` |
    | output | blessing | tfx_gnn.ExamplesBlessingArtifact | `BLESSED` or `NOT_BLESSED`, with the reasons |
    | parameter | splits | JSON | splits to read; empty for all |
    | parameter | split_order | JSON | splits from first to last |
    | parameter | label_features | JSON | label features of the `_readout` node set or the context |
    | parameter | seed_edge_set | str | edge set whose edges are predicted |
    | parameter | reverse_edge_sets | JSON | edge sets that hold the predicted edges with reversed direction |
    | parameter | pair_label_feature | str | feature of `_readout` that is 0 for negative pairs |
    | parameter | seed_time_feature | str | feature with the time of a seed |
    | parameter | edge_time_features | JSON | feature with the time of an edge, by edge set |
    | parameter | only_earlier_edges | JSON | whether edges with the same time as the seed are refused too |
    | parameter | inductive | JSON | whether seeds of later splits must be absent from earlier ones |
    | parameter | required_sets | JSON | sets that must not be empty in any example |
    | parameter | max_l_infinity_drift | float | largest allowed L-infinity distance to the baseline |
    | parameter | max_jensen_shannon_drift | float | largest allowed Jensen-Shannon divergence from the baseline |
    | parameter | max_structure_drift | float | largest allowed change of rows and mean degrees from the baseline |
    | parameter | compares_with_latest_blessed | JSON | whether the data of the latest blessed model are the baseline |
    | parameter | max_l_infinity_skew | float | largest allowed L-infinity distance to the first split |
    | parameter | max_jensen_shannon_skew | float | largest allowed Jensen-Shannon divergence from the first split |
    | parameter | accepted_features | JSON | keys that may reveal the label, because they are known before it |
    | parameter | unstable_features | JSON | keys that are excluded from drift and skew |
    | parameter | severities | JSON | "error", "warning" or "off", by name of the check |
    | parameter | library_version | str | version of this library |

    Args:
        examples: channel of Examples.
        graph_schema: channel of GraphSchemaArtifact.
        options: the guarantees to check.
        baseline_statistics: channel of ExampleStatistics, such as those of the previous span.
        blessed_model: channel of Model, from LatestBlessedModelResolver; given if and only if
            `compares_with_latest_blessed`.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.

    Raises:
        ValueError: if `blessed_model` is missing, or is given without need.
    """

    SPEC_CLASS = GraphExampleValidatorSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(executor.Executor)

    def __init__(
        self,
        *,
        examples: BaseChannel,
        graph_schema: BaseChannel,
        options: GraphExampleValidatorOptions,
        baseline_statistics: BaseChannel | None = None,
        blessed_model: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        if (blessed_model is not None) is not options.compares_with_latest_blessed:
            raise ValueError(
                "`blessed_model` must be given with `compares_with_latest_blessed`, and only then; got "
                f"compares_with_latest_blessed={options.compares_with_latest_blessed}. Add "
                "LatestBlessedModelResolver, or `latest_blessed_model_resolver: {}` to a project."
            )
        super().__init__(
            spec=parameters.fill_spec(
                GraphExampleValidatorSpec,
                options,
                runtime_parameters,
                examples=examples,
                graph_schema=graph_schema,
                baseline_statistics=baseline_statistics,
                blessed_model=blessed_model,
            )
        )

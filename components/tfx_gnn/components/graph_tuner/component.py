"""The TFX component GraphTuner and its specification."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import ExamplesBlessingArtifact, GraphSchemaArtifact, SizeConstraintsArtifact
from tfx_gnn.components.graph_tuner import executor
from tfx_gnn.components.graph_tuner.options import GraphTunerOptions


class GraphTunerSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphTuner."""

    PARAMETERS = parameters.execution_parameters(GraphTunerOptions, parameters.CODE_FINGERPRINT)
    INPUTS = {
        "transformed_examples": ChannelParameter(type=standard_artifacts.Examples),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph),
        "graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "transformed_graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "size_constraints": ChannelParameter(type=SizeConstraintsArtifact, optional=True),
        "blessing": ChannelParameter(type=ExamplesBlessingArtifact, optional=True),
    }
    OUTPUTS = {
        "best_hyperparameters": ChannelParameter(type=standard_artifacts.HyperParameters),
    }
    TYPE_ANNOTATION = system_executions.Train


class GraphTuner(base_component.BaseComponent):
    """Searches the hyperparameters of the user's `model_fn` by short trainings, for a GraphTrainer to use.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | transformed_examples | Examples | transformed graph tf.Examples |
    | input | transform_graph | TransformGraph | the transform that made them |
    | input | graph_schema | tfx_gnn.GraphSchemaArtifact | schema before the transform |
    | input | transformed_graph_schema | tfx_gnn.GraphSchemaArtifact | schema after the transform |
    | input | size_constraints | tfx_gnn.SizeConstraintsArtifact | padding budgets; optional with batching "ego" |
    | input | blessing | tfx_gnn.ExamplesBlessingArtifact | optional: without a blessing nothing is trained |
    | output | best_hyperparameters | HyperParameters | the best values, all trials, a report |
    | parameter | trainer | JSON | what to train in each trial, as the options of GraphTrainer |
    | parameter | search_space | JSON | values that each hyperparameter may take |
    | parameter | num_trials | int | trials |
    | parameter | objective | str | loss or metric that is compared |
    | parameter | direction | str | "minimize", "maximize" or "auto" |
    | parameter | sampler | str | "tpe", "random" or "grid": what chooses values |
    | parameter | pruner | str | "none", "median" or "hyperband": what ends trials early |
    | parameter | num_startup_trials | int | trials at random before others are compared with them |
    | parameter | max_failed_trials | int | trials that may fail |
    | parameter | search_seed | int | seed of the choice of values |
    | parameter | search_dir | str | folder of finished trials that a retry goes on from |
    | parameter | code_fingerprint | str | hash of the user's code |
    | parameter | library_version | str | version of this library |

    Args:
        transformed_examples: channel of Examples.
        transform_graph: channel of TransformGraph.
        graph_schema: channel of GraphSchemaArtifact, before the transform.
        transformed_graph_schema: channel of GraphSchemaArtifact, after it.
        options: what to search, and how.
        size_constraints: channel of SizeConstraintsArtifact; None for batching "ego".
        blessing: channel of ExamplesBlessingArtifact, of GraphExampleValidator.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.

    Raises:
        ModuleNotFoundError: if the user's module cannot be found.
    """

    SPEC_CLASS = GraphTunerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        transformed_examples: BaseChannel,
        transform_graph: BaseChannel,
        graph_schema: BaseChannel,
        transformed_graph_schema: BaseChannel,
        options: GraphTunerOptions,
        size_constraints: BaseChannel | None = None,
        blessing: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphTunerSpec,
                options,
                runtime_parameters,
                code="model_fn",
                transformed_examples=transformed_examples,
                transform_graph=transform_graph,
                graph_schema=graph_schema,
                transformed_graph_schema=transformed_graph_schema,
                size_constraints=size_constraints,
                blessing=blessing,
            )
        )

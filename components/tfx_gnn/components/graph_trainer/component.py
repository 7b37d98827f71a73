"""Contract of GraphTrainer."""

from __future__ import annotations

from collections.abc import Mapping

from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import standard_artifacts, system_executions
from tfx.types.channel import BaseChannel
from tfx.types.component_spec import ChannelParameter, ComponentSpec

from tfx_gnn.components import parameters
from tfx_gnn.components.artifacts import ExamplesBlessingArtifact, GraphSchemaArtifact, SizeConstraintsArtifact
from tfx_gnn.components.graph_trainer import executor
from tfx_gnn.training.options import GraphTrainerOptions


class GraphTrainerSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphTrainer."""

    PARAMETERS = parameters.execution_parameters(GraphTrainerOptions, parameters.CODE_FINGERPRINT)
    INPUTS = {
        "transformed_examples": ChannelParameter(type=standard_artifacts.Examples),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph),
        "graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "transformed_graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "size_constraints": ChannelParameter(type=SizeConstraintsArtifact),
        "blessing": ChannelParameter(type=ExamplesBlessingArtifact, optional=True),
        "best_hyperparameters": ChannelParameter(type=standard_artifacts.HyperParameters, optional=True),
        "examples": ChannelParameter(type=standard_artifacts.Examples, optional=True),
    }
    OUTPUTS = {
        "model": ChannelParameter(type=standard_artifacts.Model),
        "model_run": ChannelParameter(type=standard_artifacts.ModelRun),
    }
    TYPE_ANNOTATION = system_executions.Train


class GraphTrainer(base_component.BaseComponent):
    """Trains the model of the user's `model_fn` and exports it together with the transform.

    | kind | name | type | meaning |
    |---|---|---|---|
    | input | transformed_examples | Examples | transformed graph tf.Examples |
    | input | transform_graph | TransformGraph | the transform that made them |
    | input | graph_schema | tfx_gnn.GraphSchemaArtifact | schema before the transform, for serving |
    | input | transformed_graph_schema | tfx_gnn.GraphSchemaArtifact | schema after the transform |
    | input | size_constraints | tfx_gnn.SizeConstraintsArtifact | padding budgets |
    | input | blessing | tfx_gnn.ExamplesBlessingArtifact | optional: without a blessing nothing is trained |
    | input | best_hyperparameters | HyperParameters | optional: added to those of the options |
    | input | examples | Examples | optional: raw, to make warm-up requests for a server of |
    | output | model | Model | one SavedModel: parse, transform, merge, predict |
    | output | model_run | ModelRun | TensorBoard logs, checkpoints, summary and report |
    | parameter | model_fn | str | the user's function, "package.module:function" |
    | parameter | task | JSON | what the model predicts |
    | parameter | num_epochs | int | passes over the training split |
    | parameter | train_split | str | split to train on |
    | parameter | eval_split | str | split to watch while training |
    | parameter | training_seed | int | seed of weights and order |
    | parameter | early_stopping_patience | int | epochs without gain before stopping; 0 never stops |
    | parameter | hyperparameters | JSON | for `model_fn`, by name |
    | parameter | batching | str | "packed", "fit_or_skip" or "tight" batches of the training split |
    | parameter | batch_size | int | graphs of a step on all replicas; 0: the learner's own batch size on each |
    | parameter | success_ratio | float | which of the learned fit-or-skip budgets |
    | parameter | shuffle_buffer_size | int | graphs in the shuffle buffer |
    | parameter | sharding | str | how files are divided among processes |
    | parameter | precision | str | "float32" or "mixed_bfloat16" |
    | parameter | steps_per_execution | int | steps that run in one call of TensorFlow |
    | parameter | jit_compile | JSON | whether the step is compiled by XLA |
    | parameter | deterministic | JSON | whether the same seed gives the same weights, bit for bit |
    | parameter | strategy | str | where training runs, as in "mirrored" |
    | parameter | devices | JSON | devices of "one_device" or "mirrored" |
    | parameter | tpu | str | name of the TPU |
    | parameter | num_parameter_partitions | int | parts of a large table at most, on parameter servers |
    | parameter | checkpoint_every_steps | int | steps between checkpoints; 0: one after each epoch |
    | parameter | checkpoint_dir | str | folder of checkpoints that a retry goes on from |
    | parameter | raw_tensor_signature | JSON | whether the model also answers plain tensors |
    | parameter | allow_unsafe_operations | JSON | whether operations are exported that abort a server of threads |
    | parameter | verify_tpu | str | "auto", "always" or "never": check the model for TPUs first |
    | parameter | code_fingerprint | str | hash of the user's code |
    | parameter | library_version | str | version of this library |

    Args:
        transformed_examples: channel of Examples.
        transform_graph: channel of TransformGraph.
        graph_schema: channel of GraphSchemaArtifact, before the transform.
        transformed_graph_schema: channel of GraphSchemaArtifact, after it.
        size_constraints: channel of SizeConstraintsArtifact.
        options: model, task and how to train.
        blessing: channel of ExamplesBlessingArtifact, of GraphExampleValidator.
        best_hyperparameters: channel of HyperParameters, of GraphTuner.
        examples: channel of raw graph Examples; the model then carries warm-up requests.
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.

    Raises:
        ModuleNotFoundError: if the user's module cannot be found.
    """

    SPEC_CLASS = GraphTrainerSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        *,
        transformed_examples: BaseChannel,
        transform_graph: BaseChannel,
        graph_schema: BaseChannel,
        transformed_graph_schema: BaseChannel,
        size_constraints: BaseChannel,
        options: GraphTrainerOptions,
        blessing: BaseChannel | None = None,
        best_hyperparameters: BaseChannel | None = None,
        examples: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        super().__init__(
            spec=parameters.fill_spec(
                GraphTrainerSpec,
                options,
                runtime_parameters,
                code="model_fn",
                transformed_examples=transformed_examples,
                transform_graph=transform_graph,
                graph_schema=graph_schema,
                transformed_graph_schema=transformed_graph_schema,
                size_constraints=size_constraints,
                blessing=blessing,
                best_hyperparameters=best_hyperparameters,
                examples=examples,
            )
        )

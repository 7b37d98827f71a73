"""The TFX component GraphTrainer and its specification."""

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
from tfx_gnn.training.options import GraphTrainerOptions, check_warm_start


class GraphTrainerSpec(ComponentSpec):
    """Inputs, outputs and parameters of GraphTrainer."""

    PARAMETERS = parameters.execution_parameters(GraphTrainerOptions, parameters.CODE_FINGERPRINT)
    INPUTS = {
        "transformed_examples": ChannelParameter(type=standard_artifacts.Examples),
        "transform_graph": ChannelParameter(type=standard_artifacts.TransformGraph),
        "graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "transformed_graph_schema": ChannelParameter(type=GraphSchemaArtifact),
        "size_constraints": ChannelParameter(type=SizeConstraintsArtifact, optional=True),
        "blessing": ChannelParameter(type=ExamplesBlessingArtifact, optional=True),
        "best_hyperparameters": ChannelParameter(type=standard_artifacts.HyperParameters, optional=True),
        "examples": ChannelParameter(type=standard_artifacts.Examples, optional=True),
        "blessed_model": ChannelParameter(type=standard_artifacts.Model, optional=True),
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
    | input | size_constraints | tfx_gnn.SizeConstraintsArtifact | padding budgets; not needed with batching "ego" |
    | input | blessing | tfx_gnn.ExamplesBlessingArtifact | optional: if given, only blessed examples are trained on |
    | input | best_hyperparameters | HyperParameters | optional: added to the hyperparameters in the options |
    | input | examples | Examples | optional: raw examples, from which warm-up requests for a server are made |
    | input | blessed_model | Model | optional: the latest blessed model, whose weights a warm start takes |
    | output | model | Model | one SavedModel: parse, transform, merge, predict |
    | output | model_run | ModelRun | TensorBoard logs, checkpoints, summary and report |
    | parameter | model_fn | str | the user's function, "package.module:function" |
    | parameter | task | JSON | what the model predicts |
    | parameter | num_epochs | int | passes over the training split |
    | parameter | train_split | str | split to train on |
    | parameter | eval_split | str | split to evaluate during training |
    | parameter | training_seed | int | seed of initial weights and of the order of examples |
    | parameter | warm_start | str | "none", or which weights of the latest blessed model are taken |
    | parameter | early_stopping_patience | int | epochs without improvement before stopping; 0 never stops |
    | parameter | monitor | str | loss or metric that decides which epoch is the best, such as "val_accuracy" |
    | parameter | monitor_mode | str | "min", "max" or "auto": the direction in which `monitor` improves |
    | parameter | hyperparameters | JSON | for `model_fn`, by name |
    | parameter | histogram_every_epochs | int | epochs between histograms of weights for TensorBoard; 0: none |
    | parameter | batching | str | "packed", "fit_or_skip", "tight" or "ego" batches |
    | parameter | batch_size | int | graphs per step over all replicas; 0: the learner's own batch size per replica |
    | parameter | success_ratio | float | which of the learned fit-or-skip budgets to use |
    | parameter | shuffle_buffer_size | int | graphs in the shuffle buffer |
    | parameter | sharding | str | how files are divided among processes |
    | parameter | class_sampling | JSON | how many times an example comes in an epoch, by class: "balanced" or numbers |
    | parameter | examples_per_class | int | examples of each class that are trained on, chosen by hash; 0: all |
    | parameter | optimizer | str | optimizer of an uncompiled model, such as "adamw" |
    | parameter | learning_rate | float | its learning rate; 0: that of the hyperparameters |
    | parameter | learning_rate_schedule | str | how the learning rate falls over the steps, such as "cosine" |
    | parameter | warmup_share | float | share of the steps in which the learning rate rises |
    | parameter | final_learning_rate_share | float | learning rate at the end, as a share of the highest |
    | parameter | weight_decay | float | decoupled weight decay of matrices |
    | parameter | l2 | float | factor of the squares of matrices in the loss |
    | parameter | gradient_clip_norm | float | global norm to which gradients are clipped; 0: no clipping |
    | parameter | precision | str | "float32" or "mixed_bfloat16" |
    | parameter | steps_per_execution | int | steps that run in one call of TensorFlow |
    | parameter | jit_compile | JSON | whether XLA compiles the step |
    | parameter | deterministic | JSON | whether the same seed gives the same weights, bit for bit |
    | parameter | strategy | str | distribution strategy, such as "mirrored" |
    | parameter | devices | JSON | devices of "one_device" or "mirrored" |
    | parameter | tpu | str | name of the TPU |
    | parameter | num_parameter_partitions | int | maximum number of parts of a large table on parameter servers |
    | parameter | checkpoint_every_steps | int | steps between checkpoints; 0: one after each epoch |
    | parameter | checkpoint_dir | str | folder of checkpoints from which a retry resumes |
    | parameter | raw_tensor_signature | JSON | whether the model also has a signature that takes plain tensors |
    | parameter | explanation_steps | int | points of each integral of signature `explanations`; 0: no such signature |
    | parameter | layerwise_inference | JSON | whether the export holds the layers one by one, to infer layer by layer |
    | parameter | embedding_normalization | str | "l2": embeddings have length 1; "none": as the network makes them |
    | parameter | allow_unsafe_operations | JSON | whether to export operations that abort a multi-threaded server |
    | parameter | must_beat_constant | JSON | whether a network that has learned nothing is an error |
    | parameter | verify_tpu | str | "auto", "always" or "never": whether to check first that the model runs on TPUs |
    | parameter | code_fingerprint | str | hash of the user's code |
    | parameter | library_version | str | version of this library |

    Args:
        transformed_examples: channel of Examples.
        transform_graph: channel of TransformGraph.
        graph_schema: channel of GraphSchemaArtifact, before the transform.
        transformed_graph_schema: channel of GraphSchemaArtifact, after the transform.
        options: model, task and how to train.
        size_constraints: channel of SizeConstraintsArtifact; None for batching "ego".
        blessing: channel of ExamplesBlessingArtifact, from GraphExampleValidator.
        best_hyperparameters: channel of HyperParameters, from GraphTuner.
        examples: channel of raw graph Examples; if given, warm-up requests are exported with the model.
        blessed_model: channel of Model, from LatestBlessedModelResolver; given if and only if `warm_start` is not
            "none".
        runtime_parameters: name of a scalar option to the parameter that sets it
            when a compiled pipeline runs.

    Raises:
        ModuleNotFoundError: if the user's module cannot be found.
        ValueError: if `blessed_model` is missing, or is given without need.
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
        options: GraphTrainerOptions,
        size_constraints: BaseChannel | None = None,
        blessing: BaseChannel | None = None,
        best_hyperparameters: BaseChannel | None = None,
        examples: BaseChannel | None = None,
        blessed_model: BaseChannel | None = None,
        runtime_parameters: Mapping[str, RuntimeParameter] | None = None,
    ) -> None:
        check_warm_start(options, is_given=blessed_model is not None, argument="blessed_model")
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
                blessed_model=blessed_model,
            )
        )

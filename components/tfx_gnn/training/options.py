"""Options of GraphTrainer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from tfx_gnn.distribution.options import AUTO, MULTI_WORKER_MIRRORED, PARAMETER_SERVER, SHARDINGS, TPU, StrategyOptions
from tfx_gnn.io.option_groups import (
    check_choices,
    check_groups,
    choice_option,
    flat_values,
    from_flat,
    grouped_option,
    option_group,
)
from tfx_gnn.models.tasks import GraphClassification, NodeClassification, Task
from tfx_gnn.training.data.batching_names import BALANCED, BUDGET_BATCHINGS, EGO
from tfx_gnn.training.metric_directions import is_better_if_large

_MAX_SAMPLING_RATE = 1_000_000
FLOAT32 = "float32"
PRECISIONS = (FLOAT32, "mixed_bfloat16")
VERIFY_AUTO, VERIFY_ALWAYS, VERIFY_NEVER = "auto", "always", "never"
VERIFY_TPU = (VERIFY_AUTO, VERIFY_ALWAYS, VERIFY_NEVER)
VALIDATION_LOSS = "val_loss"
MONITOR_AUTO, MONITOR_MIN, MONITOR_MAX = "auto", "min", "max"
MONITOR_MODES = (MONITOR_AUTO, MONITOR_MIN, MONITOR_MAX)

ADAMW = "adamw"
OPTIMIZERS = ("adam", ADAMW, "sgd", "momentum", "rmsprop", "adagrad")
CONSTANT, LINEAR, COSINE, EXPONENTIAL, STEP = "constant", "linear", "cosine", "exponential", "step"
SCHEDULES = (CONSTANT, LINEAR, COSINE, EXPONENTIAL, STEP)

EMBEDDING_NORMALIZATIONS = ("none", "l2")

NO_WARM_START, SAME_NETWORK, MATCHING_WEIGHTS = "none", "same_network", "matching_weights"
WARM_STARTS = (NO_WARM_START, SAME_NETWORK, MATCHING_WEIGHTS)

_FINAL_SHARE = 0.01
_VALIDATION = "val_"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchingOptions:
    """How examples become batches.

    Attributes:
        kind: how graphs of the training split are batched. "packed" fills each batch with as many graphs as
            fit the padding budget (TF-GNN's `SizeConstraints`); "fit_or_skip" takes a fixed number, and removes
            and counts batches that do not fit; "tight" takes a fixed number and pads to the largest batch.
            "ego" makes dense batches of the trees that a sampling plan with `is_ego` adds to its examples, and
            needs no budget. Evaluation is tight unless training is "ego", and scores every example.
        batch_size: graphs in a step, over all replicas together; each replica uses the budget that was learned
            for its part. 0: each replica uses the learner's own batch size; not with "ego". Under
            "parameter_server", where workers are not synchronous, graphs in one worker's step.
        success_ratio: success ratio of the learned fit-or-skip budget to use, in (0, 1].
        shuffle_buffer_size: examples in the shuffle buffer, at least 1. 1: no shuffling, and files are read in
            order.
        sharding: how files are divided among processes: "auto", "file", "data" or "off".
        class_sampling: how many times an example of the training split comes in an epoch. "": once. "balanced":
            n / (k * n_c) times on average, where n_c of the n examples are of its class and k classes occur, so all
            classes come equally often. Or the mean number of times by class name, 1 for classes that are not named.
            For node and graph classification; instead of the task's `class_weights`.
        examples_per_class: number of examples of each class that are trained on, the same in every epoch, chosen by
            hash; all of a class that has fewer. 0: all examples. For node and graph classification, without
            `class_sampling` and the task's `class_weights`.
    """

    kind: str = choice_option("packed", (*BUDGET_BATCHINGS, EGO), flat_name="batching")
    batch_size: int = 0
    success_ratio: float = 0.99
    shuffle_buffer_size: int = 10_000
    sharding: str = choice_option(AUTO, SHARDINGS)
    class_sampling: str | dict[str, float] = ""
    examples_per_class: int = 0

    def __post_init__(self) -> None:
        check_choices(self)
        _check_least("batch_size", self.batch_size, 1 if self.kind == EGO else 0)
        if not 0.0 < self.success_ratio <= 1.0:
            raise ValueError(
                f"`success_ratio` must lie in (0, 1]; got {self.success_ratio}. Name one that budgets were learned for."
            )
        _check_least("shuffle_buffer_size", self.shuffle_buffer_size, 1)
        self._check_class_sampling()
        _check_least("examples_per_class", self.examples_per_class, 0)
        if self.examples_per_class and self.class_sampling:
            raise ValueError(
                f"`examples_per_class` must be 0 with `class_sampling`; got {self.examples_per_class} and "
                f"{self.class_sampling!r}, which both decide how often an example comes. Keep one of them."
            )

    def _check_class_sampling(self) -> None:
        sampling = self.class_sampling
        if isinstance(sampling, str) and sampling not in ("", BALANCED):
            raise ValueError(
                f"`class_sampling` must be {BALANCED!r}, or map class names to numbers; got {sampling!r}. Leave it out "
                "to take every example once."
            )
        is_valid = isinstance(sampling, str) or (
            isinstance(sampling, dict)
            and all(
                isinstance(name, str) and isinstance(rate, (int, float)) and 0.0 < rate <= _MAX_SAMPLING_RATE
                for name, rate in sampling.items()
            )
        )
        if not is_valid:
            raise ValueError(
                f"`class_sampling` must map class names to positive numbers up to {_MAX_SAMPLING_RATE:,}; got "
                f"{sampling!r}. Leave examples out of the training split to never take them."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptimizationOptions:
    """How gradients change the weights.

    A model that `model_fn` compiles keeps its own optimizer: options that describe one are then refused. `l2`, and
    `gradient_clip_norm` if that optimizer does not clip, apply to every model.

    Attributes:
        optimizer: "adam", "adamw", "sgd", "momentum" (SGD with momentum 0.9), "rmsprop" or "adagrad"; "" is "adam".
        learning_rate: learning rate, or the highest one of a schedule. 0: `hyperparameters["learning_rate"]`, or 0.001.
        schedule: how the learning rate falls over the training steps: "constant", "linear", "cosine", "exponential" or
            "step", which is by equal factors after 1/2 and 3/4 of them.
        warmup_share: share of the training steps in which the learning rate first rises linearly from 0, in [0, 1).
        final_learning_rate_share: learning rate after all steps of a falling schedule, as a share of the highest one,
            in [0, 1]; above 0 for "exponential" and "step".
        weight_decay: share of each matrix, times the learning rate, that is subtracted in each step, decoupled from
            the gradients (AdamW, arXiv:1711.05101). Biases and scales do not decay. "adamw" needs it.
        l2: factor of the sum of squares of all matrices that is added to the loss, also in evaluation.
        gradient_clip_norm: norm of all gradients together to which larger ones are scaled down; 0: no clipping.
    """

    optimizer: str = choice_option("", ("", *OPTIMIZERS))
    learning_rate: float = 0.0
    schedule: str = choice_option(CONSTANT, SCHEDULES, flat_name="learning_rate_schedule")
    warmup_share: float = 0.0
    final_learning_rate_share: float = _FINAL_SHARE
    weight_decay: float = 0.0
    l2: float = 0.0
    gradient_clip_norm: float = 0.0

    def __post_init__(self) -> None:
        check_choices(self)
        for name in ("learning_rate", "weight_decay", "l2", "gradient_clip_norm"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"`{name}` must be at least 0 and finite; got {getattr(self, name)}. 0 turns it off.")
        if not 0.0 <= self.warmup_share < 1.0:
            raise ValueError(
                f"`warmup_share` must lie in [0, 1); got {self.warmup_share}. Give the share of the training steps."
            )
        share = self.final_learning_rate_share
        if not (0.0 <= share <= 1.0) or (share == 0.0 and self.schedule in (EXPONENTIAL, STEP)):
            raise ValueError(
                f"`final_learning_rate_share` must lie in [0, 1], and above 0 for {EXPONENTIAL!r} and {STEP!r}; got "
                f"{share} with {self.schedule!r}. Give a share of the highest learning rate."
            )
        if self.schedule == CONSTANT and share != _FINAL_SHARE:
            raise ValueError(
                f"`final_learning_rate_share` must be left out for schedule {CONSTANT!r}, which never falls; got "
                f"{share}. Choose a `learning_rate_schedule` among {list(SCHEDULES[1:])}."
            )
        if self.optimizer == ADAMW and not self.weight_decay:
            raise ValueError(
                f"`weight_decay` must be above 0 for {ADAMW!r}; got 0, which is plain 'adam'. 0.01 is usual."
            )

    @property
    def depends_on_num_steps(self) -> bool:
        """Whether the learning rate depends on the number of all training steps."""
        return self.schedule != CONSTANT or self.warmup_share > 0.0

    def of_the_optimizer(self) -> dict[str, Any]:
        """Returns what describes an optimizer and is not a default, by flat name."""
        defaults = flat_values(type(self)())
        return {
            name: value
            for name, value in flat_values(self).items()
            if value != defaults[name] and name not in ("l2", "gradient_clip_norm")
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """How TensorFlow runs a step.

    Attributes:
        precision: "float32", or "mixed_bfloat16": layers compute in bfloat16, and variables stay float32.
        steps_per_execution: steps that run in one call to TensorFlow; callbacks and stop requests wait until
            these steps are done.
        jit_compile: whether to compile the step with XLA; on one replica only.
        deterministic: whether the same seed gives the same weights, bit for bit, on one device of the same
            kind; slower on GPUs, and with `jit_compile` many times slower there. Not possible with parameter
            servers, whose workers are not synchronous.
    """

    precision: str = choice_option(FLOAT32, PRECISIONS)
    steps_per_execution: int = 1
    jit_compile: bool = False
    deterministic: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        _check_least("steps_per_execution", self.steps_per_execution, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """Where an interrupted training resumes.

    Attributes:
        every_steps: steps between checkpoints within an epoch; 0: one after each epoch.
        directory: folder of checkpoints, from which an interrupted training resumes when it is started again;
            empty: a hidden folder next to `model_run_dir`.
    """

    every_steps: int = grouped_option(0, flat_name="checkpoint_every_steps")
    directory: str = grouped_option("", flat_name="checkpoint_dir")

    def __post_init__(self) -> None:
        _check_least("checkpoint_every_steps", self.every_steps, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What the exported model contains.

    Attributes:
        raw_tensor_signature: whether to export a further signature, `tensors`, that takes raw graphs as plain
            tensors instead of tf.Examples.
        explanation_steps: points of each integral of a further signature, `explanations`, which returns the edges and
            features that carried a prediction, at the price of a model and its gradient for each of twice this number;
            16 are usually enough. 0: no such signature. Not for batching "ego".
        layerwise_inference: whether the export also holds the layers of the network one by one, as `tfx-gnn
            infer-layerwise` and GraphLayerwiseInferrer need them. For tasks about nodes, and networks in which a node's
            next state depends on its own state and its edges alone.
        embedding_normalization: "l2" scales the vectors of signature `embeddings` to length 1, so that inner products
            are cosines; "none" leaves them as the network makes them. Predictions do not change.
        allow_unsafe_operations: whether to export a model even if it contains operations that abort a
            multi-threaded server, in versions of TensorFlow where they do: see
            `tfx_gnn.training.export.unsafe_operations`.
    """

    raw_tensor_signature: bool = False
    explanation_steps: int = 0
    layerwise_inference: bool = False
    embedding_normalization: str = choice_option("none", EMBEDDING_NORMALIZATIONS)
    allow_unsafe_operations: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        _check_least("explanation_steps", self.explanation_steps, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTrainerOptions:
    """What to train, and how.

    Related options form a group. The parameters of the GraphTrainer component are flat, as are the flags of
    `tfx-gnn train`; `from_flat` builds the groups from the component's parameters.

    Attributes:
        model_fn: "package.module:function" of the user's `model_fn(graph_spec)`. It gets the spec of a scalar,
            padded, label-free graph of any size, and returns a tf_keras.Model that maps such a graph to what the
            task predicts. It may also have parameters with these names: `tft_output`, the
            `tft.TFTransformOutput`, which may also be the second positional parameter; `objective`, what is
            predicted; `hyperparameters`, a dict; `num_steps`, the number of training steps to expect.
            An uncompiled model is compiled with the task's loss and metrics, and the optimizer of `optimization`, by
            default Adam with `hyperparameters["learning_rate"]`. Batches come with sample weights, which are 0 for
            padding: compile with `weighted_metrics`, not `metrics`.
        task: what to predict.
        num_epochs: passes over the training split, at least 1.
        train_split: split to train on.
        eval_split: split to evaluate after each epoch.
        training_seed: seed of weights, dropout and the order of examples, in [0, 2**31).
        warm_start: what training starts from. "none": initial values. "same_network": the weights of the latest blessed
            model, whose network must be the same but for terms of vocabularies, by which rows and columns are copied.
            "matching_weights": those of its weights that have the same name and shape, for another network. If no
            model has been blessed yet, training starts from initial values. The optimizer starts anew in any case.
        early_stopping_patience: epochs without a better value of `monitor` after which training stops. The
            weights of the best epoch are exported, even if early stopping never triggers. 0: train all
            epochs and export the last weights, or their averages with an optimizer that has `use_ema=True`.
        monitor: what decides which epoch is the best: the validation loss, or a metric of the compiled model on the
            evaluation split, such as "val_accuracy"; "val_" may be left out.
        monitor_mode: "min" if a smaller value of `monitor` is better, "max" if a larger one is; "auto" knows the
            direction of losses and of the tasks' metrics.
        hyperparameters: hyperparameters for `model_fn` by name, as plain JSON values.
        histogram_every_epochs: epochs between histograms of the weights for TensorBoard; 0: none.
        batching: how examples become batches.
        optimization: how gradients change the weights.
        execution: how TensorFlow runs a step.
        strategy: where training runs. If several processes take part, each runs the same command with its own
            `TF_CONFIG`.
        checkpoints: where an interrupted training resumes.
        export: what the exported model contains.
        must_beat_constant: whether a network that has learned nothing is an error: after 100 steps it is no better than
            a constant on 1,024 examples of its own training split, and a cause can be seen. False: a warning.
        verify_tpu: when to check the model, before training, for what a TPU cannot do: "auto" (under strategy
            "tpu"), "always" or "never".

    Example:
        >>> from tfx_gnn.models import NodeClassification
        >>> options = GraphTrainerOptions(
        ...     model_fn="my_project.models:model_fn",
        ...     task=NodeClassification(label_feature="section", num_classes=4),
        ...     batching=BatchingOptions(batch_size=64),
        ...     checkpoints=CheckpointOptions(every_steps=500),
        ... )
        >>> options.batching.kind, options.strategy.kind
        ('packed', 'default')
    """

    model_fn: str
    task: Task
    num_epochs: int = 10
    train_split: str = "train"
    eval_split: str = "val"
    training_seed: int = 0
    warm_start: str = choice_option(NO_WARM_START, WARM_STARTS)
    early_stopping_patience: int = 0
    monitor: str = VALIDATION_LOSS
    monitor_mode: str = choice_option(MONITOR_AUTO, MONITOR_MODES)
    hyperparameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    histogram_every_epochs: int = 1
    batching: BatchingOptions = option_group(BatchingOptions)
    optimization: OptimizationOptions = option_group(OptimizationOptions)
    execution: ExecutionOptions = option_group(ExecutionOptions)
    strategy: StrategyOptions = option_group(StrategyOptions)
    checkpoints: CheckpointOptions = option_group(CheckpointOptions)
    export: ExportOptions = option_group(ExportOptions)
    must_beat_constant: bool = True
    verify_tpu: str = choice_option(VERIFY_AUTO, VERIFY_TPU)

    def __post_init__(self) -> None:
        check_groups(self)
        check_choices(self)
        _check_least("num_epochs", self.num_epochs, 1)
        _check_least("early_stopping_patience", self.early_stopping_patience, 0)
        _check_least("histogram_every_epochs", self.histogram_every_epochs, 0)
        self._check_monitor()
        if self.export.explanation_steps and self.batching.kind == EGO:
            raise ValueError(
                f"`explanation_steps` must be 0 with batching {EGO!r}, whose trees have no edges to weigh; got "
                f"{self.export.explanation_steps}. Leave it out: `tfx-gnn explain` works by occlusion there."
            )
        if not 0 <= self.training_seed < 2**31:
            raise ValueError(
                f"`training_seed` must lie in [0, 2**31); got {self.training_seed}. Choose another number."
            )
        if not self.train_split or self.train_split == self.eval_split:
            raise ValueError(
                f"`eval_split` must be another split than `train_split`; got {self.eval_split!r} for both. "
                "Evaluate a model on examples that it does not learn from."
            )
        if self.batching.class_sampling:
            self._check_classes_of_task("class_sampling", self.batching.class_sampling)
        if self.batching.examples_per_class:
            self._check_classes_of_task("examples_per_class", self.batching.examples_per_class)
        if self.execution.deterministic and self.strategy.kind == PARAMETER_SERVER:
            raise ValueError(
                f"`deterministic` must be False for strategy {PARAMETER_SERVER!r}; got True. Its workers are not "
                f"synchronous: choose {MULTI_WORKER_MIRRORED!r}."
            )

    def _check_monitor(self) -> None:
        if not self.monitor.removeprefix(_VALIDATION):
            raise ValueError(
                f"`monitor` must name a loss or metric; got {self.monitor!r}. The default is {VALIDATION_LOSS!r}."
            )
        # One spelling, so that the same training has the same fingerprint.
        object.__setattr__(self, "monitor", _VALIDATION + self.monitor.removeprefix(_VALIDATION))
        if self.monitor_mode == MONITOR_AUTO and is_better_if_large(self.monitor) is None:
            raise ValueError(
                f"`monitor_mode` must be {MONITOR_MIN!r} or {MONITOR_MAX!r} for a metric of your own; got "
                f"{self.monitor_mode!r} for {self.monitor!r}. Say which one."
            )
        if self.monitor == VALIDATION_LOSS and self.monitor_mode == MONITOR_MAX:
            raise ValueError(
                f"`monitor_mode` must not be {MONITOR_MAX!r} for {VALIDATION_LOSS!r}; got it. A larger loss is worse: "
                "leave the mode out, or name a metric as `monitor`."
            )
        if self.monitor != VALIDATION_LOSS and not self.early_stopping_patience:
            raise ValueError(
                f"`early_stopping_patience` must be at least 1 to watch {self.monitor!r}; got 0, which exports the "
                "last epoch. To choose the best epoch without stopping early, set it to `num_epochs`."
            )

    @property
    def monitors_maximum(self) -> bool:
        """Whether a larger value of `monitor` is better."""
        if self.monitor_mode == MONITOR_AUTO:
            return bool(is_better_if_large(self.monitor))
        return self.monitor_mode == MONITOR_MAX

    def _check_classes_of_task(self, option: str, value: Any) -> None:
        """Refuses an option by class for a task without one class per example, or with weights by class."""
        if not isinstance(self.task, (NodeClassification, GraphClassification)):
            raise ValueError(
                f"`{option}` must be {_default_of(option)!r} for tasks without one class per example; got {value!r} "
                f"for {type(self.task).__name__}. Leave it out, or train a NodeClassification or GraphClassification."
            )
        if self.task.class_weights:
            raise ValueError(
                f"`{option}` must be {_default_of(option)!r} where the task has `class_weights`; got {value!r} and "
                f"class_weights={self.task.class_weights!r}, which both change how much a class counts. Keep one of "
                "them."
            )

    @classmethod
    def from_flat(cls, options: Mapping[str, Any]) -> GraphTrainerOptions:
        """Builds options from the flat names that component parameters and flags have.

        Args:
            options: values by flat name, such as "batch_size", "strategy" or "checkpoint_dir"; absent options
                keep their defaults.

        Returns:
            The options, already checked.

        Raises:
            TypeError: if a name is not an option's, or `model_fn` or `task` is absent.

        Example:
            >>> from tfx_gnn.models import NodeClassification
            >>> task = NodeClassification(label_feature="section", num_classes=4)
            >>> flat = {"model_fn": "my_project.models:model_fn", "task": task, "strategy": "mirrored"}
            >>> GraphTrainerOptions.from_flat(flat).strategy.kind
            'mirrored'
        """
        return from_flat(cls, options)

    @property
    def verifies_tpu(self) -> bool:
        """Whether to check the model for TPUs before training."""
        return self.verify_tpu == VERIFY_ALWAYS or (self.verify_tpu == VERIFY_AUTO and self.strategy.kind == TPU)


def check_warm_start(options: GraphTrainerOptions, *, is_given: bool, argument: str) -> None:
    """Refuses a warm start without a model, and a model that is not used.

    Args:
        options: options of the training.
        is_given: whether a model is given.
        argument: what the model is called where it is given.

    Raises:
        ValueError: if the two do not fit.
    """
    if is_given is (options.warm_start == NO_WARM_START):
        raise ValueError(
            f"`{argument}` must be given with `warm_start`, and only then; got warm_start={options.warm_start!r} "
            f"{'with' if is_given else 'without'} it. Add LatestBlessedModelResolver, or "
            "`latest_blessed_model_resolver: {}` to a project, or choose `warm_start` 'none'."
        )


def _default_of(option: str) -> Any:
    return getattr(BatchingOptions(), option)


def _check_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}; got {value}. Give a larger number.")

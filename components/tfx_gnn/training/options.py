"""What the trainer is told."""

from __future__ import annotations

import dataclasses
from typing import Any

from tfx_gnn.distribution.sharding import AUTO, SHARDINGS
from tfx_gnn.distribution.strategies import DEFAULT, MULTI_WORKER_MIRRORED, PARAMETER_SERVER, TPU, StrategyOptions
from tfx_gnn.models.tasks import Task
from tfx_gnn.training.data.padded_batches import BUDGET_KINDS

FLOAT32 = "float32"
PRECISIONS = (FLOAT32, "mixed_bfloat16")
VERIFY_AUTO, VERIFY_ALWAYS, VERIFY_NEVER = "auto", "always", "never"
_LEAST_VALUES = {
    "num_epochs": 1,
    "batch_size": 0,
    "shuffle_buffer_size": 1,
    "early_stopping_patience": 0,
    "steps_per_execution": 1,
    "checkpoint_every_steps": 0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphTrainerOptions:
    """What to train, and how.

    Attributes:
        model_fn: "package.module:function" of the user's `model_fn(graph_spec)`. It gets the spec of a scalar,
            padded, label-free graph of any size, and returns a tf_keras.Model from such a graph to what the
            task predicts. Parameters of these names are given, too: `tft_output`, the
            `tft.TFTransformOutput`, which may also be the second one by position; `objective`, what is
            predicted; `hyperparameters`, a dict; `num_steps`, the number of training steps to expect.
            A model that is not compiled is: by the task's loss and metrics, and Adam with
            `hyperparameters["learning_rate"]`. Batches come with sample weights, 0 for padding: compile with
            `weighted_metrics`, not `metrics`.
        task: what is predicted.
        num_epochs: passes over the training split, at least 1.
        train_split: split to train on.
        eval_split: split to watch after each epoch.
        batching: how graphs of the training split are batched. "packed" fills each batch with as many
            as fit the budget; "fit_or_skip" takes a fixed number and removes batches that do not fit, with
            a count; "tight" takes a fixed number and pads to the largest. Evaluation is always tight, and
            scores every example.
        batch_size: graphs of a step on all replicas together: each takes the budget that was learned for its
            part. 0: each replica takes the learner's own batch size. Under "parameter_server", where workers
            are not in step, graphs of one worker's step.
        success_ratio: which of the learned fit-or-skip budgets to take, in (0, 1].
        shuffle_buffer_size: examples that are mixed at a time, at least 1. 1: nothing is mixed, and files are read
            in their order.
        training_seed: seed of weights, dropout and order, in [0, 2**31).
        early_stopping_patience: epochs without a lower validation loss after which
            training stops; the weights of the best epoch are then exported, also if it never
            came to a stop. 0: train all epochs and export the last weights.
        strategy: where training runs, as for `tfx_gnn.distribution.strategies.StrategyOptions`: "default",
            "one_device", "mirrored", "multi_worker_mirrored", "parameter_server" or "tpu". Where several
            processes take part, each runs the same command with its own `TF_CONFIG`.
        devices: devices of "one_device" or "mirrored".
        tpu: name of the TPU.
        sharding: how files are divided among processes: "auto", "file", "data" or "off".
        precision: "float32", or "mixed_bfloat16": layers compute in bfloat16, and variables stay float32.
        steps_per_execution: steps that run in one call of TensorFlow; callbacks and stop requests wait so long.
        jit_compile: whether the step is compiled by XLA; on one replica only.
        deterministic: whether the same seed gives the same weights, bit for bit, on one device of the same
            kind; slower on GPUs. Parameter servers cannot: their workers are not in step.
        hyperparameters: for `model_fn`, by name; plain values that JSON has.
        checkpoint_every_steps: steps between checkpoints within an epoch; 0: one after each epoch.
        checkpoint_dir: folder of checkpoints, where a training that was ended finds them when it is started again;
            empty: a hidden one beside `model_run_dir`.
        raw_tensor_signature: whether the model also answers raw graphs that are no tf.Examples, by a signature
            `tensors` of plain tensors.
        allow_unsafe_operations: whether a model is exported that holds operations which abort a server of several
            threads, in versions of TensorFlow where they do: see `tfx_gnn.training.export.unsafe_operations`.
        verify_tpu: when the model is checked for what a TPU cannot do, before anything is trained: "auto" under
            strategy "tpu", "always" or "never".
    """

    model_fn: str
    task: Task
    num_epochs: int = 10
    train_split: str = "train"
    eval_split: str = "val"
    batching: str = "packed"
    batch_size: int = 0
    success_ratio: float = 0.99
    shuffle_buffer_size: int = 10_000
    training_seed: int = 0
    early_stopping_patience: int = 0
    strategy: str = DEFAULT
    devices: tuple[str, ...] = ()
    tpu: str = ""
    sharding: str = AUTO
    precision: str = FLOAT32
    steps_per_execution: int = 1
    jit_compile: bool = False
    deterministic: bool = False
    hyperparameters: dict[str, Any] = dataclasses.field(default_factory=dict)
    checkpoint_every_steps: int = 0
    checkpoint_dir: str = ""
    raw_tensor_signature: bool = False
    allow_unsafe_operations: bool = False
    verify_tpu: str = VERIFY_AUTO

    def __post_init__(self) -> None:
        for name, least in _LEAST_VALUES.items():
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be at least {least}; got {getattr(self, name)}. Give a larger number.")
        if not 0 <= self.training_seed < 2**31:
            raise ValueError(
                f"`training_seed` must lie in [0, 2**31); got {self.training_seed}. Choose another number."
            )
        if self.batching not in BUDGET_KINDS:
            raise ValueError(
                f"`batching` must be one of {sorted(BUDGET_KINDS)}; got {self.batching!r}. Packed wastes least."
            )
        if not 0.0 < self.success_ratio <= 1.0:
            raise ValueError(
                f"`success_ratio` must lie in (0, 1]; got {self.success_ratio}. Name one that budgets were learned for."
            )
        if not self.train_split or self.train_split == self.eval_split:
            raise ValueError(
                f"`eval_split` must be another split than `train_split`; got {self.eval_split!r} for both. "
                "A model is watched on examples that it does not learn from."
            )
        choices = {
            "sharding": SHARDINGS,
            "precision": PRECISIONS,
            "verify_tpu": (VERIFY_AUTO, VERIFY_ALWAYS, VERIFY_NEVER),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"`{name}` must be one of {list(known)}; got {getattr(self, name)!r}. Choose one of these."
                )
        StrategyOptions(kind=self.strategy, devices=self.devices, tpu=self.tpu)
        if self.deterministic and self.strategy == PARAMETER_SERVER:
            raise ValueError(
                f"`deterministic` must be False for strategy {PARAMETER_SERVER!r}; got True. Its workers are not in "
                f"step: choose {MULTI_WORKER_MIRRORED!r}."
            )

    @property
    def strategy_options(self) -> StrategyOptions:
        """Where training runs."""
        return StrategyOptions(kind=self.strategy, devices=self.devices, tpu=self.tpu)

    @property
    def verifies_tpu(self) -> bool:
        """Whether the model is checked for TPUs first."""
        return self.verify_tpu == VERIFY_ALWAYS or (self.verify_tpu == VERIFY_AUTO and self.strategy == TPU)

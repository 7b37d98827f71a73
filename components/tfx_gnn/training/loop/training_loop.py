"""The training loop: epochs of steps, evaluation after each epoch, observers and stop requests.

`Model.fit` expects every epoch to have as many batches as the first one, cannot resume within an epoch, loses the
logs of the last steps when several run per call, and lets TensorFlow make up batches of other shapes for replicas
without data. This loop calls the same `train_step` and the same callbacks.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tf_keras

from tfx_gnn.training.data.input_pipeline import NUM_COUNTS, EpochInput, epoch_input


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPosition:
    """Position in a training: all steps before it are done, and none after it.

    The position after the last step of epoch 0 is (0, steps, steps) until the epoch has ended, evaluation
    included; then it is (1, 0, steps).

    Attributes:
        epoch: the current epoch, from 0.
        step_in_epoch: steps of this epoch that are done.
        global_step: steps that are done over all epochs.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    global_step: int = 0

    def __post_init__(self) -> None:
        if min(self.epoch, self.step_in_epoch, self.global_step - self.step_in_epoch) < 0:
            raise ValueError(
                f"`TrainingPosition` must count from 0, and all steps with those of the epoch; got {self}. Take it "
                "from a training loop."
            )

    def after_steps(self, num_steps: int) -> TrainingPosition:
        """Returns the position after more steps of the same epoch."""
        return dataclasses.replace(
            self, step_in_epoch=self.step_in_epoch + num_steps, global_step=self.global_step + num_steps
        )

    def after_epoch(self) -> TrainingPosition:
        """Returns the position at the start of the next epoch."""
        return dataclasses.replace(self, epoch=self.epoch + 1, step_in_epoch=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """Results of one call that ran several steps.

    Attributes:
        num_steps: steps that had a graph.
        is_end: whether the data ended.
        seconds_waited: time that the steps waited for their batches.
        counts: sum of `count_batch` over all batches of all replicas; int64 [NUM_COUNTS].
        logs: loss and metrics of the epoch so far, scalar tensors.
    """

    num_steps: int
    is_end: bool
    seconds_waited: float
    counts: npt.NDArray[np.int64]
    logs: Mapping[str, Any]


class TrainingHook(Protocol):
    """Observer of training progress, called in every participating process at the same positions."""

    def on_step_end(self, position: TrainingPosition, logs: Mapping[str, Any]) -> None:
        """Called after one or more steps.

        `logs` are loss and metrics of the epoch so far, scalar tensors; reading one waits for the device. They are
        empty if steps run on other machines, which report nothing before the epoch ends.
        """
        ...

    def on_epoch_end(self, position: TrainingPosition, logs: Mapping[str, float]) -> None:
        """Called after an epoch, its evaluation and all callbacks; `position` is the start of the next epoch.

        `logs` are loss and metrics of the epoch; those of evaluation are named "val_...".
        """
        ...

    def on_stop(self, position: TrainingPosition) -> None:
        """Called after `on_step_end` when a `StopRequest` stops training here, to resume in another process."""
        ...


class StopRequest(Protocol):
    """Something that may end a training between two steps."""

    def is_made(self, position: TrainingPosition) -> bool:
        """Returns whether training should end now; the same in every participating process."""
        ...


class TrainingPreemptedError(Exception):
    """Training ended between two steps because of a `StopRequest`; hooks have saved what is needed to resume.

    Attributes:
        position: where training resumes.
    """

    def __init__(self, position: TrainingPosition) -> None:
        super().__init__(
            f"Training was stopped on request in epoch {position.epoch + 1}, after step {position.global_step}."
        )
        self.position = position


@dataclasses.dataclass(kw_only=True)
class TrainingState:
    """State of a training apart from the variables of its model, as JSON-compatible values.

    The variables are the weights, the optimizer's variables, and those of the model's metrics, which hold the
    measurements of the epoch so far.

    Attributes:
        position: where training resumes.
        counts: sum of `count_batch` over the epoch so far.
        seconds: time that the steps of the epoch took so far.
        seconds_waited: how much of that time the steps waited for input.
        history: loss and metrics of each finished epoch; those of evaluation are named "val_...".
        inputs: what each finished epoch was trained on.
    """

    position: TrainingPosition = dataclasses.field(default_factory=TrainingPosition)
    counts: list[int] = dataclasses.field(default_factory=lambda: [0] * NUM_COUNTS)
    seconds: float = 0.0
    seconds_waited: float = 0.0
    history: list[dict[str, float]] = dataclasses.field(default_factory=list)
    inputs: list[EpochInput] = dataclasses.field(default_factory=list)

    @property
    def epoch_input(self) -> EpochInput:
        """What the current epoch was trained on so far."""
        return epoch_input(
            self.counts,
            num_steps=self.position.step_in_epoch,
            seconds=self.seconds,
            seconds_waited=self.seconds_waited,
        )

    def add(self, execution: Execution, seconds: float) -> None:
        """Adds the counts of some steps and the seconds that they took."""
        self.position = self.position.after_steps(execution.num_steps)
        self.counts = (np.asarray(self.counts, np.int64) + execution.counts).tolist()
        self.seconds += seconds
        self.seconds_waited += execution.seconds_waited

    def end_epoch(self, logs: Mapping[str, float]) -> None:
        """Moves to the next epoch; `logs` are loss and metrics of the one that ended."""
        self.history.append(dict(logs))
        self.inputs.append(self.epoch_input)
        self.position = self.position.after_epoch()
        self.counts, self.seconds, self.seconds_waited = [0] * NUM_COUNTS, 0.0, 0.0

    def state(self) -> dict[str, Any]:
        """Returns what `restore` needs, in the form that a checkpoint stores."""
        return dataclasses.asdict(self)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self.position = TrainingPosition(**state["position"])
        self.inputs = [EpochInput(**figures) for figures in state["inputs"]]
        for name in ("counts", "seconds", "seconds_waited", "history"):
            setattr(self, name, state[name])


class EpochSteps(Protocol):
    """Steps of a training, under any strategy."""

    def begin_epoch(self, position: TrainingPosition) -> None:
        """Starts to read an epoch at a position."""
        ...

    def run(self) -> Execution:
        """Runs the next steps of the epoch; after `Execution.is_end`, call `begin_epoch` first."""
        ...


def train(
    model: tf_keras.Model,
    steps: EpochSteps,
    *,
    evaluate: Callable[[], Mapping[str, Any]],
    num_epochs: int,
    state: TrainingState,
    callbacks: Sequence[tf_keras.callbacks.Callback] = (),
    hooks: Sequence[TrainingHook] = (),
    stop: StopRequest | None = None,
) -> None:
    """Trains epoch after epoch, until `num_epochs` or until a callback sets `model.stop_training`.

    Metrics are reset at the start of each epoch, but not when training resumes within one. `state` says where to
    start; it is updated before callbacks are called, and hooks are called after callbacks. `on_train_batch_end` is
    called after each execution, with the number of its last step in the epoch. `stop` may end the training between two
    executions and after an epoch, with a `TrainingPreemptedError`.
    """
    callback_list = tf_keras.callbacks.CallbackList(
        list(callbacks), model=model, verbose=0, epochs=num_epochs, steps=None
    )
    model.stop_training = False
    callback_list.on_train_begin()
    while state.position.epoch < num_epochs and not model.stop_training:
        epoch = state.position.epoch
        if not state.position.step_in_epoch:
            model.reset_metrics()
        callback_list.on_epoch_begin(epoch)
        logs = _train_epoch(steps, state, callback_list, hooks, stop)
        model.reset_metrics()
        callback_list.on_test_begin()
        measured = {f"val_{name}": value for name, value in _numbers(evaluate()).items()}
        callback_list.on_test_end(measured)
        logs = {**logs, **measured}
        state.end_epoch(logs)
        callback_list.on_epoch_end(epoch, logs)
        for hook in hooks:
            hook.on_epoch_end(state.position, logs)
        # A stop requested during evaluation need not wait for the next step, which may not exist.
        _stop_if_asked(stop, state.position, hooks)
    # With `use_ema`, the averages of the weights now take their place, as in `Model.fit`.
    if getattr(model.optimizer, "use_ema", False):
        with model.distribute_strategy.scope():
            model.optimizer.finalize_variable_values(model.trainable_variables)
    callback_list.on_train_end()


def _train_epoch(
    steps: EpochSteps,
    state: TrainingState,
    callback_list: tf_keras.callbacks.CallbackList,
    hooks: Sequence[TrainingHook],
    stop: StopRequest | None,
) -> dict[str, float]:
    """Trains to the end of the epoch, and returns its loss and metrics."""
    steps.begin_epoch(state.position)
    while True:
        callback_list.on_train_batch_begin(state.position.step_in_epoch)
        start = time.perf_counter()
        execution = steps.run()
        state.add(execution, time.perf_counter() - start)
        if execution.num_steps:
            callback_list.on_train_batch_end(state.position.step_in_epoch - 1, execution.logs)
            for hook in hooks:
                hook.on_step_end(state.position, execution.logs)
            _stop_if_asked(stop, state.position, hooks)
        if execution.is_end:
            return _numbers(execution.logs)


def _stop_if_asked(stop: StopRequest | None, position: TrainingPosition, hooks: Sequence[TrainingHook]) -> None:
    if stop is not None and stop.is_made(position):
        for hook in hooks:
            hook.on_stop(position)
        raise TrainingPreemptedError(position)


def _numbers(logs: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in logs.items()}

"""Saves the state of Python objects, such as the best weights so far, in checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import tf_keras

from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.training.options import VALIDATION_LOSS, GraphTrainerOptions

State = dict[str, Any]
"""Maps names to arrays or JSON values; arrays keep their dtype, including bfloat16."""


class ResumableState(Protocol):
    """State that is needed to resume a training, such as the best weights so far or metrics of earlier epochs."""

    def state(self) -> State:
        """Returns a copy of what `restore` needs."""
        ...

    def restore(self, state: State) -> None:
        """Restores what `state` returned in this process or an earlier one."""
        ...


class PackedStates(tf.train.experimental.PythonState):
    """Saves the states of named objects as one string of a `tf.train.Checkpoint`.

    A checkpoint is restored into objects with the same names.
    """

    def __init__(self, states: Mapping[str, ResumableState]) -> None:
        self._states = dict(states)

    def serialize(self) -> bytes:
        """Returns the states as bytes, for TensorFlow."""
        return pack_state({name: owner.state() for name, owner in self._states.items()})

    def deserialize(self, string_value: bytes) -> None:
        """Restores the states, for TensorFlow."""
        found = unpack_state(string_value)
        if found.keys() != self._states.keys():
            raise ValueError(
                f"`states` must be {sorted(found)}, as in the checkpoint; got {sorted(self._states)}. Resume with the "
                "options that the checkpoint was made with."
            )
        for name, owner in self._states.items():
            owner.restore(found[name])


def pack_state(state: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Writes states by name as a line of JSON, followed by the bytes of all arrays."""
    blocks: list[bytes] = []

    def described(value: Any) -> Any:
        if isinstance(value, np.generic):
            # Keras gives the value of a scalar weight so.
            value = np.asarray(value)
        if not isinstance(value, np.ndarray):
            return {"json": value}
        if value.dtype.hasobject:
            raise TypeError(f"`state` must hold arrays of numbers; got dtype={value.dtype}. Keep texts as lists.")
        blocks.append(value.tobytes())
        return {"dtype": tf.as_dtype(value.dtype).name, "shape": list(value.shape)}

    header = {owner: {name: described(value) for name, value in content.items()} for owner, content in state.items()}
    return b"".join([json.dumps(header).encode(), b"\n", *blocks])


def unpack_state(packed: bytes) -> dict[str, State]:
    """Reads what `pack_state` wrote."""
    line, _, content = packed.partition(b"\n")
    place = 0

    def read(description: Mapping[str, Any]) -> Any:
        nonlocal place
        if "json" in description:
            return description["json"]
        dtype = tf.as_dtype(description["dtype"]).as_numpy_dtype
        count = int(np.prod(description["shape"], dtype=np.int64))
        array: npt.NDArray[Any] = np.frombuffer(content, dtype, count, offset=place).reshape(description["shape"])
        place += array.nbytes
        return array.copy()

    header = json.loads(line)
    return {
        owner: {name: read(description) for name, description in values.items()} for owner, values in header.items()
    }


def best_weights(model: tf_keras.Model, options: GraphTrainerOptions) -> BestWeights | None:
    """Makes the callback for `early_stopping_patience`; None if that is 0.

    Raises:
        ValueError: if the model's optimizer keeps averages of the weights. They take the place of the weights only when
            training has ended, so no epoch's validation is theirs. Also if the model reports no `monitor`; call this
            once the model's metrics have variables.
    """
    patience = options.early_stopping_patience
    if not patience:
        return None
    if getattr(model.optimizer, "use_ema", False):
        raise ValueError(
            "`early_stopping_patience` must be 0 if the optimizer has `use_ema=True`, because no epoch's validation "
            f"loss is that of the averages; got {patience}. Set it to 0, or leave `use_ema` out."
        )
    reported = sorted(f"val_{name}" for name in model.get_metrics_result())
    if options.monitor not in reported:
        advice = did_you_mean(
            options.monitor, reported, otherwise="Choose one of these, or compile the model with that metric."
        )
        raise ValueError(
            f"`monitor` must be what the model of {options.model_fn!r} reports, {reported}; got {options.monitor!r}. "
            f"{advice}"
        )
    return BestWeights(patience=patience, monitor=options.monitor, maximize=options.monitors_maximum)


class BestWeights(tf_keras.callbacks.Callback):
    """Stops when `monitor` has not improved for `patience` epochs, and restores the weights of its best epoch.

    It restores them at the end of training, even if training was not stopped early. A value that is not a number is no
    improvement.

    Attributes:
        monitor: loss or metric that is watched.
        best: its best value so far; infinite before the first epoch.
        best_epoch: epoch with the best value, from 1.
        stopped_early: whether training was stopped.
    """

    def __init__(self, *, patience: int, monitor: str = VALIDATION_LOSS, maximize: bool = False) -> None:
        super().__init__()
        self.monitor = monitor
        self.best = -math.inf if maximize else math.inf
        self.best_epoch = 0
        self.stopped_early = False
        self._patience = patience
        self._maximize = maximize
        self._weights: list[npt.NDArray[Any]] = []

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Stops at once if the resumed training had already stopped early."""
        self.model.stop_training = self.stopped_early

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Checks that an epoch has a best value; not at its end, when a loss that is not finite is explained first."""
        if epoch:
            self._check_found()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Compares the epoch with the best one."""
        value = float((logs or {})[self.monitor])
        if math.isfinite(value) and (value > self.best if self._maximize else value < self.best):
            self.best, self.best_epoch, self._weights = value, epoch + 1, self.model.get_weights()
        elif epoch + 1 - self.best_epoch >= self._patience:
            self.stopped_early = True
            self.model.stop_training = True

    def state(self) -> State:
        """Returns what is needed to resume."""
        weights = {f"weight_{index}": weight for index, weight in enumerate(self._weights)}
        return {"best": self.best, "best_epoch": self.best_epoch, "stopped_early": self.stopped_early, **weights}

    def restore(self, state: State) -> None:
        """Restores what `state` returned."""
        self.best, self.best_epoch, self.stopped_early = state["best"], state["best_epoch"], state["stopped_early"]
        self._weights = [state[f"weight_{index}"] for index in range(len(state) - 3)]

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Restores the best weights."""
        self._check_found()
        self.model.set_weights(self._weights)

    def _check_found(self) -> None:
        if not self.best_epoch:
            raise ValueError(
                f"`monitor` must be a finite number after the first epoch; {self.monitor!r} is not. Watch another loss "
                "or metric."
            )

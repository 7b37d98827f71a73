"""The loop of a training: where it stands, who is told of it, and who may end it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingPosition:
    """Where a training goes on: the steps before it are done, none after it is.

    The position after the last step of epoch 0 is (0, steps, steps) until the epoch has ended, evaluation
    included; then it is (1, 0, steps).

    Attributes:
        epoch: the epoch that goes on, from 0.
        step_in_epoch: steps of this epoch that are done.
        global_step: steps that are done in all epochs.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    global_step: int = 0

    def __post_init__(self) -> None:
        if min(self.epoch, self.step_in_epoch, self.global_step - self.step_in_epoch) < 0:
            raise ValueError(
                f"`TrainingPosition` must count from 0, and all steps with those of the epoch; got {self}. Take it "
                "from a training."
            )

    def after_steps(self, num_steps: int) -> TrainingPosition:
        """Returns the position after more steps of the same epoch.

        Args:
            num_steps: how many.

        Returns:
            Position.
        """
        return dataclasses.replace(
            self, step_in_epoch=self.step_in_epoch + num_steps, global_step=self.global_step + num_steps
        )

    def after_epoch(self) -> TrainingPosition:
        """Returns the position at the start of the next epoch.

        Returns:
            Position.
        """
        return dataclasses.replace(self, epoch=self.epoch + 1, step_in_epoch=0)


class TrainingHook(Protocol):
    """What is told of a training's progress on every process that takes part in it, at the same positions."""

    def on_step_end(self, position: TrainingPosition, logs: Mapping[str, Any]) -> None:
        """Is told that steps were done: one, or as many as run at a time.

        Args:
            position: where training goes on.
            logs: loss and metrics of the epoch so far, scalar tensors; to read one waits for the device.
                Empty where steps run on other machines, which tell nothing before the epoch ends.
        """
        ...

    def on_epoch_end(self, position: TrainingPosition, logs: Mapping[str, float]) -> None:
        """Is told that an epoch has ended, after its evaluation and all callbacks.

        Args:
            position: where training goes on: the start of the next epoch.
            logs: loss and metrics of the epoch, those of evaluation as "val_...".
        """
        ...

    def on_stop(self, position: TrainingPosition) -> None:
        """Is told that training ends here, because a `StopRequest` asks so, and will go on in another process.

        Args:
            position: where training goes on. `on_step_end` was told of it before.
        """
        ...


class StopRequest(Protocol):
    """Who may end a training between two steps."""

    def is_made(self, position: TrainingPosition) -> bool:
        """Tells whether training shall end now.

        Args:
            position: where training goes on.

        Returns:
            True to end it; the same on every process that takes part.
        """
        ...


class TrainingPreemptedError(Exception):
    """A training ended between two steps because a `StopRequest` asked so; hooks have kept what is needed to go on.

    Attributes:
        position: where training goes on.
    """

    def __init__(self, position: TrainingPosition) -> None:
        super().__init__(
            f"Training was stopped on request in epoch {position.epoch + 1}, after step {position.global_step}."
        )
        self.position = position

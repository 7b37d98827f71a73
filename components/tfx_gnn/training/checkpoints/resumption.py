"""Wires up what lets a training resume: checkpoints, saved state, and the check for non-finite numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.training.checkpoints.checkpoints import TrainingCheckpoints
from tfx_gnn.training.checkpoints.nonfinite_guard import NonfiniteCause, NonfiniteGuard, NonfiniteSearch
from tfx_gnn.training.checkpoints.resumable_state import BestWeights, ResumableState
from tfx_gnn.training.data.padded_batches import PaddedBatch
from tfx_gnn.training.data.replica_input import TrainingInput
from tfx_gnn.training.loop.training_loop import EpochSteps, TrainingHook, TrainingPosition, TrainingState


class Resumption:
    """Checkpoints of a training, which also stop it at non-finite numbers.

    Args:
        model: compiled model with all its variables: see `create_training_variables`.
        state: state of the training; `resume` sets it.
        best: the best weights so far, with early stopping.
        single_steps: makes training steps that run one at a time.
        evaluation_batches: reads the batches of the evaluation split.
        every_steps: steps between checkpoints; 0 for one after each epoch.
        writes: whether this process writes.
        run_dir: folder of the model run, for a batch that ends the training.
    """

    def __init__(
        self,
        *,
        model: tf_keras.Model,
        strategy: tf.distribute.Strategy,
        data: TrainingInput,
        state: TrainingState,
        best: BestWeights | None,
        single_steps: Callable[[], EpochSteps],
        evaluation_batches: Callable[[], Iterable[PaddedBatch]],
        fingerprint: Mapping[str, str],
        checkpoint_dir: str,
        every_steps: int,
        writes: bool,
        run_dir: str,
        say: Callable[[str], None],
    ) -> None:
        self._checkpoint_dir = checkpoint_dir
        self._say = say
        states: dict[str, ResumableState] = {"training": state}
        if best is not None:
            states["best"] = best
        self._guard = NonfiniteGuard(model, self._explain, self._explain_evaluation)
        self._checkpoints = TrainingCheckpoints(
            folder=checkpoint_dir,
            model=model,
            strategy=strategy,
            fingerprint=fingerprint,
            states=states,
            every_steps=every_steps,
            writes=writes,
            say=say,
            check=self._guard.check_weights,
        )
        self._search = NonfiniteSearch(
            model=model,
            strategy=strategy,
            data=data,
            checkpoints=self._checkpoints,
            single_steps=single_steps,
            evaluation_batches=evaluation_batches,
            run_dir=run_dir if writes else "",
        )

    @property
    def hooks(self) -> Sequence[TrainingHook]:
        """Hooks for the loop, in order: weights are checked before they are saved."""
        return self._guard, self._checkpoints

    def resume(self) -> None:
        """Restores the newest complete checkpoint, or saves the initial state if there is none."""
        position = self._checkpoints.resume()
        if position.global_step:
            self._say(
                f"Resuming in epoch {position.epoch + 1} after {position.step_in_epoch} of its steps, "
                f"{position.global_step} in total, from {self._checkpoint_dir!r}."
            )

    def _explain(self, position: TrainingPosition) -> tuple[NonfiniteCause, str]:
        return self._search.explain(position)

    def _explain_evaluation(self) -> tuple[str, Mapping[str, list[Any]]]:
        return self._search.explain_evaluation()

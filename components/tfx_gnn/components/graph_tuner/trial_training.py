"""The training of one trial: the trainer's own, without checkpoints and export."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Callable, Mapping
from typing import Any

import tf_keras

from tfx_gnn.components.graph_tuner.search import TrainedTrial
from tfx_gnn.training.checkpoints.resumable_state import BestWeights
from tfx_gnn.training.loop.determinism import seeded
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.training.loop.training_loop import TrainingState, train
from tfx_gnn.training.loop.training_setup import TrainingSetup


class TrialTrainer:
    """Trains one model after another on the same data."""

    def __init__(self, setup: TrainingSetup) -> None:
        self._setup = setup

    def __call__(
        self, hyperparameters: Mapping[str, Any], tell: Callable[[int, Mapping[str, float]], bool]
    ) -> TrainedTrial:
        """Trains a model; `tell` gets each epoch, from 0, with its loss and metrics, and ends the training by True."""
        setup, options = self._setup, self._setup.options
        builder = dataclasses.replace(setup.builder, hyperparameters=hyperparameters)
        state = TrainingState()
        best = BestWeights(patience=options.early_stopping_patience) if options.early_stopping_patience else None
        try:
            with (
                libraries_traced_as_written(),
                seeded(options.training_seed, deterministic=options.execution.deterministic),
            ):
                with setup.strategy.scope():
                    model = builder.build(setup.sample.graph)
                train(
                    model,
                    setup.steps(model),
                    evaluate=setup.evaluation(model),
                    num_epochs=options.num_epochs,
                    state=state,
                    callbacks=[*([best] if best is not None else []), _Teller(tell)],
                )
                return TrainedTrial(
                    epochs=tuple(state.history),
                    exported_epoch=best.best_epoch if best is not None else len(state.history),
                    num_parameters=int(model.count_params()),
                )
        finally:
            # Keras keeps graphs of all models that were ever made.
            tf_keras.backend.clear_session()
            gc.collect()


class _Teller(tf_keras.callbacks.Callback):
    """Tells of each epoch, and ends the training if it is answered so."""

    def __init__(self, tell: Callable[[int, Mapping[str, float]], bool]) -> None:
        super().__init__()
        self._tell = tell

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self._tell(epoch, logs or {}):
            self.model.stop_training = True

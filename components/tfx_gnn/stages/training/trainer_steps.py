"""Training and evaluation by whatever strategy: the steps, and what they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.stages.training.coordinated_steps import CoordinatedSteps
from tfx_gnn.stages.training.input_pipeline import expected_steps
from tfx_gnn.stages.training.replica_input import (
    DistributedTrainingInput,
    TrainingInput,
    distributed_evaluation_input,
)
from tfx_gnn.stages.training.replica_steps import Execution, ReplicaSteps, test_step_of, train_step_of
from tfx_gnn.stages.training.trainer_inputs import TrainerBudgets, TrainerInputs
from tfx_gnn.stages.training.trainer_options import GraphTrainerOptions
from tfx_gnn.stages.training.training_loop import EpochSteps, TrainingPosition


class StepsOfReplicas:
    """Epochs of all replicas in step; an `EpochSteps`.

    Args:
        steps: of training.
        data: what they read.
        steps_per_execution: steps that run in one call.
    """

    def __init__(self, steps: ReplicaSteps, data: DistributedTrainingInput, *, steps_per_execution: int) -> None:
        self._steps = steps
        self._data = data
        self._steps_per_execution = steps_per_execution
        self._batches: Any = None
        self._epoch = 0
        self._is_through = False

    def begin_epoch(self, position: TrainingPosition) -> None:
        """Begins to read an epoch.

        Args:
            position: its first step that is wanted.
        """
        is_next = self._is_through and (position.epoch, position.step_in_epoch) == (self._epoch + 1, 0)
        self._batches = self._data.epoch(position.epoch, position.step_in_epoch, is_next=is_next)
        self._epoch, self._is_through = position.epoch, False

    def run(self) -> Execution:
        """Runs the next steps.

        Returns:
            What they did.
        """
        execution = self._steps(self._batches, self._steps_per_execution)
        self._is_through = execution.is_end
        return execution


class Evaluation:
    """Measures a model on all examples of the watched split, each of them once.

    Args:
        strategy: on which replicas. Under parameter servers this process does it alone.
        model: compiled model.
        inputs: what is read.
        budgets: what batches are padded to.
        num_pipelines: input pipelines of the strategy.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: tf_keras.Model,
        *,
        inputs: TrainerInputs,
        budgets: TrainerBudgets,
        labelled: Any,
        num_pipelines: int,
    ) -> None:
        if isinstance(strategy, tf.distribute.ParameterServerStrategy):
            strategy = tf.distribute.get_strategy()
        self._num_steps = expected_steps(budgets.evaluation, budgets.num_eval_examples, strategy.num_replicas_in_sync)
        self._steps = ReplicaSteps(strategy, model, test_step_of(model))
        self._data = distributed_evaluation_input(
            strategy,
            inputs.eval_files,
            labelled,
            budget=budgets.evaluation,
            num_steps=self._num_steps,
            num_counted={name: labels.num_counted for name, labels in inputs.eval_labels.items()},
            num_pipelines=num_pipelines,
        )
        self._batches: Any = None

    def __call__(self) -> Mapping[str, Any]:
        """Measures.

        Returns:
            Loss and metrics.
        """
        if self._batches is None:
            self._batches = iter(self._data)
        return self._steps(self._batches, self._num_steps).logs


def training_steps(
    strategy: tf.distribute.Strategy,
    model: tf_keras.Model,
    data: TrainingInput,
    options: GraphTrainerOptions,
    *,
    steps_per_epoch: int,
) -> EpochSteps:
    """Makes the steps of a training.

    Args:
        strategy: on which replicas.
        model: compiled model.
        data: what is read.
        options: how to train.
        steps_per_epoch: steps to expect of an epoch; under parameter servers so many it has.

    Returns:
        The steps.

    Raises:
        ValueError: if they shall be compiled by XLA on several replicas.
    """
    step = train_step_of(model, strategy)
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        steps_per_join = options.checkpoint_every_steps or steps_per_epoch
        return CoordinatedSteps(
            strategy, model, step, data, steps_per_epoch=steps_per_epoch, steps_per_join=steps_per_join
        )
    if options.jit_compile and strategy.num_replicas_in_sync > 1:
        raise ValueError(
            "`jit_compile` must be False for several replicas, whose sums TensorFlow cannot compile; got True for "
            f"{strategy.num_replicas_in_sync}. A TPU compiles its steps anyway."
        )
    return StepsOfReplicas(
        ReplicaSteps(strategy, model, step, leave_out_uncounted=True, jit_compile=options.jit_compile),
        DistributedTrainingInput(strategy, data, num_epochs=options.num_epochs),
        steps_per_execution=options.steps_per_execution,
    )

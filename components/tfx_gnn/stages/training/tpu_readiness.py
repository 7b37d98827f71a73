"""Would this model train on a TPU? Asked before one is touched, of the very steps that the trainer runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfx_gnn.distribution.tpu_check import check_step
from tfx_gnn.distribution.tpu_problem import TpuProblem
from tfx_gnn.stages.padded_batches import empty_batches
from tfx_gnn.stages.sizes.size_constraints_file import Budget
from tfx_gnn.stages.training.fast_tracing import libraries_traced_as_written
from tfx_gnn.stages.training.input_pipeline import (
    LabelledGraphs,
    TrainingBatch,
    expected_steps,
    weighted_training_batches,
)
from tfx_gnn.stages.training.model_building import ModelBuilder
from tfx_gnn.stages.training.replica_steps import test_step_of, train_step_of
from tfx_gnn.stages.training.tpu_memory import TpuMemory, estimate_tpu_memory
from tfx_gnn.stages.training.trainer_inputs import TrainerFolders, read_budgets, read_inputs
from tfx_gnn.stages.training.trainer_options import GraphTrainerOptions
from tfx_gnn.stages.user_code import load_function


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuReadiness:
    """What a check found.

    Attributes:
        problems: of the training step, then those that only the step of evaluation has.
        memory: what one core has to hold.
    """

    problems: tuple[TpuProblem, ...]
    memory: TpuMemory

    @property
    def is_ready(self) -> bool:
        """Whether nothing was found that a TPU would refuse."""
        return not any(problem.blocks for problem in self.problems)

    def raise_if_not_ready(self, model_name: str) -> None:
        """Refuses a model that a TPU would refuse.

        Args:
            model_name: what to call the model in the message.

        Raises:
            ValueError: if there are problems; the message has all of them.
        """
        blocking = [problem for problem in self.problems if problem.blocks]
        if blocking:
            listed = "".join(f"\n- {problem}" for problem in blocking)
            raise ValueError(
                f"`model_fn` must make a model that a TPU can train; got {len(blocking)} problems in "
                f"{model_name!r}:{listed}\nMend these, or choose another strategy; `tfx-gnn check-tpu` checks again."
            )


def check_training_for_tpu(folders: TrainerFolders, options: GraphTrainerOptions) -> TpuReadiness:
    """Reads what the trainer would read, and checks the model that it would train.

    It builds a model of its own on the CPU, and moves TensorFlow's random generators on: set seeds afterwards.

    Args:
        folders: what to read.
        options: what to train; `batch_size` is that of one core here.

    Returns:
        What was found.

    Raises:
        ValueError: if inputs do not fit each other, as for `train_graph_model`.
        ModuleNotFoundError: if the module of `model_fn` cannot be found.
    """
    model_fn = load_function(options.model_fn)
    inputs = read_inputs(folders, options)
    budgets = read_budgets(folders, options, inputs, num_replicas=1)
    labelled = LabelledGraphs(graph_spec=inputs.graph_spec, objective=inputs.objective)

    def builder(graph_spec: Any) -> ModelBuilder:
        return ModelBuilder(
            model_fn=model_fn,
            reference=options.model_fn,
            graph_spec=graph_spec,
            tft_output=inputs.tft_output,
            objective=inputs.objective,
            hyperparameters=options.hyperparameters,
            num_steps=options.num_epochs * expected_steps(budgets.training, budgets.num_train_examples),
            precision=options.precision,
        )

    return check_model_for_tpu(builder, labelled, training=budgets.training, evaluation=budgets.evaluation)


def check_model_for_tpu(
    make_builder: Callable[[Any], ModelBuilder],
    labelled: LabelledGraphs,
    *,
    training: Budget,
    evaluation: Budget,
) -> TpuReadiness:
    """Checks the training step of a model, with its loss, gradients and optimizer, and its step of evaluation.

    Args:
        make_builder: from the spec of a padded graph of any size to the builder of the model.
        labelled: parts padded graphs from their labels.
        training: budget of one core's batch in training.
        evaluation: budget of one core's batch in evaluation.

    Returns:
        What was found.

    Raises:
        ValueError: if the model does not answer what the objective demands.
    """
    made: list[tf.Variable] = []

    def remember(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        made.append(next_creator(**arguments))
        return made[-1]

    # One device, and no strategy: what each replica does is the same under all of them.
    with libraries_traced_as_written(), tf.device("/device:CPU:0"), tf.variable_creator_scope(remember):
        train_data, eval_data = (_padding(labelled, budget) for budget in (training, evaluation))
        (sample,) = train_data
        model_spec = train_data.element_spec.graph.relax(num_components=True, num_nodes=True, num_edges=True)
        model = make_builder(model_spec).build(sample.graph)
        train_step = train_step_of(model, tf.distribute.get_strategy())
        problems: dict[TpuProblem, None] = {}
        for step, data in ((train_step, train_data), (test_step_of(model), eval_data)):
            batch_spec = _named(data.element_spec)
            num_counted = tf.TensorSpec([len(tf.nest.flatten(batch_spec.weights))], tf.int64, name="num_counted")
            found = check_step(step, (batch_spec, num_counted), module=model, own_variables=made)
            problems.update(dict.fromkeys(found))
        memory = estimate_tpu_memory(train_data.element_spec, model)
    return TpuReadiness(problems=tuple(problems), memory=memory)


def _padding(labelled: LabelledGraphs, budget: Budget) -> tf.data.Dataset:
    """One batch of padding alone, of the spec that all batches have."""
    return weighted_training_batches(empty_batches(labelled.graph_spec, budget).take(1), labelled)


def _named(batch_spec: TrainingBatch) -> TrainingBatch:
    """The spec with names of its plain tensors, by which problems tell of them."""

    def named(name: str, spec: Any) -> Any:
        if isinstance(spec, tf.TensorSpec):
            return tf.TensorSpec(spec.shape, spec.dtype, name=name)
        return {part: named(f"{name}/{part}", one) for part, one in spec.items()} if isinstance(spec, dict) else spec

    return TrainingBatch(*(named(name, spec) for name, spec in batch_spec._asdict().items()))

"""Checks the trainer's own steps for operations that a TPU cannot run, and estimates their memory, without a TPU."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.io.user_code import load_function
from tfx_gnn.tpu_check.check import check_step
from tfx_gnn.tpu_check.problem import TpuProblem
from tfx_gnn.training.checkpoints.checkpoints import create_training_variables
from tfx_gnn.training.data.input_pipeline import (
    LabelledGraphs,
    TrainingBatch,
    expected_steps,
    weighted_training_batches,
)
from tfx_gnn.training.data.padded_batches import BatchBudget, empty_batches
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.training.loop.model_building import ModelBuilder
from tfx_gnn.training.loop.steps import make_test_step, make_train_step
from tfx_gnn.training.loop.trainer_inputs import TrainerFolders, read_budgets, read_inputs
from tfx_gnn.training.options import GraphTrainerOptions

TILE_ROWS, TILE_COLUMNS = 8, 128
"""A TPU stores the last two dimensions of 32-bit values in tiles of this size, and pads to whole tiles."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchTensor:
    """One tensor of a padded batch.

    Attributes:
        name: key, such as "nodes/item.x".
        dtype: name of its data type.
        shape: static shape; -1 for an unknown size.
        num_bytes: size of its values; unknown sizes count as 0.
        tiled_bytes: upper bound on its size in tiles.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_bytes: int
    tiled_bytes: int

    @property
    def fits_tiles(self) -> bool:
        """Whether the second to last dimension is a multiple of 8."""
        return len(self.shape) < 2 or self.shape[-2] % TILE_ROWS == 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuMemory:
    """Estimated memory of one core in bytes, without activations, the intermediate results of the step.

    Attributes:
        batch: tensors of one batch.
        parameters: trained and other weights.
        gradients: gradients of trained weights.
        optimizer: slots and counters of the optimizer.
    """

    batch: tuple[BatchTensor, ...]
    parameters: int
    gradients: int
    optimizer: int

    @property
    def batch_bytes(self) -> int:
        """Bytes of one batch, in tiles."""
        return sum(tensor.tiled_bytes for tensor in self.batch)

    @property
    def total(self) -> int:
        """The sum of all parts. The batch counts twice: one is transferred while another is computed."""
        return 2 * self.batch_bytes + self.parameters + self.gradients + self.optimizer


def estimate_tpu_memory(batch_spec: Any, model: tf_keras.Model) -> TpuMemory:
    """Adds up what is known before a step runs; the model's optimizer must already have its variables."""
    return TpuMemory(
        batch=tuple(_measured(name, spec) for name, spec in _named_tensors(batch_spec)),
        parameters=_num_bytes(model.weights),
        gradients=_num_bytes(model.trainable_weights),
        optimizer=_num_bytes(model.optimizer.variables),
    )


def _named_tensors(batch_spec: Any) -> Iterator[tuple[str, tf.TensorSpec]]:
    fields: Mapping[str, Any] = batch_spec._asdict() if hasattr(batch_spec, "_asdict") else {"batch": batch_spec}
    for name, field in fields.items():
        for leaf in tf.nest.flatten(field):
            if isinstance(leaf, GraphTensorSpec):
                yield from graph_flat_tensor_specs(leaf).items()
            else:
                yield from ((name, spec) for spec in tf.nest.flatten(leaf, expand_composites=True))


def _measured(name: str, spec: tf.TensorSpec) -> BatchTensor:
    shape = tuple(-1 if size is None else int(size) for size in spec.shape) if spec.shape.rank is not None else (-1,)
    known = [max(size, 0) for size in shape]
    width = spec.dtype.size
    tiled = list(known)
    if tiled:
        tiled[-1] = _rounded_up(tiled[-1], TILE_COLUMNS)
    if len(tiled) > 1:
        tiled[-2] = _rounded_up(tiled[-2], TILE_ROWS)
    return BatchTensor(
        name=name,
        dtype=spec.dtype.name,
        shape=shape,
        num_bytes=math.prod(known) * width,
        tiled_bytes=math.prod(tiled) * width,
    )


def _rounded_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _num_bytes(variables: Any) -> int:
    return sum(int(variable.shape.num_elements()) * variable.dtype.size for variable in variables)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TpuReadiness:
    """Results of a check.

    Attributes:
        problems: problems of the training step, then those that only the evaluation step has.
        memory: estimated memory of one core.
    """

    problems: tuple[TpuProblem, ...]
    memory: TpuMemory

    @property
    def is_ready(self) -> bool:
        """Whether nothing was found that a TPU would refuse."""
        return not any(problem.blocks for problem in self.problems)

    def raise_if_not_ready(self, model_name: str) -> None:
        """Raises a ValueError that lists all problems for which a TPU would refuse the step."""
        blocking = [problem for problem in self.problems if problem.blocks]
        if blocking:
            listed = "".join(f"\n- {problem}" for problem in blocking)
            raise ValueError(
                f"`model_fn` must make a model that a TPU can train; got {len(blocking)} problems in "
                f"{model_name!r}:{listed}\nFix these, or choose another strategy; `tfx-gnn check-tpu` checks again."
            )


def check_training_for_tpu(folders: TrainerFolders, options: GraphTrainerOptions) -> TpuReadiness:
    """Reads the trainer's inputs, and checks the model that it would train.

    The check builds its own model on the CPU, and advances TensorFlow's random generators: set seeds afterwards.

    Here, `batch_size` in the options is the batch size of one core.
    """
    model_fn = load_function(options.model_fn)
    inputs = read_inputs(folders, options)
    budgets = read_budgets(folders, options, inputs, num_replicas=1)

    def builder(graph_spec: Any) -> ModelBuilder:
        return ModelBuilder(
            model_fn=model_fn,
            reference=options.model_fn,
            graph_spec=graph_spec,
            tft_output=inputs.tft_output,
            objective=inputs.objective,
            hyperparameters=options.hyperparameters,
            num_steps=options.num_epochs * expected_steps(budgets.training, inputs.num_train_examples),
            precision=options.execution.precision,
        )

    return check_model_for_tpu(builder, inputs.labelled, training=budgets.training, evaluation=budgets.evaluation)


def check_model_for_tpu(
    make_builder: Callable[[Any], ModelBuilder],
    labelled: LabelledGraphs,
    *,
    training: BatchBudget,
    evaluation: BatchBudget,
) -> TpuReadiness:
    """Checks a model's training step, with its loss, gradients and optimizer, and its evaluation step.

    `make_builder` gets the spec of a padded graph of any size. The budgets are for one core's batch.
    """
    made: list[tf.Variable] = []

    def remember(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        made.append(next_creator(**arguments))
        return made[-1]

    # One device and no strategy: each replica does the same under every strategy.
    with libraries_traced_as_written(), tf.device("/device:CPU:0"), tf.variable_creator_scope(remember):
        train_data, eval_data = (_padding(labelled, budget) for budget in (training, evaluation))
        (sample,) = train_data
        model_spec = train_data.element_spec.graph.relax(num_components=True, num_nodes=True, num_edges=True)
        model = make_builder(model_spec).build(sample.graph)
        # A step that creates variables is traced twice.
        create_training_variables(model, tf.distribute.get_strategy(), sample.graph, sample.labels)
        train_step = make_train_step(model, tf.distribute.get_strategy())
        problems: dict[TpuProblem, None] = {}
        for step, data in ((train_step, train_data), (make_test_step(model), eval_data)):
            batch_spec = _named(data.element_spec)
            num_counted = tf.TensorSpec([len(tf.nest.flatten(batch_spec.weights))], tf.int64, name="num_counted")
            found = check_step(step, (batch_spec, num_counted), module=model, own_variables=made)
            problems.update(dict.fromkeys(found))
        memory = estimate_tpu_memory(train_data.element_spec, model)
    return TpuReadiness(problems=tuple(problems), memory=memory)


def _padding(labelled: LabelledGraphs, budget: BatchBudget) -> tf.data.Dataset:
    """One batch that consists of padding, with the same spec as all batches."""
    return weighted_training_batches(empty_batches(labelled.graph_spec, budget).take(1), labelled)


def _named(batch_spec: TrainingBatch) -> TrainingBatch:
    """The spec, with names for its plain tensors, by which problems refer to them."""

    def named(name: str, spec: Any) -> Any:
        if isinstance(spec, tf.TensorSpec):
            return tf.TensorSpec(spec.shape, spec.dtype, name=name)
        return {part: named(f"{name}/{part}", one) for part, one in spec.items()} if isinstance(spec, dict) else spec

    return TrainingBatch(*(named(name, spec) for name, spec in batch_spec._asdict().items()))

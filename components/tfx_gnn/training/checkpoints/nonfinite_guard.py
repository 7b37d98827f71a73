"""Stops a training whose loss or weights became NaN or infinite, finds the cause, and saves the batch for debugging.

In normal steps this costs only a check of the loss, which the loop has read anyway. Once the loss is NaN or
infinite, the weights are spoilt too, possibly by an earlier step. So the last checkpoint is restored, and the steps
since then are repeated one at a time, until a number in the inputs, the weights or the results is not finite.
"""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from tfx_gnn.distribution.strategy_predicates import is_parameter_server_strategy
from tfx_gnn.graph.reserved_names import ID_NAME, READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.io import options_json
from tfx_gnn.training.checkpoints.checkpoints import TrainingCheckpoints
from tfx_gnn.training.data.input_pipeline import training_weights
from tfx_gnn.training.data.padded_batches import PaddedBatch
from tfx_gnn.training.data.replica_input import TrainingInput
from tfx_gnn.training.loop.training_loop import EpochSteps, TrainingPosition
from tfx_gnn.training.options import VALIDATION_LOSS

LOSS = "loss"
_LOSS_TENSOR = "loss"
NONFINITE_BATCH_DIR = "nonfinite_batch"
"""Folder of a model run."""

_CAUSE_FILE = "cause.json"
_BATCHES_DIR = "batches"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NonfiniteCause:
    """What is known about the cause of a non-finite number.

    Attributes:
        position: position of the training after the step in which the number occurred.
        found_again: whether it occurred again when the steps since the last checkpoint were repeated. If not,
            the step is the last one before the loss was checked.
        tensor: the first non-finite tensor of the step, such as "feature nodes/item.x", "weight dense/kernel",
            "output", "loss" or "gradient of dense/kernel"; empty if unknown.
        example_ids: original ids of what the step's examples are about, if the data have `#id`: for each
            replica, a dict from edge sets of `_readout` (or "context") to ids. Empty if no batch was searched
            for: before the first step, and under parameter servers.
    """

    position: TrainingPosition
    found_again: bool
    tensor: str
    example_ids: tuple[dict[str, list[Any]], ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NonfiniteBatch:
    """A batch that ended a training, as `read_nonfinite_batch` returns it.

    Attributes:
        cause: what is known about the cause.
        replicas: for each replica, a triple as the model's `train_step` gets it: scalar padded graph, labels, and
            weights before they are scaled by the size of the step.
    """

    cause: NonfiniteCause
    replicas: tuple[tuple[GraphTensor, Any, Any], ...]


class NonfiniteError(ValueError):
    """Loss or weights of a training are NaN or infinite.

    Attributes:
        cause: what is known about the cause.
        folder: folder of the batch; empty in a process that is not the chief.
    """

    def __init__(self, found: str, cause: NonfiniteCause, folder: str) -> None:
        position = cause.position
        first = f"The first tensor that is not finite is {cause.tensor}. " if cause.tensor else ""
        if not cause.example_ids and position.step_in_epoch:
            first = (
                "Its batch cannot be found, because workers of parameter servers are not synchronous; train with "
                "another strategy to find it. "
            )
        elif not cause.found_again and position.step_in_epoch:
            first = "It did not occur again when the steps since the last checkpoint were repeated. " + first
        ids = f" of the examples {_shortened(cause.example_ids)}" if any(cause.example_ids) else ""
        if cause.example_ids and not ids:
            ids = ", whose examples cannot be named as `preprocessing_fn` drops `#id`,"
        batch = f" The batch{ids} is in {folder!r}; `read_nonfinite_batch` reads it." if folder else ""
        super().__init__(
            f"`model_fn` must give a model whose loss stays finite; got {found} {_place(position)}. {first}"
            f"{_advice(cause)}{batch}"
        )
        self.cause = cause
        self.folder = folder


class NonfiniteEvaluationError(ValueError):
    """The validation loss is NaN or infinite, although the weights and the training loss are finite.

    Attributes:
        tensor: the first tensor that is not finite, such as "feature nodes/item.x", "output" or "loss"; empty if all
            tensors of each batch alone are finite.
        example_ids: original ids of the seeds or graphs of its batch, as in `NonfiniteCause`.
    """

    def __init__(self, loss: float, epoch: int, tensor: str, example_ids: Mapping[str, list[Any]]) -> None:
        found = f"The first tensor that is not finite is {tensor}" if tensor else "No batch alone gives such a loss"
        ids = f", of the batch with the examples {_shortened([example_ids])}" if any(example_ids.values()) else ""
        super().__init__(
            f"`eval_split` must have examples for which the model's loss is finite; got {loss} after epoch {epoch}. "
            f"{found}{ids}. Clip what the model takes logarithms, roots or quotients of, or remove these examples."
        )
        self.tensor = tensor
        self.example_ids = example_ids


class NonfiniteGuard:
    """Checks the training and validation loss, and the weights before each checkpoint; a `TrainingHook`.

    `explain` finds the cause of what happened up to a position, and returns it with the folder of the batch.
    `explain_evaluation` finds the first tensor of the evaluation split that is not finite, and its batch's example ids.
    """

    def __init__(
        self,
        model: tf_keras.Model,
        explain: Callable[[TrainingPosition], tuple[NonfiniteCause, str]],
        explain_evaluation: Callable[[], tuple[str, Mapping[str, list[Any]]]],
    ) -> None:
        self._model = model
        self._explain = explain
        self._explain_evaluation = explain_evaluation

    def check_weights(self, position: TrainingPosition) -> None:
        """Refuses to save weights that are NaN or infinite, because resuming from them would be useless."""
        name = first_nonfinite_weight(self._model)
        if name is not None:
            raise NonfiniteError(f"weight {name!r} that is not finite", *self._explain(position))

    def on_step_end(self, position: TrainingPosition, logs: Mapping[str, Any]) -> None:
        """Checks the mean loss of the epoch so far, which a single bad step makes non-finite."""
        loss = float(logs.get(LOSS, 0.0))
        if not np.isfinite(loss):
            raise NonfiniteError(str(loss), *self._explain(position))

    def on_epoch_end(self, position: TrainingPosition, logs: Mapping[str, float]) -> None:
        """Checks the validation loss: if it is not finite, it cannot tell which weights are best."""
        loss = float(logs.get(VALIDATION_LOSS, 0.0))
        if not np.isfinite(loss):
            raise NonfiniteEvaluationError(loss, position.epoch, *self._explain_evaluation())

    def on_stop(self, position: TrainingPosition) -> None:
        """Does nothing: the steps so far have been checked."""


class NonfiniteSearch:
    """Finds the step, tensor and batch that ended a training, and writes the batch unless `run_dir` is empty."""

    def __init__(
        self,
        *,
        model: tf_keras.Model,
        strategy: tf.distribute.Strategy,
        data: TrainingInput,
        checkpoints: TrainingCheckpoints,
        single_steps: Callable[[], EpochSteps],
        evaluation_batches: Callable[[], Iterable[PaddedBatch]],
        run_dir: str,
    ) -> None:
        self._model, self._strategy, self._data = model, strategy, data
        self._evaluation_batches = evaluation_batches
        self._checkpoints = checkpoints
        self._single_steps = single_steps
        self._run_dir = run_dir

    def explain(self, position: TrainingPosition) -> tuple[NonfiniteCause, str]:
        """Returns the cause of what happened since the last checkpoint, and the batch's folder, "" if not written.

        The model is unusable afterwards. Under parameter servers, whose workers are not synchronous, steps cannot be
        repeated and only the position is known.
        """
        position = self._end_of_epoch(position)
        if is_parameter_server_strategy(self._strategy):
            return NonfiniteCause(position=position, found_again=False, tensor="", example_ids=()), ""
        if not position.step_in_epoch:
            weight = first_nonfinite_weight(self._model)
            tensor = "" if weight is None else f"weight {weight}"
            return NonfiniteCause(position=position, found_again=False, tensor=tensor, example_ids=()), ""
        found = self._repeat(position)
        position = position if found is None else found
        batches = self._batches(position)
        replicas = [self._as_trained_on(batch) for batch in batches]
        tensors = [first_nonfinite_tensor(self._model, self._strategy, replica) for replica in replicas]
        tensor = next(filter(None, tensors), "")
        cause = NonfiniteCause(
            position=position,
            found_again=found is not None,
            tensor=tensor or ("weight after the step" if found else ""),
            example_ids=tuple(map(example_ids, batches)),
        )
        return cause, write_nonfinite_batch(self._run_dir, cause, replicas) if self._run_dir else ""

    def explain_evaluation(self) -> tuple[str, Mapping[str, list[Any]]]:
        """Finds the first batch of the evaluation split whose loss is not finite: its first bad tensor and example ids.

        Every process reads the whole split, because the model may need all of them. Batches with a finite loss are
        passed over: what is not finite in them, such as an output for padding, does not count.
        """
        # Under parameter servers this process evaluates alone.
        is_served = is_parameter_server_strategy(self._strategy)
        strategy = tf.distribute.get_strategy() if is_served else self._strategy
        computed_tensors = _ComputedTensors(self._model, strategy, training=False)
        for batch in self._evaluation_batches():
            parts = self._data.labelled(batch.graph, batch.is_real)
            counted = tf.nest.map_structure(lambda counts: tf.cast(counts, tf.float32), parts.counts)
            replica = parts.graph, parts.labels, counted
            computed = computed_tensors.nonfinite_names(*replica)
            if _LOSS_TENSOR in computed:
                return _first_given(*replica) or computed[0], example_ids(batch)
        return "", {}

    def _end_of_epoch(self, position: TrainingPosition) -> TrainingPosition:
        """Maps the start of the next epoch, where weights are checked, to the end of the epoch just trained."""
        saved = self._checkpoints.saved_position
        if position.step_in_epoch or saved is None or saved.epoch + 1 != position.epoch:
            return position
        return saved.after_steps(position.global_step - saved.global_step)

    def _repeat(self, last: TrainingPosition) -> TrainingPosition | None:
        """Repeats the steps since the last checkpoint up to the first bad one; leaves the weights from before it."""
        position = self._checkpoints.saved_position
        if position is None or position.epoch != last.epoch:
            return None
        self._checkpoints.restore(position)
        if not position.step_in_epoch:
            self._model.reset_metrics()
        steps = self._single_steps()
        steps.begin_epoch(position)
        while position.global_step < last.global_step:
            before = self._model.get_weights()
            execution = steps.run()
            if not execution.num_steps:
                return None
            position = position.after_steps(1)
            loss = float(execution.logs.get(LOSS, 0.0))
            if not np.isfinite(loss) or first_nonfinite_weight(self._model) is not None:
                self._model.set_weights(before)
                return position
        return None

    def _batches(self, position: TrainingPosition) -> list[PaddedBatch]:
        """Reads the batches of all replicas in the step before a position, as all pipelines read them."""
        num_replicas = self._strategy.num_replicas_in_sync
        num_pipelines = self._data.sharding.num_pipelines
        a_pipeline = num_replicas // num_pipelines
        first = (position.step_in_epoch - 1) * a_pipeline
        found: list[PaddedBatch] = []
        for pipeline in range(num_pipelines):
            batches = self._data.of_pipeline(
                tf.distribute.InputContext(num_pipelines, pipeline, num_replicas),
                epochs=tf.data.Dataset.from_tensors(tf.constant(position.epoch, tf.int64)),
                keep=lambda number: tf.logical_and(number >= first, number < first + a_pipeline),
            )
            # Replicas without data got padding, which is not worth keeping.
            found.extend(batches.take(a_pipeline))
        return found

    def _as_trained_on(self, batch: PaddedBatch) -> tuple[Any, Any, Any]:
        parts = self._data.labelled(batch.graph, batch.is_real)
        return parts.graph, parts.labels, training_weights(parts)


def first_nonfinite_weight(model: tf_keras.Model) -> str | None:
    """Returns the name of the first weight that is not finite; None if all are finite."""
    for variable in model.trainable_variables:
        if not _is_finite(tf.convert_to_tensor(variable)):
            return str(variable.name)
    return None


def first_nonfinite_tensor(
    model: tf_keras.Model, strategy: tf.distribute.Strategy, replica: tuple[GraphTensor, Any, Any]
) -> str:
    """Repeats a step up to its gradients, and names the first tensor that is not finite; "" if all are finite.

    Names look like "feature nodes/item.x", "labels", "sample weights", "weight dense/kernel", "output", "loss" and
    "gradient of dense/kernel". `replica` holds graph, labels and weights of the step on one replica, and the model has
    the weights from before the step. All synchronous workers must call this.
    """
    graph, labels, weights = replica
    given = _first_given(graph, labels, weights)
    if given:
        return given
    weight = first_nonfinite_weight(model)
    if weight is not None:
        return f"weight {weight}"
    return next(iter(_ComputedTensors(model, strategy, training=True).nonfinite_names(graph, labels, weights)), "")


def _first_given(graph: GraphTensor, labels: Any, weights: Any) -> str:
    for name, value in _features(graph):
        if not _is_finite(value):
            return f"feature {name}"
    for name, values in (("labels", labels), ("sample weights", weights)):
        if not all(map(_is_finite, tf.nest.flatten(values))):
            return name
    return ""


class _ComputedTensors:
    """Names which of output, loss and, in training, gradients are not finite.

    A call takes graph, labels and weights of a batch; batches of the same shapes share one trace.
    """

    def __init__(self, model: tf_keras.Model, strategy: tf.distribute.Strategy, *, training: bool) -> None:
        def step(graph: GraphTensor, labels: Any, weights: Any) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                outputs = model(graph, training=training)
                loss = model.compute_loss(graph, labels, outputs, weights)
            gradients = tape.gradient(loss, model.trainable_variables) if training else []
            stages = [tf.nest.flatten(outputs), [loss], *([] if g is None else [g] for g in gradients)]
            return [
                tf.reduce_all([tf.reduce_all(tf.math.is_finite(_dense(t))) for t in stage] or [True])
                for stage in stages
            ]

        gradients = [f"gradient of {variable.name}" for variable in model.trainable_variables]
        self._names = ["output", _LOSS_TENSOR, *(gradients if training else [])]
        self._strategy = strategy
        # Nothing here needs AutoGraph.
        self._step = tf.function(lambda *args: strategy.run(step, args=args), autograph=False)

    def nonfinite_names(self, graph: GraphTensor, labels: Any, weights: Any) -> list[str]:
        """Names the tensors that are not finite, in the order of their computation."""
        finite = self._step(graph, labels, weights)
        # All replicas got the same batch.
        return [
            name
            for name, is_finite in zip(self._names, finite, strict=True)
            if not bool(self._strategy.experimental_local_results(is_finite)[0])
        ]


def _features(graph: GraphTensor) -> Iterator[tuple[str, Any]]:
    pieces = {
        "context/": graph.context,
        **{f"nodes/{name}.": piece for name, piece in graph.node_sets.items()},
        **{f"edges/{name}.": piece for name, piece in graph.edge_sets.items()},
    }
    for start, piece in pieces.items():
        for name, value in piece.features.items():
            yield f"{start}{name}", value


def _is_finite(value: Any) -> bool:
    values = value.flat_values if isinstance(value, tf.RaggedTensor) else tf.convert_to_tensor(value)
    return not values.dtype.is_floating or bool(tf.reduce_all(tf.math.is_finite(values)))


def _dense(value: Any) -> Any:
    return value.values if isinstance(value, tf.IndexedSlices) else value


def write_nonfinite_batch(run_dir: str, cause: NonfiniteCause, replicas: Sequence[tuple[GraphTensor, Any, Any]]) -> str:
    """Writes the batch to `nonfinite_batch` in a model run, replacing an existing one; returns that folder."""
    folder = os.path.join(run_dir, NONFINITE_BATCH_DIR)
    if tf.io.gfile.exists(folder):
        tf.io.gfile.rmtree(folder)
    tf.io.gfile.makedirs(folder)
    elements = [tf.data.Dataset.from_tensors(replica) for replica in replicas]
    batches = elements[0]
    for element in elements[1:]:
        batches = batches.concatenate(element)
    with warnings.catch_warnings():
        # Hides TensorFlow's warning that readers need this library.
        warnings.filterwarnings("ignore", message="Encoding a StructuredValue")
        batches.save(os.path.join(folder, _BATCHES_DIR))
    with tf.io.gfile.GFile(os.path.join(folder, _CAUSE_FILE), "w") as file:
        file.write(json.dumps(dataclasses.asdict(cause), indent=2) + "\n")
    return folder


def read_nonfinite_batch(folder: str) -> NonfiniteBatch:
    """Reads the batch that ended a training.

    Args:
        folder: the folder `nonfinite_batch` named by the error.

    Returns:
        The batch, and what is known about the cause.

    Raises:
        ValueError: if the folder holds no such batch.
    """
    path = os.path.join(folder, _CAUSE_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"`folder` must hold a batch that ended a training; got no {_CAUSE_FILE!r} in {folder!r}. Give the folder "
            "named in the error of that training."
        )
    with tf.io.gfile.GFile(path) as file:
        cause = options_json.from_json(file.read(), NonfiniteCause)
    return NonfiniteBatch(cause=cause, replicas=tuple(tf.data.Dataset.load(os.path.join(folder, _BATCHES_DIR))))


def example_ids(batch: PaddedBatch) -> dict[str, list[Any]]:
    """Finds the original ids of what the examples of a batch are about, if there are ids.

    "context" maps to the ids of the graphs, and edge sets such as "_readout/seed" to those of the nodes that they
    connect to readout nodes. Padding has no ids.
    """
    graph, is_real = batch.graph, batch.is_real
    found: dict[str, list[Any]] = {}
    if ID_NAME in graph.context.features:
        found["context"] = _plain(tf.boolean_mask(graph.context[ID_NAME], is_real))
    for name, edge_set in graph.edge_sets.items():
        source = graph.node_sets[edge_set.adjacency.source_name]
        if name.startswith(f"{READOUT_NODE_SET}/") and ID_NAME in source.features:
            # Padding comes after all real items.
            num_real = tf.reduce_sum(tf.boolean_mask(edge_set.sizes, is_real))
            found[name] = _plain(tf.gather(source[ID_NAME], edge_set.adjacency.source[:num_real]))
    return found


def _plain(ids: tf.Tensor) -> list[Any]:
    values: list[Any] = tf.reshape(ids, [-1]).numpy().tolist()
    return [value.decode(errors="replace") if isinstance(value, bytes) else value for value in values]


def _place(position: TrainingPosition) -> str:
    if not position.step_in_epoch:
        return f"before the first step of epoch {position.epoch + 1}"
    return f"in epoch {position.epoch + 1}, step {position.step_in_epoch} (step {position.global_step} of all)"


def _advice(cause: NonfiniteCause) -> str:
    if cause.tensor.startswith("feature "):
        return "Clip the feature in `preprocessing_fn`, as tf.math.log1p(tf.maximum(x, 0.0)) does before a logarithm."
    if not cause.position.step_in_epoch:
        return "Correct the initializers of the model."
    return (
        "Lower the learning rate, clip gradients, or look for unbounded features, and for logarithms, roots and "
        "quotients of features: in padding these are 0."
    )


def _shortened(ids: Any, most: int = 5) -> str:
    """Shows the first few ids."""
    values = [value for replica in ids for found in replica.values() for value in found]
    more = f", and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(map(str, values[:most])) + more

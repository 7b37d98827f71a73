"""Runs the two SavedModels: one computes outputs as in training, the other as served."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.serving import model_interface
from tfx_gnn.serving.full_precision import FULL_PRECISION
from tfx_gnn.serving.request_records import FAILED, REFUSED, DomainAnswer, DomainRequest, answer_kind

Answer = Callable[[Sequence[bytes]], dict[str, npt.NDArray[Any]]]
"""Maps serialized tf.Examples to arrays by output: float64, int64, or objects for strings."""

_OUTPUT = model_interface.TRAINING_OUTPUT_PREFIX


@contextlib.contextmanager
def operations_as_written() -> Iterator[None]:
    """Keeps TensorFlow from fusing operations, which depends on static shapes, and GPUs from rounding to TF32.

    Padded batches have static shapes, but requests do not. In half precision a fused operation rounds once where
    separate ones round twice, so all outputs of a network would differ. GPUs round the factors of float32 products
    to ten bits by default, which enlarges differences in the order of summation a thousandfold.
    """
    fuses = tf.config.optimizer.get_experimental_options().get("remapping", True)
    tf.config.optimizer.set_experimental_options({"remapping": False})
    try:
        with FULL_PRECISION:
            yield
    finally:
        tf.config.optimizer.set_experimental_options({"remapping": fuses})


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingAnswer:
    """Training's view of a batch.

    Attributes:
        graph: the graph without padding.
        outputs: the outputs, and perhaps original ids, by the names in `tfx_gnn.serving.model_interface`.
    """

    graph: dict[str, npt.NDArray[Any]]
    outputs: dict[str, npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingAnswers:
    """The training side of the comparison.

    Attributes:
        answer: maps up to `batch_size` transformed examples to training's view of them.
        batch_size: maximum number of examples per batch.
    """

    answer: Callable[[Sequence[bytes]], TrainingAnswer]
    batch_size: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedAnswers:
    """The serving side of the comparison, as a client sees it.

    Attributes:
        graph: maps raw examples to the transformed graph.
        predict: maps raw examples to predictions.
    """

    graph: Answer
    predict: Answer


def load_training_answers(model_run_dir: str) -> TrainingAnswers:
    """Loads the training reference that GraphTrainer saved."""
    loaded = _load("model_run_dir", os.path.join(model_run_dir, model_interface.TRAINING_REFERENCE_FOLDER))
    answer = _answer(loaded, model_interface.TRANSFORMED_GRAPH_SIGNATURE, "model_run_dir")
    outputs = loaded.signatures[model_interface.TRANSFORMED_GRAPH_SIGNATURE].structured_outputs
    if not any(name.startswith(_OUTPUT) for name in outputs):
        raise ValueError(
            f"`model_run_dir` must hold answers of the model; got {sorted(outputs)} in {model_run_dir!r}. "
            "Train the model again with this version."
        )

    def parted(records: Sequence[bytes]) -> TrainingAnswer:
        arrays = answer(records)
        return TrainingAnswer(
            graph={key: array for key, array in arrays.items() if not key.startswith(_OUTPUT)},
            outputs={key[len(_OUTPUT) :]: array for key, array in arrays.items() if key.startswith(_OUTPUT)},
        )

    return TrainingAnswers(answer=parted, batch_size=int(loaded.batch_size))


def load_served_answers(model_dir: str) -> ServedAnswers:
    """Loads an exported model."""
    loaded = _load("model_dir", os.path.join(model_dir, model_interface.MODEL_ARTIFACT_FOLDER))
    return ServedAnswers(
        graph=_answer(loaded, model_interface.TRANSFORMED_GRAPH_SIGNATURE, "model_dir"),
        predict=_answer(loaded, model_interface.SERVING_SIGNATURE, "model_dir"),
    )


def ask_out_of_domain(served: ServedAnswers, requests: Sequence[DomainRequest]) -> tuple[DomainAnswer, ...]:
    """Queries an exported model with values that no table had, one request at a time, in order."""
    answers = []
    for request in requests:
        try:
            kind = answer_kind(served.predict([request.record]))
        except tf.errors.InvalidArgumentError:
            kind = REFUSED
        except tf.errors.OpError:
            kind = FAILED
        answers.append(DomainAnswer(feature=request.feature, value=request.value, answer=kind))
    return tuple(answers)


def _load(argument: str, folder: str) -> Any:
    if not tf.io.gfile.exists(os.path.join(folder, model_interface.SAVED_MODEL_FILE)):
        raise FileNotFoundError(
            f"`{argument}` must hold a SavedModel of GraphTrainer; got none in {folder!r}. "
            "Train the model again with this version."
        )
    return tf.saved_model.load(folder)


def _answer(loaded: Any, name: str, argument: str) -> Answer:
    if name not in loaded.signatures:
        raise ValueError(
            f"`{argument}` must hold a model with signature {name!r}; got {sorted(loaded.signatures)}. "
            "Train the model again with this version."
        )
    function = loaded.signatures[name]

    def answer(records: Sequence[bytes]) -> dict[str, npt.NDArray[Any]]:
        # Keeps the loaded object alive: the function fails once that object is garbage collected.
        assert loaded is not None
        try:
            outputs: Mapping[str, tf.Tensor] = function(
                **{model_interface.EXAMPLES_INPUT: tf.constant(list(records), tf.string)}
            )
        except (UnicodeDecodeError, tf.errors.DataLossError) as error:
            # TensorFlow's message quotes the record, which Python may be unable to decode, or is uninformative.
            raise tf.errors.InvalidArgumentError(None, None, "a record cannot be parsed as a tf.Example") from error
        return {key: _plain(value) for key, value in outputs.items()}

    return answer


def _plain(value: tf.Tensor) -> npt.NDArray[Any]:
    if value.dtype == tf.string:
        return np.asarray(value.numpy(), dtype=object)
    return np.asarray(tf.cast(value, tf.float64 if value.dtype.is_floating else tf.int64).numpy())

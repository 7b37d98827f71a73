"""Predictions of an exported model as one plain dict per example; needs nothing but TensorFlow."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.io.text_files import check_regular_file
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.full_precision import FULL_PRECISION
from tfx_gnn.serving.refusal_messages import NOT_AN_EXAMPLE, explain_refusal, parsed_keys, plain_message

_Outputs = Mapping[str, npt.NDArray[Any]]


def plain_answers(outputs: _Outputs) -> list[dict[str, Any]]:
    """Arranges the outputs of `serving_default`, each of shape [n, ...], by example.

    Each dict has `id` if it is known, `unseen_id` if the model says so, and the prediction: `label` and `score` for
    classification; `prediction`, a number or a list, for regression; for link prediction `candidates`, the best first,
    each with `source_id`, `target_id` and `score`. For several tasks, it has such dicts by task name. Raises ValueError
    if the outputs are those of no such task.
    """
    names = sorted({name.rpartition("/")[0] for name in outputs if "/" in name}) or [""]
    num_examples = len(next(iter(outputs.values())))
    answers: list[dict[str, Any]] = [{} for _ in range(num_examples)]
    if model_interface.ID_OUTPUT in outputs:
        for answer, example_id in zip(answers, outputs[model_interface.ID_OUTPUT].tolist(), strict=True):
            answer[model_interface.ID_OUTPUT] = as_text(example_id)
    if model_interface.UNSEEN_ID_OUTPUT in outputs:
        for answer, is_unseen in zip(answers, outputs[model_interface.UNSEEN_ID_OUTPUT].tolist(), strict=True):
            answer[model_interface.UNSEEN_ID_OUTPUT] = is_unseen
    for name in names:
        prefix = f"{name}/" if name else ""
        for answer, of_task in zip(answers, _of_task(outputs, prefix), strict=True):
            answer.update({name: of_task} if name else of_task)
    return answers


def as_text(value: Any) -> Any:
    """Decodes bytes; other values stay as they are."""
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value


def _of_task(outputs: _Outputs, prefix: str) -> list[dict[str, Any]]:
    if {prefix + model_interface.LABEL_OUTPUT, prefix + model_interface.SCORE_OUTPUT} <= outputs.keys():
        labels = outputs[prefix + model_interface.LABEL_OUTPUT].tolist()
        scores = outputs[prefix + model_interface.SCORE_OUTPUT].tolist()
        return [{"label": as_text(label), "score": score} for label, score in zip(labels, scores, strict=True)]
    if prefix + model_interface.PREDICTION_OUTPUT in outputs:
        rows = outputs[prefix + model_interface.PREDICTION_OUTPUT].tolist()
        return [{"prediction": row[0] if len(row) == 1 else row} for row in rows]
    if prefix + model_interface.SCORES_OUTPUT in outputs:
        return _candidates(outputs, prefix)
    raise ValueError(
        f"The model must return a class, numbers or scores of candidates; got {sorted(outputs)}. Choose a model "
        "that GraphTrainer made."
    )


_OF_CANDIDATES = (
    model_interface.SOURCE_ID_OUTPUT,
    model_interface.TARGET_ID_OUTPUT,
    model_interface.UNSEEN_SOURCE_ID_OUTPUT,
    model_interface.UNSEEN_TARGET_ID_OUTPUT,
)


def _candidates(outputs: _Outputs, prefix: str) -> list[dict[str, Any]]:
    answers = []
    ids = [name for name in _OF_CANDIDATES if name in outputs]
    counts = outputs[prefix + model_interface.NUM_CANDIDATES_OUTPUT].tolist()
    for row, count in enumerate(counts):
        scores = outputs[prefix + model_interface.SCORES_OUTPUT][row, :count]
        order = np.argsort(-scores, kind="stable").tolist()
        of_pairs = {name: outputs[name][row].tolist() for name in ids}
        candidates = [
            {**{name: as_text(values[place]) for name, values in of_pairs.items()}, "score": float(scores[place])}
            for place in order
        ]
        answers.append({"candidates": candidates})
    return answers


HIDDEN = (".", "_")
"""Name prefixes of files that are not record files: Beam and TFX skip them."""


# Header and trailer of a gzip stream, and an empty block.
_EMPTY_GZIP_BYTES = 20


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """A classifier's prediction for one example.

    Attributes:
        id: original id of the seed node.
        label: name of the most probable class.
        score: its probability, in [0, 1].
    """

    id: str | int
    label: str
    score: float


class ServingModel:
    """An exported model that predicts from serialized graph tf.Examples.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`.
        signature: the signature to call, `serving_default` or `embeddings`.

    Raises:
        ValueError: if the SavedModel has no such signature with `examples` as its
            only input.
    """

    def __init__(self, saved_model_dir: str, *, signature: str = model_interface.SERVING_SIGNATURE) -> None:
        self._saved_model_dir = saved_model_dir
        # Keep the loaded object: its signatures' functions do not outlive it.
        self._loaded: Any = tf.saved_model.load(saved_model_dir)
        found = self._loaded.signatures.get(signature)
        inputs = sorted(found.structured_input_signature[1]) if found is not None else []
        if inputs != [model_interface.EXAMPLES_INPUT]:
            raise ValueError(
                f"`saved_model_dir` must hold a model whose signature {signature!r} has the "
                f"one input {model_interface.EXAMPLES_INPUT!r}; got inputs {inputs} in {saved_model_dir!r}, signatures "
                f"{sorted(self._loaded.signatures)}. Export the model with GraphTrainer."
            )
        self._call: Any = found
        self.signature = model_interface.SERVING_SIGNATURE

    @property
    def example_signatures(self) -> list[str]:
        """Names of the signatures for servers whose only input is `examples`, sorted."""
        inputs = {name: call.structured_input_signature[1] for name, call in self._loaded.signatures.items()}
        found = [name for name, names in inputs.items() if list(names) == [model_interface.EXAMPLES_INPUT]]
        return sorted(name for name in found if name not in model_interface.STOCK_COMPONENT_SIGNATURES)

    @property
    def output_specs(self) -> dict[str, tf.TensorSpec]:
        """Type specs of the outputs by name, each of shape [n, ...] with n unknown."""
        return dict(self._call.structured_outputs)

    def with_signature(self, name: str) -> ServingModel:
        """Returns the same loaded model, asked by another of its `example_signatures`."""
        other = copy.copy(self)
        vars(other).update(_call=self._loaded.signatures[name], signature=name)
        vars(other).pop("_parsed_keys", None)
        return other

    @property
    def loaded(self) -> Any:
        """The SavedModel as TensorFlow loads it."""
        return self._loaded

    @property
    def signatures(self) -> Mapping[str, Any]:
        """All signatures by name, as TensorFlow loads them."""
        signatures: Mapping[str, Any] = self._loaded.signatures
        return signatures

    def __call__(self, serialized: tf.Tensor) -> dict[str, tf.Tensor]:
        """Runs the model on a batch of requests.

        Args:
            serialized: string tensor of raw graph tf.Examples, shape [n]; n may be 0.

        Returns:
            Tensors by output name, each of shape [n, ...].

        Raises:
            tf.errors.InvalidArgumentError: if a record is not a graph tf.Example of
                the model's schema; the message names the feature and the record.
        """
        try:
            with FULL_PRECISION:
                outputs: dict[str, tf.Tensor] = self._call(**{model_interface.EXAMPLES_INPUT: serialized})
        except (UnicodeDecodeError, tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            raise self.explain(error, [bytes(record) for record in serialized.numpy()]) from error
        return outputs

    def outputs_of(self, records: Sequence[bytes]) -> dict[str, npt.NDArray[Any]]:
        """Runs the model like a call, without explanations of refused records; `explain` gives them.

        Args:
            records: serialized raw graph tf.Examples, possibly none.

        Returns:
            Arrays by output name, each of shape [len(records), ...].

        Raises:
            tf.errors.OpError: if the model refuses a record, or fails.
            UnicodeDecodeError: if TensorFlow's message quotes a record that Python cannot decode.
        """
        serialized = tf.constant(records, tf.string, shape=[len(records)])
        with FULL_PRECISION:
            outputs = self._call(**{model_interface.EXAMPLES_INPUT: serialized})
        return {name: value.numpy() for name, value in sorted(outputs.items())}

    def explain(self, error: Any, records: Sequence[bytes]) -> tf.errors.OpError:
        """Returns the error to raise for an error of `outputs_of`: if the model refused a record, with the reason."""
        if isinstance(error, (UnicodeDecodeError, tf.errors.DataLossError)):
            # TensorFlow's message quotes the record, which Python may fail to decode, and says little about values.
            return tf.errors.InvalidArgumentError(None, None, NOT_AN_EXAMPLE)
        if isinstance(error, tf.errors.InvalidArgumentError):
            explained = explain_refusal(error.message, records, self._parsed_keys)
            return tf.errors.InvalidArgumentError(None, None, explained)
        unexplained: tf.errors.OpError = error
        return unexplained

    @functools.cached_property
    def _parsed_keys(self) -> tuple[str, ...]:
        return parsed_keys(self._call)

    def classify(self, records: Iterable[bytes], *, batch_size: int = 64) -> Iterator[Prediction]:
        """Classifies a stream of examples in its order.

        Args:
            records: serialized raw graph tf.Examples.
            batch_size: examples per call of the model, at least 1.

        Yields:
            One prediction per example.

        Raises:
            ValueError: if `batch_size` is below 1, or the model is not a classifier.
            tf.errors.InvalidArgumentError: if a record is not a graph tf.Example of
                the model's schema.
        """
        for batch in batches_of(records, batch_size):
            yield from self._classify_batch(batch)

    def answers(self, records: Iterable[bytes], *, batch_size: int = 64) -> Iterator[dict[str, Any]]:
        """Predicts a stream of examples in its order, whatever the model was trained for.

        Args:
            records: serialized raw graph tf.Examples.
            batch_size: examples per call of the model, at least 1.

        Yields:
            One dict per example, as arranged by `tfx_gnn.serving.prediction.plain_answers`.

        Raises:
            ValueError: if `batch_size` is below 1, or the model's outputs are those of no known task.
            tf.errors.InvalidArgumentError: if a record is not a graph tf.Example of
                the model's schema.
        """
        for batch in batches_of(records, batch_size):
            outputs = self(tf.constant(batch, tf.string))
            yield from plain_answers({name: value.numpy() for name, value in outputs.items()})

    def _classify_batch(self, batch: list[bytes]) -> Iterator[Prediction]:
        outputs = self(tf.constant(batch, tf.string))
        needed = {model_interface.ID_OUTPUT, model_interface.LABEL_OUTPUT, model_interface.SCORE_OUTPUT}
        if not needed <= outputs.keys():
            raise ValueError(
                f"The model must give the outputs {sorted(needed)}; got {sorted(outputs)} in "
                f"{self._saved_model_dir!r}. Choose a model that was trained to classify nodes."
            )
        columns = (
            outputs[name].numpy().tolist()
            for name in (model_interface.ID_OUTPUT, model_interface.LABEL_OUTPUT, model_interface.SCORE_OUTPUT)
        )
        for seed_id, label, score in zip(*columns, strict=True):
            yield Prediction(id=as_text(seed_id), label=str(as_text(label)), score=float(score))


def batches_of(records: Iterable[bytes], batch_size: int) -> Iterator[list[bytes]]:
    """Groups records into lists of `batch_size`, at least 1; the last one may be shorter."""
    if batch_size < 1:
        raise ValueError(f"`batch_size` must be at least 1; got {batch_size}. Give a positive number.")
    stream = iter(records)
    while batch := list(itertools.islice(stream, batch_size)):
        yield batch


def read_records(path: str) -> Iterator[bytes]:
    """Reads serialized tf.Examples from TFRecord files.

    Args:
        path: one file, or a folder of files such as `Split-test`. Files whose names end in `.gz` are read as
            GZIP; those whose names begin with `.` or `_` are skipped.

    Yields:
        The records, file by file in the order of names.

    Raises:
        FileNotFoundError: if `path` does not exist or the folder holds no file.
        ValueError: if the folder holds another folder, or a file is damaged or not a TFRecord file.
    """
    if tf.io.gfile.isdir(path):
        names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(path) if not name.startswith(HIDDEN))
        splits = [name for name in names if name.startswith("Split-")]
        if splits:
            raise FileNotFoundError(
                f"`path` must be one split of an examples folder; got {path!r}, which holds {splits}. "
                f"Choose one, for example {os.path.join(path, splits[0])!r}."
            )
        files = [os.path.join(path, name) for name in names]
        for name, file in zip(names, files, strict=True):
            if tf.io.gfile.isdir(file):
                raise ValueError(
                    f"`path` must be a folder of record files only; got {path!r}, which holds the folder {name!r}. "
                    "Move it out of the split."
                )
    else:
        files = [path] if tf.io.gfile.exists(path) else []
    if not files:
        raise FileNotFoundError(
            f"`path` must be a TFRecord file or a folder that holds some; got {path!r}. "
            "Point at one split of an examples folder, for example examples/Split-test."
        )
    for file in files:
        check_regular_file(file)
        yield from _read_file(file)


def _read_file(file: str) -> Iterator[bytes]:
    is_gzipped = file.endswith(".gz")
    is_empty = True
    try:
        for record in tf.data.TFRecordDataset(file, compression_type="GZIP" if is_gzipped else "").as_numpy_iterator():
            is_empty = False
            yield bytes(record)
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(
            f"`path` must hold undamaged TFRecord files, gzipped if and only if named '.gz'; got {file!r}. "
            f"Make the examples again. Cause: {plain_message(error.message)}."
        ) from error
    # TensorFlow reads a file that is shorter than a record's header as one without records.
    if is_empty and tf.io.gfile.stat(file).length > (_EMPTY_GZIP_BYTES if is_gzipped else 0):
        raise ValueError(f"`path` must hold TFRecord files; got {file!r}, which holds bytes but no record.")

"""Loads an exported model as a stranger would, and asks it real questions.

This file is run as a script by `verify_saved_model`, in a new interpreter that
may import TensorFlow and the standard library and nothing else: what works here
works for a server that has never heard of this package. It therefore imports
nothing of the package itself.
"""

from __future__ import annotations

import argparse
import importlib.abc
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

FORBIDDEN = (
    "apache_beam",
    "tensorflow_gnn",
    "tensorflow_transform",
    "tensorflow_text",
    "tf_keras",
    "tfx",
    "tfx_bsl",
    "tfx_gnn",
    "tfx_gnn_pipelines",
)
SIGNATURE = "serving_default"
EMBEDDINGS_SIGNATURE = "embeddings"
EXAMPLES_INPUT = "examples"
GARBAGE = b"\x0anot a tf.Example"
SCORES, NUM_CANDIDATES = "scores", "num_candidates"


class _ForbiddenImports(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"{fullname} must not be needed to serve the model.")


def main(argv: Sequence[str]) -> None:
    """Runs the checks and writes the report.

    Args:
        argv: command line, without the program's name.
    """
    arguments = _parse(argv)
    sys.meta_path.insert(0, _ForbiddenImports())
    import tensorflow as tf

    report: dict[str, Any] = {"requests": [], "problems": []}
    try:
        _check(tf, arguments, report)
    except Exception as error:  # noqa: BLE001 - the caller raises it, with what is known so far.
        report["problems"].append(f"{type(error).__name__}: {error}")
    report["forbidden_modules"] = sorted(name for name in FORBIDDEN if name in sys.modules)
    report["tensorflow_version"] = tf.__version__
    with open(arguments.report, "w", encoding="utf-8") as file:
        json.dump(report, file)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved-model", required=True)
    parser.add_argument("--examples", required=True, help="TFRecord file of at least one example")
    parser.add_argument("--label-keys", nargs="*", default=[], help="features that requests need not have")
    parser.add_argument("--needs-readout", action="store_true", help="a record without a readout must be refused")
    parser.add_argument("--report", required=True, help="JSON file to write")
    return parser.parse_args(argv)


def _check(tf: Any, arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    start = time.perf_counter()
    model = tf.saved_model.load(arguments.saved_model)
    report["load_seconds"] = time.perf_counter() - start

    predict = model.signatures[SIGNATURE]
    inputs = predict.structured_input_signature[1]
    if sorted(inputs) != [EXAMPLES_INPUT]:
        report["problems"].append(f"the inputs must be ['{EXAMPLES_INPUT}']; got {sorted(inputs)}")
        return
    report["outputs"] = sorted(predict.structured_outputs)

    records = list(tf.data.TFRecordDataset(arguments.examples).as_numpy_iterator())
    stripped = [_without_labels(tf, record, arguments.label_keys) for record in records]
    ask = _Asker(tf, predict, report)
    ask("no example", [])
    together = ask(f"{len(records)} examples", records)
    for position, record in enumerate(records):
        alone = ask(f"example {position} alone", [record])
        for key in _differences(tf, alone, _row(together, position)):
            report["problems"].append(
                f"output '{key}' must be the same for example {position} alone as in a batch of {len(records)}; "
                "got different values"
            )
    for key in _differences(tf, ask("examples without labels", stripped), together):
        report["problems"].append(
            f"output '{key}' must be the same for examples without labels as with labels; got different values"
        )
    _refuse(tf, predict, report, "garbage bytes", [GARBAGE])
    _refuse(tf, predict, report, "garbage bytes after an example", [records[0], GARBAGE])
    if arguments.needs_readout:
        _refuse(tf, predict, report, "a record without a readout", [b""])
    if EMBEDDINGS_SIGNATURE in model.signatures:
        ask = _Asker(tf, model.signatures[EMBEDDINGS_SIGNATURE], report)
        ask("embeddings of no example", [])
        ask(f"embeddings of {len(records)} examples", records)


class _Asker:
    """Sends requests and notes what is wrong with the answers."""

    def __init__(self, tf: Any, predict: Callable[..., dict[str, Any]], report: dict[str, Any]) -> None:
        self._tf = tf
        self._predict = predict
        self._report = report

    def __call__(self, name: str, records: list[bytes]) -> dict[str, Any]:
        start = time.perf_counter()
        outputs = self._predict(**{EXAMPLES_INPUT: self._tf.constant(records, self._tf.string, shape=[len(records)])})
        values = {key: value.numpy() for key, value in outputs.items()}
        self._report["requests"].append({"name": name, "seconds": time.perf_counter() - start})
        for key, value in values.items():
            if value.shape[:1] != (len(records),):
                self._report["problems"].append(
                    f"output '{key}' must have shape [n, ...] for n examples; got {list(value.shape)} "
                    f"for {len(records)} ({name})"
                )
            elif value.dtype.kind == "f" and not _is_finite(self._tf, values, key):
                self._report["problems"].append(f"output '{key}' must be finite; got NaN or infinity ({name})")
        return values


def _is_finite(tf: Any, values: dict[str, Any], key: str) -> bool:
    value = values[key]
    counts = values.get(key[: -len(SCORES)] + NUM_CANDIDATES) if key.endswith(SCORES) else None
    if counts is not None:
        # Behind the last candidate of a row there is minus infinity, which is no score.
        is_padding = tf.logical_not(tf.sequence_mask(counts, value.shape[1]))
        value = tf.where(is_padding & (value == float("-inf")), 0.0, value)
    return bool(tf.reduce_all(tf.math.is_finite(value)))


def _without_labels(tf: Any, record: bytes, label_keys: Sequence[str]) -> bytes:
    example = tf.train.Example.FromString(record)
    features = example.features.feature
    for key in label_keys:
        if key in features:
            del features[key]
    stripped: bytes = example.SerializeToString()
    return stripped


def _row(outputs: dict[str, Any], position: int) -> dict[str, Any]:
    return {key: value[position : position + 1] for key, value in outputs.items()}


def _differences(tf: Any, left: dict[str, Any], right: dict[str, Any]) -> list[str]:
    """Names of outputs that differ; wrong shapes have been noted with the answers themselves."""
    different = []
    for key, value in left.items():
        other = right[key]
        if value.ndim > 1:
            # Rows are padded to the longest of a request.
            other = other[:, : value.shape[1]]
        if value.shape != other.shape:
            continue
        if value.dtype.kind == "f":
            # Room for another order of summation, for nothing more.
            is_near = tf.abs(value - other) <= 1e-4 + 1e-3 * tf.abs(other)
            same = bool(tf.reduce_all(is_near | (value == other)))
        else:
            same = value.tolist() == other.tolist()
        if not same:
            different.append(key)
    return different


def _refuse(tf: Any, predict: Callable[..., Any], report: dict[str, Any], name: str, records: list[bytes]) -> None:
    try:
        predict(**{EXAMPLES_INPUT: tf.constant(records, tf.string)})
    except tf.errors.InvalidArgumentError as error:
        report["requests"].append({"name": name, "refused_with": str(error)[:300]})
    else:
        report["problems"].append(f"{name} must be refused with InvalidArgumentError; got an answer")


if __name__ == "__main__":
    main(sys.argv[1:])

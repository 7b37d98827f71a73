"""Loads an exported model in a fresh process without this package, and sends it requests.

`verify_saved_model` runs this file as a script, in a new interpreter that may
import only TensorFlow and the standard library: what works here works for a server
without this package. So the file imports nothing of the package itself; it loads
`warmup_requests.py`, which has the same restriction, by its path.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.util
import itertools
import json
import math
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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
SERVING_SIGNATURE = "serving_default"
EMBEDDINGS_SIGNATURE = "embeddings"
EXAMPLES_INPUT = "examples"
GARBAGE = b"\x0anot a tf.Example"
MOST_EXAMPLES = 64
"""Largest number of examples in a concurrent request; the smallest is one."""
TOLERANCE = 1e-3
"""Largest allowed `largest_difference` of two responses to one example; it only allows for another summation order."""
HALF_PRECISION_TOLERANCE = 10 * 2.0**-8
"""The tolerance for a model that computes in bfloat16 or float16: ten times the last bit of bfloat16. Another summation
order changes that bit in some node states, and layers add up such changes; four such bits have been measured."""
SMALLEST_SCALE = 1e-2
SCORES, NUM_CANDIDATES = "scores", "num_candidates"


class _ForbiddenImports(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname.partition(".")[0] in FORBIDDEN:
            raise ImportError(f"{fullname} must not be needed to serve the model.")


def main(argv: Sequence[str]) -> None:
    """Runs the checks and writes the report."""
    arguments = _parse(argv)
    sys.meta_path.insert(0, _ForbiddenImports())
    import tensorflow as tf

    report: dict[str, Any] = {"requests": [], "problems": [], "num_concurrent_requests": 0, "largest_difference": 0.0}
    try:
        _check(tf, arguments, report)
    except Exception as error:  # noqa: BLE001 - the caller raises it, with what is known so far.
        report["problems"].append(f"{type(error).__name__}: {error}")
    report["forbidden_modules"] = sorted(name for name in FORBIDDEN if name in sys.modules)
    report["tensorflow_version"] = tf.__version__
    _write(report, arguments.report)


def _write(report: Mapping[str, Any], path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(report, file)


def _begin(action: str, arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    """Records the next action on disk, in case the process dies."""
    report["doing"] = action
    _write(report, arguments.report)


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--saved-model", required=True)
    parser.add_argument("--examples", required=True, help="TFRecord file of at least one example")
    parser.add_argument("--label-keys", nargs="*", default=[], help="features that requests may omit")
    parser.add_argument("--needs-readout", action="store_true", help="a record without a readout must be refused")
    parser.add_argument("--out-of-domain", default="", help="TFRecord file of examples with values that no table has")
    parser.add_argument("--report", required=True, help="JSON file to write")
    parser.add_argument("--num-threads", type=int, default=0, help="threads of concurrent requests; 0 for none")
    parser.add_argument("--seconds", type=float, default=0.0, help="duration of concurrent requests")
    return parser.parse_args(argv)


def _check(tf: Any, arguments: argparse.Namespace, report: dict[str, Any]) -> None:
    _begin("being loaded", arguments, report)
    start = time.perf_counter()
    model = tf.saved_model.load(arguments.saved_model)
    report["load_seconds"] = time.perf_counter() - start

    predict = model.signatures[SERVING_SIGNATURE]
    inputs = predict.structured_input_signature[1]
    if sorted(inputs) != [EXAMPLES_INPUT]:
        report["problems"].append(f"the inputs must be ['{EXAMPLES_INPUT}']; got {sorted(inputs)}")
        return
    report["outputs"] = sorted(predict.structured_outputs)

    _begin("answering its warm-up requests", arguments, report)
    _replay_warmup(tf, model, arguments.saved_model, report)
    _begin("answering one request at a time", arguments, report)
    records = list(tf.data.TFRecordDataset(arguments.examples).as_numpy_iterator())
    stripped = [_without_labels(tf, record, arguments.label_keys) for record in records]
    tolerance = tolerance_of(tf, predict)
    ask = _Asker(tf, predict, report)
    ask("no example", [])
    together = ask(f"{len(records)} examples", records)
    alone = [ask(f"example {position} alone", [record]) for position, record in enumerate(records)]
    for position, answer in enumerate(alone):
        for key in _differences(answer, _row(together, position), tolerance):
            report["problems"].append(
                f"output '{key}' must be the same for example {position} alone as in a batch of {len(records)}; "
                "got different values"
            )
    for key in _differences(ask("examples without labels", stripped), together, tolerance):
        report["problems"].append(
            f"output '{key}' must be the same for examples without labels as with labels; got different values"
        )
    _refuse(tf, predict, report, "garbage bytes", [GARBAGE])
    _refuse(tf, predict, report, "garbage bytes after an example", [records[0], GARBAGE])
    if arguments.needs_readout:
        _refuse(tf, predict, report, "a record without a readout", [b""])
    report["out_of_domain"] = _answers_out_of_domain(tf, predict, arguments.out_of_domain, report)
    callers = [_Caller(tf, predict, records, alone, tolerance)]
    if EMBEDDINGS_SIGNATURE in model.signatures:
        embed = model.signatures[EMBEDDINGS_SIGNATURE]
        ask = _Asker(tf, embed, report)
        ask("embeddings of no example", [])
        ask(f"embeddings of {len(records)} examples", records)
        embedded = [ask(f"embedding of example {position}", [record]) for position, record in enumerate(records)]
        callers.append(_Caller(tf, embed, records, embedded, tolerance))
    # A problem with single requests recurs with concurrent ones, and would be reported twice.
    if arguments.num_threads and not report["problems"]:
        _begin(f"answering {arguments.num_threads} threads' requests", arguments, report)
        _ask_concurrently(callers, arguments.num_threads, arguments.seconds, report)


def _replay_warmup(tf: Any, model: Any, saved_model_dir: str, report: dict[str, Any]) -> None:
    """Sends the warm-up requests that a server would send while it loads the model."""
    spec = importlib.util.spec_from_file_location("warmup_requests", Path(__file__).with_name("warmup_requests.py"))
    assert spec is not None
    assert spec.loader is not None
    warmup = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(warmup)
    sent = 0
    for name, inputs in warmup.read_warmup_requests(saved_model_dir):
        sent += 1
        function = model.signatures.get(name or SERVING_SIGNATURE)
        if function is None:
            report["problems"].append(f"warm-up request {sent} must be for a signature of the model; got {name!r}")
            continue
        function(**{key: tf.constant(tf.make_ndarray(value)) for key, value in inputs.items()})
    if sent:
        report["requests"].append({"name": f"{sent} warm-up requests"})
    if sent > warmup.MOST_REQUESTS:
        report["problems"].append(f"the warm-up requests must be at most {warmup.MOST_REQUESTS}; got {sent}")


class _Caller:
    """Sends requests with known examples to a signature, and compares the responses with those to single requests."""

    def __init__(
        self,
        tf: Any,
        function: Callable[..., dict[str, Any]],
        records: list[bytes],
        alone: list[dict[str, Any]],
        tolerance: float,
    ) -> None:
        self._tf, self._function, self._tolerance = tf, function, tolerance
        self._records, self._alone = records, alone
        self.num_records = len(records)

    def __call__(self, positions: Sequence[int]) -> tuple[float, str]:
        """Sends some examples; returns the `largest_difference` and the name of a wrong output."""
        request = self._tf.constant([self._records[position] for position in positions])
        outputs = self._function(**{EXAMPLES_INPUT: request})
        largest, wrong = 0.0, ""
        for key, output in outputs.items():
            difference = _difference_of_rows(output.numpy(), [self._alone[position][key] for position in positions])
            largest = max(largest, difference)
            if difference > self._tolerance:
                wrong = key
        return largest, wrong


def tolerance_of(tf: Any, function: Any) -> float:
    """Returns the largest `largest_difference` that is a rounding error in the precision of a signature's model."""
    graph = function.graph.as_graph_def()
    nodes = itertools.chain(graph.node, *(inner.node_def for inner in graph.library.function))
    half = {tf.bfloat16.as_datatype_enum, tf.float16.as_datatype_enum}
    is_half = any(value.type in half for node in nodes for value in node.attr.values())
    return HALF_PRECISION_TOLERANCE if is_half else TOLERANCE


def _difference_of_rows(rows: Any, alone: list[Any]) -> float:
    """Compares the rows of a response with those of single requests, which may be shorter."""
    if len(rows) != len(alone):
        return math.inf
    return max((largest_difference(rows[at : at + 1], expected) for at, expected in enumerate(alone)), default=0.0)


def largest_difference(found: Any, expected: Any) -> float:
    """Returns the largest difference of two responses to the same examples, relative to the scale of its row.

    The rounding error of a number grows with the numbers that were summed for it, which are about as large as the
    largest number of its row, however small the number itself is; so each row has one scale. The scale is at least
    `SMALLEST_SCALE`, because the only number of a row may be a small difference of large numbers.

    Both responses have shape [num_examples, ...]; rows of `found` may be padded beyond those of `expected`. Returns
    infinity if numbers are missing or NaN, or values other than floats differ.
    """
    if expected.ndim > 1:
        found = found[:, : expected.shape[1]]
    if found.shape != expected.shape:
        return math.inf
    if expected.dtype.kind != "f":
        return 0.0 if found.tolist() == expected.tolist() else math.inf
    largest = 0.0
    for position in range(len(expected)):
        row, given = found[position : position + 1], expected[position : position + 1]
        # Minus infinity pads scores: it equals itself, but its difference from itself is NaN.
        is_other = row != given
        if is_other.any():
            sizes = abs(given)
            scale = float(sizes[sizes < math.inf].max(initial=SMALLEST_SCALE))
            difference = float(abs(row[is_other] - given[is_other]).max()) / scale
            largest = max(largest, math.inf if math.isnan(difference) else difference)
    return largest


def _ask_concurrently(callers: list[_Caller], num_threads: int, seconds: float, report: dict[str, Any]) -> None:
    """Sends requests of many sizes from several threads at the same time."""
    end = time.monotonic() + seconds
    found: list[tuple[int, float, set[str]]] = []

    def ask(number: int) -> None:
        draw = random.Random(number)
        num_requests, largest = 0, 0.0
        problems: set[str] = set()
        # Each thread sends at least one request, however slow the model is.
        while not problems and (num_requests == 0 or time.monotonic() < end):
            caller = callers[num_requests % len(callers)]
            size = draw.choice((1, 2, 8, MOST_EXAMPLES, draw.randint(1, MOST_EXAMPLES)))
            num_requests += 1
            try:
                difference, wrong = caller([draw.randrange(caller.num_records) for _ in range(size)])
            except Exception as error:  # noqa: BLE001 - whatever it is, it was not there one request at a time.
                problems.add(
                    f"a concurrent request must get the same response as alone; got {type(error).__name__}: {error}"
                )
                break
            largest = max(largest, difference)
            if wrong:
                problems.add(f"output '{wrong}' must be the same in concurrent requests as alone; got different values")
        found.append((num_requests, largest, problems))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report["num_concurrent_requests"] = sum(count for count, _, _ in found)
    report["largest_difference"] = max(largest for _, largest, _ in found)
    report["problems"] += sorted(set().union(*(problems for _, _, problems in found)))
    report["requests"].append({"name": f"requests of {num_threads} threads for {seconds:g} s"})


def _answers_out_of_domain(tf: Any, predict: Callable[..., Any], path: str, report: dict[str, Any]) -> list[str]:
    """Returns the kind of response to each request, as in `DomainAnswer`; another shape is a problem."""
    answers: list[str] = []
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator() if path else ():
        try:
            outputs = predict(**{EXAMPLES_INPUT: tf.constant([record], tf.string)})
        except tf.errors.InvalidArgumentError:
            answers.append("refused")
            continue
        except tf.errors.OpError:
            answers.append("failed")
            continue
        values = {key: value.numpy() for key, value in outputs.items()}
        if any(value.shape[:1] != (1,) for value in values.values()):
            if "wrong shape" not in answers:
                report["problems"].append("outputs must have shape [1, ...] for one example out of the domain")
            answers.append("wrong shape")
        elif all(value.dtype.kind != "f" or _is_finite(tf, values, key) for key, value in values.items()):
            answers.append("finite")
        else:
            answers.append("not finite")
    return answers


class _Asker:
    """Sends requests and records what is wrong with the responses."""

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
        # After the last candidate of a row comes minus infinity, which is not a score.
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


def _differences(left: dict[str, Any], right: dict[str, Any], tolerance: float) -> list[str]:
    """Returns the names of outputs that differ; wrong shapes were already recorded with the responses."""
    different = []
    for key, value in left.items():
        # Rows are padded to the longest row of a request.
        other = right[key][:, : value.shape[1]] if value.ndim > 1 else right[key]
        if value.shape == other.shape and largest_difference(other, value) > tolerance:
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

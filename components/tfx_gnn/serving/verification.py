"""Verifies an exported model in a fresh process before it is pushed."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from tfx_gnn.serving.model_interface import read_served_task
from tfx_gnn.serving.request_records import DomainAnswer, label_keys, out_of_domain_requests
from tfx_gnn.serving.warmup_requests import WARMUP_FILE, read_warmup_requests

_SCRIPT = Path(__file__).with_name("fresh_process_check.py")

_KEPT_VARIABLES = ("HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""Environment variables that a process needs to start. A server does not have the caller's other ones, such as
`TF_ENABLE_ONEDNN_OPTS`, `OMP_NUM_THREADS` or `LD_PRELOAD`."""

_LEAST_SECONDS, _SECONDS_PER_REQUEST = 600.0, 10.0
"""Timeouts of the process: for loading the model, and for each request, which may have a new size and need
compilation."""


class ServingVerificationError(ValueError):
    """An exported model failed its verification."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerificationReport:
    """What a fresh process found out about an exported model.

    Attributes:
        tensorflow_version: version that loaded the model.
        load_seconds: time to load it.
        outputs: names of its outputs, sorted.
        requests: the requests in order, including refused garbage.
        num_concurrent_requests: number of requests that were sent concurrently with others.
        largest_difference: largest difference of their responses from those to single requests, relative to the
            largest number of a row of an output, or to 0.01 if that is smaller.
        out_of_domain: kinds of responses to requests with values that no table had.
    """

    tensorflow_version: str
    load_seconds: float
    outputs: tuple[str, ...]
    requests: tuple[str, ...]
    num_concurrent_requests: int
    largest_difference: float
    out_of_domain: tuple[DomainAnswer, ...]


def verify_saved_model(
    saved_model_dir: str,
    records: Sequence[bytes],
    *,
    num_threads: int = 4,
    concurrent_seconds: float = 5.0,
    timeout_seconds: float | None = None,
) -> VerificationReport:
    """Has a fresh process, which may import only TensorFlow, load a model and send it real requests.

    First, the model must respond to its warm-up requests, if it has any. Then it must
    respond to no example, to each example alone, to all of them in one batch, and to
    all of them without labels. Outputs must have shape [n, ...] and be finite; those of
    an example must not depend on its neighbours in the batch or on its labels. Bytes
    that are not a tf.Example must raise InvalidArgumentError. Finally, several threads
    send concurrent requests of 1 to 64 examples, and must get the same responses as
    single requests. For values that no table had, such as negative counts, the report
    says what kind of response came back.

    The process has TensorFlow's default settings, whatever the caller's environment is. It
    sees no GPU, so a running training job is not disturbed.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`.
        records: serialized raw graph tf.Examples, at least one.
        num_threads: threads that send concurrent requests; 0 for none.
        concurrent_seconds: how long they send requests.
        timeout_seconds: timeout of the process, in addition to `concurrent_seconds`; if None, 10 minutes plus
            10 seconds for each example, out-of-domain request and warm-up request.

    Returns:
        The report of the process.

    Raises:
        ServingVerificationError: if any of the above fails, or the model kills the process; the message lists
            every problem that was found.
        ValueError: if `records` is empty.
    """
    if not records:
        raise ValueError("`records` must hold at least one example; got none. Take some from an examples folder.")
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-verify-") as scratch:
        examples_file = os.path.join(scratch, "examples.tfrecord")
        with tf.io.TFRecordWriter(examples_file) as writer:
            for record in records:
                writer.write(record)
        report_file = os.path.join(scratch, "report.json")
        command = [sys.executable, "-I", str(_SCRIPT), "--saved-model", saved_model_dir, "--examples", examples_file]
        served = read_served_task(saved_model_dir)
        keys = label_keys(records, saved_model_dir)
        command += ["--report", report_file, "--label-keys", *keys]
        command += ["--needs-readout"] if served is None or served.roots else []
        outside = out_of_domain_requests(records, keys)
        outside_file = os.path.join(scratch, "out_of_domain.tfrecord")
        with tf.io.TFRecordWriter(outside_file) as writer:
            for request in outside:
                writer.write(request.record)
        command += ["--out-of-domain", outside_file]
        if timeout_seconds is None:
            num_requests = len(records) + len(outside) + _num_warmup_requests(saved_model_dir)
            timeout_seconds = _LEAST_SECONDS + _SECONDS_PER_REQUEST * num_requests
        if num_threads:
            command += ["--num-threads", str(num_threads), "--seconds", str(concurrent_seconds)]
            timeout_seconds += concurrent_seconds
        _run(command, saved_model_dir, report_file, timeout_seconds)
        report = json.loads(Path(report_file).read_text(encoding="utf-8"))
    problems = list(report["problems"])
    if report["forbidden_modules"]:
        problems.append(f"only TensorFlow may be needed; these modules were imported: {report['forbidden_modules']}")
    if problems:
        raise ServingVerificationError(
            f"`saved_model_dir` must answer real requests with TensorFlow alone; got {len(problems)} problem(s) in "
            f"{saved_model_dir!r}: " + "; ".join(problems) + ". Train and export the model again."
        )
    return VerificationReport(
        tensorflow_version=report["tensorflow_version"],
        load_seconds=report["load_seconds"],
        outputs=tuple(report["outputs"]),
        requests=tuple(request["name"] for request in report["requests"]),
        num_concurrent_requests=report["num_concurrent_requests"],
        largest_difference=report["largest_difference"],
        out_of_domain=tuple(
            DomainAnswer(feature=request.feature, value=request.value, answer=answer)
            for request, answer in zip(outside, report["out_of_domain"], strict=True)
        ),
    )


def environment_of_fresh_process() -> dict[str, str]:
    """Returns the environment of a process that serves with TensorFlow's default settings, without a GPU."""
    kept = {key: value for key, value in os.environ.items() if key in _KEPT_VARIABLES or key.startswith("LC_")}
    return {**kept, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}


def _num_warmup_requests(saved_model_dir: str) -> int:
    try:
        return sum(1 for _ in read_warmup_requests(saved_model_dir))
    except (ValueError, tf.errors.DataLossError) as error:
        raise ServingVerificationError(
            f"`saved_model_dir` must hold warm-up requests that a server can read; got {str(error)!r} in "
            f"{saved_model_dir!r}. Write them again, or remove {WARMUP_FILE}."
        ) from error


def _run(command: list[str], saved_model_dir: str, report_file: str, timeout_seconds: float) -> None:
    try:
        done = subprocess.run(
            command,
            env=environment_of_fresh_process(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ServingVerificationError(
            f"`saved_model_dir` must answer within {timeout_seconds} s; got no answer while {_action(report_file)}, "
            f"from {saved_model_dir!r}. Try again on an idle machine, or make the model smaller."
        ) from error
    last_words = f"Its last output: {done.stderr.strip()[-2000:]!r}."
    if done.returncode < 0:
        raise ServingVerificationError(
            f"`saved_model_dir` must not kill the process that serves it; got {_signal_name(-done.returncode)} while "
            f"{_action(report_file)}, from {saved_model_dir!r}. {last_words} {_advice(done.returncode)}"
        )
    if done.returncode != 0:
        raise ServingVerificationError(
            f"`saved_model_dir` must be loadable by a fresh process; got exit code {done.returncode} for "
            f"{saved_model_dir!r}. {last_words} Train and export the model again."
        )


def _advice(returncode: int) -> str:
    if returncode == -signal.SIGKILL:
        return "Nothing in the model does that: check whether the machine has enough memory for such requests."
    return (
        "If it dies only with several threads, an operation of the model is not safe under concurrent calls: "
        "tf_keras.layers.LayerNormalization traces to one; use tfx_gnn.keras.layers.LayerNormalization, and train "
        "again."
    )


def _signal_name(number: int) -> str:
    known = {one.value: one.name for one in signal.Signals}
    return known.get(number, f"signal {number}")


def _action(report_file: str) -> str:
    """Reads what the process was doing when it died or was ended."""
    path = Path(report_file)
    report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return str(report.get("doing", "starting"))

"""Verification of an exported model from outside, before anyone depends on it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from tfx_gnn.graph.readout_structure import READOUT
from tfx_gnn.serving.served_task import read_served_task

_SCRIPT = Path(__file__).with_name("fresh_process_check.py")


class ServingVerificationError(ValueError):
    """An exported model did not stand the test from outside."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VerificationReport:
    """What a fresh process saw of an exported model.

    Attributes:
        tensorflow_version: version that loaded the model.
        load_seconds: time to load it.
        outputs: names of its outputs, sorted.
        requests: what was asked, in order; the refusals of garbage included.
    """

    tensorflow_version: str
    load_seconds: float
    outputs: tuple[str, ...]
    requests: tuple[str, ...]


def verify_saved_model(
    saved_model_dir: str, records: Sequence[bytes], *, timeout_seconds: float = 600.0
) -> VerificationReport:
    """Has a fresh process, which may import TensorFlow only, load a model and ask it real questions.

    The model must answer no example, each example alone, all of them in one
    batch, and all of them without labels. Answers have shape [n, ...] and are
    finite; those of an example do not depend on its neighbours in the batch or on
    labels that it carries. Bytes that are no tf.Example must raise InvalidArgumentError.
    The process sees no GPU: a running training job is not disturbed.

    Args:
        saved_model_dir: folder that holds `saved_model.pb`.
        records: serialized raw graph tf.Examples, at least one.
        timeout_seconds: when to give up on the process.

    Returns:
        What was seen.

    Raises:
        ServingVerificationError: if anything of the above fails; the message lists
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
        label_keys = _readout_features(records) if served is None else served.label_keys
        command += ["--report", report_file, "--label-keys", *label_keys]
        command += ["--needs-readout"] if served is None or served.roots else []
        _run(command, saved_model_dir, timeout_seconds)
        report = json.loads(Path(report_file).read_text(encoding="utf-8"))
    problems = list(report["problems"])
    if report["forbidden_modules"]:
        problems.append(f"TensorFlow alone must do; these modules were imported: {report['forbidden_modules']}")
    if problems:
        raise ServingVerificationError(
            f"`saved_model_dir` must answer real requests with TensorFlow alone; got {len(problems)} problem(s) in "
            f"{saved_model_dir!r}: " + "; ".join(problems) + ". Train and export the model again; it was not pushed."
        )
    return VerificationReport(
        tensorflow_version=report["tensorflow_version"],
        load_seconds=report["load_seconds"],
        outputs=tuple(report["outputs"]),
        requests=tuple(request["name"] for request in report["requests"]),
    )


def _readout_features(records: Sequence[bytes]) -> list[str]:
    """What labels are in models that do not tell: all of `_readout` but what begins with `#`."""
    keys = {key for record in records for key in tf.train.Example.FromString(record).features.feature}
    prefix = f"nodes/{READOUT}."
    return sorted(key for key in keys if key.startswith(prefix) and not key.startswith(f"{prefix}#"))


def _run(command: list[str], saved_model_dir: str, timeout_seconds: float) -> None:
    # TF_USE_LEGACY_KERAS would make TensorFlow itself look for tf_keras.
    environment = {key: value for key, value in os.environ.items() if key != "TF_USE_LEGACY_KERAS"}
    environment |= {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServingVerificationError(
            f"`saved_model_dir` must answer within {timeout_seconds} s; got no answer from {saved_model_dir!r}. "
            "Try again on an idle machine, or make the model smaller."
        ) from error
    if done.returncode != 0:
        raise ServingVerificationError(
            f"`saved_model_dir` must be loadable by a fresh process; got exit code {done.returncode} for "
            f"{saved_model_dir!r}. Its last words: {done.stderr.strip()[-2000:]!r}. Train and export the model again."
        )

"""An exported model answers a C program: nothing of Python is needed to serve it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import tensorflow as tf

_SOURCE = Path(__file__).with_name("c_api") / "predict.c"


@pytest.fixture(scope="module")
def predict_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program, compiled against the headers and libraries inside TensorFlow's own package."""
    program = tmp_path_factory.mktemp("c_api") / "predict"
    libraries = Path(tf.sysconfig.get_lib())
    command = ["gcc", "-std=c11", "-O1", "-Wall", "-Werror", str(_SOURCE), "-o", str(program)]
    command += ["-isystem", tf.sysconfig.get_include(), f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
    command += ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", "-pthread"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return program


def _ask(
    program: Path, saved_model_dir: str, tmp_path: Path, records: Sequence[bytes], *more: str
) -> subprocess.CompletedProcess[str]:
    requests = str(tmp_path / "requests.tfrecord")
    with tf.io.TFRecordWriter(requests) as writer:
        for record in records:
            writer.write(record)
    # An empty environment: neither a virtual environment nor PYTHONPATH can help.
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        [str(program), saved_model_dir, requests, *more],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def saved_model_dir(toy_model_dir: str) -> str:
    return os.path.join(toy_model_dir, "Format-Serving")


def test_no_example_is_answered(predict_program: Path, saved_model_dir: str, tmp_path: Path) -> None:
    done = _ask(predict_program, saved_model_dir, tmp_path, [])

    assert (done.returncode, done.stdout) == (0, "logits [0, 2]\n"), done.stderr


def test_one_example_is_answered(predict_program: Path, saved_model_dir: str, tmp_path: Path, toy_records) -> None:
    done = _ask(predict_program, saved_model_dir, tmp_path, toy_records["test"][:1])

    assert (done.returncode, done.stdout) == (0, "logits [1, 2]\nw-0\tred\t0.9526\n"), done.stderr


def test_seven_examples_are_answered_in_order(
    predict_program: Path, saved_model_dir: str, tmp_path: Path, toy_records
) -> None:
    done = _ask(predict_program, saved_model_dir, tmp_path, (toy_records["test"] + toy_records["train"])[:7])

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "logits [7, 2]",
        "w-0\tred\t0.9526",
        "x-0\tblue\t0.9820",
        "y-0\tred\t0.7311",
        "z-0\tblue\t0.7311",
        "a-0\tred\t0.8808",
        "b-0\tred\t0.9820",
        "c-0\tblue\t0.8808",
    ]


def test_threads_get_the_answers_that_are_given_alone(
    predict_program: Path, saved_model_dir: str, tmp_path: Path, toy_records
) -> None:
    done = _ask(predict_program, saved_model_dir, tmp_path, toy_records["test"], "3", "0.2")

    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"\d+ requests of 3 threads, largest difference (0|\d\.?\d*e-(0[5-9]|1\d))", last)


def test_garbage_is_refused_with_its_reason(predict_program: Path, saved_model_dir: str, tmp_path: Path) -> None:
    done = _ask(predict_program, saved_model_dir, tmp_path, [b"\x0agarbage"])

    assert (done.returncode, done.stdout) == (3, "")
    assert "the model refused the request: Could not parse example input" in done.stderr


def test_missing_model_is_reported(predict_program: Path, tmp_path: Path) -> None:
    done = _ask(predict_program, str(tmp_path / "absent"), tmp_path, [])

    assert done.returncode == 2
    assert "absent" in done.stderr

"""Has threads ask exported models for a while, from Python and from C, and holds each answer to the one given alone.

    python benchmarks/serving_soak.py --seconds 30
    python benchmarks/serving_soak.py --seconds 30 runs/papers/serving examples/Split-test

Without further arguments the seven ready networks are exported and asked. Pairs of a model (a push destination, a
version or a SavedModel) and a split of raw examples are asked in their place, such as the quickstart's. Each model is
asked in a fresh process with TensorFlow's default settings, as a push is verified; then by a C program, if the model
answers classes of seeds. A model that dies or answers something else ends the program with 1.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import served_networks
import tensorflow as tf

from tfx_gnn.serving import (
    SERVING_SIGNATURE,
    ServingVerificationError,
    read_records,
    resolve_saved_model,
    verify_saved_model,
)

#: An answer beside other requests may differ by so much from the one given alone, relative to its largest number.
TOLERANCE = 1e-4

#: How long the C program may take beside the time in which it asks.
_C_SECONDS = 300.0
_C_OUTPUTS = {"id", "label", "score", "logits"}
_NUM_RECORDS = 64
_C_PROGRAM = Path(__file__).parents[1] / "tests" / "unit" / "serving" / "c_api" / "predict.c"


def main(argv: Sequence[str]) -> int:
    """Asks all models and prints a line for each and each way to ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "models", nargs="*", metavar="MODEL_DIR EXAMPLES", help="models, each with a split to ask about"
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="how long each model is asked in each way")
    parser.add_argument("--threads", type=int, default=4)
    arguments = parser.parse_args(argv)
    if len(arguments.models) % 2:
        parser.error("models and splits must come in pairs")
    has_failed = False
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-soak-") as folder:
        program = _compile(folder)
        for name, saved_model_dir, records in _models(arguments.models, folder):
            asked = saved_model_dir, records, arguments.threads, arguments.seconds
            ways = [("Python", *_ask_from_python(*asked))]
            if _answers_classes_of_seeds(saved_model_dir):
                ways.append(("C", *_ask_from_c(program, *asked)))
            for way, told, is_good in ways:
                sys.stdout.write(f"{name:<24} {way:<7} {'ok    ' if is_good else 'FAILED'} {told}\n")
                sys.stdout.flush()
                has_failed |= not is_good
    return int(has_failed)


def _models(pairs: Sequence[str], folder: str) -> Iterator[tuple[str, str, list[bytes]]]:
    if not pairs:
        records = served_networks.requests(_NUM_RECORDS)
        for name in served_networks.NETWORKS:
            yield name, served_networks.export_network(name, os.path.join(folder, name)), records
    for model_dir, examples in zip(pairs[::2], pairs[1::2], strict=True):
        records = list(itertools.islice(read_records(examples), _NUM_RECORDS))
        yield Path(model_dir).name, resolve_saved_model(model_dir), records


def _ask_from_python(saved_model_dir: str, records: list[bytes], threads: int, seconds: float) -> tuple[str, bool]:
    try:
        report = verify_saved_model(saved_model_dir, records, num_threads=threads, concurrent_seconds=seconds)
    except ServingVerificationError as error:
        return str(error), False
    told = f"{report.num_concurrent_requests} requests of {threads} threads, largest difference "
    return f"{told}{report.largest_difference:.2g}", report.largest_difference <= TOLERANCE


def _answers_classes_of_seeds(saved_model_dir: str) -> bool:
    """Whether a model has the outputs that the C program reads."""
    signature = tf.saved_model.load(saved_model_dir).signatures[SERVING_SIGNATURE]
    return _C_OUTPUTS.issubset(signature.structured_outputs)


def _compile(folder: str) -> str:
    program, libraries = os.path.join(folder, "predict"), tf.sysconfig.get_lib()
    command = ["gcc", "-std=c11", "-O1", str(_C_PROGRAM), "-o", program, "-isystem", tf.sysconfig.get_include()]
    command += [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-l:libtensorflow_cc.so.2"]
    subprocess.run([*command, "-l:libtensorflow_framework.so.2", "-pthread"], check=True)
    return program


def _ask_from_c(
    program: str, saved_model_dir: str, records: list[bytes], threads: int, seconds: float
) -> tuple[str, bool]:
    requests = f"{program}.tfrecord"
    with tf.io.TFRecordWriter(requests) as writer:
        for record in records:
            writer.write(record)
    try:
        done = subprocess.run(
            [program, saved_model_dir, requests, str(threads), str(seconds)],
            env={"TF_CPP_MIN_LOG_LEVEL": "3"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds + _C_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return f"no end within {error.timeout:g} s", False
    if done.returncode:
        return f"exit code {done.returncode}: {done.stderr.strip()[-300:]}", False
    return done.stdout.splitlines()[-1], True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The stages on Beam with two workers in processes of their own write what they write in this process."""

import collections
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_metadata.proto.v0 import statistics_pb2

from tfx_gnn.components import (
    GraphTransformOptions,
    SizeConstraintLearnerOptions,
    SubgraphExampleGenOptions,
    expectations_of_plan,
    generate_subgraph_examples,
    learn_size_constraints,
    transform_graphs,
    validate_graph_examples,
)

_PROJECTS = Path(__file__).resolve().parents[1] / "components"
_START_SECONDS = 300
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[-+]?[0-9]+)?")
_OUTPUTS = {
    "examples",
    "statistics",
    "anomalies",
    "blessing",
    "transform_graph",
    "transformed_examples",
    "transformed_graph_schema",
    "pre_transform_stats",
    "post_transform_stats",
    "size_constraints",
}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Arguments of Beam that lead to the workers, and the file that lists their bundles."""
    folder = tmp_path_factory.mktemp("service")
    bundles = folder / "bundles"
    bundles.touch()
    job_port, pool_port = _free_port(), _free_port()
    # The pool starts `python`.
    variables = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": str(_PROJECTS),
        "PYTHONWARNINGS": "ignore",
    }
    job_service = [str(Path(__file__).with_name("two_worker_job_service.py")), str(bundles), "--port", str(job_port)]
    worker_pool = ["-m", "apache_beam.runners.worker.worker_pool_main", "--service_port", str(pool_port)]
    processes = []
    try:
        for name, command in (("job_service", job_service), ("worker_pool", worker_pool)):
            with open(folder / f"{name}.log", "w") as log:
                processes.append(subprocess.Popen([sys.executable, *command], env=variables, stdout=log, stderr=log))
        for port in (job_port, pool_port):
            with grpc.insecure_channel(f"localhost:{port}") as channel:
                grpc.channel_ready_future(channel).result(timeout=_START_SECONDS)
        arguments = [
            "--runner=PortableRunner",
            f"--job_endpoint=localhost:{job_port}",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{pool_port}",
            f"--job_server_timeout={_START_SECONDS}",
        ]
        yield arguments, bundles
    finally:
        for process in processes:
            # An interrupt, upon which the pool ends its workers.
            process.terminate()
            process.wait()


@pytest.fixture(scope="module")
def task():
    # Another test may have left the package of a copy that it edited.
    for name in [name for name in sys.modules if name.partition(".")[0] == "tiny_project"]:
        del sys.modules[name]
    sys.path.insert(0, str(_PROJECTS))
    try:
        from tiny_project.task import TASK

        yield TASK
    finally:
        sys.path.remove(str(_PROJECTS))


def run_stages(task, folder, beam_args, execution):
    """Runs the stages that use Beam; yields the name of each one after it ended."""
    place = {name: str(folder / name) for name in _OUTPUTS}
    generate_subgraph_examples(
        tables_dir=task.tables_dir,
        examples_dir=place["examples"],
        options=SubgraphExampleGenOptions(plan=task.plan, num_shards=4, execution=execution),
        beam_args=beam_args,
    )
    yield "sample"
    validate_graph_examples(
        examples_dir=place["examples"],
        graph_schema_dir=place["examples"],
        statistics_dir=place["statistics"],
        anomalies_dir=place["anomalies"],
        blessing_dir=place["blessing"],
        options=expectations_of_plan(task.plan),
        beam_args=beam_args,
    )
    yield "validate"
    transform_graphs(
        examples_dir=place["examples"],
        graph_schema_dir=place["examples"],
        transform_graph_dir=place["transform_graph"],
        transformed_examples_dir=place["transformed_examples"],
        transformed_graph_schema_dir=place["transformed_graph_schema"],
        pre_transform_stats_dir=place["pre_transform_stats"],
        post_transform_stats_dir=place["post_transform_stats"],
        options=GraphTransformOptions(preprocessing_fn=task.preprocessing_fn),
        beam_args=beam_args,
    )
    yield "transform"
    learn_size_constraints(
        examples_dir=place["transformed_examples"],
        graph_schema_dir=place["transformed_graph_schema"],
        size_constraints_dir=place["size_constraints"],
        options=SizeConstraintLearnerOptions(batch_size=4),
        beam_args=beam_args,
    )
    yield "sizes"


def test_two_workers_write_what_one_process_writes(service, task, tmp_path):
    arguments, bundles = service
    here, there = tmp_path / "here", tmp_path / "there"

    assert list(run_stages(task, here, [], "in_memory")) == ["sample", "validate", "transform", "sizes"]
    bundles_of_stages, seen = {}, 0
    for stage in run_stages(task, there, arguments, "beam"):
        lines = bundles.read_text().split()
        bundles_of_stages[stage], seen = collections.Counter(lines[seen:]), len(lines)

    # Each job has two workers, and both had something to do in each stage.
    for stage, counts in bundles_of_stages.items():
        assert len(counts) >= 2, (stage, counts)
        assert len(counts) % 2 == 0, (stage, counts)
    assert differences(here, there) == []


def differences(here, there):
    """Files of one folder that the other lacks or has otherwise.

    Examples, schemas and vocabularies are compared by their bytes, and budgets. Statistics, and what is scaled by them,
    may differ in the last digits: two workers add floats in an order that changes with their speed.
    """
    names = {str(path.relative_to(folder)) for folder in (here, there) for path in folder.rglob("*") if path.is_file()}
    # tf.Transform names the nodes of a SavedModel anew each time; the last file has its hash.
    of_saved_model = {"saved_model.pb", "fingerprint.pb", "graph_transform.json"}
    names = {name for name in names if Path(name).name not in of_saved_model}
    return sorted(
        name
        for name in names
        if not (
            (here / name).exists() and (there / name).exists() and are_alike(content(here, name), content(there, name))
        )
    )


def are_alike(one, other):
    if isinstance(one, bytes):
        return one == other
    numbers = [np.array(_NUMBER.findall(found), np.float64) for found in (one, other)]
    return _NUMBER.split(one) == _NUMBER.split(other) and np.allclose(*numbers, rtol=1e-5, atol=1e-6)


def content(folder, name):
    """Bytes, or a text of which the numbers may differ in their last digits."""
    path = folder / name
    if path.name == "FeatureStats.pb":
        return str(statistics_pb2.DatasetFeatureStatisticsList.FromString(path.read_bytes()))
    if name.startswith("transformed_examples/Split-"):
        records = tf.data.TFRecordDataset(str(path), compression_type="GZIP")
        return "".join(str(tf.train.Example.FromString(record.numpy())) for record in records)
    if name.startswith("size_constraints/"):
        # Budgets are written with a hash of the scaled examples.
        return re.sub(rb"\b[0-9a-f]{64}\b", b"", path.read_bytes())
    # A blessing names the file with its reasons.
    return path.read_bytes().replace(str(folder).encode(), b"")

"""The tiny project, compiled for Kubeflow, and every container command of it run here.

No cluster is needed to prove that the components keep Kubeflow's contract: each
task's own command gets what the service would give it, and what it writes is
given to the tasks after it.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from kfp.pipeline_spec import pipeline_spec_pb2

TINY_PROJECT = Path(__file__).parent / "tiny_project"


@pytest.fixture(scope="session")
def tiny_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder that holds a copy of the package `tiny_project`, importable."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(TINY_PROJECT, folder / TINY_PROJECT.name)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="session")
def tiny_config(tiny_project: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Config of the tiny pipeline."""
    from tfx_gnn_pipelines.config import quickstart
    from tfx_gnn_pipelines.task import load_task

    return quickstart(load_task("tiny_project.task:TASK"), root=str(tmp_path_factory.mktemp("root")))


@dataclasses.dataclass(frozen=True)
class FinishedTask:
    """What a container left behind.

    Attributes:
        uris: folder of each output.
        metadata: properties of each output, numbers as floats.
        parameters: values that the task was given.
    """

    uris: Mapping[str, Path]
    metadata: Mapping[str, Mapping[str, Any]]
    parameters: Mapping[str, Any]


@pytest.fixture(scope="session")
def compiled_job(tiny_config: Any) -> dict[str, Any]:
    """The tiny pipeline as a PipelineJob, with the number of epochs left open."""
    from tfx_gnn_pipelines.compilation import compile_pipeline

    config = dataclasses.replace(tiny_config, runtime_parameters=("GraphTrainer.num_epochs",))
    return compile_pipeline(config, image="image:tag", display_name="tiny")


@pytest.fixture(scope="session")
def finished_tasks(compiled_job: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, FinishedTask]:
    """Runs the container command of every task, each after those that it depends on."""
    spec = compiled_job["pipelineSpec"]
    tasks = spec["root"]["dag"]["tasks"]
    root = tmp_path_factory.mktemp("tasks")
    finished: dict[str, FinishedTask] = {}
    while len(finished) < len(tasks):
        ready = [
            name
            for name, task in tasks.items()
            if name not in finished and finished.keys() >= set(task.get("dependentTasks", ()))
        ]
        for name in ready:
            finished[name] = _run_container(name, compiled_job, finished, root / name)
    return finished


def _run_container(name: str, job: dict[str, Any], finished: Mapping[str, FinishedTask], folder: Path) -> FinishedTask:
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_run_executor

    spec = job["pipelineSpec"]
    task, component = spec["root"]["dag"]["tasks"][name], spec["components"][name]
    container = spec["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
    executor_input = _executor_input(task, component, job["runtimeConfig"].get("parameterValues", {}), finished, folder)
    arguments = [
        json_format.MessageToJson(executor_input) if argument == "{{$}}" else argument for argument in container["args"]
    ]
    assert container["command"][-1] == kubeflow_v2_run_executor.__name__

    kubeflow_v2_run_executor.main(kubeflow_v2_run_executor._parse_flags(arguments))

    output = json.loads(Path(executor_input.outputs.output_file).read_text())
    records = {key: value["artifacts"][0] for key, value in output["artifacts"].items()}
    return FinishedTask(
        uris={key: Path(record["uri"]) for key, record in records.items()},
        metadata={key: record.get("metadata", {}) for key, record in records.items()},
        parameters={
            key: json_format.MessageToDict(value) for key, value in executor_input.inputs.parameter_values.items()
        },
    )


def _executor_input(
    task: dict[str, Any],
    component: dict[str, Any],
    open_values: Mapping[str, Any],
    finished: Mapping[str, FinishedTask],
    folder: Path,
) -> pipeline_spec_pb2.ExecutorInput:
    parameters = {}
    for key, source in task["inputs"]["parameters"].items():
        open_name = source.get("componentInputParameter")
        parameters[key] = open_values[open_name] if open_name else source["runtimeValue"]["constant"]
    inputs = {}
    for key, source in task["inputs"].get("artifacts", {}).items():
        producer, output = (
            source["taskOutputArtifact"]["producerTask"],
            source["taskOutputArtifact"]["outputArtifactKey"],
        )
        inputs[key] = _artifact_list(
            f"{producer}-{output}",
            component["inputDefinitions"]["artifacts"][key]["artifactType"],
            finished[producer].uris[output],
            finished[producer].metadata[output],
        )
    outputs = {
        key: _artifact_list(f"{task['taskInfo']['name']}-{key}", declared["artifactType"], folder / key, {})
        for key, declared in component["outputDefinitions"]["artifacts"].items()
    }
    plain = {
        "inputs": {"parameterValues": parameters, "artifacts": inputs},
        "outputs": {"artifacts": outputs, "outputFile": str(folder / "executor_output.json")},
    }
    return json_format.ParseDict(plain, pipeline_spec_pb2.ExecutorInput())


def _artifact_list(name: str, artifact_type: Any, uri: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"artifacts": [{"name": name, "type": artifact_type, "uri": str(uri), "metadata": dict(metadata)}]}

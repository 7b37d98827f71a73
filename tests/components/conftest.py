"""The tiny project, compiled for Vertex AI, and every container command of it run here."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tfx_gnn_pipelines.emulator.launcher import TaskContainer

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

    config = quickstart(load_task("tiny_project.task:TASK"), root=str(tmp_path_factory.mktemp("root")))
    # Six examples in the test split do not show that a model is better than the baseline.
    evaluator = dataclasses.replace(config.graph_evaluator, baseline_confidence=0.0)
    return dataclasses.replace(config, graph_evaluator=evaluator)


@dataclasses.dataclass(frozen=True)
class FinishedTask:
    """What a container left behind.

    Attributes:
        uris: folder of each output.
        metadata: properties of each output, numbers as floats.
    """

    uris: Mapping[str, Path]
    metadata: Mapping[str, Mapping[str, Any]]


class RunDatabase:
    """Writes what TFX writes about runs."""

    def __init__(self, root: Path) -> None:
        from ml_metadata import metadata_store
        from ml_metadata.proto import metadata_store_pb2 as mlmd

        root.mkdir(parents=True, exist_ok=True)
        config = mlmd.ConnectionConfig()
        config.sqlite.filename_uri = str(root / "metadata.sqlite")
        config.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        self.root, self._mlmd, self._store = root, mlmd, metadata_store.MetadataStore(config)
        types = ("pipeline", "pipeline_run", "node")
        self._types = {name: self._store.put_context_type(mlmd.ContextType(name=name)) for name in types}
        self._execution_type = self._store.put_execution_type(mlmd.ExecutionType(name="step"))
        self._artifact_type = self._store.put_artifact_type(mlmd.ArtifactType(name="Examples"))
        self._context("pipeline", "my-pipeline")

    def step(
        self,
        run: str,
        component: str,
        state: str,
        *,
        inputs: Sequence[int] = (),
        outputs: Mapping[str, Path | str] | None = None,
        properties: Mapping[str, str | float] | None = None,
        pushed: Path | str = "",
        times: tuple[float, float] | None = None,
    ) -> list[int]:
        """Writes an execution: its state, artifacts, options, and when it began and ended; returns its outputs."""
        mlmd = self._mlmd
        execution = mlmd.Execution(
            type_id=self._execution_type, last_known_state=mlmd.Execution.State.Value(state.upper())
        )
        for name, value in (properties or {}).items():
            kind = {int: "int_value", float: "double_value"}.get(type(value), "string_value")
            setattr(execution.custom_properties[name], kind, value)
        events = [self._event(artifact, "examples", mlmd.Event.INPUT) for artifact in inputs]
        made = []
        for name, folder in (outputs or {}).items():
            artifact = mlmd.Artifact(type_id=self._artifact_type, uri=str(folder))
            artifact.custom_properties["pushed_destination"].string_value = str(pushed)
            made += self._store.put_artifacts([artifact])
            events.append(self._event(made[-1], name, mlmd.Event.OUTPUT))
        (number,) = self._store.put_executions([execution])
        for event in events:
            event.execution_id = number
        if events:
            self._store.put_events(events)
        contexts = (self._context("pipeline_run", run), self._context("node", f"my-pipeline.{component}"))
        self._store.put_attributions_and_associations(
            [], [mlmd.Association(execution_id=number, context_id=context) for context in contexts]
        )
        if times is not None:
            # The store knows no other time than now.
            with contextlib.closing(sqlite3.connect(self.root / "metadata.sqlite")) as database, database:
                database.execute(
                    "UPDATE Execution SET create_time_since_epoch = ?, last_update_time_since_epoch = ? WHERE id = ?",
                    (*(round(1000 * time) for time in times), number),
                )
        return made

    def _context(self, kind: str, name: str) -> int:
        found = self._store.get_context_by_type_and_name(kind, name)
        context = self._mlmd.Context(type_id=self._types[kind], name=name)
        return int(found.id if found else self._store.put_contexts([context])[0])

    def _event(self, artifact: int, name: str, kind: int) -> Any:
        event = self._mlmd.Event(artifact_id=artifact, type=kind)
        event.path.steps.add(key=name)
        return event


@pytest.fixture(scope="session")
def run_database() -> type[RunDatabase]:
    """The class `RunDatabase`."""
    return RunDatabase


@pytest.fixture(scope="session")
def remote_config(tiny_config: Any) -> Any:
    """Config of the tiny pipeline, with places that the containers of both services reach."""
    return dataclasses.replace(tiny_config, root="gs://bucket/root", push_destination="gs://bucket/serving")


@pytest.fixture(scope="session")
def compiled_job(remote_config: Any) -> dict[str, Any]:
    """The tiny pipeline as a PipelineJob for Vertex AI, with one more parameter left open."""
    from tfx_gnn_pipelines.compilation import compile_pipeline
    from tfx_gnn_pipelines.services import Service

    config = dataclasses.replace(remote_config, runtime_parameters=("GraphTrainer.training_seed",))
    return compile_pipeline(config, service=Service.VERTEX, image="registry/image:tag")


@pytest.fixture(scope="session")
def push_destination(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder to which the compiled pipeline pushes here."""
    return tmp_path_factory.mktemp("serving")


@pytest.fixture(scope="session")
def tasks_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the compiled pipeline, and of its run in the folder `run`."""
    return tmp_path_factory.mktemp("tasks")


@pytest.fixture(scope="session")
def finished_tasks(compiled_job: dict[str, Any], push_destination: Path, tasks_folder: Path) -> dict[str, FinishedTask]:
    """Runs the container command of every task, each after those that it depends on."""
    from tfx_gnn_pipelines.compilation import write_pipeline
    from tfx_gnn_pipelines.compiled_pipeline import read_compiled, run_parameters
    from tfx_gnn_pipelines.emulator.run import run_compiled
    from tfx_gnn_pipelines.services import Service

    write_pipeline(compiled_job, str(tasks_folder / "tiny.json"))
    pipeline = read_compiled(str(tasks_folder / "tiny.json"))
    results = run_compiled(
        pipeline,
        service=Service.VERTEX,
        folder=str(tasks_folder / "run"),
        parameters=run_parameters(pipeline, {"push_destination": str(push_destination), "num_epochs": "7"}),
        engine=ThisProcess(),
    )
    assert {result.task: result.reason for result in results if result.state != "done"} == {}
    return {
        result.task: FinishedTask(
            uris={name: Path(artifact["uri"]) for name, artifact in result.artifacts.items()},
            metadata={name: artifact["metadata"] for name, artifact in result.artifacts.items()},
        )
        for result in results
    }


class ThisProcess:
    """Runs the commands of tasks in this process, which has imported what takes most of a short task's time."""

    def root_inside(self, folder: Path) -> Path:
        return folder

    def remove_leftovers(self, pods: Path) -> None:
        pass

    def run(self, started: TaskContainer) -> int:
        from tfx_gnn_pipelines import container
        from tfx_gnn_pipelines.submission import custom_jobs

        python, flag, name = started.command[:3]
        assert (python, flag) == ("python", "-m")
        module = {one.__name__: one for one in (container, custom_jobs)}[name]
        before = dict(os.environ)
        os.environ.update(started.environment)
        os.environ[container.LAUNCHER_ROOT_VARIABLE] = str(started.folder)
        try:
            with started.log.open("a", encoding="utf-8") as file, contextlib.redirect_stdout(file):
                return module.main(started.command[3:])
        finally:
            os.environ.clear()
            os.environ.update(before)


@pytest.fixture
def this_process() -> ThisProcess:
    """Runs the commands of tasks in this process."""
    return ThisProcess()

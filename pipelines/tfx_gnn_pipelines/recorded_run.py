"""Reads what a pipeline's runs did, from ML Metadata or from the folders of their artifacts alone, without TFX."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ml_metadata import errors, metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from tfx_gnn.io.suggestions import did_you_mean_path
from tfx_gnn.reports.run_record import RecordedArtifact, RecordedRun, RecordedStep
from tfx_gnn_pipelines.recorded_trial import RUNS_FOLDER, read_trial, trial_folders

METADATA_FILE = "metadata.sqlite"
ARTIFACTS_FOLDER = "artifacts"
ERROR_PROPERTY = "tfx_gnn_error"
"""Custom property of a failed execution with the message of its error."""
PEAKS_PROPERTY = "tfx_gnn_peak_memory"
"""Custom property of a run with the peak memory of its executions: JSON, bytes by number of the execution."""
STOP_PROPERTY = "tfx_gnn_stop"
"""Custom property of a run with what the check found that stopped it: JSON, sentences."""

PIPELINE_CONTEXT = "pipeline"
RUN_CONTEXT = "pipeline_run"
NODE_CONTEXT = "node"

_RESULT_PROPERTY = "__execution_result__"
_RUN_SUFFIX = re.compile(r"(?P<root>.+)@(?P<number>[1-9][0-9]*)")
_VERSION_FOLDER = re.compile(r"[0-9]+")


def newest_root(folder: str = RUNS_FOLDER) -> str:
    """Finds the pipeline root that changed last among a folder's subfolders.

    Raises:
        FileNotFoundError: if there is none.
    """
    roots = []
    if os.path.isdir(folder):
        for entry in os.scandir(folder):
            path = os.path.join(entry.path, METADATA_FILE)
            trials = os.path.join(entry.path, RUNS_FOLDER) if trial_folders(entry.path) else ""
            artifacts = os.path.join(entry.path, ARTIFACTS_FOLDER)
            found = path if os.path.isfile(path) else trials or artifacts
            if os.path.exists(found):
                roots.append((os.stat(found).st_mtime, entry.path))
    if not roots:
        raise FileNotFoundError(
            f"`RUN` must be given where {folder!r} holds no run; got none. Name the root of a pipeline, or start a run "
            "with `tfx-gnn run`."
        )
    return max(roots)[1]


def count_runs(root: str) -> int:
    """Counts the runs in the database of a root; 0 without one, or if it cannot be read."""
    try:
        return _Database(root).num_runs if os.path.isfile(os.path.join(root, METADATA_FILE)) else 0
    except ValueError:
        # The run itself will complain.
        return 0


def read_runs(root: str) -> list[RecordedRun]:
    """Reads all runs of a root, the oldest first; empty if none has started.

    Raises:
        ValueError: if its database or a file of a trial run cannot be read.
    """
    if os.path.isfile(os.path.join(root, METADATA_FILE)):
        return _Database(root).read_all()
    trials = trial_folders(root)
    if trials:
        return [read_trial(root, number) for number in range(1, len(trials) + 1)]
    return [_read_folders(root)]


def read_run(place: str) -> RecordedRun:
    """Reads one run.

    Args:
        place: root of a pipeline or of its trial runs, for the latest run; "ROOT@N" for its run N; a project's folder
            for the newest root below its `runs`; or the folder of a pushed version for the run that pushed it.

    Raises:
        FileNotFoundError: if there is no run.
        ValueError: if the root has no such run, or its database cannot be read.
    """
    root, number = place, 0
    found = _RUN_SUFFIX.fullmatch(place)
    if found and not os.path.exists(place):
        root, number = found["root"], int(found["number"])
    version = ""
    if not is_root(root) and _VERSION_FOLDER.fullmatch(os.path.basename(os.path.abspath(root))):
        version, root = os.path.abspath(root), _root_above(root)
    if not os.path.isdir(root):
        advice = did_you_mean_path(root, otherwise="Name a pipeline's root.")
        raise FileNotFoundError(f"`RUN` must be a folder; got {root!r}, which does not exist. {advice}")
    if os.path.isfile(os.path.join(root, METADATA_FILE)):
        return _Database(root).read(number, version)
    if trial_folders(root):
        return read_trial(root, number, version)
    if not os.path.isdir(os.path.join(root, ARTIFACTS_FOLDER)):
        if os.path.isdir(os.path.join(root, RUNS_FOLDER)):
            return read_run(newest_root(os.path.join(root, RUNS_FOLDER)))
        inside = sorted(entry.path for entry in os.scandir(root) if is_root(entry.path))
        remedy = f"it holds {', '.join(inside[:5])}" if inside else "as in runs/debian_sections"
        raise FileNotFoundError(
            f"`RUN` must hold {METADATA_FILE}, trial runs or a folder {ARTIFACTS_FOLDER}; got {root!r} without. Name "
            f"the root of a pipeline: {remedy}."
        )
    return _read_folders(root)


def component_id(store: metadata_store.MetadataStore, execution: mlmd.Execution) -> str:
    """Component id of an execution: TFX names its node context `<pipeline>.<component>`."""
    for context in store.get_contexts_by_execution(execution.id):
        if context.type == NODE_CONTEXT:
            return str(context.name).rpartition(".")[2]
    raise LookupError(f"Execution {execution.id} has no context of type {NODE_CONTEXT!r}; TFX writes one.")


def plain_value(value: mlmd.Value) -> str | int | float:
    """Returns a value of ML Metadata as a string, an int or a float."""
    kind = value.WhichOneof("value")
    if kind not in ("string_value", "int_value", "double_value"):
        return str(value)
    plain: str | int | float = getattr(value, kind)
    return plain


class _Database:
    """Runs of a root in its ML Metadata."""

    def __init__(self, root: str) -> None:
        self._root = root
        config = mlmd.ConnectionConfig()
        config.sqlite.filename_uri = os.path.join(root, METADATA_FILE)
        config.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READONLY
        try:
            self._store = metadata_store.MetadataStore(config)
            self._runs = sorted(self._store.get_contexts_by_type(RUN_CONTEXT), key=lambda context: context.id)
            pipelines = self._store.get_contexts_by_type(PIPELINE_CONTEXT)
        # A file that is no database at all gives a RuntimeError.
        except (errors.StatusError, RuntimeError) as error:
            raise ValueError(
                f"`RUN` must hold a database of ML Metadata; got {config.sqlite.filename_uri!r}, which cannot be read: "
                f"{' '.join(str(error).split())[:200]}. Move it away to read the folders alone."
            ) from error
        self._pipeline = pipelines[0].name if pipelines else ""

    def read(self, number: int, version: str) -> RecordedRun:
        if not self._runs:
            raise FileNotFoundError(f"`RUN` must hold a run; got {self._root!r}, where none has started. Start one.")
        if number > len(self._runs):
            raise ValueError(f"`RUN` must name one of the {len(self._runs)} runs of {self._root}; got run {number}.")
        if version:
            number = self._run_of_version(version)
        return self._run(number or len(self._runs))

    @property
    def num_runs(self) -> int:
        return len(self._runs)

    def read_all(self) -> list[RecordedRun]:
        return [self._run(number) for number in range(1, len(self._runs) + 1)]

    def _run_of_version(self, version: str) -> int:
        for number in range(len(self._runs), 0, -1):
            for step in self._run(number).steps:
                if step.state == "complete" and any(
                    os.path.basename(artifact.properties.get("pushed_destination", "")) == os.path.basename(version)
                    for artifact in step.outputs
                ):
                    return number
        raise ValueError(f"`RUN` must be a version that a run of {self._root} pushed; got {version!r}.")

    def _run(self, number: int) -> RecordedRun:
        context = self._runs[number - 1]
        executions = sorted(self._store.get_executions_by_context(context.id), key=lambda execution: execution.id)
        peaks: dict[str, int] = json.loads(context.custom_properties[PEAKS_PROPERTY].string_value or "{}")
        return RecordedRun(
            root=self._root,
            pipeline=self._pipeline,
            name=context.name,
            number=number,
            num_runs=len(self._runs),
            steps=tuple(self._step(execution, peaks.get(str(execution.id), 0)) for execution in executions),
            stop=tuple(json.loads(context.custom_properties[STOP_PROPERTY].string_value or "[]")),
        )

    def _step(self, execution: mlmd.Execution, peak_bytes: int) -> RecordedStep:
        events = self._store.get_events_by_execution_ids([execution.id])
        artifacts = {
            artifact.id: artifact
            for artifact in self._store.get_artifacts_by_id([event.artifact_id for event in events])
        }
        made_by: dict[int, int] = {}
        if artifacts:
            for event in self._store.get_events_by_artifact_ids(list(artifacts)):
                if event.type == mlmd.Event.OUTPUT:
                    made_by.setdefault(event.artifact_id, event.execution_id)
        component = component_id(self._store, execution)
        inputs: list[RecordedArtifact] = []
        outputs: list[RecordedArtifact] = []
        for event in events:
            artifact = artifacts[event.artifact_id]
            name = event.path.steps[0].key if event.path.steps else artifact.type
            record = RecordedArtifact(
                name=name,
                number=artifact.id,
                kind=artifact.type,
                folder=_present_folder(self._root, artifact.uri),
                maker=made_by.get(artifact.id, 0),
                properties={key: str(plain_value(value)) for key, value in artifact.custom_properties.items()},
            )
            (inputs if event.type == mlmd.Event.INPUT else outputs).append(record)
        options = {
            key: parsed_value(plain_value(value))
            for key, value in sorted(execution.custom_properties.items())
            if key not in (ERROR_PROPERTY, _RESULT_PROPERTY)
        }
        state = mlmd.Execution.State.Name(execution.last_known_state).lower()
        return RecordedStep(
            component=component,
            execution=execution.id,
            state=state,
            started=execution.create_time_since_epoch / 1000,
            seconds=(execution.last_update_time_since_epoch - execution.create_time_since_epoch) / 1000,
            options=options,
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            error=_error_of(execution),
            peak_bytes=peak_bytes,
        )


def _error_of(execution: mlmd.Execution) -> str:
    if ERROR_PROPERTY in execution.custom_properties:
        return str(execution.custom_properties[ERROR_PROPERTY].string_value)
    result = execution.custom_properties.get(_RESULT_PROPERTY)
    parsed = parsed_value(result.string_value) if result is not None else {}
    return str(parsed.get("resultMessage", "")) if isinstance(parsed, dict) else ""


def parsed_value(value: str | float) -> Any:
    """Parses an option that was written as JSON; other text stays as it is."""
    if isinstance(value, str) and value[:1] in ("{", "[", '"', "n", "t", "f"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _present_folder(root: str, uri: str) -> str:
    """Finds an artifact's folder after its root was moved or copied; a URI of a store stays as it is."""
    parts = uri.rstrip("/").split("/")
    if len(parts) >= 4 and parts[-4] == ARTIFACTS_FOLDER:
        inside = os.path.join(root, *parts[-4:])
        if os.path.isdir(inside):
            return inside
    return uri


def is_root(folder: str) -> bool:
    """Whether a folder holds runs of a pipeline."""
    names = (METADATA_FILE, ARTIFACTS_FOLDER)
    return any(os.path.exists(os.path.join(folder, name)) for name in names) or bool(trial_folders(folder))


def _root_above(folder: str) -> str:
    path = os.path.abspath(folder)
    for _ in range(3):
        path = os.path.dirname(path)
        if is_root(path):
            return path
    return folder


def _read_folders(root: str) -> RecordedRun:
    """Reads a root without a database: of each output, the folder with the highest number."""
    steps = []
    for component, outputs in _listed(os.path.join(root, ARTIFACTS_FOLDER)):
        found = []
        number = 0
        for output, folders in outputs:
            numbers = [int(name) for name in folders if name.isdecimal()]
            if numbers:
                number = max(number, *numbers)
                folder = os.path.join(root, ARTIFACTS_FOLDER, component, output, str(max(numbers)))
                found.append(
                    RecordedArtifact(name=output, number=0, kind="", folder=folder, maker=max(numbers), properties={})
                )
        if found:
            steps.append(_unknown_step(component, number, found))
    if not steps:
        raise FileNotFoundError(f"`RUN` must hold artifacts; got {root!r} without one. Start a run.")
    steps.sort(key=lambda step: step.execution)
    return RecordedRun(root=root, pipeline="", name="", number=1, num_runs=1, steps=tuple(steps))


def _unknown_step(component: str, execution: int, outputs: Sequence[RecordedArtifact]) -> RecordedStep:
    return RecordedStep(
        component=component,
        execution=execution,
        state="unknown",
        started=0.0,
        seconds=0.0,
        options={},
        inputs=(),
        outputs=tuple(outputs),
        error="",
    )


def _listed(folder: str) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    for component in sorted(os.listdir(folder)):
        path = os.path.join(folder, component)
        if os.path.isdir(path) and not component.startswith("."):
            outputs = [
                (output, os.listdir(os.path.join(path, output)))
                for output in sorted(os.listdir(path))
                if os.path.isdir(os.path.join(path, output)) and not output.startswith(".")
            ]
            yield component, outputs

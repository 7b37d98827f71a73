"""Runs of a pipeline as recorded in ML Metadata."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
from collections.abc import Callable, Mapping, Sequence

from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from tfx_gnn.components.graph_pusher.stage import forget_push
from tfx_gnn.io.leftovers import remove_output
from tfx_gnn_pipelines.recorded_run import (
    ERROR_PROPERTY,
    PEAKS_PROPERTY,
    PIPELINE_CONTEXT,
    RUN_CONTEXT,
    STOP_PROPERTY,
    component_id,
    plain_value,
)

_KILLED = "Its process ended without an error: it was killed, by a person or for its memory, or the machine stopped."
_MAX_ERROR = 4000
"""Characters of an error's message that are kept."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArtifactRecord:
    """One output of a component.

    Attributes:
        uri: its folder.
        properties: its custom properties, each a string, an int or a float.
    """

    uri: str
    properties: Mapping[str, str | int | float]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComponentRun:
    """What one component did in one run.

    Attributes:
        component: its id.
        state: "complete", "cached", "failed" or another state of ML Metadata, in
            lower case.
        seconds: from registration to the last change of state.
        outputs: artifacts by output name; for a cached run, the reused ones.
    """

    component: str
    state: str
    seconds: float
    outputs: Mapping[str, ArtifactRecord]


def read_latest_run(metadata_path: str) -> list[ComponentRun]:
    """Reads what the components of the latest run did, in the order they started; empty if there was no run."""
    store = _open(metadata_path)
    if store is None:
        return []
    runs = store.get_contexts_by_type(RUN_CONTEXT)
    if not runs:
        return []
    executions = store.get_executions_by_context(max(run.id for run in runs))
    return [_component_run(store, execution) for execution in sorted(executions, key=lambda execution: execution.id)]


def close_abandoned_executions(metadata_path: str, artifacts_dir: str, *, reason: str = "") -> list[str]:
    """Marks executions of dead processes as failed and removes their incomplete outputs.

    With a `reason`, they are those of this process, which was told to stop: they are canceled, and the reason is
    written down.

    Returns the ids of their components. Only the holder of the root's lock may call this, because the executions of a
    live run look the same.
    """
    store = _open(metadata_path)
    if store is None:
        return []
    abandoned = [
        execution
        for execution in store.get_executions()
        if execution.last_known_state in (mlmd.Execution.NEW, mlmd.Execution.RUNNING)
    ]
    components = []
    for execution in abandoned:
        component = component_id(store, execution)
        _remove_begun_outputs(os.path.join(artifacts_dir, component), execution.id)
        components.append(component)
        execution.last_known_state = mlmd.Execution.CANCELED if reason else mlmd.Execution.FAILED
        execution.custom_properties[ERROR_PROPERTY].string_value = reason[:_MAX_ERROR] or _KILLED
    if abandoned:
        store.put_executions(abandoned)
    return components


def record_error(metadata_path: str, error: BaseException, *, since: float) -> None:
    """Writes down why a run failed, at its executions that failed, for those who look at the run later.

    `since` is the time at which the run began, in seconds since 1970: executions that failed earlier are not its own.
    """
    store = _open(metadata_path)
    runs = store.get_contexts_by_type(RUN_CONTEXT) if store is not None else []
    if store is None or not runs:
        return
    failed = [
        execution
        for execution in store.get_executions_by_context(max(run.id for run in runs))
        if execution.last_known_state == mlmd.Execution.FAILED
        and execution.last_update_time_since_epoch >= 1000 * since
        and ERROR_PROPERTY not in execution.custom_properties
    ]
    for execution in failed:
        text = f"{type(error).__name__}: {error}"
        execution.custom_properties[ERROR_PROPERTY].string_value = text[:_MAX_ERROR]
    if failed:
        store.put_executions(failed)


def record_stop(metadata_path: str, found: Sequence[str], *, pipeline: str, since: float) -> None:
    """Writes down what a check found that stopped a run, or kept it from starting; then it is a run without steps.

    Args:
        metadata_path: the database, which is made if there is none.
        found: sentences, the most severe first.
        pipeline: name of the pipeline.
        since: the time at which the run was to begin, in seconds since 1970: runs that began earlier are others.
    """
    store = _open(metadata_path, makes_it=True)
    assert store is not None
    types = {
        name: store.put_context_type(mlmd.ContextType(name=name), can_add_fields=True, can_omit_fields=True)
        for name in (PIPELINE_CONTEXT, RUN_CONTEXT)
    }
    runs = [run for run in store.get_contexts_by_type(RUN_CONTEXT) if run.create_time_since_epoch >= 1000 * since]
    if runs:
        run = max(runs, key=lambda context: context.id)
    else:
        # As TFX names them.
        name = dt.datetime.fromtimestamp(since).isoformat()  # noqa: DTZ006
        run = mlmd.Context(type_id=types[RUN_CONTEXT], name=name)
        if not store.get_contexts_by_type(PIPELINE_CONTEXT):
            store.put_contexts([mlmd.Context(type_id=types[PIPELINE_CONTEXT], name=pipeline)])
    run.custom_properties[STOP_PROPERTY].string_value = json.dumps([text[:_MAX_ERROR] for text in found])
    store.put_contexts([run])


def record_peak_memory(metadata_path: str, peak_between: Callable[[float, float], int]) -> None:
    """Writes down how much memory each component of the latest run took, for those who plan the next one.

    Args:
        metadata_path: the database.
        peak_between: returns the largest resident memory in bytes between two times, in seconds since 1970.
    """
    store = _open(metadata_path)
    runs = store.get_contexts_by_type(RUN_CONTEXT) if store is not None else []
    if store is None or not runs:
        return
    run = max(runs, key=lambda context: context.id)
    peaks = {
        execution.id: peak_between(
            execution.create_time_since_epoch / 1000, execution.last_update_time_since_epoch / 1000
        )
        for execution in store.get_executions_by_context(run.id)
        if execution.last_known_state == mlmd.Execution.COMPLETE
    }
    # At the run, because a change of an execution would change the time of its end.
    run.custom_properties[PEAKS_PROPERTY].string_value = json.dumps(peaks)
    store.put_contexts([run])


def _open(metadata_path: str, *, makes_it: bool = False) -> metadata_store.MetadataStore | None:
    modes = mlmd.SqliteMetadataSourceConfig
    if not makes_it and not os.path.exists(metadata_path):
        return None
    config = mlmd.ConnectionConfig()
    config.sqlite.filename_uri = metadata_path
    config.sqlite.connection_mode = modes.READWRITE_OPENCREATE if makes_it else modes.READWRITE
    return metadata_store.MetadataStore(config)


def _component_run(store: metadata_store.MetadataStore, execution: mlmd.Execution) -> ComponentRun:
    outputs: dict[str, ArtifactRecord] = {}
    events = [event for event in store.get_events_by_execution_ids([execution.id]) if event.type == mlmd.Event.OUTPUT]
    artifacts = {
        artifact.id: artifact for artifact in store.get_artifacts_by_id([event.artifact_id for event in events])
    }
    for event in events:
        artifact = artifacts[event.artifact_id]
        outputs[event.path.steps[0].key] = ArtifactRecord(
            uri=artifact.uri,
            properties={name: plain_value(value) for name, value in artifact.custom_properties.items()},
        )
    return ComponentRun(
        component=component_id(store, execution),
        state=mlmd.Execution.State.Name(execution.last_known_state).lower(),
        seconds=(execution.last_update_time_since_epoch - execution.create_time_since_epoch) / 1000,
        outputs=outputs,
    )


def _remove_begun_outputs(component_dir: str, execution_id: int) -> None:
    if not os.path.isdir(component_dir):
        return
    for output in os.scandir(component_dir):
        if not output.is_dir() or output.name.startswith("."):
            continue
        begun = os.path.join(output.path, str(execution_id))
        forget_push(begun)
        remove_output(begun)

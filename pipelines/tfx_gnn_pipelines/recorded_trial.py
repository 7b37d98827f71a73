"""Trial runs of compiled pipelines, which have no database: `run.json` of each says what became of its tasks."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.io.json_shapes import Shape, read_shaped_json
from tfx_gnn.reports.run_record import RecordedArtifact, RecordedRun, RecordedStep
from tfx_gnn_pipelines.services import LAUNCHER_FOLDERS

RUNS_FOLDER = "runs"
"""Folder of a root with a folder for each trial run, named after its start."""
RUN_ID_FORMAT = "%Y%m%dT%H%M%S%f"
RUN_FILE = "run.json"
STORE_FOLDER = "store"
"""Folder of a root that stands for object stores."""

_SHAPE: dict[str, Shape] = {
    "pipeline": str,
    "tasks": [
        {
            "task": str,
            "state": str,
            "seconds": float,
            "attempts": int,
            "reason": str,
            "log": str,
            "artifacts": {"*": {"name": str, "uri": str, "type?": {"*": str}, "metadata?": dict}},
        }
    ],
}
_STATES = {"done": "complete", "waiting": "running", "not run": "did not start"}
_LOGS = "executor-logs"
_TYPE = re.compile(r"^title: *(\S+)", re.MULTILINE)


def trial_folders(root: str) -> list[str]:
    """Lists the folders of a root's trial runs, oldest first; empty if it has none."""
    folder = os.path.join(root, RUNS_FOLDER)
    if not os.path.isdir(folder):
        return []
    return sorted(entry.path for entry in os.scandir(folder) if os.path.isfile(os.path.join(entry.path, RUN_FILE)))


def read_trial(root: str, number: int, version: str = "") -> RecordedRun:
    """Reads one trial run.

    Args:
        root: folder of the trial runs, which has at least one.
        number: its position, from 1; 0 for the latest.
        version: folder of a pushed version, for the latest run that pushed it; empty for the run of that number.

    Raises:
        ValueError: if there is no such run, `run.json` is damaged, or the artifacts are on another machine's store.
    """
    folders = trial_folders(root)
    if number > len(folders):
        raise ValueError(f"`RUN` must name one of the {len(folders)} trial runs of {root}; got run {number}.")
    if not version:
        return _read(root, folders, number or len(folders))
    for position in range(len(folders), 0, -1):
        run = _read(root, folders, position)
        places = (artifact.properties.get("pushed_destination") for step in run.steps for artifact in step.outputs)
        if version in places:
            return run
    raise ValueError(f"`RUN` must be a version that a trial run of {root} pushed; got {version!r}.")


def _read(root: str, folders: Sequence[str], number: int) -> RecordedRun:
    folder = folders[number - 1]
    state = read_shaped_json(os.path.join(folder, RUN_FILE), _SHAPE)
    started = dt.datetime.strptime(os.path.basename(folder), RUN_ID_FORMAT).replace(tzinfo=dt.timezone.utc)
    steps = []
    time = started.timestamp()
    for task in state["tasks"]:
        steps.append(_step(root, task, time))
        time += task["seconds"]
    return RecordedRun(
        root=root,
        pipeline=state["pipeline"],
        name=started.replace(tzinfo=None).isoformat(),
        number=number,
        num_runs=len(folders),
        steps=tuple(steps),
    )


def _step(root: str, task: Mapping[str, Any], started: float) -> RecordedStep:
    """Reads a task; tasks of a trial run one after the other."""
    has_run = task["attempts"] > 0 or task["state"] == "running"
    return RecordedStep(
        component=task["task"],
        execution=0,
        state=_STATES.get(task["state"], task["state"]),
        started=started if has_run else 0.0,
        seconds=task["seconds"],
        options={},
        inputs=(),
        outputs=tuple(
            RecordedArtifact(
                name=name,
                number=int(artifact["name"]),
                kind=_kind(artifact.get("type", {})),
                folder=_folder(root, artifact["uri"]),
                maker=0,
                properties={key: str(value) for key, value in artifact.get("metadata", {}).items()},
            )
            for name, artifact in task["artifacts"].items()
            if name != _LOGS
        ),
        error=f"{task['reason']}; see {task['log']}" if task["state"] == "failed" else "",
    )


def _kind(schema: Mapping[str, str]) -> str:
    found = _TYPE.search(schema.get("instanceSchema", ""))
    return found[1] if found else schema.get("schemaTitle", "")


def _folder(root: str, uri: str) -> str:
    """Finds an artifact in the folder that stands for its store; other URIs stay as they are."""
    for scheme, folder in LAUNCHER_FOLDERS.items():
        if uri.startswith(scheme):
            inside = os.path.join(root, STORE_FOLDER, folder, uri.removeprefix(scheme))
            if os.path.isdir(inside):
                return inside
            if scheme != "gs://":
                raise ValueError(
                    f"`RUN` must be a trial whose artifacts are in its folder {STORE_FOLDER!r}; got {root!r} with "
                    f"{uri}. Read the logs in {os.path.join(root, RUNS_FOLDER)}, or run the trial without --store."
                )
    return uri

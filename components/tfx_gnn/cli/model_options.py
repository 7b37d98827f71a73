"""Parses the options of several verbs that describe the task and the model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfx_gnn.models.tasks import Task


def read_task(kind: str, text: str, **given: str) -> Task:
    """Makes a task of `--task` and its fields, or of `--task-json`; "" is what was not given."""
    from tfx_gnn.io import options_json
    from tfx_gnn.models.tasks import TASK_KINDS, Task

    # Which class is built is for the JSON to say; mypy wants one that could be made as it stands.
    any_task: Any = Task
    fields = {name: value for name, value in given.items() if value}
    task: Task
    if text:
        if fields:
            raise ValueError(
                f"`--task-json` must stand alone; got {sorted(fields)} beside it. Put all fields of the task into it."
            )
        task = options_json.from_json(text, any_task, name="--task-json")
        return task
    if kind not in TASK_KINDS or kind == "multi_task":
        raise ValueError(
            f"`--task` must be one of {sorted(set(TASK_KINDS) - {'multi_task'})}; got {kind!r}. Several tasks at once "
            "are described by --task-json."
        )
    task = options_json.from_json(json.dumps({"kind": kind, **fields}), any_task, name="--task")
    return task


def read_hyperparameters(text: str) -> dict[str, Any]:
    """Reads `--hyperparameters`, as `read_object` does."""
    return read_object("--hyperparameters", text)


def read_object(option: str, text: str) -> dict[str, Any]:
    """Reads an option whose text is a JSON object."""
    from tfx_gnn.io.text_files import parse_json

    try:
        values = parse_json(text)
    except ValueError as error:
        raise ValueError(f"`{option}` must be JSON; got {text!r}: {error}. Mend it.") from error
    if not isinstance(values, dict):
        raise ValueError(f"`{option}` must be a JSON object; got {text!r}. Give values by name.")
    return values

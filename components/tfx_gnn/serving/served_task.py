"""A file beside an exported model that says what its answers are about."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

import tensorflow as tf

from tfx_gnn.io.text_files import read_json
from tfx_gnn.serving.model_interface import SERVED_TASK_FILE

_FORMAT_VERSION = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedTask:
    """What the answers of a model are about.

    Attributes:
        task: the task as JSON, as `GraphTrainerOptions.task` is written.
        label_keys: features of tf.Examples that requests need not have.
        roots: edge sets `_readout/<root>` that tell what each answer is about: "seed", or "source" and
            "target"; empty if answers are about whole graphs.
        tensor_inputs: keys of `tfx_gnn.graph.codec.flat_tensors` by the names of the inputs of signature `tensors`;
            empty if there is none.
    """

    task: dict[str, Any]
    label_keys: tuple[str, ...]
    roots: tuple[str, ...]
    tensor_inputs: dict[str, str]


def write_served_task(served: ServedTask, saved_model_dir: str) -> None:
    """Writes the file beside `saved_model.pb`."""
    path = os.path.join(saved_model_dir, SERVED_TASK_FILE)
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps({"format_version": _FORMAT_VERSION, **dataclasses.asdict(served)}, indent=2) + "\n")


def read_served_task(saved_model_dir: str) -> ServedTask | None:
    """Reads the file; None if the model was exported by something else, or by an earlier version."""
    path = os.path.join(saved_model_dir, SERVED_TASK_FILE)
    if not tf.io.gfile.exists(path):
        return None
    content = read_json(path)
    version = content.get("format_version") if isinstance(content, dict) else None
    if version != _FORMAT_VERSION:
        raise ValueError(
            f"`saved_model_dir` must hold {SERVED_TASK_FILE} of version {_FORMAT_VERSION}; got "
            f"{version!r} in {saved_model_dir!r}. Use the library's version that exported it."
        )
    missing = [field.name for field in dataclasses.fields(ServedTask) if field.name not in content]
    if missing:
        raise ValueError(f"`{path}` must have the fields of a served task; got none for {missing}. Export again.")
    return ServedTask(
        task=content["task"],
        label_keys=tuple(content["label_keys"]),
        roots=tuple(content["roots"]),
        tensor_inputs=content["tensor_inputs"],
    )

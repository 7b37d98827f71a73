"""The entrypoint of every container of a compiled pipeline: runs one executor on what the service sends.

Kubeflow Pipelines and Vertex AI start it with arguments that `compilation` wrote. It differs from TFX's own entrypoint
where the services differ from what that expects:

- The types of artifacts and parameters come from the contract that was compiled, because Kubeflow sends inputs without
  a type, and every number as a float.
- Inputs and outputs that the component does not declare, such as Kubeflow's `executor-logs`, are left out.
- On Kubeflow, the launcher has copied inputs into folders of the container before, and copies outputs from there to
  the object store afterwards; an executor works on these folders. On Vertex AI, TensorFlow reads and writes `gs://`.
- Of several replicas of a custom job, the chief alone writes the answer.
- It imports the executor alone, logs to the standard output, and ends a failure with one line: Kubeflow shows the last
  lines of a log, and Cloud Logging takes everything on the standard error for errors.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import dataclasses
import importlib
import json
import math
import os
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.io.progress import show_progress
from tfx_gnn.io.quiet_libraries import quiet_start
from tfx_gnn_pipelines.services import LAUNCHER_FOLDERS

LAUNCHER_ROOT_VARIABLE = "TFX_GNN_LAUNCHER_ROOT"
"""Environment variable for trials outside of a container: the folder that stands for the container's root."""

_PACKED = "packed:"
"""Begins a message that `pack_message` wrote."""
_KINDS = {"int": int, "float": float, "str": str}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contract:
    """What a component declares.

    Attributes:
        inputs: import path of the artifact type, by input.
        outputs: import path of the artifact type, by output.
        parameters: "int", "float" or "str", by parameter.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    parameters: Mapping[str, str]

    def to_json(self) -> str:
        """Writes the contract as an argument of this entrypoint."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Contract:
        """Reads what `to_json` wrote."""
        return cls(**json.loads(text))


class ContainerError(ValueError):
    """What the service sent does not fit what was compiled."""


def container_arguments(
    executor: str, contract: Contract, *, uses_launcher: bool, beam_args: Sequence[str]
) -> list[str]:
    """Returns the arguments of this entrypoint; the service replaces `{{$}}` by its message to the executor."""
    storage = "launcher" if uses_launcher else "direct"
    return [
        *("--executor", executor),
        *("--contract", contract.to_json()),
        *("--storage", storage),
        *("--executor-input", "{{$}}"),
        *(("--", *beam_args) if beam_args else ()),
    ]


def pack_message(text: str) -> str:
    """Writes a message as an argument in which no service finds anything to replace, such as $(NAME) or braces."""
    return _PACKED + base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def main(arguments: Sequence[str]) -> int:
    """Runs the executor that the arguments name; returns the exit code of the container."""
    given = _parse(arguments)
    started = time.monotonic()
    try:
        with _logs_on_stdout(), show_progress(PlainConsole(force_interactive=False)):
            run_executor(
                executor=given.executor,
                contract=Contract.from_json(given.contract),
                executor_input=read_executor_input(given.executor_input),
                uses_launcher=given.storage == "launcher",
                beam_args=given.beam_args,
            )
    except BaseException as error:  # noqa: BLE001 - whatever it is, the log ends with it
        _say("".join(traceback.format_exception(error)).rstrip())
        # Last, because it is what a person is shown first.
        _say(f"{_component(given.executor)} failed: {type(error).__name__}: {' '.join(str(error).split())}")
        # An executor that exits has written no answer, whatever code it chose.
        return error.code if isinstance(error, SystemExit) and isinstance(error.code, int) and error.code else 1
    _say(f"{_component(given.executor)} finished in {time.monotonic() - started:.1f} s")
    return 0


def run_executor(
    *,
    executor: str,
    contract: Contract,
    executor_input: Mapping[str, Any],
    uses_launcher: bool,
    beam_args: Sequence[str],
) -> None:
    """Runs an executor on an `ExecutorInput` message, and writes the `ExecutorOutput` that the message asks for.

    Args:
        executor: import path of the executor's class.
        contract: what the component declares.
        executor_input: the message as JSON, as the service sends it.
        uses_launcher: whether artifacts are in the folders of Kubeflow's launcher.
        beam_args: arguments of the Beam pipelines that the executor starts.

    Raises:
        ContainerError: if an input, an output or a parameter is missing, or has another type than was compiled.
    """
    inputs = executor_input.get("inputs", {})
    outputs = executor_input.get("outputs", {})
    storage = _Storage(uses_launcher=uses_launcher)
    input_dict = _artifacts(inputs.get("artifacts", {}), contract.inputs, storage, "input")
    output_dict = _artifacts(outputs.get("artifacts", {}), contract.outputs, storage, "output")
    exec_properties = _parameters(inputs.get("parameterValues", {}), contract.parameters)
    output_file = outputs.get("outputFile", "")
    if not output_file:
        raise ContainerError(
            "`executor-input` must name the `outputFile` of its outputs; got none. Start this entrypoint by a service, "
            "or by --runner spec."
        )
    from tfx_gnn.distribution.cluster import cluster_role

    role = cluster_role()
    who = _component(executor) if role.is_alone else f"{_component(executor)} as {role.task_type} {role.task_id}"
    _say(f"{who} reads {_places(input_dict)} and writes {_places(output_dict)}")
    # Several replicas find out together what an earlier attempt left, such as a training that has ended. They start at
    # any time, so if one of them cleared the outputs, another one might have seen them before.
    if role.is_alone:
        for artifacts in output_dict.values():
            _clear(artifacts[0].uri)

    with tempfile.TemporaryDirectory() as temporary:
        executor_class = _import(executor)
        context: Any = {"tmp_dir": temporary, "unique_id": os.path.basename(os.path.dirname(output_file))}
        # By name, because importing that class imports Beam, which takes longer than some tasks.
        is_beam = any(base.__name__ == "BaseBeamExecutor" for base in executor_class.__mro__)
        name = "beam_pipeline_args" if is_beam else "extra_flags"
        made = executor_class(executor_class.Context(**{name: list(beam_args)}, **context))
        made.Do(input_dict, output_dict, exec_properties)

    if role.is_chief:
        _write_output(output_file, {name: _record(artifacts[0], storage) for name, artifacts in output_dict.items()})


def read_executor_input(text: str) -> dict[str, Any]:
    """Reads the message that a service gives to a container: an `ExecutorInput` as JSON.

    Raises:
        ContainerError: if it is no JSON object.
    """
    try:
        if text.startswith(_PACKED):
            text = zlib.decompress(base64.urlsafe_b64decode(text.removeprefix(_PACKED))).decode()
        message = json.loads(text)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise ContainerError(
            f"`executor-input` must be JSON; got {text[:80]!r}: {error}. Start this entrypoint by a service, or by "
            "--runner spec."
        ) from error
    if not isinstance(message, dict):
        raise ContainerError(
            f"`executor-input` must be a JSON object; got {text[:80]!r}. Start this entrypoint by a service, or by "
            "--runner spec."
        )
    return message


class _Storage:
    """Maps the URIs of a service to places that TensorFlow reads and writes, and back."""

    def __init__(self, *, uses_launcher: bool) -> None:
        root = os.environ.get(LAUNCHER_ROOT_VARIABLE, "/")
        folders = LAUNCHER_FOLDERS if uses_launcher else {}
        self._folders = {scheme: os.path.join(root, folder, "") for scheme, folder in folders.items()}

    def place(self, uri: str) -> str:
        for scheme, folder in self._folders.items():
            if uri.startswith(scheme):
                return folder + uri.removeprefix(scheme)
        return uri

    def uri(self, place: str) -> str:
        for scheme, folder in self._folders.items():
            if place.startswith(folder):
                return scheme + place.removeprefix(folder)
        return place


def _artifacts(
    sent: Mapping[str, Any], declared: Mapping[str, str], storage: _Storage, kind: str
) -> dict[str, list[Any]]:
    """Makes artifacts of the declared types from the messages of a service."""
    made = {}
    for name, type_path in declared.items():
        messages = sent.get(name, {}).get("artifacts", [])
        if not messages:
            raise ContainerError(
                f"`executor-input` must have an artifact for the {kind} {name!r}; got {sorted(sent)}. A task before "
                "this one was skipped, or the pipeline was compiled by another version: compile it again."
            )
        made[name] = [_artifact(_import(type_path), message, storage) for message in messages]
    return made


def _artifact(artifact_type: Any, message: Mapping[str, Any], storage: _Storage) -> Any:
    artifact = artifact_type()
    artifact.uri = storage.place(message["uri"])
    artifact.name = message.get("name", "")
    described = {**message.get("properties", {}), **message.get("customProperties", {})}
    values = {name: _old_value(value) for name, value in described.items()} | dict(message.get("metadata", {}))
    for name, value in values.items():
        if name in (artifact_type.PROPERTIES or {}):
            # Every number of a message is a float.
            setattr(artifact, name, int(value) if isinstance(value, float) and value.is_integer() else value)
        elif value is not None:
            # As JSON, because then the getters of all types return it.
            is_number = isinstance(value, int) and not isinstance(value, bool)
            artifact.set_json_value_custom_property(name, float(value) if is_number else value)
    # Reading the message writes the JSON values into it, where the getters look for them.
    artifact.mlmd_artifact  # noqa: B018
    return artifact


def _old_value(value: Mapping[str, Any]) -> str | int | float:
    """Reads a value of the fields that were used before `metadata`; JSON writes 64-bit integers as text."""
    if "intValue" in value:
        return int(value["intValue"])
    if "doubleValue" in value:
        return float(value["doubleValue"])
    return str(value.get("stringValue", ""))


def _parameters(sent: Mapping[str, Any], declared: Mapping[str, str]) -> dict[str, Any]:
    missing = sorted(declared.keys() - sent.keys())
    if missing:
        raise ContainerError(
            f"`executor-input` must have a value for each parameter; got none for {missing}. Give it when the run "
            "starts, or compile the pipeline again."
        )
    return {name: _parameter(name, sent[name], _KINDS[kind]) for name, kind in declared.items()}


def _parameter(name: str, value: Any, kind: type) -> int | float | str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int and is_number and float(value).is_integer():
        return int(value)
    if kind is float and is_number:
        return float(value)
    if kind is str and isinstance(value, str):
        return value
    raise ContainerError(
        f"The parameter {name!r} must be of type {kind.__name__}; got {value!r}. Give a value of that type when the "
        "run starts."
    )


def _clear(place: str) -> None:
    """Removes what an earlier attempt of this task left in an output of its own."""
    import tensorflow as tf

    if tf.io.gfile.exists(place) and not tf.io.gfile.isdir(place):
        _say(f"removes the file {place}, which an earlier attempt left")
        tf.io.gfile.remove(place)
    elif tf.io.gfile.isdir(place) and tf.io.gfile.listdir(place):
        from tfx_gnn.components.graph_pusher.stage import forget_push

        _say(f"removes what an earlier attempt left in {place}")
        # A retry then finds the version that was pushed, instead of pushing a second one.
        forget_push(place)
        tf.io.gfile.rmtree(place)


def _record(artifact: Any, storage: _Storage) -> dict[str, Any]:
    """Describes an output for the service's metadata store, in URIs of the service."""
    # Reading the message first writes values that are kept as JSON into it.
    message = artifact.mlmd_artifact
    metadata = {}
    for name, value in {**message.properties, **message.custom_properties}.items():
        kind = value.WhichOneof("value")
        plain = artifact.get_json_value_custom_property(name) if kind == "struct_value" else getattr(value, kind or "")
        # Kubeflow's launcher fails on null.
        if plain is not None:
            metadata[name] = storage.uri(plain) if isinstance(plain, str) else _finite(plain)
    return {"name": artifact.name, "uri": storage.uri(artifact.uri), "metadata": metadata}


def _finite(value: Any) -> Any:
    """Replaces NaN and infinity, which JSON does not have, by their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _write_output(path: str, records: Mapping[str, Any]) -> None:
    import tensorflow as tf

    output = {"artifacts": {name: {"artifacts": [record]} for name, record in records.items()}}
    tf.io.gfile.makedirs(os.path.dirname(path))
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(output, sort_keys=True))


def _import(path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ContainerError(
            f"`{path}` must be importable in the image; got {type(error).__name__}: {error}. Build the image from the "
            "sources that the pipeline was compiled from."
        ) from error


def _places(artifacts: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{name} {found[0].uri}" for name, found in artifacts.items()) or "nothing"


def _component(executor: str) -> str:
    """Names the component of an executor: "tfx_gnn.components.graph_trainer.executor.Executor" is graph_trainer's."""
    parts = executor.split(".")
    return parts[-3] if len(parts) > 2 else executor


@contextlib.contextmanager
def _logs_on_stdout() -> Iterator[None]:
    """Sends what libraries log, and what is written to the standard error from Python, to the standard output."""
    with contextlib.redirect_stderr(sys.stdout):
        yield


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tfx_gnn_pipelines.container", description=main.__doc__)
    parser.add_argument("--executor", required=True, help="import path of the executor's class")
    parser.add_argument("--contract", required=True, help="what the component declares, as JSON")
    parser.add_argument("--storage", required=True, choices=["launcher", "direct"], help="where artifacts are")
    parser.add_argument("--executor-input", required=True, help="the service's message, as JSON")
    parser.add_argument("beam_args", nargs="*", help="arguments of Beam pipelines, after --")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    quiet_start()
    sys.exit(main(sys.argv[1:]))

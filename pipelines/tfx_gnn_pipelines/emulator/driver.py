"""What a service decides and records about a task: inputs, outputs, condition, cache; sources are in the package."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Any

from tfx_gnn_pipelines.services import Service

LOGS_OUTPUT = "executor-logs"
DEFAULT_ROOT = "minio://mlpipeline/v2/artifacts"
"""Where Kubeflow writes if a pipeline names no root."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FinishedTask:
    """A task that succeeded.

    Attributes:
        artifacts: RuntimeArtifact of each output, as the service's metadata store has them.
    """

    artifacts: Mapping[str, Mapping[str, Any]]


def executor_input(
    *,
    service: Service,
    task: Mapping[str, Any],
    component: Mapping[str, Any],
    values: Mapping[str, Any],
    finished: Mapping[str, FinishedTask],
    final_status: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Resolves the inputs of a task: the ExecutorInput message without its outputs, as JSON.

    Args:
        service: whose driver is imitated.
        task: the PipelineTaskSpec.
        component: the ComponentSpec of the task.
        values: parameters of the DAG that the task is in.
        finished: tasks of the DAG that succeeded, by name.
        final_status: PipelineTaskFinalStatus of the tasks before an exit handler, as JSON.
    """
    parameters = {}
    for name, source in task.get("inputs", {}).get("parameters", {}).items():
        if "componentInputParameter" in source:
            # An optional one without a value is not sent.
            if source["componentInputParameter"] in values:
                parameters[name] = values[source["componentInputParameter"]]
        elif "runtimeValue" in source:
            parameters[name] = source["runtimeValue"]["constant"]
        elif "taskFinalStatus" in source and final_status is not None:
            parameters[name] = final_status
        else:
            raise ValueError(
                f"The parameter {name!r} comes from {sorted(source)}, which a local run cannot resolve yet."
            )
    artifacts = {}
    for name, source in task.get("inputs", {}).get("artifacts", {}).items():
        origin = source["taskOutputArtifact"]
        artifact = dict(finished[origin["producerTask"]].artifacts[origin["outputArtifactKey"]])
        declared = component["inputDefinitions"]["artifacts"][name]["artifactType"]
        artifact["type"] = {"instanceSchema": ""} if service is Service.KUBEFLOW else declared
        artifacts[name] = {"artifacts": [artifact]}
    numbers = {name: float(value) if _is_number(value) else value for name, value in parameters.items()}
    return {"inputs": {"parameterValues": numbers, "artifacts": artifacts}}


def provision_outputs(
    *, service: Service, root: str, task_name: str, component: Mapping[str, Any], output_file: str
) -> dict[str, Any]:
    """Names the outputs of a task: the outputs of the ExecutorInput message, as JSON."""
    declared = {
        name: output["artifactType"]
        for name, output in component.get("outputDefinitions", {}).get("artifacts", {}).items()
    }
    if service is Service.KUBEFLOW:
        declared[LOGS_OUTPUT] = {"schemaTitle": "system.Artifact"}
    place = "/".join((root.rstrip("/"), task_name, uuid.uuid4().hex))
    return {
        "artifacts": {
            name: {"artifacts": [{"uri": f"{place}/{name}", "type": kind, "metadata": {}}]}
            for name, kind in declared.items()
        },
        "outputFile": output_file or f"{place}/executor_output.json",
    }


def cache_key(task_input: Mapping[str, Any], component: Mapping[str, Any], container: Mapping[str, Any]) -> str:
    """Returns the hash under which a service finds the outputs of an equal execution."""
    key = {
        "inputs": {
            name: [artifact["name"] for artifact in found["artifacts"]]
            for name, found in task_input["inputs"]["artifacts"].items()
        },
        "parameters": task_input["inputs"]["parameterValues"],
        "outputs": component.get("outputDefinitions", {}),
        "image": container.get("image", ""),
        "command": [*container.get("command", ()), *container.get("args", ())],
    }
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def record_outputs(
    *, service: Service, outputs: Mapping[str, Any], answer: Mapping[str, Any], first_id: int
) -> dict[str, dict[str, Any]]:
    """Merges what an executor wrote into its outputs, as the metadata store gives them to the tasks after it."""
    recorded = {}
    for position, (name, found) in enumerate(sorted(outputs["artifacts"].items())):
        artifact = dict(found["artifacts"][0])
        written = answer.get("artifacts", {}).get(name, {}).get("artifacts", [])
        if written:
            artifact["uri"] = written[0].get("uri") or artifact["uri"]
            metadata = written[0].get("metadata", {})
            artifact["metadata"] = {
                key: _stored(value) if service is Service.KUBEFLOW else _with_floats(value)
                for key, value in metadata.items()
            }
        number = str(first_id + position)
        artifact["name"] = number if service is Service.KUBEFLOW else f"projects/1/artifacts/{number}"
        recorded[name] = artifact
    return recorded


def is_triggered(task: str, condition: str, message: Mapping[str, Any]) -> bool:
    """Tells whether a task runs: its condition over the fields of its ExecutorInput message is true.

    Args:
        task: name of the task, for errors.
        condition: text in the Common Expression Language (CEL), such as
            "inputs.artifacts['blessing'].artifacts[0].metadata['blessed'] == 1.0".
        message: the ExecutorInput, as JSON.

    Raises:
        ValueError: if the condition cannot be evaluated, or is neither true nor false.
    """
    import celpy
    from celpy import celtypes

    inputs = message["inputs"]
    fields = {"inputs": {"artifacts": inputs["artifacts"], "parameter_values": inputs["parameterValues"]}}
    try:
        environment = celpy.Environment()
        program = environment.program(environment.compile(condition))
        answer = program.evaluate({name: celpy.json_to_cel(value) for name, value in fields.items()})
    except (celpy.CELEvalError, celpy.CELParseError) as error:
        raise _refused_condition(task, condition, " ".join(str(error.args[0]).split())) from error
    if not isinstance(answer, celtypes.BoolType):
        raise _refused_condition(task, condition, f"the answer {answer!r}")
    return bool(answer)


def _refused_condition(task: str, condition: str, found: str) -> ValueError:
    return ValueError(
        f"`condition` must be true or false for the inputs of {task!r}; got {found} for {condition!r}. Check the "
        "names of artifacts and metadata."
    )


def _stored(value: Any) -> Any:
    if value is None:
        raise ValueError("Metadata of an output must not be null, which Kubeflow's launcher cannot store; got null.")
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, list):
        return {"list": _with_floats(value)}
    if isinstance(value, dict):
        return {"struct": _with_floats(value)}
    return _with_floats(value)


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_floats(item) for item in value]
    return float(value) if _is_number(value) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)

"""Reads a compiled pipeline, in any form in which Kubeflow and Vertex AI take it."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import yaml

from tfx_gnn.io.suggestions import did_you_mean, did_you_mean_path
from tfx_gnn_pipelines.compiled_fields import checked_fields
from tfx_gnn_pipelines.custom_job import COORDINATOR_COMMAND
from tfx_gnn_pipelines.services import Service

_SCHEMAS = ("2.0.0", "2.1.0")
EXIT_STRATEGY = "ALL_UPSTREAM_TASKS_COMPLETED"
"""Trigger strategy of a task that runs after others have ended, even if they failed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompiledPipeline:
    """A compiled pipeline.

    Attributes:
        spec: the PipelineSpec message as JSON.
        root: where outputs go; empty if the service has a default.
        parameters: values of the run's parameters that the file gives.
        platforms: the PlatformSpec message as JSON, a second document of the file; empty if it has none.
    """

    spec: Mapping[str, Any]
    root: str
    parameters: Mapping[str, Any]
    platforms: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the pipeline."""
        return str(self.spec["pipelineInfo"]["name"])

    @property
    def declared_parameters(self) -> Mapping[str, Any]:
        """Declarations of the run's parameters, by name."""
        declared: Mapping[str, Any] = (self.spec["root"].get("inputDefinitions") or {}).get("parameters") or {}
        return declared

    @property
    def tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """Tasks that run a container or the like, by name, those of nested DAGs too."""
        return tasks_of(self.spec)


def tasks_of(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the tasks of a PipelineSpec that are no DAGs, by name."""
    components = spec.get("components") or {}
    nested = [component["dag"] for component in components.values() if "dag" in component]
    return {
        name: task
        for dag in [(spec.get("root") or {}).get("dag") or {}, *nested]
        for name, task in (dag.get("tasks") or {}).items()
        if "dag" not in components.get((task.get("componentRef") or {}).get("name"), {})
    }


def with_image(pipeline: CompiledPipeline, image: str) -> CompiledPipeline:
    """Returns a pipeline in which every container is of one image."""
    spec = copy.deepcopy(dict(pipeline.spec))
    for executor in spec["deploymentSpec"]["executors"].values():
        if "container" in executor:
            executor["container"]["image"] = image
    return dataclasses.replace(pipeline, spec=spec)


def read_compiled(path: str) -> CompiledPipeline:
    """Reads a compiled pipeline: a PipelineJob as JSON, or a specification as YAML or JSON.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file holds no specification of a pipeline.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise _no_pipeline(path, "bytes that are no text") from error
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"`file` must name a compiled pipeline; got {path!r}, which is not there. "
            f"{did_you_mean_path(path, otherwise='Write one with --compile-only.')}"
        ) from error
    try:
        documents = [json.loads(text)] if path.endswith(".json") else list(yaml.safe_load_all(text))
        # Dates of YAML and numbers such as NaN cannot be sent.
        json.dumps(documents, allow_nan=False)
    except (TypeError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise _no_pipeline(path, " ".join(str(error).split())) from error
    first = documents[0] if documents else None
    if not isinstance(first, dict):
        raise _no_pipeline(path, "no object")
    job = first if "pipelineSpec" in first else {"pipelineSpec": first}
    spec = job["pipelineSpec"]
    runtime = job.get("runtimeConfig") or {}
    if not isinstance(runtime, dict) or not isinstance(runtime.get("parameterValues") or {}, dict):
        raise _no_pipeline(path, "a `runtimeConfig` that is no object, or has no object of `parameterValues`")
    if not isinstance(spec, dict):
        raise _no_pipeline(path, "no object")
    try:
        spec = checked_fields(spec)
        version, tasks = spec["schemaVersion"], spec["root"]["dag"]["tasks"]
        executors = spec["deploymentSpec"]["executors"]
        _ = spec["pipelineInfo"]["name"]
    except KeyError as error:
        raise _no_pipeline(path, f"no {error}") from error
    except ValueError as error:
        raise _no_pipeline(path, str(error)) from error
    if version not in _SCHEMAS or not tasks or not executors:
        raise _no_pipeline(path, f"schema {version}, {len(tasks)} tasks and {len(executors)} executors")
    return CompiledPipeline(
        spec=spec,
        root=runtime.get("gcsOutputDirectory") or spec.get("defaultPipelineRoot", ""),
        parameters=runtime.get("parameterValues") or {},
        platforms=next((document for document in documents[1:] if isinstance(document, dict)), {}),
    )


def compiled_service(pipeline: CompiledPipeline) -> Service:
    """Tells for which service a pipeline was compiled: on Kubeflow its tasks leave object stores to the launcher."""
    executors = pipeline.spec["deploymentSpec"]["executors"].values()
    arguments = [executor.get("container", {}).get("args", []) for executor in executors]
    return Service.KUBEFLOW if any("launcher" in given for given in arguments) else Service.VERTEX


def has_custom_jobs(pipeline: CompiledPipeline) -> bool:
    """Tells whether tasks of a pipeline run as custom jobs of Vertex AI."""
    executors = pipeline.spec["deploymentSpec"]["executors"].values()
    return any(tuple(executor.get("container", {}).get("command", ())) == COORDINATOR_COMMAND for executor in executors)


def run_parameters(pipeline: CompiledPipeline, given: Mapping[str, str]) -> dict[str, Any]:
    """Returns the values of all parameters of a run: those given as text, those of the file, then the defaults.

    Raises:
        ValueError: if a name is unknown, a text has not the declared type, or a value is missing.
    """
    declared = pipeline.declared_parameters
    unknown = sorted(given.keys() - declared.keys())
    if unknown:
        raise ValueError(
            f"`parameter` must name a parameter of the pipeline, among {sorted(declared)}; got {unknown[0]!r}. "
            f"{did_you_mean(unknown[0], declared)}"
        )
    values = {}
    for name, declaration in declared.items():
        if name in given:
            values[name] = _typed(name, given[name], declaration.get("parameterType", "STRING"))
        elif name in pipeline.parameters:
            values[name] = pipeline.parameters[name]
        elif "defaultValue" in declaration:
            values[name] = declaration["defaultValue"]
        elif not declaration.get("isOptional"):
            raise ValueError(
                f"`parameter` must give {name!r}, which has no default; got none. Add --parameter {name}=VALUE."
            )
    return values


def _typed(name: str, text: str, kind: str) -> Any:
    try:
        if kind == "NUMBER_INTEGER":
            return int(text)
        if kind == "NUMBER_DOUBLE":
            return float(_finite(text))
        if kind == "BOOLEAN":
            return {"true": True, "false": False}[text.lower()]
        if kind in ("LIST", "STRUCT"):
            return json.loads(text, parse_constant=_finite)
    except (ValueError, KeyError) as error:
        raise ValueError(
            f"`parameter` must have the declared type, {kind} for {name!r}; got {text!r}. Give another value."
        ) from error
    return text


def _finite(text: str) -> str:
    """Refuses numbers that JSON does not have."""
    if not math.isfinite(float(text)):
        raise ValueError(text)
    return text


def _no_pipeline(path: str, found: str) -> ValueError:
    return ValueError(
        f"`file` must hold a compiled pipeline of schema {' or '.join(_SCHEMAS)}; got {path!r} with {found}. Write one "
        "with --compile-only."
    )

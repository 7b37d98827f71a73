"""The tasks of a compiled pipeline as a graph: their order, and what of them can be run here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfx_gnn_pipelines.compiled_pipeline import EXIT_STRATEGY, CompiledPipeline


def is_exit_handler(task: Mapping[str, Any]) -> bool:
    """Tells whether a task runs after others have ended, even if they failed."""
    return task.get("triggerPolicy", {}).get("strategy") == EXIT_STRATEGY


def in_order(tasks: Mapping[str, Any]) -> list[str]:
    """Orders the tasks so that each comes after those whose outputs it reads or on which it depends."""
    order: list[str] = []
    while len(order) < len(tasks):
        ready = [name for name in tasks if name not in order and upstream(tasks[name]) <= set(order)]
        if not ready:
            raise ValueError(
                f"The tasks must depend on one another without a circle; got {sorted(set(tasks) - set(order))}. "
                "Compile the pipeline again."
            )
        order += ready
    return order


def upstream(task: Mapping[str, Any]) -> set[str]:
    """Names the tasks before a task."""
    sources = task.get("inputs", {}).get("artifacts", {}).values()
    producers = (source["taskOutputArtifact"].get("producerTask", "") for source in sources)
    return {*task.get("dependentTasks", ()), *producers}


def check_tasks(tasks: Mapping[str, Any], pipeline: CompiledPipeline) -> None:
    """Checks that tasks of a pipeline can be run here.

    Raises:
        ValueError: if the file has what this imitation does not know, or lacks what a task needs.
    """
    _check_nesting(pipeline.spec)
    _check_known(tasks, pipeline.spec)
    _check_names(tasks, pipeline)
    _check_connections(tasks, pipeline)
    _check_containers(tasks, pipeline)


def _check_nesting(spec: Mapping[str, Any]) -> None:
    """Checks that all tasks are in one DAG, or in one inside of another that has the exit handlers."""
    components = spec.get("components", {})
    tasks = spec["root"]["dag"]["tasks"]
    handlers = [name for name, task in tasks.items() if is_exit_handler(task)]
    others = [name for name in tasks if name not in handlers]
    dags = [name for name in others if "dag" in components.get(tasks[name].get("componentRef", {}).get("name"), {})]
    if not dags and not handlers:
        return
    inputs = tasks[dags[0]].get("inputs", {}) if dags else {}
    parameters = inputs.get("parameters", {})
    inner = components[tasks[dags[0]]["componentRef"]["name"]]["dag"].get("tasks", {}) if dags else {}
    if (
        len(dags) != 1
        or inner.keys() & tasks.keys()
        or others != dags
        or sum("dag" in component for component in components.values()) != 1
        or any(tasks[name].get("dependentTasks") != dags for name in handlers)
        or "triggerPolicy" in tasks[dags[0]]
        or "artifacts" in inputs
        or any(source != {"componentInputParameter": name} for name, source in parameters.items())
    ):
        raise ValueError(
            "A nested DAG must be the only one, have the parameters of the run under their names, and be followed by "
            f"exit handlers alone, to run here; got the tasks {sorted(tasks)}. Run this pipeline on its service."
        )


def _check_known(tasks: Mapping[str, Any], spec: Mapping[str, Any]) -> None:
    for name, task in tasks.items():
        component = spec.get("components", {}).get(task.get("componentRef", {}).get("name", ""), {})
        executor = spec["deploymentSpec"]["executors"].get(component.get("executorLabel", ""), {})
        sources = [
            *task.get("inputs", {}).get("parameters", {}).items(),
            *task.get("inputs", {}).get("artifacts", {}).items(),
        ]
        known = {"componentInputParameter", "runtimeValue", "taskOutputArtifact"}
        if is_exit_handler(task):
            known = known - {"taskOutputArtifact"} | {"taskFinalStatus"}
        for parameter, source in sources:
            if not source.keys() & known:
                raise ValueError(
                    f"Each input of a task must be a value, a parameter of the run or an output of a task, to run "
                    f"here; got {sorted(source)} for {parameter!r} of {name!r}. Run this pipeline on its service."
                )
        if not is_exit_handler(task) and (unknown := sorted(upstream(task) - tasks.keys())):
            raise ValueError(
                f"Each task must depend on tasks of the pipeline; got {unknown[0]!r}, on which {name!r} depends. "
                "Compile the pipeline again."
            )
        if {"parameterIterator", "artifactIterator"} & task.keys():
            raise ValueError(f"Each task must run once, to run here; got {name!r}. Run this pipeline on its service.")
        policy = task.get("triggerPolicy", {})
        kinds = [*executor, *(key for key in policy if key != "condition" and not is_exit_handler(task))]
        if kinds != ["container"]:
            raise ValueError(
                f"Each task must have a container, and run after others succeeded, to run here; got {name!r} with "
                f"{kinds or 'no executor'}. Run this pipeline on its service."
            )


def _check_names(tasks: Mapping[str, Any], pipeline: CompiledPipeline) -> None:
    """Refuses names that would lead out of the folders that are called so."""
    outputs = [name for task in tasks.values() for name in _outputs(task, pipeline)]
    for name in (pipeline.name, *tasks, *outputs):
        if name in ("", ".", "..") or "/" in name or not name.isprintable():
            raise ValueError(
                f"Pipeline, tasks and outputs must have names that a folder can have, to run here; got {name!r}. "
                "Choose another name."
            )


def _check_connections(tasks: Mapping[str, Any], pipeline: CompiledPipeline) -> None:
    """Checks that what tasks read is there."""
    components, declared = pipeline.spec["components"], pipeline.declared_parameters
    for name, task in tasks.items():
        inputs = task.get("inputs", {})
        for parameter, source in inputs.get("parameters", {}).items():
            if source.get("componentInputParameter", "") not in ("", *declared):
                raise _not_there(f"the parameter {source['componentInputParameter']!r}", name)
            if "constant" not in source.get("runtimeValue", {"constant": None}):
                raise _not_there(f"the constant of {parameter!r}", name)
        read = components[task["componentRef"]["name"]].get("inputDefinitions", {}).get("artifacts", {})
        for artifact, source in inputs.get("artifacts", {}).items():
            origin = source["taskOutputArtifact"]
            producer, output = origin.get("producerTask", ""), origin.get("outputArtifactKey", "")
            if output not in _outputs(tasks[producer], pipeline):
                raise _not_there(f"the output {output!r} of {producer!r}", name)
            if "artifactType" not in read.get(artifact, {}):
                raise _not_there(f"the type of its input {artifact!r}", name)


def _check_containers(tasks: Mapping[str, Any], pipeline: CompiledPipeline) -> None:
    """Checks that what tasks run and write is there."""
    for name, task in tasks.items():
        for output, declaration in _outputs(task, pipeline).items():
            if "artifactType" not in declaration:
                raise _not_there(f"the type of its output {output!r}", name)
        component = pipeline.spec["components"][task["componentRef"]["name"]]
        container = pipeline.spec["deploymentSpec"]["executors"][component["executorLabel"]]["container"]
        if not container.get("command") and not container.get("args"):
            raise _not_there("the command of its container", name)
        if any(not variable.keys() >= {"name", "value"} for variable in container.get("env", ())):
            raise _not_there("the name and value of each variable of its container", name)


def _outputs(task: Mapping[str, Any], pipeline: CompiledPipeline) -> Mapping[str, Any]:
    component = pipeline.spec["components"][task["componentRef"]["name"]]
    outputs: Mapping[str, Any] = component.get("outputDefinitions", {}).get("artifacts", {})
    return outputs


def _not_there(what: str, task: str) -> ValueError:
    return ValueError(f"The file must have {what}, for the task {task!r}; got none. Compile the pipeline again.")

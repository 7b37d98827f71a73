"""The exit handler of a compiled pipeline: a task that runs after all others, and reports how they ended."""

from __future__ import annotations

from typing import Any

from tfx_gnn_pipelines.compiled_pipeline import EXIT_STRATEGY

REPORT_TASK = "RunReport"
REPORT_PARAMETER = "report_to"
DAG_TASK = "exit-handler-1"
"""Task around all others; named as kfp's compiler names it."""
_DAG_COMPONENT = f"comp-{DAG_TASK}"
_COMMAND = ("python", "-m", "tfx_gnn_pipelines.run_report")


def add_report_task(spec: dict[str, Any], *, image: str, report_to: str) -> None:
    """Adds the task that reports, as one among the others; `report_after_all_tasks` must follow.

    Args:
        spec: the PipelineSpec, as JSON.
        image: image of its container.
        report_to: default of the run's parameter of that name.
    """
    label = f"{REPORT_TASK}_executor"
    spec["components"][REPORT_TASK] = {
        "executorLabel": label,
        "inputDefinitions": {
            "parameters": {
                "pipeline": {"parameterType": "STRING"},
                REPORT_PARAMETER: {"parameterType": "STRING"},
                "status": {"parameterType": "TASK_FINAL_STATUS", "isOptional": True},
            }
        },
    }
    spec["deploymentSpec"]["executors"][label] = {
        "container": {"image": image, "command": list(_COMMAND), "args": ["--executor-input", "{{$}}"]}
    }
    spec["root"]["dag"]["tasks"][REPORT_TASK] = {
        "taskInfo": {"name": REPORT_TASK},
        "componentRef": {"name": REPORT_TASK},
        "dependentTasks": [DAG_TASK],
        # The only policy under which a task runs after one that failed.
        "triggerPolicy": {"strategy": EXIT_STRATEGY},
        "inputs": {
            "parameters": {
                "pipeline": {"runtimeValue": {"constant": spec["pipelineInfo"]["name"]}},
                REPORT_PARAMETER: {"componentInputParameter": REPORT_PARAMETER},
                "status": {"taskFinalStatus": {"producerTask": DAG_TASK}},
            }
        },
    }
    parameters = spec["root"].setdefault("inputDefinitions", {}).setdefault("parameters", {})
    parameters[REPORT_PARAMETER] = {"parameterType": "STRING", "isOptional": True, "defaultValue": report_to}


def report_after_all_tasks(spec: dict[str, Any]) -> None:
    """Puts all other tasks into a DAG of their own, on which the task that reports depends.

    Kubeflow would run a task that depends on several ones after each of them.
    """
    tasks = spec["root"]["dag"]["tasks"]
    inner = {name: task for name, task in tasks.items() if name != REPORT_TASK}
    used = {
        source["componentInputParameter"]
        for task in inner.values()
        for source in task.get("inputs", {}).get("parameters", {}).values()
        if "componentInputParameter" in source
    }
    declared = spec["root"]["inputDefinitions"]["parameters"]
    spec["components"][_DAG_COMPONENT] = {
        "dag": {"tasks": inner},
        "inputDefinitions": {
            "parameters": {name: {"parameterType": declared[name]["parameterType"]} for name in sorted(used)}
        },
    }
    around = {
        "taskInfo": {"name": DAG_TASK},
        "componentRef": {"name": _DAG_COMPONENT},
        "inputs": {"parameters": {name: {"componentInputParameter": name} for name in sorted(used)}},
    }
    spec["root"]["dag"]["tasks"] = {DAG_TASK: around, REPORT_TASK: tasks[REPORT_TASK]}

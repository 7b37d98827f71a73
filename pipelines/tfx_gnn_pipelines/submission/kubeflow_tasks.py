"""Tasks of a run on Kubeflow Pipelines: which of them are the pipeline's own, and in which pods they ran."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfx_gnn_pipelines.compiled_pipeline import tasks_of
from tfx_gnn_pipelines.submission.runs import RunState, TaskStatus, run_state


def error_message(found: Mapping[str, Any]) -> str:
    """Returns the error of a run or task in one line; empty if there is none."""
    error = found.get("error") or {}
    text = error.get("message") or "" if isinstance(error, Mapping) else error
    return " ".join(str(text).split())


def task_statuses(run: Mapping[str, Any]) -> tuple[TaskStatus, ...]:
    """Lists the tasks of the pipeline, and whatever else failed, such as the driver of a task."""
    details = (run.get("run_details") or {}).get("task_details") or []
    by_id = {detail.get("task_id"): detail for detail in details}
    spec = run.get("pipeline_spec") or {}
    spec = spec.get("pipeline_spec") or spec
    names = tasks_of(spec)
    found = []
    for detail in details:
        name = detail.get("display_name") or detail.get("task_id") or ""
        state = run_state(str(detail.get("state") or ""))
        if not names or name in names or state is RunState.FAILED:
            outputs = detail.get("outputs") or {}
            logs = ((outputs.get("executor-logs") or {}).get("artifacts") or [{}])[0].get("uri") or ""
            found.append(
                TaskStatus(
                    name=name,
                    state=state,
                    error=error_message(detail),
                    jobs=tuple(dict.fromkeys(_pods(detail, by_id, set()))),
                    logs_uri=logs,
                )
            )
    return tuple(found)


def _pods(detail: Mapping[str, Any], by_id: Mapping[Any, Mapping[str, Any]], seen: set[Any]) -> list[str]:
    """Lists the pods of a task and of those below it: the task of a component is the parent of its executor's."""
    if detail.get("task_id") in seen:
        return []
    seen.add(detail.get("task_id"))
    pods = [detail["pod_name"]] if detail.get("pod_name") else []
    for child in detail.get("child_tasks") or []:
        below = by_id.get(child.get("task_id"))
        pods += _pods(below, by_id, seen) if below else []
        pods += [child["pod_name"]] if child.get("pod_name") else []
    return pods

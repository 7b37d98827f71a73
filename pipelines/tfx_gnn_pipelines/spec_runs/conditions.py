"""Evaluates the conditions of tasks, which are written in the Common Expression Language (CEL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_triggered(task: str, condition: str, message: Mapping[str, Any]) -> bool:
    """Tells whether a task runs: its condition over the fields of its ExecutorInput message is true.

    Args:
        task: name of the task, for errors.
        condition: text in CEL, such as "inputs.artifacts['blessing'].artifacts[0].metadata['blessed'] == 1.0".
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
        raise _refusal(task, condition, " ".join(str(error.args[0]).split())) from error
    if not isinstance(answer, celtypes.BoolType):
        raise _refusal(task, condition, f"the answer {answer!r}")
    return bool(answer)


def _refusal(task: str, condition: str, found: str) -> ValueError:
    return ValueError(
        f"`condition` must be true or false for the inputs of {task!r}; got {found} for {condition!r}. Check the "
        "names of artifacts and metadata."
    )

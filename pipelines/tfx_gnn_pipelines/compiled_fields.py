"""The fields of a PipelineSpec, as JSON, that this project reads: files are edited by hand.

The names and types are those of the message `ml_pipelines.PipelineSpec`. Other fields are left as they are.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

_ANY = object()
_EACH = "*"
"""Stands for every name of an object."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_DURATION = re.compile(r"\d+(\.\d+)?s")

_SOURCES = {
    "parameters": {
        _EACH: {
            "componentInputParameter": str,
            "runtimeValue": {"constant": _ANY},
            "taskFinalStatus": {"producerTask": str},
        }
    },
    "artifacts": {_EACH: {"taskOutputArtifact": {"producerTask": str, "outputArtifactKey": str}}},
}
_DECLARATIONS = {
    "parameters": {_EACH: {"isOptional": bool, "defaultValue": _ANY}},
    "artifacts": {_EACH: {"artifactType": {}}},
}
_TASK = {
    "componentRef": {"name": str},
    "inputs": _SOURCES,
    "dependentTasks": [str],
    "cachingOptions": {"enableCache": bool},
    "triggerPolicy": {"condition": str},
    "retryPolicy": {
        "maxRetryCount": float,
        "backoffDuration": _DURATION,
        "backoffFactor": float,
        "backoffMaxDuration": _DURATION,
    },
}
_DAG = {"tasks": {_EACH: _TASK}}
_CONTAINER = {"image": str, "command": [str], "args": [str], "env": [{"name": str, "value": str}]}
_SPEC = {
    "pipelineInfo": {"name": str},
    "defaultPipelineRoot": str,
    "root": {"dag": _DAG, "inputDefinitions": _DECLARATIONS},
    "components": {
        _EACH: {
            "executorLabel": str,
            "dag": _DAG,
            "inputDefinitions": _DECLARATIONS,
            "outputDefinitions": _DECLARATIONS,
        }
    },
    "deploymentSpec": {"executors": {_EACH: {"container": _CONTAINER}}},
}


def checked_fields(spec: dict[str, Any]) -> dict[str, Any]:
    """Returns a PipelineSpec without the fields that are null, which counts as if they were missing.

    Args:
        spec: the message as JSON.

    Raises:
        ValueError: if a field has another type than the message; the text names the field, as in
            "`root.dag` that is no object".
    """
    return dict(_checked(spec, _SPEC, ""))


def _checked(value: Any, shape: Any, place: str) -> Any:
    if isinstance(shape, dict):
        return _checked_object(value, shape, place)
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise _refused(place, "list")
        return [_checked(item, shape[0], f"{place}[{position}]") for position, item in enumerate(value)]
    kind = _KINDS.get(shape)
    if kind is not None and not kind.accepts(value):
        raise _refused(place, kind.name)
    return value


def _checked_object(value: Any, shape: dict[str, Any], place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _refused(place, "object")
    fields = {}
    for name, item in value.items():
        wanted = shape.get(name, shape.get(_EACH, _ANY))
        # A null among objects by name is no object.
        if item is not None or wanted is _ANY or _EACH in shape:
            fields[name] = _checked(item, wanted, f"{place}.{name}".lstrip("."))
    return fields


def _is_number(value: Any) -> bool:
    # JSON of a message may write numbers as text.
    is_text = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    return is_text or (isinstance(value, (int, float)) and not isinstance(value, bool))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Kind:
    name: str
    accepts: Callable[[Any], bool]


_KINDS: dict[Any, _Kind] = {
    str: _Kind(name="text", accepts=lambda value: isinstance(value, str)),
    bool: _Kind(name="true or false", accepts=lambda value: isinstance(value, bool)),
    float: _Kind(name="number", accepts=_is_number),
    _DURATION: _Kind(
        name="duration such as 60s",
        accepts=lambda value: isinstance(value, str) and _DURATION.fullmatch(value) is not None,
    ),
}


def _refused(place: str, kind: str) -> ValueError:
    return ValueError(f"`{place}` that is no {kind}")

"""A task's settings and the options of every step, from a file and the command line, by the names of the dataclasses.

A file of options is a mapping such as

    num_epochs: 30
    prediction: {class_weights: balanced}
    graph_trainer:
      hyperparameters: {units: 64}
    graph_pusher:
      keep_versions: 3

Its keys are fields of `PipelineTask` and of `PipelineConfig`. A mapping changes the fields that it names and keeps the
others; everything else replaces what it names.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from tfx_gnn.io import options_json
from tfx_gnn.io.option_kinds import KIND
from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.task import PipelineTask
from tfx_gnn_pipelines.yaml_files import parse_yaml, read_yaml

_Options = TypeVar("_Options")

#: Options of steps that several steps share: the task holds them.
_OF_THE_TASK = {
    ("graph_trainer", "task"): "prediction",
    ("graph_evaluator", "task"): "prediction",
    ("subgraph_example_gen", "plan"): "plan",
    ("subgraph_example_gen", "graph_level_examples"): "graph_level_examples",
}


def step_names() -> tuple[str, ...]:
    """Lists the steps whose options can be given, as they are called in `PipelineConfig`."""
    kinds = typing.get_type_hints(PipelineConfig)
    return tuple(name for name, kind in kinds.items() if dataclasses.is_dataclass(kind))


def read_given(path: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Reads options from a file, and then from assignments, which win.

    Args:
        path: YAML file; empty for none.
        assignments: each "key.key=VALUE", where VALUE is YAML, as in "graph_trainer.hyperparameters.units=64".

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it holds no mapping, an assignment has no "=" or no YAML behind it, or a key is unknown.
    """
    given = read_yaml(path, option="--options") if path else {}
    if not isinstance(given, dict):
        raise ValueError(f"`{path}` must hold options by name; got {given!r}. Write, for example, num_epochs: 3.")
    _check_keys(given, place=f" in {path!r}")
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not all(key.split(".")):
            raise ValueError(
                f"`--set` must have the form NAME=VALUE; got {text!r}. Write, for example, graph_trainer.num_epochs=3."
            )
        parsed = parse_yaml(value, name=f"--set {key}")
        _check_keys(_nested(key, parsed), place=f" in --set {text}")
        given = _merged(given, _nested(key, parsed))
    return given


def with_options(given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Adds options whose names may have dots, such as "graph_trainer.training_seed"; these win."""
    merged = dict(given)
    for key, value in more.items():
        merged = _merged(merged, _nested(key, value))
    return merged


def with_task_options(task: PipelineTask, given: Mapping[str, Any]) -> PipelineTask:
    """Changes the fields of a task that are among the given options."""
    names = {field.name for field in dataclasses.fields(PipelineTask)}
    return _changed(task, {name: value for name, value in given.items() if name in names}, place="the task")


def with_step_options(config: PipelineConfig, given: Mapping[str, Any]) -> PipelineConfig:
    """Changes the options of steps that are among the given options."""
    changed = {name: _changed(getattr(config, name), given[name], place=name) for name in step_names() if name in given}
    return dataclasses.replace(config, **changed)


def pipeline_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given options that belong to the pipeline itself, such as `root`."""
    kinds = typing.get_type_hints(PipelineConfig)
    return {
        name: options_json.from_json(json.dumps(given[name]), kinds[name], name=name)
        for name in _PIPELINE_SETTINGS
        if name in given
    }


_PIPELINE_SETTINGS = (
    "root",
    "push_destination",
    "tables_fingerprint",
    "enable_cache",
    "beam_args",
    "runtime_parameters",
)


def _check_keys(given: Mapping[str, Any], *, place: str) -> None:
    allowed = {*(field.name for field in dataclasses.fields(PipelineTask)), *step_names(), *_PIPELINE_SETTINGS}
    for name, value in given.items():
        if name not in allowed:
            alike = difflib.get_close_matches(str(name), allowed, n=1)
            advice = f"Did you mean {alike[0]!r}?" if alike else "Check the spelling."
            raise ValueError(f"options must be among {sorted(allowed)}; got {name!r}{place}. {advice}")
        for inner in value if isinstance(value, dict) else ():
            of_task = _OF_THE_TASK.get((name, inner))
            if of_task:
                raise ValueError(
                    f"`{name}.{inner}` must be left out, because several steps share it; got it{place}. Set "
                    f"`{of_task}` instead."
                )


def _changed(options: _Options, given: Any, *, place: str) -> _Options:
    if not given and given is not None:
        return options
    plain = _merged(json.loads(options_json.to_json(options)), given)
    try:
        return options_json.from_json(json.dumps(plain), type(options), name=place)
    except ValueError as error:
        # The checks of a value do not know whose it is.
        raise error if place in str(error) else ValueError(f"options of {place}: {error}") from error


def _nested(key: str, value: Any) -> Any:
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def _merged(old: Any, new: Any) -> Any:
    """Puts new values into old mappings; a value of another kind replaces the old one."""
    if not isinstance(old, dict) or not isinstance(new, dict) or new.get(KIND, old.get(KIND)) != old.get(KIND):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}

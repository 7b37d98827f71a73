"""What a project file may hold: a list of all options, and the JSON Schema by which editors check it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tfx_gnn.io.option_schema import OptionEntry, json_schema, list_options
from tfx_gnn.io.suggestions import closest_names, did_you_mean
from tfx_gnn.models.hyperparameter_list import list_hyperparameters
from tfx_gnn.prediction_tasks.task_options import PredictionTask
from tfx_gnn_pipelines.config import PipelineConfig, step_kinds
from tfx_gnn_pipelines.project import OF_THE_TASK, PIPELINE_SETTINGS, TASK, task_fields
from tfx_gnn_pipelines.task import PipelineTask

_HYPERPARAMETERS = "graph_trainer.hyperparameters"
_NAMES = re.compile(r"\w+")
_PROJECT = "project"
"""Group of the options that belong to no step, without what the larger ones of them hold."""


def list_project_options(group: str = "") -> list[OptionEntry]:
    """Lists what a project file may hold, with types, defaults and meanings.

    Args:
        group: "project" for the options that belong to no step; an option with options of its own, such as "plan"; or a
            step, such as "graph_trainer". Empty for all.

    Returns:
        The options, those of the project first, then step by step.

    Raises:
        ValueError: if there is no such group.
    """
    entries = [entry for entry in list_options(PipelineTask) if _first(entry) in task_fields()]
    entries += list_options(PredictionTask, f"{TASK}.")
    entries += [entry for entry in list_options(PipelineConfig) if entry.name in PIPELINE_SETTINGS]
    for step, kind in step_kinds().items():
        left_out = {f"{step}.{name}" for of_step, name in OF_THE_TASK if of_step == step}
        found = list_options(kind, f"{step}.")
        entries += [entry for entry in found if not _is_of(entry, left_out | {f"{step}.trainer"})]
    if not group:
        return entries
    groups = _groups(entries)
    if group not in groups:
        raise ValueError(f"`GROUP` must be one of {groups}; got {group!r}. {did_you_mean(group, groups)}")
    if group == _PROJECT:
        return [entry for entry in entries if entry.name == _first(entry)]
    return [entry for entry in entries if _first(entry) == group]


class FoundOptions(NamedTuple):
    """What a search for options found, each part in the order of `list_project_options`.

    Attributes:
        by_name: the options whose names have all words.
        by_meaning: the others whose names and meanings together have all words.
        num_options: options that were searched.
    """

    by_name: list[OptionEntry]
    by_meaning: list[OptionEntry]
    num_options: int


def is_option_group(word: str) -> bool:
    """Tells whether `list_project_options` knows a group of this name.

    Args:
        word: the name.

    Returns:
        Whether there is such a group.
    """
    return word in _groups(list_project_options())


def search_project_options(words: Sequence[str]) -> FoundOptions:
    """Searches the options of a project, and the hyperparameters of the ready-made networks.

    Case does not matter, and "-" and "." in a word are as good as "_".

    Args:
        words: parts of names or meanings, all of which an option must have.

    Returns:
        The options.

    Raises:
        ValueError: if there is none.
    """
    entries: list[OptionEntry] = []
    for entry in list_project_options():
        entries += [entry, *(list_hyperparameters(f"{entry.name}.") if entry.name == _HYPERPARAMETERS else ())]
    wanted = [_plain(word) for word in words]
    by_name = [entry for entry in entries if all(word in _plain(entry.name) for word in wanted)]
    texts = {entry: _plain(f"{entry.name} {entry.meaning}") for entry in entries}
    by_meaning = [entry for entry in entries if entry not in by_name and all(word in texts[entry] for word in wanted)]
    if not by_name and not by_meaning:
        alike = _names_like([word for word in words if not any(_plain(word) in text for text in texts.values())], texts)
        advice = f"Did you mean {' or '.join(map(repr, alike))}?" if alike else "Give fewer or other words."
        raise ValueError(
            f"`WORD` must be a group, or a part of an option's name or meaning; got {' '.join(words)!r}. {advice}"
        )
    return FoundOptions(by_name, by_meaning, len(entries))


def _names_like(words: Sequence[str], entries: Iterable[OptionEntry]) -> list[str]:
    """Finds names of options, and words of such names, that are spelled like words."""
    names = {name for entry in entries for name in _NAMES.findall(f"{entry.name} {_plain(entry.name)}")}
    return [name for word in words for name in closest_names(word, sorted(names), limit=2)]


def _groups(entries: Sequence[OptionEntry]) -> list[str]:
    return [_PROJECT, *dict.fromkeys(_first(entry) for entry in entries if _first(entry) != entry.name)]


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


def project_schema() -> dict[str, Any]:
    """Describes a project file as JSON Schema (draft 2020-12): editors complete and check it as it is written.

    Returns:
        The schema. The options of a step are all optional in it, because the steps have defaults.
    """
    task, config, words = json_schema(PipelineTask), json_schema(PipelineConfig), json_schema(PredictionTask)
    definitions = {**task.pop("$defs"), **config.pop("$defs"), **words.pop("$defs")}
    properties = {name: task["properties"][name] for name in task["properties"] if name in task_fields()}
    properties |= {name: config["properties"][name] for name in PIPELINE_SETTINGS}
    for step, kind in step_kinds().items():
        definition = definitions.get(kind.__name__)
        assert definition is not None, kind
        definitions[kind.__name__] = _all_optional(step, definition)
        reference = {"$ref": f"#/$defs/{kind.__name__}"}
        is_optional = config["properties"][step].get("default", ...) is None
        properties[step] = {"anyOf": [reference, {"type": "null"}]} if is_optional else reference
    whole = [name for name in task["required"] if name in properties]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A project of tfx-gnn",
        "type": "object",
        "properties": {
            TASK: {
                "anyOf": [{"type": "string"}, words],
                "description": "A PipelineTask in Python, 'package.module:ATTRIBUTE', which the other keys change; or "
                "what is predicted for which entities, from which `tfx-gnn task` makes the seeds.",
            },
            **properties,
        },
        "anyOf": [
            {"properties": {TASK: {"type": "string"}}, "required": [TASK]},
            {
                "properties": {TASK: {"type": "object"}},
                "required": [TASK, *(key for key in whole if key != "prediction")],
            },
            {"required": whole},
        ],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _first(entry: OptionEntry) -> str:
    """The name in front: "plan" of "plan.hops[].fan_out"."""
    return re.split(r"[.[]", entry.name, maxsplit=1)[0]


def _is_of(entry: OptionEntry, names: set[str]) -> bool:
    return any(entry.name == name or entry.name.startswith((f"{name}.", f"{name}[")) for name in names)


def _all_optional(step: str, definition: dict[str, Any]) -> dict[str, Any]:
    properties = {name: value for name, value in definition["properties"].items() if (step, name) not in OF_THE_TASK}
    return {**definition, "properties": properties, "required": []}

"""Options and other texts that differ between runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tfx_gnn.models.hyperparameter_list import hyperparameter_defaults
from tfx_gnn.reports.run_record import RecordedRun, RecordedStep

ABSENT = "\N{EN DASH}"
"""Stands for what a run does not have, such as a step."""
NOT_SET = "not set"
WHOLE_STEP = "whole step"

_HYPERPARAMETERS = "hyperparameters"
_MODEL_FN = "model_fn"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextRow:
    """Something in words that differs between runs.

    Attributes:
        names: what it is, from the general to the particular.
        values: one text for each run.
    """

    names: tuple[str, ...]
    values: tuple[str, ...]


def differing_texts(by_run: Iterable[Mapping[tuple[str, ...], str]]) -> list[TextRow]:
    """Lists the texts that differ between runs, by name."""
    tables = list(by_run)
    keys = dict.fromkeys(key for table in tables for key in table)
    rows = [TextRow(names=key, values=tuple(table.get(key, ABSENT) for table in tables)) for key in keys]
    return [row for row in rows if len(set(row.values)) > 1]


def differing_options(runs: Sequence[RecordedRun], read_defaults: Callable[[str], Mapping[str, Any]]) -> list[TextRow]:
    """Lists the options that differ between runs.

    Args:
        runs: the runs.
        read_defaults: returns the default of each option of a component, as plain JSON; called where options differ.

    Returns:
        The options by step and name. A value that is the default says so, also where a run does not set the option.
    """
    steps = [{step.component: step for step in run.steps} for run in runs]
    rows = []
    for component in dict.fromkeys(name for of_run in steps for name in of_run):
        of_step = [of_run.get(component) for of_run in steps]
        if None in of_step:
            states = tuple("did not run" if step is None else "ran" for step in of_step)
            rows.append(TextRow(names=(component, WHOLE_STEP), values=states))
        given = [dict(flat_texts(step.options)) if step is not None else {} for step in of_step]
        known_texts = [texts for step, texts in zip(of_step, given, strict=True) if step is not None]
        if all(texts == known_texts[0] for texts in known_texts):
            continue
        defaults = read_defaults(component)
        assumed = [_defaults(step, defaults) for step in of_step]
        for name in dict.fromkeys(name for of_run in given for name in of_run):
            values = [
                ABSENT if step is None else texts.get(name, known.get(name, NOT_SET))
                for step, texts, known in zip(of_step, given, assumed, strict=True)
            ]
            if len({value for step, value in zip(of_step, values, strict=True) if step is not None}) > 1:
                are_defaults = (
                    step is not None and known.get(name) == value
                    for step, value, known in zip(of_step, values, assumed, strict=True)
                )
                shown = tuple(
                    f"{value or 'empty'} (default)" if is_default else value
                    for value, is_default in zip(values, are_defaults, strict=True)
                )
                rows.append(TextRow(names=(component, name), values=shown))
    return rows


def flat_texts(value: Any, prefix: str = "") -> Iterable[tuple[str, str]]:
    """Lists the values of nested options as texts, with dots in their names; an empty mapping has none."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from flat_texts(inner, f"{prefix}.{name}" if prefix else str(name))
    else:
        yield prefix, value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _defaults(step: RecordedStep | None, defaults: Mapping[str, Any]) -> dict[str, str]:
    """Returns the defaults of a step's options as texts, with those of its network's hyperparameters."""
    if step is None:
        return {}
    of_network = hyperparameter_defaults(str(step.options.get(_MODEL_FN, "")))
    return dict(flat_texts({**defaults, **({_HYPERPARAMETERS: of_network} if of_network else {})}))

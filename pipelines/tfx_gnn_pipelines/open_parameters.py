"""Parameters that a compiled pipeline leaves open until it is run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfx.orchestration.data_types import RuntimeParameter

from tfx_gnn import components
from tfx_gnn_pipelines.config import PipelineConfig


def open_parameters(names: Sequence[str]) -> dict[str, dict[str, RuntimeParameter]]:
    """Makes runtime parameters by component and parameter.

    `names` are of the form "GraphTrainer.num_epochs"; the runtime parameter of that is called
    `graph_trainer_num_epochs`.
    """
    opened: dict[str, dict[str, RuntimeParameter]] = {}
    for name in names:
        component, parameter = _split(name)
        kind = getattr(components, component).SPEC_CLASS.PARAMETERS[parameter].type
        opened.setdefault(component, {})[parameter] = RuntimeParameter(name=_snake_case(name), ptype=kind)
    return opened


def open_values(config: PipelineConfig) -> dict[str, int | float | str]:
    """Gives the values that open parameters have unless a run sets them, by name of the runtime parameter."""
    values: dict[str, int | float | str] = {}
    for name in config.runtime_parameters:
        component, parameter = _split(name)
        holder = config if hasattr(config, parameter) else getattr(config, _snake_case(component))
        values[_snake_case(name)] = getattr(holder, parameter)
    return values


def _split(name: str) -> tuple[str, str]:
    component, _, parameter = name.partition(".")
    known = [name for name in dir(components) if hasattr(getattr(components, name), "SPEC_CLASS")]
    if component not in known:
        raise ValueError(
            f"`runtime_parameters` must have the form 'Component.parameter' with a component among {known}; "
            f"got {name!r}. Write, for example, 'GraphTrainer.num_epochs'."
        )
    declared = getattr(components, component).SPEC_CLASS.PARAMETERS
    if parameter not in declared:
        raise ValueError(
            f"`runtime_parameters` must name a parameter of {component} among {sorted(declared)}; got {name!r}. "
            "Check the spelling."
        )
    return component, parameter


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).replace(".", "_").lower()

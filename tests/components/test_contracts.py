"""What a component's class docstring promises is what its spec declares."""

from __future__ import annotations

import importlib

import pytest
from tfx.dsl.components.base import base_beam_component, base_beam_executor
from tfx.types.system_executions import SystemExecution

from tfx_gnn import components
from tfx_gnn.components import parameters
from tfx_gnn.io.option_groups import flat_options

COMPONENTS = [
    getattr(components, name) for name in components.__all__ if hasattr(getattr(components, name), "SPEC_CLASS")
]
each_component = pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.__name__)


def options_class(component):
    module = importlib.import_module(component.__module__)
    return getattr(module, f"{component.__name__}Options")


def documented(component):
    """Rows (kind, name, type) of the table in the class docstring, in order."""
    lines = [line.strip() for line in component.__doc__.splitlines() if line.strip().startswith("| ")]
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]
    assert rows[0] == ("kind", "name", "type", "meaning")
    assert all(meaning for *_, meaning in rows)
    return [(kind, name, type_name) for kind, name, type_name, _ in rows[1:]]


def declared(component):
    """The same rows from the spec."""
    spec = component.SPEC_CLASS
    scalars = (int, float, str)
    hints = flat_options(options_class(component))
    rows = [("input", name, channel.type.TYPE_NAME) for name, channel in spec.INPUTS.items()]
    rows += [("output", name, channel.type.TYPE_NAME) for name, channel in spec.OUTPUTS.items()]
    for name, parameter in spec.PARAMETERS.items():
        is_json = name in hints and hints[name] not in scalars
        rows.append(("parameter", name, "JSON" if is_json else parameter.type.__name__))
    return rows


def test_the_nine_components_of_the_flow_and_the_six_optional_ones_are_exported():
    assert len(COMPONENTS) == 15


@each_component
def test_docstring_table_is_the_spec(component):
    assert documented(component) == declared(component)


@each_component
def test_every_option_is_a_parameter_and_every_component_knows_the_library_version(component):
    names = list(component.SPEC_CLASS.PARAMETERS)

    assert set(parameters.wire_types(options_class(component))) < set(names)
    assert names[-1] == parameters.LIBRARY_VERSION


@each_component
def test_component_that_runs_the_users_code_has_its_fingerprint(component):
    # The tuner's function is among the options of the trainer.
    runs_code = any(name.endswith("_fn") or name == "trainer" for name in component.SPEC_CLASS.PARAMETERS)

    assert (parameters.CODE_FINGERPRINT in component.SPEC_CLASS.PARAMETERS) is runs_code


@each_component
def test_beam_components_have_beam_executors(component):
    uses_beam = issubclass(component, base_beam_component.BaseBeamComponent)

    assert issubclass(component.EXECUTOR_SPEC.executor_class, base_beam_executor.BaseBeamExecutor) is uses_beam


@each_component
def test_lineage_knows_what_kind_of_step_it_is(component):
    assert issubclass(component.SPEC_CLASS.TYPE_ANNOTATION, SystemExecution)

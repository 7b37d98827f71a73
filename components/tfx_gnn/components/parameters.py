"""Converts options to TFX execution parameters and back, in the same way for every component.

An option of type int, float or str becomes a parameter of that type; an option of
any other type becomes a JSON string. Grouped options become parameters under their
flat names. The fingerprint parameters below are not options: they exist so that caching
notices changes that a name alone does not show.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tfx.orchestration.data_types import RuntimeParameter
from tfx.types import channel
from tfx.types.component_spec import ComponentSpec, ExecutionParameter

import tfx_gnn
from tfx_gnn.io import options_json
from tfx_gnn.io.fingerprint import fingerprint_files
from tfx_gnn.io.option_groups import flat_options, flat_values, from_flat
from tfx_gnn.io.package_paths import resolve_package_path
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.io.user_code import fingerprint_function
from tfx_gnn.tables.spans import find_window

LIBRARY_VERSION = "library_version"
"""Parameter of every component: a new version of this library invalidates cached results."""
CODE_FINGERPRINT = "code_fingerprint"
"""Parameter of components that run the user's code: edited code invalidates cached results."""
TABLES_FINGERPRINT = "tables_fingerprint"
"""Parameter of components that read tables: edited tables invalidate cached results."""
SPAN = "span"
"""Parameter of components that read tables of their own: the span, if the tables folder is a pattern."""

_CONTENTS = "contents:"
"""Begins a `TABLES_FINGERPRINT` with which the executor can compare the tables."""

_MAX_EXACT_INT = 2**53
_SCALARS: tuple[type, ...] = (int, float, str)

_Options = TypeVar("_Options")
_Spec = TypeVar("_Spec", bound=ComponentSpec)


def wire_types(options_class: type) -> dict[str, type]:
    """Returns each option's type as a TFX parameter, by flat name; str is also used for JSON."""
    return {name: hint if hint in _SCALARS else str for name, hint in flat_options(options_class).items()}


def execution_parameters(options_class: type, *more: str) -> dict[str, ExecutionParameter]:
    """Declares the parameters of a component: its options, `more` string parameters and the library version."""
    parameters = {name: ExecutionParameter(type=kind) for name, kind in wire_types(options_class).items()}
    parameters.update({name: ExecutionParameter(type=str) for name in (*more, LIBRARY_VERSION)})
    return parameters


def to_exec_properties(options: object) -> dict[str, int | float | str]:
    """Converts options to parameter values; equal options give equal values."""
    values: dict[str, int | float | str] = {}
    given = flat_values(options)
    hints = flat_options(type(options))
    for name, kind in wire_types(type(options)).items():
        value = given[name]
        if kind is int and abs(value) > _MAX_EXACT_INT:
            raise ValueError(
                f"`{name}` must lie in [-2**53, 2**53], which Kubeflow's numbers hold exactly; got {value}. "
                "Choose a smaller number."
            )
        values[name] = kind(value) if hints[name] in _SCALARS else options_json.to_json(value)
    return values


def from_exec_properties(options_class: type[_Options], exec_properties: Mapping[str, Any]) -> _Options:
    """Restores the options that `to_exec_properties` wrote and ignores all other names."""
    hints = flat_options(options_class)
    values: dict[str, Any] = {}
    for name, kind in wire_types(options_class).items():
        if name not in exec_properties:
            raise ValueError(
                f"`exec_properties` must hold {name!r} of {options_class.__name__}; got {sorted(exec_properties)}. "
                "Compile the pipeline again with the version of the library that runs it."
            )
        value = exec_properties[name]
        values[name] = (
            _to_scalar(name, value, kind) if hints[name] in _SCALARS else options_json.from_json(value, hints[name])
        )
    return from_flat(options_class, values)


def fill_spec(
    spec_class: type[_Spec],
    options: object,
    runtime_parameters: Mapping[str, RuntimeParameter] | None,
    *,
    code: str | None = None,
    **arguments: Any,
) -> _Spec:
    """Builds a component's spec from channels and options.

    Output channels are created from the types that the spec declares, except for outputs given as None.
    `arguments` holds the input channels, the values of parameters that are not options, and those Nones. `code` names
    the option that holds the user's function, which may be empty. `runtime_parameters` maps an option to the parameter
    that sets its value when a compiled pipeline runs; only Kubeflow and Vertex have runtime parameters.
    """
    values: dict[str, Any] = to_exec_properties(options)
    values[LIBRARY_VERSION] = tfx_gnn.__version__
    if code is not None:
        values[CODE_FINGERPRINT] = _fingerprint_code(getattr(options, code))
    overridable = {name: type(values[name]) for name in _scalar_options(type(options)) if name != code}
    overridable.update({name: str for name in arguments if name in spec_class.PARAMETERS})
    values.update(arguments)
    for name, parameter in (runtime_parameters or {}).items():
        _check_runtime_parameter(name, parameter, overridable)
        values[name] = parameter
    outputs = {
        name: channel.Channel(type=output.type) for name, output in spec_class.OUTPUTS.items() if name not in arguments
    }
    return spec_class(**values, **outputs)


def check_code_is_unchanged(reference: str, exec_properties: Mapping[str, Any]) -> None:
    """Refuses to run user code that differs from the code that the pipeline was built with.

    Results are cached under that code's fingerprint, so results of other code would be cached under the wrong key.
    """
    expected, found = exec_properties[CODE_FINGERPRINT], _fingerprint_code(reference)
    if found != expected:
        raise ValueError(
            f"`{reference}` must be the code that the pipeline was built with, fingerprint {expected[:12]}; got "
            f"fingerprint {found[:12]}. If the file was edited during the run, start the run again; if this is a "
            "container, build its image and compile the pipeline from the same sources."
        )


def _fingerprint_code(reference: str) -> str:
    """Hashes the user's code; empty if there is none."""
    return fingerprint_function(reference) if reference else ""


def fingerprint_tables(*files: Iterable[str], runtime_parameters: Mapping[str, RuntimeParameter] | None = None) -> str:
    """Hashes the files of tables, as one component or several read them, for the parameter `TABLES_FINGERPRINT`.

    The executor compares them again, unless the tables of a run are only known when it starts.
    """
    hashes = ",".join(dict.fromkeys(map(fingerprint_files, files)))
    return f"{'' if 'tables_dir' in (runtime_parameters or {}) else _CONTENTS}{hashes}"


def tables_folder_now(tables_dir: str, span: str = "") -> str:
    """Returns the folder of the tables while a pipeline is built; of a pattern, the folder of a span or the newest."""
    return tables_folders_now(tables_dir, span)[-1]


def tables_folders_now(tables_dir: str, span: str = "", *, num_spans: int = 1) -> tuple[str, ...]:
    """Returns the folders of a window of spans while a pipeline is built, the newest last; see `find_window`."""
    window = find_window(resolve_package_path(tables_dir), span, num_spans=num_spans)
    return tuple(one.folder for one in window.spans)


def tables_folder(exec_properties: Mapping[str, Any]) -> str:
    """Returns the folder of the tables of a run, or its pattern; one inside of a package is where that is installed."""
    return resolve_package_path(exec_properties["tables_dir"])


def tables_contents(exec_properties: Mapping[str, Any]) -> str:
    """Returns the hash that the tables of a run must have, several with commas between, or "" if none is required.

    Results are cached under that hash, so results of other tables would be cached under the wrong key.
    """
    given: str = exec_properties[TABLES_FINGERPRINT]
    return given.removeprefix(_CONTENTS) if given.startswith(_CONTENTS) else ""


def _scalar_options(options_class: type) -> list[str]:
    return [name for name, hint in flat_options(options_class).items() if hint in _SCALARS]


def _check_runtime_parameter(name: str, parameter: RuntimeParameter, overridable: Mapping[str, type]) -> None:
    if name not in overridable:
        raise ValueError(
            f"`runtime_parameters` must override one of {sorted(overridable)}; got {name!r}. "
            f"{did_you_mean(name, overridable, otherwise='Set other options when the pipeline is compiled.')}"
        )
    if parameter.ptype is not overridable[name]:
        raise TypeError(
            f"`runtime_parameters` must have the types of the options; got ptype={parameter.ptype} for {name!r}. "
            f"Use RuntimeParameter(name={parameter.name!r}, ptype={overridable[name].__name__})."
        )


def _to_scalar(name: str, value: Any, kind: type) -> Any:
    # Kubeflow has one type of number, so an int may arrive as a float.
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not kind:
        raise ValueError(
            f"`{name}` must be of type {kind.__name__}; got {value!r}. Give the parameter a value of that type."
        )
    return value

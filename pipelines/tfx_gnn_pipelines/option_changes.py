"""Changes of options by plain values, such as a file of options holds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from tfx_gnn.io import options_json
from tfx_gnn.io.option_kinds import KIND

_Options = TypeVar("_Options")


def changed(options: _Options, given: Any, *, place: str) -> _Options:
    """Changes the options that a mapping names and keeps the others; errors call them the options of `place`.

    Raises:
        ValueError: if a name is unknown, or a value breaks a rule.
    """
    if not given and given is not None:
        return options
    return read_options(merged(json.loads(options_json.to_json(options)), given), type(options), place=place)


def read_options(plain: Any, kind: type[_Options], *, place: str) -> _Options:
    """Reads plain values as options of a class; errors call them the options of `place`.

    Raises:
        ValueError: if a name is unknown or absent, or a value breaks a rule.
    """
    try:
        return options_json.from_json(json.dumps(plain), kind, name=place)
    except ValueError as error:
        # The checks of a value do not know whose it is.
        if place in str(error):
            raise
        raise ValueError(f"{error} This is an option of {place}.") from error


def merged(old: Any, new: Any) -> Any:
    """Puts new values into old mappings; a value of another kind replaces the old one."""
    if not isinstance(old, dict) or not isinstance(new, dict) or new.get(KIND, old.get(KIND)) != old.get(KIND):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def nested(key: str, value: Any) -> Any:
    """Makes {"a": {"b": value}} of the key "a.b"."""
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def with_dotted(given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Adds options whose names may have dots, such as "graph_trainer.training_seed"; these win."""
    result = dict(given)
    for key, value in more.items():
        result = merged(result, nested(key, value))
    return result

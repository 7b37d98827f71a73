"""How updates of a set name and pass the features they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Union

from tfx_gnn.graph import graph_constants as const

#: One name stands for one tensor; a sequence of names for a dict; None for an empty dict.
FeatureNames = Union[const.FieldName, Sequence[const.FieldName], None]


def normalized(names: FeatureNames) -> FeatureNames:
    """Makes names fit for a config.

    Args:
        names: a name, a sequence of names, or None.

    Returns:
        The same, with a list for a sequence.
    """
    return names if names is None or isinstance(names, str) else list(names)


def select(names: FeatureNames, get: Callable[[const.FieldName], Any]) -> Any:
    """Reads features in the form in which a next-state layer takes them.

    Args:
        names: a name, a sequence of names, or None.
        get: returns a feature by name.

    Returns:
        One feature for a name; a dict by name for a sequence; an empty dict for None.
    """
    if names is None:
        return {}
    if isinstance(names, str):
        return get(names)
    return {name: get(name) for name in names}

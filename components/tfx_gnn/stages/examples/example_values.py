"""The values of one parsed tf.Example, and the error for an example that breaks a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.stages.examples.graph_layout import SetLayout

BYTES, INTS, FLOATS = "bytes_list", "int64_list", "float_list"
KIND_OF_DTYPE = {tf.string: BYTES, tf.int64: INTS, tf.float32: FLOATS}
"""Which list of a tf.train.Feature holds values of a dtype."""

Features = Mapping[str, tf.train.Feature]


class BrokenRuleError(ValueError):
    """An example breaks a rule. Where the example stands, the caller knows."""

    def __init__(self, rule: str, got: str, advice: str) -> None:
        """Makes the error.

        Args:
            rule: what every example must fulfil, as in "'nodes/a.#size' is one number".
            got: what this one has.
            advice: what to do about it.
        """
        super().__init__(rule, got, advice)
        self.rule, self.got, self.advice = rule, got, advice

    def message(self, place: str) -> str:
        """The whole message.

        Args:
            place: the record, as `record_files.place_of` names it.
        """
        return f"`examples_dir` must hold examples in which {self.rule}; got {self.got} in {place}. {self.advice}"


def values_of(features: Features, key: str, kind: str) -> list[Any]:
    """Reads the values of a key.

    Args:
        features: the feature map of a parsed tf.Example.
        key: its key.
        kind: `BYTES`, `INTS` or `FLOATS`.

    Returns:
        The values; none if the key is absent or empty.

    Raises:
        BrokenRuleError: if there are values of another kind.
    """
    if key not in features:
        return []
    found = features[key].WhichOneof("kind")
    if found == kind:
        return list(getattr(features[key], kind).value)
    if num_values(features[key]):
        raise BrokenRuleError(f"{key!r} is a {kind}", f"a {found}", "Write the values in the declared dtype.")
    return []


def num_values(feature: tf.train.Feature) -> int:
    """Counts the values of a feature of whatever kind."""
    kind = feature.WhichOneof("kind")
    return len(getattr(feature, kind).value) if kind else 0


def set_size(features: Features, one_set: SetLayout) -> int:
    """Reads the number of items of a set.

    Args:
        features: the feature map of a parsed tf.Example.
        one_set: the set.

    Returns:
        The number; 1 for the context; 0 if `#size` is absent.

    Raises:
        BrokenRuleError: if `#size` is not one number, or is absent although the set has values.
    """
    if one_set.set_type == const.CONTEXT:
        return 1
    values = values_of(features, one_set.size_key, INTS)
    if not values:
        for key in [*one_set.structure_keys, *(column.key for column in one_set.features)]:
            if key in features and num_values(features[key]):
                raise BrokenRuleError(
                    f"{one_set.size_key!r} counts the items of {one_set.label}",
                    f"none beside {num_values(features[key])} values of {key!r}",
                    "Write the number of items.",
                )
        return 0
    if len(values) != 1 or values[0] < 0:
        raise BrokenRuleError(
            f"{one_set.size_key!r} is one number, at least 0",
            str(values[:5]),
            "Write one graph component to an example.",
        )
    return int(values[0])

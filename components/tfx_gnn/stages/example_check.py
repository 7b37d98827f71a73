"""Whether a graph tf.Example is what its graph schema says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.stages.graph_layout import FeatureColumn, GraphLayout, SetLayout

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


def check_example(features: Features, layout: GraphLayout) -> None:
    """Checks the keys, value kinds, lengths and edge ends of an example.

    A set without `#size` is empty, as TF-GNN has it; the features of an empty set may be absent.

    Args:
        features: the feature map of a parsed tf.Example.
        layout: the keys of the graph by its schema.

    Raises:
        BrokenRuleError: for the first rule that is broken.
    """
    sizes = {one_set.prefix: set_size(features, one_set) for one_set in layout.sets}
    for one_set in layout.sets:
        size = sizes[one_set.prefix]
        if one_set.set_type == const.EDGES:
            for key, node_set in ((one_set.source_key, one_set.source), (one_set.target_key, one_set.target)):
                check_ends(features, key, size, sizes[f"{const.NODES}/{node_set}"], node_set)
        for column in one_set.features:
            _check_column(features, column, size)
    for key in features:
        if key not in layout.set_of_key:
            raise BrokenRuleError(
                "every key is declared in the graph schema",
                f"undeclared {key!r}",
                "Declare it, or leave it out of the examples.",
            )


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


def check_ends(features: Features, key: str, num_edges: int, num_nodes: int, node_set: str) -> None:
    """Checks one end of the edges of a set.

    Args:
        features: the feature map of a parsed tf.Example.
        key: a `#source` or `#target` key.
        num_edges: number of edges.
        num_nodes: number of nodes at this end.
        node_set: name of the node set at this end.

    Raises:
        BrokenRuleError: if an end is missing or dangles.
    """
    ends = values_of(features, key, INTS)
    if len(ends) != num_edges:
        raise BrokenRuleError(
            f"{key!r} has one node index for each of the edges",
            f"{len(ends)} values for {num_edges} edges",
            "Write all ends.",
        )
    if ends and not (min(ends) >= 0 and max(ends) < num_nodes):
        worst = max(ends) if max(ends) >= num_nodes else min(ends)
        raise BrokenRuleError(
            f"{key!r} points into node set {node_set!r}",
            f"index {worst} with {num_nodes} nodes",
            "Remove the dangling edge.",
        )


def _check_column(features: Features, column: FeatureColumn, num_items: int) -> None:
    if num_items and column.key not in features:
        raise BrokenRuleError(f"{column.key!r} is there", "no such key", "Write the declared feature.")
    values = values_of(features, column.key, KIND_OF_DTYPE[column.dtype])
    rows = num_items
    for axis, size in enumerate(column.shape):
        if size is not None:
            rows *= size
            continue
        key = column.row_length_keys[axis]
        lengths = values_of(features, key, INTS)
        if len(lengths) != rows or (lengths and min(lengths) < 0):
            raise BrokenRuleError(
                f"{key!r} has a row length, at least 0, for each of {rows} rows",
                f"{len(lengths)} lengths {lengths[:5]}",
                "Write one length for each row of the ragged dimension.",
            )
        rows = sum(lengths)
    if len(values) != rows:
        raise BrokenRuleError(
            f"{column.key!r} has shape {list(column.shape)} for each of {num_items} items, {rows} values in all",
            f"{len(values)} values",
            "Write all values, or correct the shape in the schema.",
        )

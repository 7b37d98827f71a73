"""Mergeable summary of the keys, types and sizes in graph tf.Examples."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.records.example_batches import INTS, BrokenRuleError, ExampleBatch, Features, num_values, values_of
from tfx_gnn.records.graph_layout import prefix_of_key

_SIZE_SUFFIX = "." + const.SIZE_NAME
_NODES = f"{const.NODES}/"
_ENDS = (const.SOURCE_NAME, const.TARGET_NAME)
_ROW_LENGTHS = re.compile(r"(?P<feature>.+)\.d(?P<axis>[1-9][0-9]*)")
_MAX_EVIDENCE = 2  # One more value than a consistent data set has.

Evidence = dict[int, str]
"""Values found for a quantity, with the first place of each; two entries contradict each other."""


@dataclasses.dataclass(kw_only=True)
class KeySummary:
    """Summary of one tf.Example key.

    Attributes:
        num_present: examples that have the key, empty or not; among checked examples, those with a kind.
        num_with_items: how many of those examples have items in the key's set.
        kinds: kinds of values ("bytes_list", "int64_list", "float_list"), with the first place of each.
        rows_per_item: for features and row lengths, the number of entries per row of the dimension before. For
            a feature without ragged dimension, that is the number of values per item.
        ruled_out: for ends of edges, the node sets that they cannot point into, with the first evidence of each. If
            there is only one node set, none.
    """

    num_present: int = 0
    num_with_items: int = 0
    kinds: dict[str, str] = dataclasses.field(default_factory=dict)
    rows_per_item: Evidence = dataclasses.field(default_factory=dict)
    ruled_out: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(kw_only=True)
class ExamplesSummary:
    """Summary of a data set, or of a part of it.

    Attributes:
        num_examples: examples seen.
        num_broken: examples that break a rule; nothing else is gathered from them.
        first_broken: message about the first broken example; empty if there is none.
        keys: summary of each key.
    """

    num_examples: int = 0
    num_broken: int = 0
    first_broken: str = ""
    keys: dict[str, KeySummary] = dataclasses.field(default_factory=dict)


def add_presence(summary: ExamplesSummary, batch: ExampleBatch) -> None:
    """Counts the keys of examples that were checked against a schema."""
    summary.num_examples += batch.num_examples
    for key, column in batch.columns.items():
        summary.keys.setdefault(key, KeySummary()).num_present += int(column.is_present.sum())


def add_evidence(summary: ExamplesSummary, features: Features, place: str) -> None:
    """Gathers what an example shows about kinds and shapes when there is no schema.

    An example that contradicts itself raises BrokenRuleError and leaves the summary unchanged.
    """
    sizes = _sizes(features)
    row_lengths = row_length_axes(features)
    evidence = {key: _rows_per_item(features, key, sizes, row_lengths) for key in features if not is_size_key(key)}
    ruled_out = {key: _too_small(features, key, sizes) for key in features if key.endswith(_ENDS)}
    summary.num_examples += 1
    for key in features:
        key_summary = summary.keys.setdefault(key, KeySummary())
        key_summary.num_present += 1
        key_summary.num_with_items += sizes.get(prefix_of_key(key, sizes) or "", 0) > 0
        if num_values(features[key]):
            key_summary.kinds.setdefault(features[key].WhichOneof("kind") or "", place)
        rows = evidence.get(key)
        if rows is not None and len(key_summary.rows_per_item) < _MAX_EVIDENCE:
            key_summary.rows_per_item.setdefault(rows, place)
        for node_set, finding in ruled_out.get(key, {}).items():
            key_summary.ruled_out.setdefault(node_set, f"{finding} in {place}")


def merge_summaries(summaries: Iterable[ExamplesSummary]) -> ExamplesSummary:
    """Adds up summaries of disjoint parts; which first place is kept does not depend on the order of the parts."""
    merged = ExamplesSummary()
    for part in summaries:
        merged.num_examples += part.num_examples
        merged.num_broken += part.num_broken
        merged.first_broken = min(filter(None, (merged.first_broken, part.first_broken)), default="")
        for key, found in part.keys.items():
            known = merged.keys.setdefault(key, KeySummary())
            known.num_present += found.num_present
            known.num_with_items += found.num_with_items
            for kind, place in found.kinds.items():
                known.kinds[kind] = min(place, known.kinds.get(kind, place))
            for rows, place in found.rows_per_item.items():
                known.rows_per_item[rows] = min(place, known.rows_per_item.get(rows, place))
            for node_set, finding in found.ruled_out.items():
                known.ruled_out[node_set] = min(finding, known.ruled_out.get(node_set, finding))
    return merged


def is_size_key(key: str) -> bool:
    """Returns whether a key holds the number of items of a node set or edge set."""
    return key.endswith(_SIZE_SUFFIX) and key.startswith((f"{const.NODES}/", f"{const.EDGES}/"))


def split_row_length_key(key: str) -> tuple[str, int] | None:
    """Splits a key of row lengths into the feature's key and the axis, from 1; None if it has another form."""
    match = _ROW_LENGTHS.fullmatch(key)
    return (match["feature"], int(match["axis"])) if match else None


def row_length_key(feature_key: str, axis: int) -> str:
    """Returns the key of a feature's row lengths at an axis, counted from 1."""
    return f"{feature_key}.d{axis}"


def row_length_axes(keys: Collection[str]) -> dict[str, list[int]]:
    """Finds the axes with row lengths, from 1 and ascending, by the key of each feature that has some."""
    axes: dict[str, list[int]] = {}
    for key in keys:
        lengths = split_row_length_key(key)
        if lengths and lengths[0] in keys:
            axes.setdefault(lengths[0], []).append(lengths[1])
    return {key: sorted(found) for key, found in axes.items()}


def _sizes(features: Features) -> dict[str, int]:
    sizes = {const.CONTEXT: 1}
    for key in features:
        if is_size_key(key):
            values = values_of(features, key, INTS)
            if len(values) > 1 or (values and values[0] < 0):
                raise BrokenRuleError(
                    f"{key!r} is one number, at least 0", str(values[:5]), "Write one graph component to an example."
                )
            sizes[key.removesuffix(_SIZE_SUFFIX)] = values[0] if values else 0
    return sizes


def _rows_per_item(
    features: Features, key: str, sizes: dict[str, int], row_lengths: dict[str, list[int]]
) -> int | None:
    """Counts the entries of a key per row of the dimension before it; None if the example does not show that."""
    count = num_values(features[key])
    prefix = prefix_of_key(key, sizes)
    if prefix is None:
        if count == 0:
            return None
        raise BrokenRuleError(
            "every key belongs to the context or to a set with `#size`",
            f"{key!r}",
            "Write `nodes/<set>.#size` or `edges/<set>.#size`, or put a graph_schema.pbtxt next to the splits.",
        )
    if key.endswith(_ENDS):
        _check_ends(features, key, sizes, sizes[prefix])
        return None
    rows = sizes[prefix]
    lengths = split_row_length_key(key)
    feature_key, last_axis = lengths if lengths and lengths[0] in row_lengths else (key, None)
    for axis in row_lengths.get(feature_key, []):
        if last_axis is not None and axis >= last_axis:
            break
        rows = sum(values_of(features, row_length_key(feature_key, axis), INTS))
    if rows == 0:
        if count:
            raise BrokenRuleError(
                f"{key!r} is empty where its set is", f"{count} values", "Correct `#size` or the values."
            )
        return None
    if count % rows:
        raise BrokenRuleError(
            f"{key!r} has as many values for each of its {rows} rows", f"{count} values", "Write all values."
        )
    return count // rows


def _check_ends(features: Features, key: str, sizes: dict[str, int], num_edges: int) -> None:
    ends = values_of(features, key, INTS)
    if len(ends) != num_edges:
        raise BrokenRuleError(
            f"{key!r} has one node index for each of the edges",
            f"{len(ends)} values for {num_edges} edges",
            "Write all ends.",
        )
    if not ends:
        return
    node_sets = [prefix for prefix in sizes if prefix.startswith(_NODES)]
    if len(node_sets) == 1 and not (min(ends) >= 0 and max(ends) < sizes[node_sets[0]]):
        num_nodes = sizes[node_sets[0]]
        worst = max(ends) if max(ends) >= num_nodes else min(ends)
        raise BrokenRuleError(
            f"{key!r} points into node set {node_sets[0].removeprefix(_NODES)!r}",
            f"index {worst} with {num_nodes} nodes",
            "Remove the dangling edge.",
        )
    most = max((sizes[prefix] for prefix in node_sets), default=0)
    if min(ends) < 0 or max(ends) >= most:
        worst = min(ends) if min(ends) < 0 else max(ends)
        raise BrokenRuleError(
            f"{key!r} points into a node set",
            f"index {worst} with at most {most} nodes in a set",
            "Remove the dangling edge.",
        )


def _too_small(features: Features, key: str, sizes: dict[str, int]) -> dict[str, str]:
    """Names the node sets of an example that have too few nodes for the ends of its edges, if it has several sets."""
    ends = values_of(features, key, INTS)
    node_sets = {prefix.removeprefix(_NODES): size for prefix, size in sizes.items() if prefix.startswith(_NODES)}
    if not ends or len(node_sets) < 2:
        return {}
    highest = max(ends)
    return {name: f"index {highest} with {size} nodes" for name, size in node_sets.items() if size <= highest}

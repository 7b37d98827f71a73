"""Finds features of the seed that reveal its label.

A feature is a copy of the label if both are equal, or if values and labels correspond one to one.
It determines the label if each value occurs with one label only. Both criteria mean
something only if values repeat, because each repetition could have had another label.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.components.graph_example_validator.split_leaks import SeedsOfBatch
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.records.graph_layout import FeatureColumn, GraphLayout
from tfx_gnn.records.readout_roots import READOUT_PREFIX, RootSets
from tfx_gnn.records.value_hashes import Hashes, Rows, group_equal, hash_items, hash_values
from tfx_gnn.sampling.random_choice import mix

LABEL_COPIED = "label_copied_into_feature"
LABEL_DETERMINED = "label_determined_by_feature"

LABEL_ROW = np.dtype([("column", "<u4"), ("value", "<u8"), ("label", "<u8"), ("count", "<i8")])
"""Number of seeds with a given value of a feature and a given label."""

_MIN_EQUAL = 8
_MIN_EVIDENCE = math.log(1e6)
_MIN_REPEATED_SHARE = 0.5
_MAX_PARTS = 32
_EDGE = "edge"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelColumn:
    """A feature, or a part of one, that may reveal a label.

    Attributes:
        label: tf.Example key of the label, at `_readout` or in the context.
        key: tf.Example key of the feature; for the label's own column, the label's key.
        root: root of the seed that has the feature, or "edge" for the seed's edge; empty for features of the
            readout and the context.
        part: position within the flattened value; -1 for the whole value.
    """

    label: str
    key: str
    root: str = ""
    part: int = -1

    @property
    def about(self) -> str:
        """The feature in words."""
        return self.key if self.part < 0 else f"{self.key}[{self.part}]"


@dataclasses.dataclass(kw_only=True)
class ColumnCounts:
    """How a column and a label co-occur.

    Attributes:
        num_seeds: labelled seeds.
        num_equal: seeds whose value equals the label.
        num_values: distinct values.
        num_mixed: distinct values that occur with more than one label.
        largest: seeds with the most frequent value.
    """

    num_seeds: int = 0
    num_equal: int = 0
    num_values: int = 0
    num_mixed: int = 0
    largest: int = 0


def list_label_columns(
    layout: GraphLayout, roots: RootSets, labels: Sequence[str], others: Sequence[str]
) -> list[LabelColumn]:
    """Lists the columns that may reveal labels, without ids and without `others`, keys that are not model inputs.

    For each label, its own column comes first, then features of the roots, of the seed's edge if examples hold it,
    of the readout and of the context. `make_label_rows` and `find_label_copies` rely on this order.
    """
    sets = [(root, f"{const.NODES}/{node_set}") for root, node_set in sorted(roots.node_sets.items())]
    if roots.shadowed:
        sets.append((_EDGE, f"{const.EDGES}/{roots.shadowed}"))
    columns = []
    for label in labels:
        columns.append(LabelColumn(label=label, key=label))
        for root, prefix in (*sets, ("", READOUT_PREFIX), ("", const.CONTEXT)):
            one_set = layout.set_by_prefix.get(prefix)
            for feature in one_set.features if one_set is not None else ():
                if feature.name == ID_NAME or feature.key in {*labels, *others}:
                    continue
                columns.append(LabelColumn(label=label, key=feature.key, root=root))
                columns += [
                    LabelColumn(label=label, key=feature.key, root=root, part=part)
                    for part in range(_num_parts(feature))
                ]
    return columns


def make_label_rows(seeds: SeedsOfBatch, columns: Sequence[LabelColumn], layout: GraphLayout) -> Rows:
    """Pairs each feature with the label, for the labelled seeds of a batch, as `LABEL_ROW`."""
    label_hashes: Hashes = np.zeros(0, np.uint64)
    has_label = np.zeros(0, bool)
    items: dict[str, Hashes] = {}
    parts = []
    for number, column in enumerate(columns):
        feature = layout.features[column.key]
        if column.key not in items:
            items[column.key] = hash_items(seeds.batch, feature, layout.set_of_key[column.key].prefix)
        if column.key == column.label:
            has_label = seeds.roots.is_whole & (len(items[column.key]) > 0)
            label_hashes = items[column.key][_item_index(seeds, column, layout)[has_label]]
        if not has_label.any():
            continue
        values = items[column.key] if column.part < 0 else _part_hashes(seeds, feature, column)
        index = _item_index(seeds, column, layout)[has_label]
        rows = np.ones(len(index), LABEL_ROW)
        rows["column"], rows["value"], rows["label"] = number, values[index], label_hashes
        parts.append(rows)
    return reduce_label_rows(np.concatenate(parts)) if parts else np.zeros(0, LABEL_ROW)


def hash_label_rows(rows: Rows) -> Hashes:
    """Hashes that group equal values of a column."""
    return mix(rows["value"] ^ mix(rows["column"].astype(np.uint64)))


def reduce_label_rows(rows: Rows) -> Rows:
    """Adds up the counts of rows with equal column, value and label."""
    ordered, starts = group_equal(rows, ("column", "value", "label"))
    reduced = ordered[starts]
    if len(starts):
        reduced["count"] = np.add.reduceat(ordered["count"], starts)
    return reduced


def count_label_rows(rows: Rows, num_columns: int) -> list[ColumnCounts]:
    """Counts how columns and labels co-occur, from all rows of some values, reduced."""
    counts = [ColumnCounts() for _ in range(num_columns)]
    ordered, starts = group_equal(rows, ("column", "value"))
    if not len(rows):
        return counts
    num_labels = np.diff(np.append(starts, len(ordered)))
    num_seeds = np.add.reduceat(ordered["count"], starts)
    is_equal = ordered["value"] == ordered["label"]
    columns = ordered["column"][starts]
    for number in np.unique(columns).tolist():
        of_column = columns == number
        counts[number] = ColumnCounts(
            num_seeds=int(num_seeds[of_column].sum()),
            num_equal=int(ordered["count"][is_equal & (ordered["column"] == number)].sum()),
            num_values=int(of_column.sum()),
            num_mixed=int((num_labels[of_column] > 1).sum()),
            largest=int(num_seeds[of_column].max()),
        )
    return counts


def merge_label_counts(parts: Iterable[Sequence[ColumnCounts]]) -> list[ColumnCounts]:
    """Adds up counts of disjoint values, in any order."""
    merged: list[ColumnCounts] = []
    for part in parts:
        merged += [ColumnCounts() for _ in range(len(part) - len(merged))]
        for total, counts in zip(merged, part, strict=False):
            total.num_seeds += counts.num_seeds
            total.num_equal += counts.num_equal
            total.num_values += counts.num_values
            total.num_mixed += counts.num_mixed
            total.largest = max(total.largest, counts.largest)
    return merged


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelCopy:
    """A feature that reveals a label.

    Attributes:
        check: `LABEL_COPIED` or `LABEL_DETERMINED`.
        key: tf.Example key of the feature.
        about: the feature, or the part of it.
        num_seeds: labelled seeds.
        detail: how values and labels correspond.
    """

    check: str
    key: str
    about: str
    num_seeds: int
    detail: str


def find_label_copies(columns: Sequence[LabelColumn], counts: Sequence[ColumnCounts]) -> list[LabelCopy]:
    """Finds the columns that reveal a label; parts of a feature are omitted if the whole feature is reported."""
    copies: list[LabelCopy] = []
    labels = ColumnCounts()
    for column, found in zip(columns, counts, strict=True):
        if column.key == column.label:
            labels = found
            continue
        if column.part >= 0 and copies and copies[-1].about == column.key:
            continue
        verdict = _verdict(column.label, found, labels)
        if verdict is not None:
            check, detail = verdict
            copies.append(
                LabelCopy(check=check, key=column.key, about=column.about, num_seeds=found.num_seeds, detail=detail)
            )
    return copies


def _verdict(label: str, found: ColumnCounts, labels: ColumnCounts) -> tuple[str, str] | None:
    num_labels = labels.num_values
    if num_labels < 2 or found.num_mixed:
        return None
    if found.num_equal == found.num_seeds and found.num_seeds >= _MIN_EQUAL:
        return LABEL_COPIED, f"equals label {label!r} in all of {found.num_seeds} seeds"
    # By chance, a repeated value has its label again with at most the frequency of the most frequent label.
    num_repeated = found.num_seeds - found.num_values
    if num_repeated * -math.log(labels.largest / labels.num_seeds) < _MIN_EVIDENCE:
        return None
    words = f"{found.num_values} values, {num_labels} labels, {found.num_seeds} seeds"
    if found.num_values == num_labels:
        return LABEL_COPIED, f"one value for each label {label!r} and one label for each value: {words}"
    if num_repeated >= _MIN_REPEATED_SHARE * found.num_seeds:
        return LABEL_DETERMINED, f"no value occurs with two labels {label!r}: {words}"
    return None


def _num_parts(feature: FeatureColumn) -> int:
    if feature.is_ragged:
        return 0
    num_parts = math.prod(size for size in feature.shape if size is not None)
    return num_parts if 1 < num_parts <= _MAX_PARTS else 0


def _part_hashes(seeds: SeedsOfBatch, feature: FeatureColumn, column: LabelColumn) -> Hashes:
    values = seeds.batch.column(feature.key).values
    num_parts = _num_parts(feature)
    chosen = values.take(np.arange(column.part, len(values), num_parts))
    return hash_values(chosen)


def _item_index(seeds: SeedsOfBatch, column: LabelColumn, layout: GraphLayout) -> npt.NDArray[np.int64]:
    """int64 [num_readouts]: position of the item that has the feature, per readout."""
    if column.root == _EDGE:
        assert seeds.roots.edges is not None
        return seeds.roots.edges
    if column.root:
        return seeds.roots.nodes[column.root]
    if layout.set_of_key[column.key].set_type == const.CONTEXT:
        return seeds.roots.examples
    return np.arange(len(seeds.roots.examples))

"""The label of a proposal: which column is predicted, as a class or as a number, and rows that lack it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature, GraphSchema
from tfx_gnn.graph.schema.schema_io import iter_sets
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.label_splits import SPLIT_COLUMN
from tfx_gnn.tables.schema_inference import read_all_columns
from tfx_gnn_pipelines.proposals.tables import SetTable, like_label

_MOST_CLASSES = 20
"""Integers of at most so many different values are classes; of more, quantities."""
_TWO_CLASSES = 2
_RARE = 0.25
"""A class of fewer rows is hardly ever the likelier answer, however well a model knows where it is likelier."""
_LABEL_NAMES = ("label", "class", "target", "y")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Label:
    """The column that is predicted.

    Attributes:
        node_set: its node set.
        feature: its name.
        kind: "node_classification" or "node_regression".
        num_outputs: how many numbers a regression predicts.
        reason: why it is of this kind, as in "4 different texts".
        rare_share: share of the rarer of two classes; None if there are others.
    """

    node_set: str
    feature: str
    kind: str
    num_outputs: int = 1
    reason: str
    rare_share: float | None = None


def is_rare(share: float | None) -> bool:
    """Whether the rarer of two classes has so few rows that the order of answers says more than the likeliest ones."""
    return share is not None and share < _RARE


def find_label(label: str, schema: GraphSchema, tables: Mapping[str, SetTable], *, named: str = "") -> Label:
    """Finds the column that is predicted.

    Args:
        label: "node set.column".
        schema: graph schema of the tables.
        tables: the tables by label, such as "nodes/user".
        named: the node set whose rows the label names by their ids; empty if it names none.

    Raises:
        ValueError: if it is no column of a node set, or cannot be predicted.
    """
    known = {
        f"{name}.{feature}": (kind, name, feature)
        for kind, name, declared in iter_sets(schema)
        for feature in sorted(declared.features)
        if not feature.startswith("#") and feature != SPLIT_COLUMN
    }
    of_nodes = {text: place for text, place in known.items() if place[0] == "nodes"}
    if not of_nodes:
        raise ValueError(
            "`tables_dir` must hold a node table with a column to predict; got columns of ids alone. Add a column of "
            "labels to a node table."
        )
    listed = "; ".join(
        f"{name}: {', '.join(feature for _, one, feature in of_nodes.values() if one == name)}"
        for name in sorted({name for _, name, _ in of_nodes.values()})
    )
    if not label:
        raise ValueError(
            f"`label` must name the column of a node set that is predicted; got none. The node sets have the columns "
            f"{listed}. Write, for example, --label {_likely_label(of_nodes, tables)}"
        )
    kind, name, feature = known.get(label) or ("", "", "")
    if kind in ("edges", "context"):
        page = "predict_links.md" if kind == "edges" else "predict_graphs.md"
        raise ValueError(
            f"`label` must be a column of a node set; got {label!r}, of "
            f"{'an edge set' if kind == 'edges' else 'the context'}. Give one of {listed}; or predict it by a plan of "
            f"your own, as docs/tutorials/{page} shows."
        )
    if not kind:
        one_set, _, column = label.partition(".")
        table = tables.get(f"nodes/{one_set}")
        if table is not None and column in table.columns:
            what = "holds ids or splits" if table.columns[column].num_filled else "is empty"
            what = what if table.num_rows else f"is of a table without rows, {table.layout.declared_as}"
            raise ValueError(
                f"`label` must be a column with values to predict; got {label!r}, which {what}. Give one of {listed}."
            )
        raise ValueError(
            f"`label` must be a node set and one of its columns, SET.COLUMN; got {label!r} where there are {listed}. "
            f"{like_label(label, list(of_nodes))}"
        )
    return _label_kind(name, feature, schema.node_sets[name].features[feature], tables[f"nodes/{name}"], named)


def _likely_label(known: Mapping[str, tuple[str, str, str]], tables: Mapping[str, SetTable]) -> str:
    def is_unlikely(text: str) -> tuple[bool, bool, bool]:
        _, name, feature = known[text]
        values = tables[f"nodes/{name}"].values_of(feature)
        is_few = 2 <= values.num_distinct <= _MOST_CLASSES and values.num_filled == values.num_rows
        return feature.casefold() not in _LABEL_NAMES, not is_few, values.numbers() is not None

    return min(known, key=is_unlikely)


def _label_kind(name: str, feature: str, declared: Feature, table: SetTable, named: str) -> Label:
    """Decides whether a label is a class or a number."""
    dtype, values = tf.dtypes.as_dtype(declared.dtype), table.values_of(feature)
    sizes = [dim.size for dim in declared.shape.dim]
    place = f"{f'{name}.{feature}'!r}"
    if sizes and (len(sizes) > 1 or sizes[0] < 1 or not dtype.is_floating):
        raise ValueError(
            f"`label` must be one text or number in each row, or as many floats in each; got {place} of type "
            f"{dtype.name} and shape {sizes}. Name another column."
        )
    if sizes:
        return Label(
            node_set=name, feature=feature, kind="node_regression", num_outputs=sizes[0], reason=f"{sizes[0]} floats"
        )
    if values.num_distinct < 2:
        raise ValueError(
            f"`label` must have at least two different values; got {values.num_distinct} in {place}. Name another "
            "column."
        )
    is_repeated = 2 * values.num_distinct <= values.num_filled
    word = {tf.string: "texts", tf.bool: "truth values"}.get(dtype, "integers" if dtype.is_integer else "floats")
    if named:
        word = f"ids of {named}"
    if (dtype == tf.string or named) and not is_repeated:
        raise ValueError(
            f"`label` must name a class, which several rows share; got {place} with {values.num_distinct:,} "
            f"different {word} in {values.num_filled:,} rows. Name another column."
        )
    reason = f"{values.num_distinct:,} different {word}"
    # An id is no quantity, however many there are.
    is_class = (
        dtype in (tf.string, tf.bool)
        or bool(named)
        or (dtype.is_integer and is_repeated and values.num_distinct <= _MOST_CLASSES)
    )
    counts = values.counts.to_pylist()
    return Label(
        node_set=name,
        feature=feature,
        kind="node_classification" if is_class else "node_regression",
        reason=reason,
        rare_share=min(counts) / sum(counts) if is_class and len(counts) == _TWO_CLASSES else None,
    )


def check_labels(label: Label, seeds: SetTable, splits: SplitPlan) -> None:
    """Refuses rows without a label, unless the split column says that they are not predicted."""
    values = seeds.values_of(label.feature)
    declared = seeds.layout.columns[label.feature]
    if label.num_outputs > 1 or values.num_filled == values.num_rows:
        return
    num_missing = values.num_rows - values.num_filled
    if splits.unused_values:
        num_missing = 0
        for block in read_all_columns(seeds.layout):
            split = block.columns.column(SPLIT_COLUMN).cast("string")
            is_used = pc.invert(pc.is_in(split, value_set=pa.array(splits.unused_values)))
            is_missing = block.columns.column(declared.name).is_null()
            num_missing += pc.sum(pc.and_(is_used, is_missing)).as_py() or 0
    if num_missing:
        raise ValueError(
            f"`label` must have a value in every row that is predicted; got {num_missing:,} of {values.num_rows:,} "
            f"rows of {seeds.layout.declared_as} without one in {label.feature!r}. Fill them in, or add a column "
            f"{SPLIT_COLUMN!r} that is train, val or test where there is a label, and unlabeled elsewhere."
        )

"""Proposes a project for tables: their graph schema, what to sample, how columns become features, what to predict."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import Feature, GraphSchema
from tfx_gnn.graph.schema.schema_io import iter_sets
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.prepared_tables import PreparedTables
from tfx_gnn.tables.schema_inference import read_all_columns
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY
from tfx_gnn_pipelines.proposals.hops import propose_hops
from tfx_gnn_pipelines.proposals.label_leaks import LabelLeak, find_label_leaks
from tfx_gnn_pipelines.proposals.preparations import Preparation, choose_preparation
from tfx_gnn_pipelines.proposals.tables import SetTable, declared_set, fill_in, find_source, set_table

_MOST_CLASSES = 20
"""Integers of at most so many different values are classes; of more, quantities."""
_SPLIT_COLUMN = "split"
"""Column of a table with the split of each row."""
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
    """

    node_set: str
    feature: str
    kind: str
    num_outputs: int = 1
    reason: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal:
    """A project for tables.

    Attributes:
        tables_dir: folder of the tables: the given one, or that of the tables that were prepared.
        schema: graph schema of the tables.
        is_inferred: whether the schema was inferred; otherwise the folder holds it.
        keys: what refers to what in tables that were prepared, a sentence each.
        label: what is predicted.
        hops: what to sample around each seed.
        splits: which split each seed belongs to.
        seed_time: feature with the times of the seeds; empty if none is known.
        temporal: which edges are newer than a seed; None if edges have no times.
        leaks: columns of the seeds that tell the label almost alone, and are kept out of the examples.
        features: preparations by set, as in "nodes/user", and column.
        num_dangling: by edge set, its rows that name a node that is not there, if there are any.
    """

    tables_dir: str
    schema: GraphSchema
    is_inferred: bool
    keys: tuple[str, ...]
    label: Label
    hops: tuple[Hop, ...]
    splits: SplitPlan
    seed_time: str
    temporal: Temporal | None
    leaks: tuple[LabelLeak, ...]
    features: Mapping[str, Mapping[str, Preparation]]
    num_dangling: Mapping[str, int]

    def remarks(self) -> Iterator[str]:
        """Says what was decided, a sentence each."""
        yield from self.keys
        yield f"edges: {'; '.join(self._edges()) or 'none'}."
        yield (
            f"{self.label.node_set}.{self.label.feature} has {self.label.reason}: predicted by {self.label.kind}, "
            f"split by {self._rule()}."
        )
        yield from self._times()
        if self.splits.unused_values:
            yield f"Rows whose {self.splits.column!r} is one of {list(self.splits.unused_values)} are not predicted."
        for leak in self.leaks:
            place = f"{self.label.node_set}.{leak.column}"
            yield (
                f"{place} is left out of the examples: {leak.evidence}. Probably it is known only after the label. If "
                f"it is known before, take it out of `excluded_features`, declare it in `features`, and write "
                f"graph_example_validator: {{accepted_features: [nodes/{place}]}}."
            )
        for prefix, of_set in self.features.items():
            for column, preparation in of_set.items():
                if preparation.kind == "drop":
                    yield f"{prefix}.{column} is no feature: {preparation.reason}."
        for edge_set, number in self.num_dangling.items():
            yield f"Rows of {edge_set} that name a node that no table has, and are left out: {number:,}."
        if not self.hops:
            yield f"No edges lead to or from {self.label.node_set}: the model sees the columns of a node alone."

    def _times(self) -> Iterator[str]:
        if self.splits.rule == "hash" and self.seed_time:
            yield (
                f"{self.label.node_set}.{self.seed_time} holds times, but is empty in some rows or has too few "
                "different ones to split by: training sees rows that are later than those that the model is tested on."
            )
        if self.temporal is not None:
            yield (
                f"A seed does not see edges that are newer than its {self.temporal.seed_time}: "
                f"{', '.join(self.temporal.edge_times)}."
            )
            timeless = sorted({hop.edge_set for hop in self.hops} - set(self.temporal.edge_times))
            if timeless:
                yield f"Edges without a time are visible to all seeds: {', '.join(timeless)}."

    def _rule(self) -> str:
        if self.splits.rule == "time":
            bounds = "; ".join(
                f"{split} before {dt.datetime.fromtimestamp(bound, dt.timezone.utc):%Y-%m-%d %H:%M}"
                for split, bound in self.splits.until.items()
                if bound is not None
            )
            return f"{self.splits.time_feature}: {bounds}; then {list(self.splits.until)[-1]}"
        return f"column {self.splits.column!r}" if self.splits.column else "a hash of the id"

    def _edges(self) -> Iterator[str]:
        for name in sorted(self.schema.edge_sets):
            edge_set = self.schema.edge_sets[name]
            yield f"{name} from {edge_set.source} to {edge_set.target}"


def propose_project(tables_dir: str, *, label: str, prepared_dir: str = "") -> Proposal:
    """Proposes a project for tables.

    Args:
        tables_dir: folder of CSV or Parquet files, with or without graph_schema.pbtxt.
        label: what to predict, as "node set.column".
        prepared_dir: empty or absent folder for tables that must be written anew, because rows have no ids, foreign
            keys are empty in some rows, entities have no table of their own, or the label's rows have times, which
            the edges to them need too.

    Returns:
        The proposal; nothing is written but prepared tables.

    Raises:
        ValueError: if the tables do not show what the schema is, or the label is no column that can be predicted.
    """
    access = TableAccess()
    source = find_source(tables_dir, label, prepared_dir, access)
    schema, prepared = source.schema, source.prepared
    tables = {
        layout.label: set_table(layout, source.columns, declared_set(schema, layout).metadata.filename)
        for layout in layouts_of(schema, source.tables_dir, access=access).all
        if layout.kind in ("node", "edge")
    }
    times = {f"nodes/{name}": column for name, column in (prepared.node_times if prepared else {}).items()}
    times |= {f"edges/{name}": column for name, column in (prepared.edge_times if prepared else {}).items()}
    if source.is_inferred:
        fill_in(schema, tables, times)
    predicted = _find_label(label, schema, tables)
    seeds = tables[f"nodes/{predicted.node_set}"]
    seed_time = prepared.node_times.get(predicted.node_set, "") if prepared else ""
    splits = _propose_splits(seeds, seed_time)
    _check_labels(predicted, seeds, splits)
    hops = propose_hops(schema, {name: table.num_rows for name, table in tables.items()}, predicted.node_set)
    leaks = _find_leaks(schema, seeds, predicted, splits)
    left_out = {predicted.feature, splits.column, *(leak.column for leak in leaks)}
    temporal = _propose_temporal(prepared, hops, seed_time)
    return Proposal(
        tables_dir=source.tables_dir,
        keys=source.remarks,
        seed_time=seed_time,
        temporal=temporal,
        schema=schema,
        is_inferred=source.is_inferred,
        label=predicted,
        hops=hops,
        splits=splits,
        leaks=tuple(leaks),
        features=dict(propose_features(schema, tables, predicted.node_set, hops, left_out=left_out, times=times)),
        num_dangling=dict(count_dangling(schema, tables, hops)),
    )


def _find_label(label: str, schema: GraphSchema, tables: Mapping[str, SetTable]) -> Label:
    known = {
        f"{name}.{feature}": (kind, name, feature)
        for kind, name, declared in iter_sets(schema)
        for feature in sorted(declared.features)
        if not feature.startswith("#") and feature != _SPLIT_COLUMN
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
            raise ValueError(
                f"`label` must be a column with values to predict; got {label!r}, which "
                f"{'holds ids or splits' if table.columns[column].num_filled else 'is empty'}. Give one of {listed}."
            )
        alike = [text for text in of_nodes if text.partition(".")[2] == label.rpartition(".")[2]]
        advice = f"Did you mean {alike[0]!r}?" if alike else did_you_mean(label, of_nodes)
        raise ValueError(
            f"`label` must be a node set and one of its columns, SET.COLUMN; got {label!r} where there are {listed}. "
            f"{advice}"
        )
    return _label_kind(name, feature, schema.node_sets[name].features[feature], tables[f"nodes/{name}"])


def _likely_label(known: Mapping[str, tuple[str, str, str]], tables: Mapping[str, SetTable]) -> str:
    def is_unlikely(text: str) -> tuple[bool, bool, bool]:
        _, name, feature = known[text]
        values = tables[f"nodes/{name}"].values_of(feature)
        is_few = 2 <= values.num_distinct <= _MOST_CLASSES and values.num_filled == values.num_rows
        return feature.casefold() not in _LABEL_NAMES, not is_few, values.numbers() is not None

    return min(known, key=is_unlikely)


def _label_kind(name: str, feature: str, declared: Feature, table: SetTable) -> Label:
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
    if dtype == tf.string and not is_repeated:
        raise ValueError(
            f"`label` must name a class, a text that several rows share; got {place} with {values.num_distinct:,} "
            f"different texts in {values.num_filled:,} rows. Name another column."
        )
    word = {tf.string: "texts", tf.bool: "truth values"}.get(dtype, "integers" if dtype.is_integer else "floats")
    reason = f"{values.num_distinct:,} different {word}"
    is_class = dtype in (tf.string, tf.bool) or (
        dtype.is_integer and is_repeated and values.num_distinct <= _MOST_CLASSES
    )
    return Label(
        node_set=name, feature=feature, kind="node_classification" if is_class else "node_regression", reason=reason
    )


def _propose_splits(seeds: SetTable, time: str) -> SplitPlan:
    """Splits by a column `split` if it names a split `train`, then by the time of rows, otherwise by hash."""
    column = seeds.columns.get(_SPLIT_COLUMN)
    if column is None or "train" not in column.values.to_pylist():
        until = _time_bounds(seeds.values_of(time)) if time else {}
        return SplitPlan(time_feature=time, until=until) if until else SplitPlan()
    if column.num_filled < column.num_rows:
        raise ValueError(
            f"`{_SPLIT_COLUMN}` must have a value in every row; got {column.num_rows - column.num_filled} empty ones "
            f"in {seeds.layout.declared_as}. Write train, val or test, or another word for rows that are not predicted."
        )
    names = SplitPlan(column=_SPLIT_COLUMN).names
    return SplitPlan(column=_SPLIT_COLUMN, unused_values=tuple(sorted(set(column.values.to_pylist()) - set(names))))


def _time_bounds(times: ColumnValues) -> dict[str, int | None]:
    """Divides rows at the times before which 80 % and 90 % of them lie; nothing if a split would be empty."""
    if times.num_filled < times.num_rows:
        return {}
    seconds = times.values.cast(pa.int64()).to_numpy()
    order = np.argsort(seconds)
    before = np.cumsum(times.counts.to_numpy()[order]) - times.counts.to_numpy()[order]
    validation, test = (int(np.searchsorted(before, share * times.num_rows)) for share in (0.8, 0.9))
    if not 0 < validation < test < len(order):
        return {}
    return {"train": int(seconds[order][validation]), "val": int(seconds[order][test]), "test": None}


def _propose_temporal(prepared: PreparedTables | None, hops: tuple[Hop, ...], seed_time: str) -> Temporal | None:
    if prepared is None or not seed_time:
        return None
    sampled = sorted({hop.edge_set for hop in hops})
    edge_times = {name: prepared.edge_times[name] for name in sampled if name in prepared.edge_times}
    # The edges of a seed's own row have the time of the seed.
    return Temporal(seed_time=seed_time, edge_times=edge_times, inclusive=True) if edge_times else None


def _check_labels(label: Label, seeds: SetTable, splits: SplitPlan) -> None:
    """Refuses rows without a label, unless the split column says that they are not predicted."""
    values = seeds.values_of(label.feature)
    declared = seeds.layout.columns[label.feature]
    if label.num_outputs > 1 or values.num_filled == values.num_rows:
        return
    num_missing = values.num_rows - values.num_filled
    if splits.unused_values:
        num_missing = 0
        for block in read_all_columns(seeds.layout):
            split = block.columns.column(_SPLIT_COLUMN).cast("string")
            is_used = pc.invert(pc.is_in(split, value_set=pa.array(splits.unused_values)))
            is_missing = block.columns.column(declared.name).is_null()
            num_missing += pc.sum(pc.and_(is_used, is_missing)).as_py() or 0
    if num_missing:
        raise ValueError(
            f"`label` must have a value in every row that is predicted; got {num_missing:,} of {values.num_rows:,} "
            f"rows of {seeds.layout.declared_as} without one in {label.feature!r}. Fill them in, or add a column "
            f"{_SPLIT_COLUMN!r} that is train, val or test where there is a label, and unlabeled elsewhere."
        )


def _find_leaks(schema: GraphSchema, seeds: SetTable, label: Label, splits: SplitPlan) -> list[LabelLeak]:
    if label.num_outputs > 1:
        return []
    by_column = {
        seeds.layout.columns[name].name: name
        for name in sorted(schema.node_sets[label.node_set].features)
        if name not in (label.feature, splits.column) and not name.startswith("#")
    }
    found = find_label_leaks(
        seeds.layout,
        label=seeds.layout.columns[label.feature].name,
        is_class=label.kind == "node_classification",
        columns=list(by_column),
    )
    return [dataclasses.replace(leak, column=by_column[leak.column]) for leak in found]


def propose_features(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    seed_node_set: str,
    hops: tuple[Hop, ...],
    *,
    left_out: set[str],
    times: Mapping[str, str],
) -> Iterator[tuple[str, dict[str, Preparation]]]:
    """Chooses a preparation of each column that the hops reach; by `times`, each set's column of times is none."""
    reached = {seed_node_set}
    for hop in hops:
        reached |= {schema.edge_sets[hop.edge_set].source, schema.edge_sets[hop.edge_set].target}
    names = [f"nodes/{name}" for name in sorted(reached)] + [
        f"edges/{name}" for name in sorted({hop.edge_set for hop in hops})
    ]
    for prefix in names:
        table = tables[prefix]
        is_seed = prefix == f"nodes/{seed_node_set}"
        of_set = {
            name: (
                Preparation(kind="drop", reason="a time, which later rows exceed")
                if name == times.get(prefix)
                else choose_preparation(feature, table.values_of(name))
            )
            for name, feature in sorted(declared_set(schema, table.layout).features.items())
            if not (is_seed and name in left_out) and not name.startswith("#")
        }
        if of_set:
            yield prefix, of_set


def count_dangling(
    schema: GraphSchema, tables: Mapping[str, SetTable], hops: tuple[Hop, ...]
) -> Iterator[tuple[str, int]]:
    """Counts by edge set the ends that name a node that is not there, where there are any."""
    for name in sorted({hop.edge_set for hop in hops}):
        edge_set, table = schema.edge_sets[name], tables[f"edges/{name}"]
        num_rows = [
            table.values_of(key).num_filled
            - table.values_of(key).count_in(tables[f"nodes/{node_set}"].values_of(ID_FEATURE))
            for key, node_set in ((SOURCE_KEY, edge_set.source), (TARGET_KEY, edge_set.target))
        ]
        if any(num_rows):
            yield name, sum(num_rows)

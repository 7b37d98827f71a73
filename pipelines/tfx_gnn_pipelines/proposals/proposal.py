"""Proposes a project for tables: their graph schema, what to sample, how columns become features, what to predict."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.label_splits import SPLIT_COLUMN
from tfx_gnn.tables.prepared_tables import ROW_TIME, PreparedTables
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY
from tfx_gnn_pipelines.proposals.drifting_columns import find_drifting_columns
from tfx_gnn_pipelines.proposals.hops import propose_hops
from tfx_gnn_pipelines.proposals.label_leaks import LabelLeak
from tfx_gnn_pipelines.proposals.labels import Label, check_labels, find_label
from tfx_gnn_pipelines.proposals.leaks import find_leaks
from tfx_gnn_pipelines.proposals.missing_values import fill_in
from tfx_gnn_pipelines.proposals.preparations import Preparation, choose_preparation
from tfx_gnn_pipelines.proposals.tables import SetTable, declared_set, find_source, set_table


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
        leaks: what tells the label almost alone, and is kept out of the examples: features, and sets of edges.
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
            if not leak.feature:
                yield (
                    f"{leak.place} is not followed: {leak.evidence}. Probably these edges are known only after the "
                    "label. If they are known before, add hops along them."
                )
                continue
            place = f"{leak.place.partition('/')[2]}.{leak.feature}"
            yield (
                f"{place} is left out of the examples: {leak.evidence}. Probably it is known only after the label. If "
                f"it is known before, take it out of `excluded_features`, declare it in `features`, and write "
                f"graph_example_validator: {{accepted_features: [{leak.place}.{leak.feature}]}}."
            )
        yield from text_columns(self.features)
        yield from dropped_columns(self.features)
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


def text_columns(features: Mapping[str, Mapping[str, Preparation]]) -> Iterator[str]:
    """Says which columns are read by their words."""
    for prefix, of_set in features.items():
        for column, preparation in of_set.items():
            if preparation.kind == "text":
                yield (
                    f"{prefix}.{column} is read by its words and their pairs: most rows have a text of their own, of "
                    f"{preparation.reason}."
                )


def dropped_columns(features: Mapping[str, Mapping[str, Preparation]]) -> Iterator[str]:
    """Says which columns are no features, by reason."""
    by_reason: dict[str, list[str]] = {}
    for prefix, of_set in features.items():
        for column, preparation in of_set.items():
            if preparation.kind == "drop":
                by_reason.setdefault(preparation.reason, []).append(f"{prefix}.{column}")
    for reason, places in by_reason.items():
        yield f"{', '.join(places)} {'is no feature' if len(places) == 1 else 'are no features'}: {reason}."


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
    times = prepared.times if prepared else {}
    repeated_times = {(f"edges/{name}", ROW_TIME) for name in (prepared.repeated_times if prepared else ())}
    predicted = find_label(label, schema, tables)
    missing_values = {}
    if source.is_inferred:
        missing_values = fill_in(
            schema,
            tables,
            label=(f"nodes/{predicted.node_set}", predicted.feature),
            times=times,
            row_times=prepared.times_of_rows if prepared else {},
        )
    seeds = tables[f"nodes/{predicted.node_set}"]
    seed_time = prepared.node_times.get(predicted.node_set, "") if prepared else ""
    splits = _propose_splits(seeds, seed_time)
    check_labels(predicted, seeds, splits)
    leaks = find_leaks(schema, tables, predicted, prepared)
    hops = propose_hops(
        schema,
        {name: table.num_rows for name, table in tables.items()},
        predicted.node_set,
        left_out={leak.place.partition("/")[2] for leak in leaks if not leak.feature},
        edge_times=prepared.edge_times if prepared is not None and seed_time else None,
    )
    left_out = {(f"nodes/{predicted.node_set}", name) for name in (predicted.feature, splits.column)}
    left_out |= {(leak.place, leak.feature) for leak in leaks}
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
        leaks=leaks,
        features=dict(
            propose_features(
                schema,
                tables,
                predicted.node_set,
                hops,
                left_out=left_out,
                known={
                    (prefix, name): _time_preparation(seed_time, is_repeated=(prefix, name) in repeated_times)
                    for prefix, names in times.items()
                    for name in names
                }
                | dict(_drops_of_drifting(schema, tables, prepared, splits)),
                missing_values=missing_values,
            )
        ),
        num_dangling=dict(count_dangling(schema, tables, hops)),
    )


def _propose_splits(seeds: SetTable, time: str) -> SplitPlan:
    """Splits by a column `split` if it names a split `train`, then by the time of rows, otherwise by hash."""
    column = seeds.columns.get(SPLIT_COLUMN)
    if column is None or "train" not in column.values.to_pylist():
        until = _time_bounds(seeds.values_of(time)) if time else {}
        return SplitPlan(time_feature=time, until=until) if until else SplitPlan()
    if column.num_filled < column.num_rows:
        raise ValueError(
            f"`{SPLIT_COLUMN}` must have a value in every row; got {column.num_rows - column.num_filled} empty ones "
            f"in {seeds.layout.declared_as}. Write train, val or test, or another word for rows that are not predicted."
        )
    names = SplitPlan(column=SPLIT_COLUMN).names
    return SplitPlan(column=SPLIT_COLUMN, unused_values=tuple(sorted(set(column.values.to_pylist()) - set(names))))


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


def propose_features(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    seed_node_set: str,
    hops: tuple[Hop, ...],
    *,
    left_out: set[tuple[str, str]],
    known: Mapping[tuple[str, str], Preparation],
    missing_values: Mapping[tuple[str, str], int],
) -> Iterator[tuple[str, dict[str, Preparation]]]:
    """Chooses a preparation of each column that the hops reach, but for those that are known already."""
    reached = {seed_node_set}
    for hop in hops:
        reached |= {schema.edge_sets[hop.edge_set].source, schema.edge_sets[hop.edge_set].target}
    names = [f"nodes/{name}" for name in sorted(reached)] + [
        f"edges/{name}" for name in sorted({hop.edge_set for hop in hops})
    ]
    for prefix in names:
        table = tables[prefix]
        of_set = {
            name: known.get((prefix, name))
            or choose_preparation(
                name, feature, table.values_of(name), missing_value=missing_values.get((prefix, name))
            )
            for name, feature in sorted(declared_set(schema, table.layout).features.items())
            if (prefix, name) not in left_out and not name.startswith("#")
        }
        if of_set:
            yield prefix, of_set


def _time_preparation(seed_time: str, *, is_repeated: bool) -> Preparation:
    """Takes a time relative to that of the seed, if it is known; as a number, later rows exceed it."""
    if seed_time and is_repeated:
        return Preparation(kind="drop", reason="the age of its row is a feature already")
    if not seed_time:
        return Preparation(kind="drop", reason="a time, which later rows exceed")
    return Preparation(kind="age", options={"seed_time": seed_time})


def _drops_of_drifting(
    schema: GraphSchema, tables: Mapping[str, SetTable], prepared: PreparedTables | None, splits: SplitPlan
) -> Iterator[tuple[tuple[str, str], Preparation]]:
    """Leaves out numbers that are outside, after the time of training, of the range that training saw."""
    bound = splits.until.get("train") if splits.rule == "time" else None
    if prepared is not None and prepared.label_splits is not None and prepared.label_splits.bounds is not None:
        bound = prepared.label_splits.bounds[0]
    if prepared is None or bound is None:
        return
    for name, time in prepared.node_times.items():
        table, times = tables[f"nodes/{name}"], prepared.times[f"nodes/{name}"]
        by_column = {
            table.layout.columns[one].name: one
            for one, feature in schema.node_sets[name].features.items()
            if one not in times
            and not feature.shape.dim
            and (tf.dtypes.as_dtype(feature.dtype).is_integer or tf.dtypes.as_dtype(feature.dtype).is_floating)
            and table.values_of(one).numbers() is not None
        }
        drifting = find_drifting_columns(
            table.layout, time=table.layout.columns[time].name, bound=bound, columns=list(by_column)
        )
        for one in drifting:
            yield (
                (f"nodes/{name}", by_column[one.column]),
                Preparation(
                    kind="drop",
                    reason=f"{one.share:.0%} of the rows after the time of training are outside of its range there",
                ),
            )


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

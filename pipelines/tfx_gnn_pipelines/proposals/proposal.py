"""Proposes a project for tables: their graph schema, what to sample, how columns become features, what to predict."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn.tables.keys.given_keys import GivenKeys
from tfx_gnn.tables.label_splits import SPLIT_COLUMN, time_bounds
from tfx_gnn.tables.prepared_tables import PreparedTables
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn_pipelines.proposals.drifting_columns import drop_drifting_columns
from tfx_gnn_pipelines.proposals.graph_proposal import (
    GraphProposal,
    ask_about_features,
    count_dangling,
    describe_rare_class,
    prepare_times,
    propose_features,
)
from tfx_gnn_pipelines.proposals.hops import propose_hops
from tfx_gnn_pipelines.proposals.labels import Label, check_labels, find_label
from tfx_gnn_pipelines.proposals.leaks import find_leaks
from tfx_gnn_pipelines.proposals.missing_values import fill_in
from tfx_gnn_pipelines.proposals.tables import SetTable, find_source
from tfx_gnn_pipelines.proposals.unseen_edges import ask_about_unseen_edges, read_own_times

_FEW_LABELS = 200
"""Labels, of fewer of which a test has less than 20: one more or less right answer is five percent."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proposal(GraphProposal):
    """A project for tables that predicts one of their columns.

    Attributes:
        label: what is predicted.
        num_labels: rows with a label.
        splits: which split each seed belongs to.
        is_split_by_chance: whether a row's time has no part in that: by a hash, or at random.
        seed_time: feature with the times of the seeds; empty if none is known.
        timed_tables: tables whose rows have times.
        temporal: which edges are newer than a seed; None if edges have no times.
    """

    label: Label
    num_labels: int
    splits: SplitPlan
    is_split_by_chance: bool
    seed_time: str
    timed_tables: tuple[str, ...]
    temporal: Temporal | None

    def remarks(self) -> Iterator[str]:
        """Says what was decided, a sentence each."""
        yield from self.keys
        yield f"edges: {'; '.join(self._edges()) or 'none'}."
        yield (
            f"{self.label.node_set}.{self.label.feature} has {self.label.reason}: predicted by {self.label.kind}, "
            f"split by {self._rule()}."
        )
        yield from describe_rare_class(self.label.rare_share)
        if self.num_labels < _FEW_LABELS:
            yield (
                f"Only {self.num_labels:,} rows have a label, and the test has about a tenth of them: it cannot tell a "
                "good model from a bad one."
            )
        yield from self._times()
        if self.splits.unused_values:
            yield f"Rows whose {self.splits.column!r} is one of {list(self.splits.unused_values)} are not predicted."
        yield from self.leaks_in_words()
        yield from self.features_in_words()
        if not self.hops:
            yield f"No edges lead to or from {self.label.node_set}: the model sees the columns of a node alone."

    def _times(self) -> Iterator[str]:
        if self.is_split_by_chance and self.seed_time:
            yield (
                f"{self.label.node_set}.{self.seed_time} holds times, but is empty in some rows or has too few "
                "different ones to split by: training sees rows that are later than those that the model is tested on."
            )
        if not self.seed_time and self.timed_tables:
            yield (
                f"{self.label.node_set} has no time of its rows, but {', '.join(self.timed_tables)} do: a seed sees "
                f"all of them, those after the moment that {self.label.feature!r} is of, too, which then tell it. If "
                "it is of a moment, give each row its time in a column, or let --predict compute it."
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


def propose_project(tables_dir: str, *, label: str, prepared_dir: str = "", given: GivenKeys | None = None) -> Proposal:
    """Proposes a project for tables.

    Args:
        tables_dir: folder of CSV or Parquet files, with or without graph_schema.pbtxt.
        label: what to predict, as "node set.column".
        prepared_dir: empty or absent folder for tables that must be written anew, because rows have no ids, foreign
            keys are empty in some rows, entities have no table of their own, or the label's rows have times, which
            the edges to them need too.
        given: keys and times of the tables that are known; the others are found.

    Returns:
        The proposal; nothing is written but prepared tables.

    Raises:
        ValueError: if the tables do not show what the schema is, or the label is no column that can be predicted.
    """
    access = TableAccess()
    source = find_source(tables_dir, label, prepared_dir, access, given or GivenKeys())
    schema, prepared = source.schema, source.prepared
    tables = source.read_sets(access)
    predicted = find_label(label, schema, tables, named=source.named_by_label)
    missing_values = {}
    if source.is_inferred:
        missing_values = fill_in(
            schema,
            tables,
            label=(f"nodes/{predicted.node_set}", predicted.feature),
            times=source.times,
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
    features = propose_features(
        schema,
        tables,
        (predicted.node_set,),
        hops,
        left_out=left_out,
        known=prepare_times(
            {(prefix, name) for prefix, names in source.times.items() for name in names}, prepared, seed_time
        )
        | dict(drop_drifting_columns(schema, tables, prepared, _end_of_training(prepared, splits))),
        missing_values=missing_values,
    )
    temporal = _propose_temporal(prepared, hops, seed_time)
    unseen: tuple[str, ...] = ()
    if prepared is not None and temporal is not None:
        rows = read_own_times(seeds, seed_time, predicted.feature)
        unseen = tuple(ask_about_unseen_edges(predicted.node_set, rows, hops, temporal.edge_times, tables))
    return Proposal(
        tables_dir=source.tables_dir,
        keys=source.remarks,
        questions=(*source.questions, *unseen, *ask_about_features(features)),
        seed_time=seed_time,
        temporal=temporal,
        schema=schema,
        is_inferred=source.is_inferred,
        label=predicted,
        num_labels=seeds.values_of(predicted.feature).num_filled,
        timed_tables=tuple(sorted(prepared.row_times.by_row)) if prepared is not None else (),
        hops=hops,
        splits=splits,
        is_split_by_chance=_is_split_by_chance(prepared, splits),
        leaks=leaks,
        features=features,
        num_dangling=count_dangling(schema, tables, hops),
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
    """Divides rows by time; nothing if some have none, or too few are different."""
    if times.num_filled < times.num_rows:
        return {}
    seconds = times.values.cast(pa.int64()).to_numpy()
    order = np.argsort(seconds)
    bounds = time_bounds(seconds[order], times.counts.to_numpy()[order])
    return {} if bounds is None else {"train": bounds[0], "val": bounds[1], "test": None}


def _propose_temporal(prepared: PreparedTables | None, hops: tuple[Hop, ...], seed_time: str) -> Temporal | None:
    if prepared is None or not seed_time:
        return None
    sampled = sorted({hop.edge_set for hop in hops})
    edge_times = {name: prepared.edge_times[name] for name in sampled if name in prepared.edge_times}
    # The edges of a seed's own row have the time of the seed.
    return Temporal(seed_time=seed_time, edge_times=edge_times, inclusive=True) if edge_times else None


def _is_split_by_chance(prepared: PreparedTables | None, splits: SplitPlan) -> bool:
    if prepared is not None and prepared.label_splits is not None:
        return prepared.label_splits.bounds is None
    return splits.rule == "hash"


def _end_of_training(prepared: PreparedTables | None, splits: SplitPlan) -> int | None:
    if prepared is not None and prepared.label_splits is not None and prepared.label_splits.bounds is not None:
        return prepared.label_splits.bounds[0]
    return splits.until.get("train") if splits.rule == "time" else None

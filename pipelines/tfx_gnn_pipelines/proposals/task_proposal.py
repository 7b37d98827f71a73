"""Proposes a project for a prediction task: tables of a graph, hops from the entities, and features."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow.parquet as pq

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.io import options_json
from tfx_gnn.prediction_tasks import (
    PredictionTask,
    SeedTableDescription,
    SeedTableReport,
    make_seed_table,
)
from tfx_gnn.prediction_tasks.query_parser import parse_predicted
from tfx_gnn.prediction_tasks.query_syntax import Column
from tfx_gnn.prediction_tasks.recommended import write_shortcut
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.tables.keys.given_keys import GivenKeys
from tfx_gnn.tables.prepared_tables import PreparedTables
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import ID_FEATURE
from tfx_gnn_pipelines.prediction_plan import plan_of_seeds, seed_table_path
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
from tfx_gnn_pipelines.proposals.labels import Label
from tfx_gnn_pipelines.proposals.leaks import LabelLeak, find_leaks
from tfx_gnn_pipelines.proposals.missing_values import fill_in
from tfx_gnn_pipelines.proposals.preparations import Preparation
from tfx_gnn_pipelines.proposals.tables import SetTable, declared_set, find_task_source
from tfx_gnn_pipelines.proposals.unseen_edges import ask_about_unseen_edges


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskProposal(GraphProposal):
    """A project for a prediction task, whose seed table is written.

    Attributes:
        task: the task.
        seeds: the seed table.
    """

    task: PredictionTask
    seeds: SeedTableReport

    def task_fields(self) -> dict[str, Any]:
        """Returns the fields of the task that differ from their defaults, as in a project file."""
        fields = json.loads(options_json.to_json(self.task))
        defaults = {field.name: field.default for field in dataclasses.fields(self.task)}
        if self.task.anchors is not None:
            fields["anchors"] = self.task.anchors.given
        names = [field.name for field in dataclasses.fields(self.task)]
        return {name: fields[name] for name in names if fields[name] and fields[name] != defaults[name]}

    @property
    def rare_share(self) -> float | None:
        """Share of the rarer class of a condition; None if something else is predicted."""
        if self.seeds.description.label_kind != "truth":
            return None
        seeds = [(one.num_seeds, one.mean_label) for one in self.seeds.splits if one.mean_label is not None]
        rate = sum(number * mean for number, mean in seeds) / max(sum(number for number, _ in seeds), 1)
        return min(rate, 1.0 - rate)

    def remarks(self) -> Iterator[str]:
        """Says what was decided, a sentence each."""
        yield from self.keys
        yield from describe_rare_class(self.rare_share)
        times = self.seeds.description.times
        sampled = sorted({hop.edge_set for hop in self.hops})
        timed = [name for name in sampled if name in times]
        timeless = [name for name in sampled if name not in times]
        if timed and self.seeds.description.time:
            yield f"A seed does not see edges that are later than its time: {', '.join(timed)}."
        if timeless:
            yield f"Edges without a time are visible to all seeds: {', '.join(timeless)}."
        if self.seeds.description.time:
            aged = [
                f"{prefix}.{column}"
                for prefix, of_set in self.features.items()
                for column, one in of_set.items()
                if one.kind == "age"
            ]
            yield f"Times are ages relative to that of the seed: {', '.join(aged) or 'none'}."
            yield from self._always_known()
        yield from self.leaks_in_words()
        yield from self.features_in_words()

    def _always_known(self) -> Iterator[str]:
        """Says which columns are taken as known at all times, because nothing tells since when they are."""
        for prefix, of_set in self.features.items():
            name = prefix.partition("/")[2]
            known = [column for column, one in of_set.items() if one.kind not in ("drop", "age")]
            if prefix.startswith("nodes/") and known and name not in self.seeds.description.times:
                yield (
                    f"Rows of {name} have no time: {', '.join(known)} are taken as known as of every anchor. Those "
                    "that were filled in later tell the past what came after it: write `drop` for them."
                )


def propose_task_project(
    tables_dir: str, task: PredictionTask, *, name: str, prepared_dir: str, given: GivenKeys | None = None
) -> TaskProposal:
    """Proposes a project for a prediction task, and makes its seed table.

    Args:
        tables_dir: folder of CSV or Parquet files; with graph_schema.pbtxt they are read where they are, and the seed
            table is written beside them.
        task: the task.
        name: name of the project.
        prepared_dir: empty or absent folder for tables that are written anew, with their schema, because there is none.
        given: keys and times of the tables that are known; the others are found.

    Returns:
        The proposal.

    Raises:
        ValueError: if the tables do not show what refers to what, or the task does not fit them.
    """
    access = TableAccess()
    source = find_task_source(tables_dir, prepared_dir, access, given or GivenKeys())
    schema, prepared = source.schema, source.prepared
    tables = source.read_sets(access)
    if prepared is not None:
        several = {one for one in prepared.node_times if len(prepared.times[f"nodes/{one}"]) > 1}
        decided = {one: column for one, column in prepared.node_times.items() if one in several}
        timeless = {one: column for one, column in (given or GivenKeys()).time_columns.items() if not column}
        task = dataclasses.replace(task, times={**decided, **timeless, **task.times})
    missing_values = {}
    shortcut = None
    if source.is_inferred:
        row_times = prepared.times_of_rows if prepared else {}
        missing_values = fill_in(schema, tables, label=_label_of(task), times=source.times, row_times=row_times)
        write_schema(schema, access.schema_path(source.tables_dir))
        shortcut = write_shortcut(task, source.tables_dir, access)
    if shortcut is not None:
        schema.edge_sets[shortcut.name].CopyFrom(shortcut.declared)
        write_schema(schema, access.schema_path(source.tables_dir))
        tables = source.read_sets(access)
    seeds = make_seed_table(task, source.tables_dir, seed_table_path(name, source.tables_dir))
    if seeds.num_training_labels == 1:
        counts = {one.split: one.num_seeds for one in seeds.splits}
        raise ValueError(
            f"`{task.source}` must give the seeds of training different labels, or nothing can be learned from them; "
            f"got one for all, where the seeds by split are {counts}. Ask for something that is true of some and not "
            "of others."
        )
    known = {(prefix, name) for prefix, names in source.times.items() for name in names}
    for name_of_set, column in seeds.description.times.items():
        known.add((f"{'nodes' if name_of_set in schema.node_sets else 'edges'}/{name_of_set}", column))
    num_rows = {label: table.num_rows for label, table in tables.items()}
    leaks = _find_leaks(schema, tables, task, seeds.description, prepared)
    hops = _propose_hops(schema, num_rows, seeds.description, {one.place for one in leaks if not one.feature})
    # An open question about times is asked before the project is written.
    plan_of_seeds(seeds.description, "", {hop.edge_set for hop in hops})
    features = propose_features(
        schema,
        tables,
        _roots(seeds.description),
        hops,
        left_out={(f"nodes/{task.for_each}", column) for column in seeds.description.label_columns}
        | {(leak.place, leak.feature) for leak in leaks},
        known=prepare_times(known, prepared, seeds.description.time)
        | dict(drop_drifting_columns(schema, tables, prepared, seeds.description.until.get("train"))),
        missing_values=missing_values,
    )
    unseen: tuple[str, ...] = ()
    if prepared is not None and seeds.description.time and seeds.has_own_times:
        rows = pq.read_table(seed_table_path(name, source.tables_dir), columns=["id", seeds.description.time])
        times = {one: column for one, column in seeds.description.times.items() if one in schema.edge_sets}
        unseen = tuple(ask_about_unseen_edges(task.for_each, rows.rename_columns(["id", "time"]), hops, times, tables))
    if seeds.description.recommended is not None:
        _add_own_feature(features, seeds.description.recommended.node_set)
    return TaskProposal(
        task=task,
        tables_dir=source.tables_dir,
        schema=schema,
        is_inferred=source.is_inferred,
        keys=(*source.remarks, *([shortcut.remark] if shortcut is not None else [])),
        questions=(*source.questions, *unseen, *ask_about_features(features)),
        seeds=seeds,
        hops=hops,
        features=features,
        num_dangling=count_dangling(schema, tables, hops),
        leaks=leaks,
    )


def _find_leaks(
    schema: GraphSchema,
    tables: Mapping[str, SetTable],
    task: PredictionTask,
    seeds: SeedTableDescription,
    prepared: PreparedTables | None,
) -> tuple[LabelLeak, ...]:
    """Finds what tells a column of the entities; what happens in a window is told by no table."""
    prefix, column = _label_of(task)
    if not column or column not in declared_set(schema, tables[prefix].layout).features:
        return ()
    kind = "node_regression" if seeds.label_kind == "number" else "node_classification"
    return find_leaks(schema, tables, Label(node_set=task.for_each, feature=column, kind=kind, reason=""), prepared)


def _label_of(task: PredictionTask) -> tuple[str, str]:
    """Names the set and the column that a task predicts; empty if it computes the label."""
    predicted = parse_predicted(task.predict) if task.predict else None
    return (f"nodes/{task.for_each}", predicted.name) if isinstance(predicted, Column) else ("", "")


def _propose_hops(
    schema: GraphSchema, num_rows: Mapping[str, int], seeds: SeedTableDescription, left_out: Collection[str]
) -> tuple[Hop, ...]:
    """Goes outward from the entities, and once from what is recommended, of which there are many in an example."""
    edge_times = {one: column for one, column in seeds.times.items() if one in schema.edge_sets} if seeds.time else None
    entity, recommended = seeds.task.for_each, seeds.recommended
    if recommended is None:
        unfollowed = {place.partition("/")[2] for place in left_out}
        return propose_hops(schema, num_rows, entity, left_out=unfollowed, edge_times=edge_times)
    return (
        *propose_hops(schema, num_rows, entity, root=seeds.entity_end, edge_times=edge_times),
        *propose_hops(schema, num_rows, recommended.node_set, root=recommended.end, depth=1, edge_times=edge_times),
    )


def _roots(seeds: SeedTableDescription) -> tuple[str, ...]:
    entity, recommended = seeds.task.for_each, seeds.recommended
    return (entity,) if recommended is None else (entity, recommended.node_set)


def _add_own_feature(features: dict[str, dict[str, Preparation]], node_set: str) -> None:
    """Lets a network learn of each recommended node who takes it, beyond what its columns tell."""
    of_set = features.setdefault(f"nodes/{node_set}", {})
    name = "own" if "own" not in of_set else "own_id"
    reason = f"what is learned of each of {node_set} by itself; new ones share a value"
    of_set[name] = Preparation(kind="vocabulary", options={"column": ID_FEATURE}, reason=reason)

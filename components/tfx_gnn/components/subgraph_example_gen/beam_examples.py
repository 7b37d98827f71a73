"""Writes subgraph or graph-level examples with a Beam pipeline whose workers hold parts of the tables."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.components.subgraph_example_gen.in_memory_examples import MadeExamples
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.io import options_json
from tfx_gnn.io.progress import progress
from tfx_gnn.io.whole_files import write_whole
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.sampling.beam.graph_level_pipeline import write_graph_level_examples_with_beam
from tfx_gnn.sampling.beam.partitioned_graph.build import PartitionOptions, partition_graph
from tfx_gnn.sampling.beam.partitioned_graph.reader import PartitionedGraph
from tfx_gnn.sampling.beam.sampling_pipeline import sample_with_beam
from tfx_gnn.sampling.examples.seed_selection import splits_with_seeds
from tfx_gnn.sampling.examples.shard_log import ShardLog
from tfx_gnn.sampling.plan.graph_level_examples import GraphLevelExamples
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.row_rules import DEAD_LETTERS_DIR, RowRules, TableReport, write_dead_letters
from tfx_gnn.tables.table_access import TableAccess

_PARTITIONS_DIR = ".partitions"
_TABLES_FILE = ".tables.json"


def sample_on_beam(
    *,
    tables_dir: str,
    folder: str,
    plan: SamplingPlan,
    sampling_seed: int,
    num_shards: int,
    rules: RowRules,
    access: TableAccess,
    check_tables: Callable[[], None],
    partition_options: PartitionOptions,
    only_split: str,
    beam_args: Sequence[str],
) -> MadeExamples:
    """Samples the subgraphs of a plan and writes the missing shards, of one split only if it is named.

    The graph is partitioned first, inside the folder, where an interrupted run leaves it for the next
    one. Then `check_tables` is called, which raises if the tables changed meanwhile; they are not read again.

    All workers must be able to access `tables_dir` and `folder`.
    """
    partitions_dir = os.path.join(folder, _PARTITIONS_DIR)
    pipeline = functools.partial(make_pipeline, tuple(beam_args))
    reports = _read_reports(folder)
    if reports is None:
        if tf.io.gfile.exists(partitions_dir):
            tf.io.gfile.rmtree(partitions_dir)
        with progress("partitioning tables"):
            built = partition_graph(
                make_pipeline=pipeline,
                tables_dir=tables_dir,
                partitions_dir=partitions_dir,
                plan=plan,
                rules=rules,
                access=access,
                options=partition_options,
            )
        check_tables()
        reports = dict(built.tables)
        _copy_dead_letters(built.dead_letters, os.path.join(folder, DEAD_LETTERS_DIR))
        _write_reports(folder, reports)
    info = PartitionedGraph(partitions_dir).info
    num_seeds = splits_with_seeds(plan.splits, {name: sum(info.seed_counts[name]) for name in plan.splits.names})
    finished = ShardLog(folder).read()
    wanted = [(split, shard) for split in num_seeds if only_split in ("", split) for shard in range(num_shards)]
    missing = [place for place in wanted if place not in finished]
    if missing:
        # About the same number of seeds comes into each shard of a split.
        total = round(sum(num_seeds[split] / num_shards for split, _ in missing))
        with progress("sampling", total=total, unit="examples"):
            sample_with_beam(
                make_pipeline=pipeline,
                partitions_dir=partitions_dir,
                examples_dir=folder,
                plan=plan,
                sampling_seed=sampling_seed,
                num_shards=num_shards,
                shards=missing,
            )
    tf.io.gfile.rmtree(partitions_dir)
    tf.io.gfile.remove(os.path.join(folder, _TABLES_FILE))
    of_seeds = "seeds" if plan.seed_table else f"{'edges' if plan.is_link_plan else 'nodes'}/{plan.seed_set}"
    return MadeExamples(
        num_seeds=num_seeds,
        num_no_seeds=reports[of_seeds].rows_used - sum(num_seeds.values()),
        tables=reports,
    )


def convert_on_beam(
    *,
    tables_dir: str,
    schema: GraphSchema,
    folder: str,
    spec: GraphLevelExamples,
    num_shards: int,
    rules: RowRules,
    access: TableAccess,
    check_tables: Callable[[], None],
    beam_args: Sequence[str],
) -> MadeExamples:
    """Writes an example for every graph in the tables, all shards at once; for `check_tables` see `sample_on_beam`.

    All workers must be able to access `tables_dir` and `folder`.
    """
    with progress("converting graphs"):
        report = write_graph_level_examples_with_beam(
            make_pipeline=functools.partial(make_pipeline, tuple(beam_args)),
            tables_dir=tables_dir,
            tables_schema=schema,
            examples_dir=folder,
            spec=spec,
            num_shards=num_shards,
            rules=rules,
            access=access,
        )
    check_tables()
    write_dead_letters(os.path.join(folder, DEAD_LETTERS_DIR), report.problems)
    return MadeExamples(num_seeds=report.num_graphs, num_no_seeds=report.num_unused, tables=report.tables)


def _read_reports(folder: str) -> dict[str, TableReport] | None:
    path = os.path.join(folder, _TABLES_FILE)
    if not tf.io.gfile.exists(path):
        return None
    with tf.io.gfile.GFile(path, "r") as file:
        plain: dict[str, Any] = json.loads(file.read())
    return {label: options_json.from_json(json.dumps(report), TableReport) for label, report in plain.items()}


def _write_reports(folder: str, reports: dict[str, TableReport]) -> None:
    # Written last: its presence marks the partitioned graph as complete.
    plain = {label: json.loads(options_json.to_json(report)) for label, report in reports.items()}
    write_whole(os.path.join(folder, _TABLES_FILE), json.dumps(plain))


def _copy_dead_letters(paths: Sequence[str], folder: str) -> None:
    for path in paths:
        tf.io.gfile.makedirs(folder)
        tf.io.gfile.copy(path, os.path.join(folder, os.path.basename(path)), overwrite=True)

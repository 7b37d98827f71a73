"""Partitions the graph of some tables with a Beam pipeline."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
from collections.abc import Callable, Mapping

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.sampling.beam.partitioned_graph import files
from tfx_gnn.sampling.beam.partitioned_graph.broken_rows import join_problems, refuse_rows
from tfx_gnn.sampling.beam.partitioned_graph.job import FORWARD, PartitionJob, requirements_of_plan
from tfx_gnn.sampling.beam.partitioned_graph.join_steps import REPEATS, SELF_LOOPS
from tfx_gnn.sampling.beam.partitioned_graph.partitions import partition_of_codes
from tfx_gnn.sampling.beam.partitioned_graph.pipeline import PartitionResults, add_partition_steps, take_results
from tfx_gnn.sampling.beam.partitioned_graph.reader import PartitionedGraph
from tfx_gnn.sampling.beam.partitioned_graph.reverse_edge_splits import refuse_other_splits
from tfx_gnn.sampling.beam.partitioned_graph.rows import partition_schemas
from tfx_gnn.sampling.beam.partitioned_graph.table_steps import DROPPED
from tfx_gnn.sampling.beam.partitioned_graph.write_steps import DegreeSummary
from tfx_gnn.sampling.examples.seed_selection import seed_table_layout
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.plan_checks import check_plan, check_split_features
from tfx_gnn.sampling.plan.seed_splits import tables_with_splits
from tfx_gnn.tables.bigquery_table import bigquery_unit
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.row_rules import RowRules, TableReport, check_dropped_share
from tfx_gnn.tables.schema_layouts import TableLayouts, layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_files import TableUnit, list_units, no_records, read_table
from tfx_gnn.tables.table_layout import TableLayout

DEFAULT_HUB_DEGREE = 4096
"""Nodes with more edges than this in a direction are hubs in that direction."""

_BYTES_PER_PARTITION = 1 << 26
_COMPRESSION = 4  # approximate compression ratio of compressed formats, relative to text


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionOptions:
    """Layout of a partitioned graph. The sampled subgraphs do not depend on it.

    Attributes:
        num_partitions: number of partitions, a power of two; a worker holds a few
            partitions in memory. 0: one partition per 64 MiB of input files at most, or
            16 MiB of Parquet and gzipped files. Tables in BigQuery are not counted, so
            give a number for these.
        hub_degree: nodes with more edges than this in a direction are hubs in that
            direction, and their edges are spread over all partitions; at least 1.
    """

    num_partitions: int = 0
    hub_degree: int = DEFAULT_HUB_DEGREE

    def __post_init__(self) -> None:
        count = self.num_partitions
        if not isinstance(count, int) or isinstance(count, bool) or count < 0 or count & (count - 1):
            raise ValueError(
                f"`num_partitions` must be a power of two, or 0; got {count!r}. Use 0 to have it chosen by size."
            )
        if not isinstance(self.hub_degree, int) or isinstance(self.hub_degree, bool) or self.hub_degree < 1:
            raise ValueError(f"`hub_degree` must be at least 1; got {self.hub_degree!r}. Use {DEFAULT_HUB_DEGREE}.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PartitionReport:
    """Report of `partition_graph`.

    Attributes:
        info: content of the partitioned graph.
        tables: counts of rows read, used and dropped, by table label.
        dead_letters: paths of the files that name dropped rows.
        degrees: by edge set and direction, summary of the degrees of nodes.
        top_hubs: by edge set and direction, id and degree of the hubs with the largest
            degrees.
    """

    info: files.PartitionInfo
    tables: Mapping[str, TableReport]
    dead_letters: tuple[str, ...]
    degrees: Mapping[tuple[str, str], DegreeSummary]
    top_hubs: Mapping[tuple[str, str], tuple[tuple[str | int, int], ...]]


def partition_graph(
    *,
    make_pipeline: Callable[[], beam.Pipeline],
    tables_dir: str,
    partitions_dir: str,
    plan: SamplingPlan,
    rules: RowRules | None = None,
    access: TableAccess | None = None,
    options: PartitionOptions | None = None,
) -> PartitionReport:
    """Checks tables and writes them as partitions, sorted as sampling looks them up.

    The bytes depend on the tables, the plan, the rules and the options, not on the
    number of workers. `partitions.json` is written last: a folder without it is not a partitioned graph.

    Args:
        make_pipeline: makes the pipeline to run. Its workers must reach both folders.
        tables_dir: folder with `graph_schema.pbtxt` and the tables it names.
        partitions_dir: folder to write; absent or empty.
        plan: sampling plan that the partitioned graph must support.
        rules: what to do with rows that break a rule; by default any such row is an error.
        access: the schema's file name, if not the default, and which files may be read.
        options: layout of the partitioned graph.

    Returns:
        The content of the partitioned graph, counts of table rows, and statistics of degrees.

    Raises:
        ValueError: if the plan does not fit the graph, a table breaks a rule, more rows
            were dropped than the rules allow, or two ids have the same hash.
        FileExistsError: if `partitions_dir` already holds files.
    """
    rules, options = rules or RowRules(), options or PartitionOptions()
    if tf.io.gfile.exists(partitions_dir) and tf.io.gfile.listdir(partitions_dir):
        raise FileExistsError(
            f"`partitions_dir` must be absent or empty; got {partitions_dir!r}. Choose another folder."
        )
    schema = read_tables_schema(tables_dir, access=access)
    check_plan(plan, schema)
    check_split_features(plan, schema)
    job, layouts = _make_job(
        schema,
        tables_dir=tables_dir,
        partitions_dir=partitions_dir,
        plan=plan,
        rules=rules,
        access=access,
        options=options,
    )
    tf.io.gfile.makedirs(partitions_dir)
    try:
        return _build(make_pipeline, job, schema, layouts)
    except BaseException:
        # Another attempt needs an empty folder.
        tf.io.gfile.rmtree(partitions_dir)
        raise


def _make_job(
    schema: GraphSchema,
    *,
    tables_dir: str,
    partitions_dir: str,
    plan: SamplingPlan,
    rules: RowRules,
    access: TableAccess | None,
    options: PartitionOptions,
) -> tuple[PartitionJob, TableLayouts]:
    requirements = requirements_of_plan(plan, schema)
    splits = tables_with_splits(plan)
    layouts = layouts_of(
        schema,
        tables_dir,
        node_sets=requirements.node_sets,
        edge_sets=requirements.edge_sets,
        extra_columns=dict.fromkeys(
            (*(f"nodes/{name}" for name in splits.node_sets), *(f"edges/{name}" for name in splits.edge_sets)),
            splits.extra_columns,
        ),
        access=access,
    )
    tables = [*layouts.node_sets.values(), *layouts.edge_sets.values()]
    if plan.seed_table is not None:
        tables.append(seed_table_layout(tables_dir, plan, schema, access=access))
    job = PartitionJob(
        plan=plan,
        requirements=requirements,
        rules=rules,
        layouts={layout.label: layout for layout in tables},
        units={layout.label: _list_units(layout) for layout in tables},
        partitions_dir=partitions_dir,
        num_partitions=options.num_partitions or _count_partitions(tables),
        hub_degree=options.hub_degree,
    )
    return job, layouts


def _list_units(layout: TableLayout) -> tuple[TableUnit, ...]:
    return list_units(layout) if layout.bigquery is None else (bigquery_unit(layout),)


def _count_partitions(layouts: list[TableLayout]) -> int:
    num_bytes = 0
    for layout in layouts:
        for path in layout.files:
            is_compressed = layout.format == "parquet" or path.endswith(".gz")
            num_bytes += tf.io.gfile.stat(path).length * (_COMPRESSION if is_compressed else 1)
    return 1 << max(0, (num_bytes - 1) // _BYTES_PER_PARTITION).bit_length()


def _build(
    make_pipeline: Callable[[], beam.Pipeline], job: PartitionJob, schema: GraphSchema, layouts: TableLayouts
) -> PartitionReport:
    schemas = partition_schemas(job)
    results_file = os.path.join(job.partitions_dir, ".results")
    with make_pipeline() as pipeline:
        add_partition_steps(pipeline, job, results_file)
    results = take_results(results_file)
    dead_letters = join_problems(job.partitions_dir)
    reports = _check_tables(job, results, dead_letters)
    records = list(results.records)
    if layouts.context is not None:
        context = read_table(layouts.context, job.rules)
        reports[layouts.context.label] = context.report
        if job.plan.context_features:
            rows = pa.table({name: context.columns[name] for name in sorted(job.plan.context_features)})
            schemas[files.CONTEXT_TABLE] = rows.schema
            records.append(files.write_partition(job.partitions_dir, files.CONTEXT_TABLE, 0, rows))
    schema_text = text_format.MessageToString(schema)
    with tf.io.gfile.GFile(files.schema_file(job.partitions_dir), "w") as file:
        file.write(schema_text)
    info = files.assemble_info(
        records,
        schemas,
        num_partitions=job.num_partitions,
        hub_degree=job.hub_degree,
        num_edges={name: reports[f"edges/{name}"].rows_used for name in job.requirements.edge_sets},
        splits=job.plan.splits.names,
        schema_text=schema_text,
    )
    files.write_info(job.partitions_dir, info)
    return PartitionReport(
        info=info,
        tables=reports,
        dead_letters=dead_letters,
        degrees=results.degrees,
        top_hubs=_name_hubs(job, results),
    )


def _check_tables(
    job: PartitionJob, results: PartitionResults, dead_letters: tuple[str, ...]
) -> dict[str, TableReport]:
    reports = {}
    rows_read: collections.Counter[str] = collections.Counter()
    for (label, _), counts in results.unit_counts.items():
        rows_read[label] += counts[0]
    referred = {
        f"nodes/{name}"
        for label, layout in job.layouts.items()
        if layout.kind != "node" and rows_read[label]
        for name in job.end_sets(label)
    }
    for label, layout in job.layouts.items():
        read = rows_read[label]
        if not read and (layout.kind == "seeds" or label in referred):
            raise no_records(layout)
        refuse_rows(job, [broken for broken in results.refused if broken.label == label])
        dropped = {key[2]: count for key, (count,) in results.row_counts.items() if key[:2] == (DROPPED, label)}
        report = TableReport(
            table=label,
            rows_read=read,
            rows_used=read - sum(dropped.values()),
            dropped=dict(sorted(dropped.items())),
            duplicate_edges=results.row_counts.get((REPEATS, label), (0,))[0],
            self_loops=results.row_counts.get((SELF_LOOPS, label), (0,))[0],
        )
        check_dropped_share(report, job.rules)
        if read and not report.rows_used:
            had_rows = any(counts[1] for (table, _), counts in results.unit_counts.items() if table == label)
            what = "edge" if layout.kind == "edge" and had_rows else "row"
            raise ValueError(
                f"`{label}` must have at least one usable {what}; got none, after {read} were dropped: "
                f"{dict(report.dropped)}. The first: {_first_message(dead_letters, label)}"
            )
        reports[label] = report
    refuse_other_splits(job, results.other_splits)
    return reports


def _first_message(dead_letters: tuple[str, ...], label: str) -> str:
    for path in dead_letters:
        with tf.io.gfile.GFile(path, "r") as file:
            first = json.loads(file.readline())
        if first["table"] == label:
            return str(first["message"])
    return ""


def _name_hubs(
    job: PartitionJob, results: PartitionResults
) -> dict[tuple[str, str], tuple[tuple[str | int, int], ...]]:
    hubs = []
    for (edge_set, direction), summary in sorted(results.degrees.items()):
        requirements = job.requirements.edge_sets[edge_set]
        node_set = requirements.source_set if direction == FORWARD else requirements.target_set
        hubs += [
            ((edge_set, direction), node_set, code, degree) for degree, code in summary.top if degree > job.hub_degree
        ]
    # Sorted by code, and so by partition, so that each partition is loaded once.
    graph = PartitionedGraph(job.partitions_dir, num_cached=1)
    ids: dict[tuple[str, int], str | int] = {}
    for node_set, code in sorted({(node_set, code) for _, node_set, code, _ in hubs}):
        codes = np.array([code], np.uint64)
        nodes = graph.load_nodes(node_set, int(partition_of_codes(codes, job.num_partitions)[0]))
        ids[node_set, code] = nodes.ids[int(nodes.positions_of(codes)[0])].as_py()
    return {
        key: tuple((ids[node_set, code], degree) for name, node_set, code, degree in hubs if name == key)
        for key in sorted(results.degrees)
    }

"""Arrow schemas of an index's tables, also of those that no row fell into."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tfx_gnn.beam_sampling import index_files as files
from tfx_gnn.beam_sampling import index_rows
from tfx_gnn.beam_sampling.index_job import IndexJob
from tfx_gnn.beam_sampling.index_partitions import count_buckets
from tfx_gnn.tables.table_layout import TableLayout

_NO_CODES = np.zeros(0, np.uint64)


def index_schemas(job: IndexJob) -> dict[str, pa.Schema]:
    """Works the schemas out by doing to no rows what is done to rows.

    Args:
        job: the index that is built.

    Returns:
        By name of a table within `IndexInfo.tables`, its schema. The context is not among them.
    """
    plan, needs = job.plan, job.needs
    schemas = {}
    for name in needs.node_sets:
        rows = index_rows.node_rows(plan, needs, name, _no_rows(job.layouts[f"nodes/{name}"]))
        schemas[files.node_table(name)] = index_rows.stored_nodes(needs, name, rows).schema
        if name == plan.seed_node_set and plan.seed_table is None:
            schemas[files.SEED_TABLE] = index_rows.node_seeds(plan, rows).schema
    for name, of_set in needs.edge_sets.items():
        no_ranks = np.zeros(0, np.int8) if of_set.has_ranks else None
        ends = index_rows.KnownEnds(sources=_NO_CODES, targets=_NO_CODES, source_ranks=no_ranks, target_ranks=no_ranks)
        rows = index_rows.edge_rows(plan, needs, name, _no_rows(job.layouts[f"edges/{name}"]), ends)
        if name == plan.seed_edge_set and plan.seed_table is None:
            schemas[files.SEED_TABLE] = index_rows.edge_seeds(plan, needs, rows).schema
        for direction in of_set.degree_directions:
            rows = rows.append_column(index_rows.degree_column(direction), pa.array(np.zeros(0, np.int64)))
        for direction in of_set.directions:
            found = index_rows.direction_rows(of_set, rows, direction)
            in_buckets = found.append_column(files.BUCKET, pa.array(np.zeros(0, np.int32)))
            schemas[files.edge_table(name, direction)] = found.schema
            schemas[files.bucket_table(name, direction)] = in_buckets.schema
            schemas[files.hub_table(name, direction)] = count_buckets(in_buckets).schema
        if of_set.stores_in_degrees:
            schemas[files.in_degree_table(name)] = pa.schema([(files.IN_DEGREE, pa.int64())])
    if plan.seed_table is not None:
        ends_of_seeds = (_NO_CODES,) * len(needs.root_sets)
        seeds = index_rows.table_seeds(plan, needs, _no_rows(job.layouts["seeds"]), ends_of_seeds)
        schemas[files.SEED_TABLE] = seeds.schema
    return schemas


def _no_rows(layout: TableLayout) -> index_rows.GivenRows:
    columns = {key: pa.array([], column.arrow_type) for key, column in layout.columns.items()}
    return index_rows.GivenRows(columns=pa.table(columns), rows=np.zeros(0, np.int64), place_of="row {}".format)

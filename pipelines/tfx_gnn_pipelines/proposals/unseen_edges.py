"""Asks about edges that hardly any seed sees, because they came about after its own time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tfx_gnn.sampling.plan.hop import SEED, Hop
from tfx_gnn.tables.table_layout import ID_FEATURE, SOURCE_KEY, TARGET_KEY
from tfx_gnn_pipelines.proposals.tables import SetTable

_LEAST_SEEN = 0.5
"""Share of the seeds with edges that see one, below which the edges tell little of most seeds."""


def read_own_times(table: SetTable, time: str, label: str) -> pa.Table:
    """Reads the ids of the labeled nodes of a Parquet file, and their times, as the columns `id` and `time`."""
    (file,) = table.layout.files
    names = [_name(table, feature, file) for feature in (ID_FEATURE, time, label)]
    rows = pq.read_table(file, columns=names).select(names).rename_columns(["id", "time", "label"])
    return rows.filter(rows["label"].is_valid()).select(["id", "time"])


def ask_about_unseen_edges(
    node_set: str,
    seeds: pa.Table,
    hops: Iterable[Hop],
    edge_times: Mapping[str, str],
    tables: Mapping[str, SetTable],
) -> Iterator[str]:
    """Compares the times of seeds with those of their edges.

    Args:
        node_set: node set of the seeds.
        seeds: columns `id` and `time`, the seeds' own.
        hops: what is sampled.
        edge_times: by edge set, the column with the times of its edges.
        tables: the sets, as in "edges/buys"; edge sets are Parquet files.

    Yields:
        A question for each edge set along which less than half of the seeds that have edges see one.
    """
    for hop in hops:
        if hop.inputs != (SEED,) or hop.edge_set not in edge_times:
            continue
        table, time = tables[f"edges/{hop.edge_set}"], edge_times[hop.edge_set]
        (file,) = table.layout.files
        end = _name(table, SOURCE_KEY if hop.direction == "forward" else TARGET_KEY, file)
        first = pq.read_table(file, columns=[end, time]).group_by(end).aggregate([(time, "min")])
        at = pc.index_in(seeds["id"].cast(pa.large_string()), value_set=first[end].combine_chunks())
        own = first[f"{time}_min"].take(at)
        num_with_edges = len(own) - own.null_count
        num_seeing = pc.sum(pc.less_equal(own, seeds["time"])).as_py() or 0
        if num_seeing < _LEAST_SEEN * num_with_edges:
            yield (
                f"Of {num_with_edges:,} rows of {node_set} with edges of {hop.edge_set}, {num_seeing:,} see one: those "
                "of the other rows all come after the row's own time. Is what is predicted of a later moment? Then "
                f"give --time-column {node_set}= to see edges of all times, or --predict with a window."
            )


def _name(table: SetTable, key: str, file: str) -> str:
    """Finds the name that a column has in the file."""
    column = table.layout.columns[key]
    known = pq.read_schema(file).names
    return next(name for name in (column.name, *column.alternatives) if name in known)

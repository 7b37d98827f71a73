"""Blocks of many graphs' tables, parted and put together again by graph.

So a worker can have all rows of some graphs without anybody having all rows. Chunks
of graphs are ranges of the hashes of their ids, as output shards are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.sampling.random_choice import hash_ids
from tfx_gnn.sampling.seeds import shard_starts
from tfx_gnn.sampling.whole_graphs import WholeGraphs
from tfx_gnn.tables.row_rules import TableReport
from tfx_gnn.tables.table_files import Table, TableBlock, TableUnit
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, TableLayout

# Rows are counted from a multiple of this in each unit: in order, without knowing how many each unit has.
_ROWS_OF_UNIT = 1 << 40


def chunks_of_keys(keys: npt.NDArray[np.uint64], num_chunks: int) -> npt.NDArray[np.int64]:
    """Finds the chunk of each key.

    Chunk `i` of `k * n` belongs to output shard `i // k` of `n`.

    Args:
        keys: uint64 array, shape [num_rows].
        num_chunks: number of chunks, at least 1.

    Returns:
        int64 array, shape [num_rows]: (key * num_chunks) >> 64.
    """
    return np.searchsorted(shard_starts(num_chunks), keys, side="right").astype(np.int64) - 1


def part_block(block: TableBlock, spec: WholeGraphs, num_chunks: int) -> Iterator[tuple[int, TableBlock]]:
    """Parts a block by the chunks of its rows' graphs.

    Args:
        block: rows of a table that was read as `whole_graph_layouts` describes it.
        spec: what to make of the tables.
        num_chunks: number of chunks, at least 1.

    Yields:
        For each chunk that has rows, its number and its rows, without problems.
    """
    chunks = chunks_of_keys(hash_ids(block.columns[EXTRA_PREFIX + spec.graph_id_column]), num_chunks)
    order = np.argsort(chunks, kind="stable")
    numbers, starts = np.unique(chunks[order], return_index=True)
    for number, positions in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        taken = pa.array(positions)
        yield (
            number,
            TableBlock(
                columns={key: column.take(taken) for key, column in block.columns.items()},
                unit=block.unit,
                rows=block.rows[positions],
                num_rows_read=len(positions),
            ),
        )


def join_blocks(layout: TableLayout, units: Sequence[TableUnit], blocks: Sequence[TableBlock]) -> Table:
    """Puts the rows of a chunk together to a table.

    Args:
        layout: the table that the rows are from.
        units: all units of that table, by index.
        blocks: what `part_block` yielded for the chunk, in any order; none at all is a
            table without rows.

    Returns:
        The rows in the order of the table. `Table.rows` tells their order and places;
        they are no positions over all files.
    """
    in_order = sorted(blocks, key=lambda block: (block.unit, int(block.rows[0]) if block.num_rows else 0))
    rows = np.concatenate([np.zeros(0, np.int64), *(block.rows + block.unit * _ROWS_OF_UNIT for block in in_order)])
    return Table(
        layout=layout,
        columns={
            key: pa.concat_arrays(
                [pa.array([], column.arrow_type), *(block.columns[key].cast(column.arrow_type) for block in in_order)]
            )
            for key, column in layout.columns.items()
        },
        rows=rows,
        units=tuple(units),
        unit_starts=np.arange(len(units) + 1, dtype=np.int64) * _ROWS_OF_UNIT,
        report=TableReport(table=layout.label, rows_read=len(rows), rows_used=len(rows)),
        problems=(),
    )

"""Which split each seed belongs to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tfx_gnn.tables.graph_tables import NodeTable

_SPLIT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def split_seeds_by_column(table: NodeTable, column: str) -> dict[str, npt.NDArray[np.int64]]:
    """Groups the nodes of a table by the split that a column names.

    Args:
        table: seed node table, read with `column` as an extra column.
        column: name of the column with split names.

    Returns:
        By split, the rows of its nodes, ascending; splits in alphabetical order.

    Raises:
        ValueError: if a name cannot be a split's name.
    """
    encoded = table.extra_columns[column].dictionary_encode()
    codes = encoded.indices.to_numpy()
    rows_by_split: dict[str, npt.NDArray[np.int64]] = {}
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        if not _SPLIT_NAME.fullmatch(name):
            raise ValueError(
                f"`{column}` must name splits by letters, digits and '_.-'; got {name!r} in the record with id "
                f"{table.ids[int(rows[0])].as_py()!r} of {table.path}. Rename the split."
            )
        rows_by_split[name] = rows
    return dict(sorted(rows_by_split.items()))


def split_seeds_by_hash(table: NodeTable, split_weights: Mapping[str, int]) -> dict[str, npt.NDArray[np.int64]]:
    """Groups the nodes of a table by a hash of their ids.

    The first 32 bits of SHA-256 of the id, modulo the sum of the weights, fall
    into consecutive ranges, one a split in the order given. A node keeps its split
    when other nodes come and go.

    Args:
        table: seed node table.
        split_weights: share of each split, as positive integers.

    Returns:
        By split, the rows of its nodes, ascending; splits that got none are left out.
    """
    digests = [hashlib.sha256(str(node_id).encode()).digest() for node_id in table.ids.to_pylist()]
    hashes = np.array([int.from_bytes(digest[:4], "big") for digest in digests], np.int64)
    ends = np.cumsum(list(split_weights.values()))
    codes = np.searchsorted(ends, hashes % ends[-1], side="right")
    rows_by_split = {name: np.flatnonzero(codes == code) for code, name in enumerate(split_weights)}
    return {name: rows for name, rows in sorted(rows_by_split.items()) if len(rows)}


def check_split_weights(split_weights: Mapping[str, int]) -> None:
    """Checks the shares that `split_seeds_by_hash` takes.

    Args:
        split_weights: share of each split.

    Raises:
        ValueError: if there is none, a name cannot be a split's name, or a share is no positive integer.
    """
    if not split_weights:
        raise ValueError("`split_weights` must name at least one split; got none. Use {'train': 1} for a single one.")
    for name, weight in split_weights.items():
        if not _SPLIT_NAME.fullmatch(name):
            raise ValueError(f"`split_weights` must name splits by letters, digits and '_.-'; got {name!r}. Rename it.")
        if not isinstance(weight, int) or isinstance(weight, bool) or weight < 1:
            raise ValueError(
                f"`split_weights` must be positive integers; got {weight!r} for {name!r}. "
                "Scale the shares to whole numbers."
            )

"""Finds the rows of nodes by their ids, many at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.sampling.index import files
from tfx_gnn.sampling.index.column_files import MappedFiles
from tfx_gnn.sampling.random_choice import hash_ids

_Rows = npt.NDArray[np.int64]


class NodeLookup:
    """Rows of a node table by id.

    Integers are found in the ids themselves, which ascend. Texts are found by their codes, and then compared with the
    ids, so that a text with the code of another one is not taken for it.
    """

    def __init__(
        self,
        ids: pa.Array,
        *,
        codes: npt.NDArray[np.uint64] | None = None,
        rows: npt.NDArray[np.int64] | npt.NDArray[np.uint32] | None = None,
    ) -> None:
        """Takes ascending ids; for texts also all codes in ascending order and the row of each."""
        self._ids = ids
        self._codes = codes
        self._rows = rows

    def find(self, ids: pa.Array) -> _Rows:
        """Returns the rows of nodes, int64; -1 for ids that are not there. `ids` are of the type of the table's."""
        if not len(self._ids):
            return np.full(len(ids), -1, np.int64)
        if self._codes is None or self._rows is None:
            return self._find_integers(ids.to_numpy(zero_copy_only=False))
        codes = hash_ids(ids)
        # Neighbouring codes are in the same pages of the file.
        order = np.argsort(codes)
        at = np.empty(len(codes), np.int64)
        at[order] = np.searchsorted(self._codes, codes[order])
        at = np.minimum(at, len(self._codes) - 1)
        rows = self._rows[at].astype(np.int64)
        is_same = np.asarray(pc.equal(self._ids.take(pa.array(rows)), ids).to_numpy(zero_copy_only=False), np.bool_)
        return np.where(is_same, rows, -1)

    def has_codes(self, codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Returns which hashes are those of texts here; none are where ids are integers, which cannot be confused."""
        if self._codes is None or not len(self._codes):
            return np.zeros(len(codes), np.bool_)
        return self._codes[np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)] == codes

    def _find_integers(self, ids: npt.NDArray[np.int64]) -> _Rows:
        known = self._ids.to_numpy()
        first, last = int(known[0]), int(known[-1])
        if last - first == len(known) - 1:
            inside = (ids >= first) & (ids <= last)
            return np.where(inside, np.where(inside, ids, first) - first, -1)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[at] == ids, at, -1)


def sort_codes(ids: pa.Array, codes: npt.NDArray[np.uint64], place: str) -> _Rows:
    """Returns the rows of texts by ascending code, and refuses two with one code, which could not be told apart."""
    rows = np.argsort(codes, kind="stable")
    in_order = codes[rows]
    again = np.flatnonzero(in_order[1:] == in_order[:-1])
    if len(again):
        one, other = (ids[int(rows[again[0] + step])].as_py() for step in (0, 1))
        raise same_hash(place, one, other)
    return rows


def same_hash(place: str, one: str, other: str) -> ValueError:
    """Returns the error for two texts of a node set that cannot be told apart by their hashes."""
    return ValueError(
        f"`{place}` must have ids with hashes of their own; got {one!r} and {other!r} with the same 64-bit hash. "
        "Rename one of these nodes."
    )


def make_lookup(ids: pa.Array, codes: npt.NDArray[np.uint64], place: str) -> NodeLookup:
    """Makes the lookup of a node table in memory; `codes` are the hashes of its ids."""
    if pa.types.is_integer(ids.type):
        return NodeLookup(ids)
    rows = sort_codes(ids, codes, place)
    return NodeLookup(ids, codes=codes[rows], rows=rows)


def open_lookup(mapped: MappedFiles, node_set: str, ids: pa.Array) -> NodeLookup:
    """Opens the lookup of a node set by the ids of its nodes."""
    if pa.types.is_integer(ids.type):
        return NodeLookup(ids)
    codes, rows = (mapped.values(files.nodes_file(node_set, "lookup", part)) for part in ("codes", "rows"))
    return NodeLookup(ids, codes=codes, rows=rows)

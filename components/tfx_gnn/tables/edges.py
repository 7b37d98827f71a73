"""What is asked of the edges of one set, wherever they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa


class Edges(Protocol):
    """Edges of one set: an `EdgeTable` has them in memory, a graph index in its files."""

    @property
    def path(self) -> str:
        """File, or pattern of files, that the table was read from."""
        ...

    @property
    def source_set(self) -> str:
        """Node set of the sources."""
        ...

    @property
    def target_set(self) -> str:
        """Node set of the targets."""
        ...

    @property
    def sources(self) -> npt.NDArray[np.int64]:
        """int64 array, shape [num_edges]: rows of the source node table."""
        ...

    @property
    def targets(self) -> npt.NDArray[np.int64]:
        """int64 array, shape [num_edges]: rows of the target node table."""
        ...

    @property
    def features(self) -> Mapping[str, pa.Array]:
        """One Arrow array per feature of the schema, shape [num_edges]."""
        ...

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """int64 array, shape [num_edges]: the row of each edge in its table as written, ascending."""
        ...

    @property
    def row_column(self) -> pa.Array:
        """`rows` as a column, of which only the values that are taken need to exist."""
        ...

    @property
    def extra_columns(self) -> Mapping[str, pa.Array]:
        """large_string arrays of the columns requested by name."""
        ...

    @property
    def num_edges(self) -> int:
        """Number of edges."""
        ...

    def positions_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Returns the positions of edges, given by their rows as written; the table must hold all of them."""
        ...

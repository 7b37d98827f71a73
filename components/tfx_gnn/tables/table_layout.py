"""What to read from a table: files, format, and typed columns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal, Protocol

import pyarrow as pa

from tfx_gnn.graph.proto.graph_schema_pb2 import BigQuery
from tfx_gnn.graph.reserved_names import ID_NAME

ID_FEATURE = ID_NAME
"""Feature with the original id of a node, or the row of an edge in its table."""

SOURCE_KEY = "#source"
"""Key of the column with the ids of edges' sources."""

TARGET_KEY = "#target"
"""Key of the column with the ids of edges' targets."""

EXTRA_PREFIX = "#column."
"""Prefix of the keys of columns requested by name."""

TableKind = Literal["node", "edge", "context", "seeds", "pairs"]


class ColumnDecoder(Protocol):
    """Splits a column of packed values into one column per feature."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the decoder makes."""
        ...

    def decode(self, texts: pa.Array) -> tuple[Mapping[str, pa.Array], tuple[CellProblem, ...]]:
        """Decodes one block of texts, a large_string array of shape [num_rows] without nulls.

        Returns one array per feature, shape [num_rows], null where the value is missing, of any type that
        `convert_column` accepts; and problems, whose rows are positions in `texts`.
        """
        ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class CellProblem:
    """What is wrong with one row, before the row's place in the file is known.

    Attributes:
        row: position of the row; what it is relative to depends on the function that
            returns the problem.
        rule: name of the broken rule, see `row_rules`.
        column: name of the column in the file; "" if the row as a whole is wrong.
        requirement: what the column must do, as in "be of type int64".
        value: the actual value, as an error message shows it.
        advice: what to do about it.
    """

    row: int
    rule: str
    column: str
    requirement: str
    value: str
    advice: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableColumn:
    """One column of a table, and the type and shape to convert it to.

    Attributes:
        name: name of the column in the file, or of the feature that a decoder makes.
        dtype: Arrow type of the values, a scalar type.
        default: replacement of a missing value, spelled as in a CSV file; for a fixed
            shape, the default of every component; for a ragged shape only "", an empty
            list. None: every row must have a value.
        shape: `()` for one value per row, sizes for a fixed shape, `(-1,)` for any number
            of values (ragged).
        alternatives: names that the column may have instead of `name`.
        packed_in: packed column from which a decoder makes this one; "" if the file has
            the column itself.
    """

    name: str
    dtype: pa.DataType
    default: str | None = None
    shape: tuple[int, ...] = ()
    alternatives: tuple[str, ...] = ()
    packed_in: str = ""

    def __post_init__(self) -> None:
        if -1 in self.shape and self.shape != (-1,):
            raise ValueError(
                f"`shape` must be fixed, or [-1] alone; got {list(self.shape)} for column {self.name!r}. "
                "Flatten the values, or keep the inner dimensions as features of their own."
            )
        if self.shape == (-1,) and self.default not in (None, ""):
            raise ValueError(
                f"`default` must be the empty text where any number of values may be; got {self.default!r} for "
                f'column {self.name!r}. Declare "" for no values.'
            )

    @property
    def is_ragged(self) -> bool:
        """Whether a row may have any number of values."""
        return self.shape == (-1,)

    @property
    def num_values(self) -> int:
        """Number of values per row; meaningless for a ragged column."""
        return math.prod(self.shape)

    @property
    def arrow_type(self) -> pa.DataType:
        """Type of the arrays that are read: scalars, fixed-size lists of the flat values, or large lists."""
        if not self.shape:
            return self.dtype
        return pa.large_list(self.dtype) if self.is_ragged else pa.list_(self.dtype, self.num_values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableLayout:
    """A table: where it is, how it is written, and which columns to read.

    A layout can be pickled, so that workers can read the table.

    Attributes:
        kind: what a row is: a node, an edge, the whole graph, a seed, or a pair of graphs.
        name: name of the node set or edge set; "" for the others.
        files: paths in the order in which rows are counted; none for BigQuery.
        format: name of the format, see `table_format`.
        columns: columns to read, by their key in blocks: `#id`; `#source`, `#target`;
            feature names; `#column.<name>` for other columns, as text.
        decoders: by the name of the packed column in the file.
        delimiter: character between the cells of a text format.
        declared_as: file name or pattern as declared, for messages.
        bigquery: the BigQuery table or query, for a table without files.
        max_record_bytes: maximum size of one record of a file; see `TableAccess`.
    """

    kind: TableKind
    name: str
    files: tuple[str, ...]
    format: str
    columns: Mapping[str, TableColumn]
    decoders: Mapping[str, ColumnDecoder] = dataclasses.field(default_factory=dict)
    delimiter: str = ","
    declared_as: str = ""
    bigquery: BigQuery | None = None
    max_record_bytes: int = 1 << 24

    @property
    def label(self) -> str:
        """Name of the table in reports: "nodes/<set>", "edges/<set>", "context", "seeds" or "pairs"."""
        if self.kind == "node":
            return f"nodes/{self.name}"
        return f"edges/{self.name}" if self.kind == "edge" else self.kind

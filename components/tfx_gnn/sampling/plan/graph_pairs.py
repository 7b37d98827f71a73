"""Options of a table of pairs of graphs, whose rows become the examples."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Final, Literal

from tfx_gnn.io.suggestions import did_you_mean

PAIRS: Final = "pairs"
"""Label of the table of pairs."""

_DTYPES = ("int64", "float32", "string")
_SPLIT_RULES = ("pair", "graph")
_SIDE = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphPairs:
    """A table of pairs of graphs: each row becomes one example, which holds both graphs.

    The tables of graphs have every graph once, in however many pairs it is. The sets of an example are those of the
    left graph, `left_atoms` for example, and those of the right graph, `right_atoms`, in one component; likewise the
    context features of the graphs, `left_weight` and `right_weight`. The columns in `features` are context features
    too. The context feature `#id` names the pair: the value of `id_column`, or the ids of both graphs with "|" between
    them.

    Attributes:
        filename: file next to the graph schema, in any format that tables may have.
        left_column: column with the id of the left graph.
        right_column: column with the id of the right graph, which may be the same graph.
        id_column: column with the id of the pair; "" to name it after its graphs.
        features: type of each other column of the examples: "int64", "float32" or "string". Labels are among them.
        left: name of the left graph, with which the names of its sets and features begin.
        right: the same for the right graph.
        split_by: "pair": a row's own hash, or columns of the table of pairs, decide its split; a pair and its reverse
            share one split by hash, but one graph may occur in several splits. "graph": every graph has a split,
            by hash of its id or by columns of the context table; a pair belongs to the split of its graphs, and a pair
            of graphs of different splits belongs to none and is counted. No graph then occurs in two splits.

    Example:
        >>> GraphPairs(filename="pairs.csv", features={"alike": "int64"}).left
        'left'
    """

    filename: str
    left_column: str = "left"
    right_column: str = "right"
    id_column: str = ""
    features: Mapping[str, str] = dataclasses.field(default_factory=dict)
    left: str = "left"
    right: str = "right"
    split_by: Literal["pair", "graph"] = "pair"

    def __post_init__(self) -> None:
        self._check_columns()
        self._check_sides()
        if self.split_by not in _SPLIT_RULES:
            raise ValueError(
                f"`split_by` must be one of {list(_SPLIT_RULES)}; got {self.split_by!r} in `pairs`. "
                f"{did_you_mean(self.split_by, _SPLIT_RULES, otherwise='Choose one of them.')}"
            )
        object.__setattr__(self, "features", dict(self.features))

    @property
    def sides(self) -> tuple[str, str]:
        """Both names: left, right."""
        return self.left, self.right

    def _check_columns(self) -> None:
        for field in ("filename", "left_column", "right_column", "id_column"):
            value = getattr(self, field)
            if not isinstance(value, str) or (not value and field != "id_column"):
                raise ValueError(f"`{field}` must be a name; got {value!r} in `pairs`. Write it as a string.")
        columns = [name for name in (self.left_column, self.right_column, self.id_column) if name]
        if len(set(columns)) < len(columns):
            raise ValueError(
                "`left_column`, `right_column` and `id_column` must name different columns; got "
                f"{columns} in `pairs`. Correct them."
            )
        if not isinstance(self.features, Mapping):
            raise TypeError(
                f"`features` must give the type of each column; got {self.features!r} in `pairs`. "
                "Write {'alike': 'int64'} or so."
            )
        for name, dtype in self.features.items():
            if not isinstance(name, str) or not name or name.startswith("#") or dtype not in _DTYPES:
                raise ValueError(
                    f"`features` must name columns with one of the types {list(_DTYPES)}; got {name!r} with {dtype!r} "
                    f"in `pairs`. {did_you_mean(dtype, _DTYPES, otherwise='Correct the name or the type.')}"
                )

    def _check_sides(self) -> None:
        for field in ("left", "right"):
            value = getattr(self, field)
            if not isinstance(value, str) or not _SIDE.fullmatch(value):
                raise ValueError(
                    f"`{field}` must be letters, digits and underscores, a letter first; got {value!r} in `pairs`. "
                    "Names of node sets begin with it."
                )
        if self.left == self.right:
            raise ValueError(f"`left` and `right` must be different; got {self.left!r} in `pairs`. Rename one.")


def name_on_side(side: str, name: str) -> str:
    """Names the copy of a set or context feature in the left or the right graph."""
    return f"{side}_{name}"

"""Options of a table of pairs of graphs, whose rows become the examples."""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Mapping
from typing import Final, Literal

import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.index_features import mark_index_features
from tfx_gnn.graph.tensor.index_features import IndexFeatures
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.data_files import resolve_table_files
from tfx_gnn.tables.schema_layouts import CONTEXT, seeds_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableColumn, TableLayout

PAIRS: Final = "pairs"
"""Label of the table of pairs."""

_DTYPES = {"int64": tf.int64, "float32": tf.float32, "string": tf.string}
_ARROW_TYPES = {"int64": pa.int64(), "float32": pa.float32(), "string": pa.large_string()}
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
                f"`split_by` must be one of {list(_SPLIT_RULES)}; got {self.split_by!r} in `pairs`. Choose one of them."
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
                    "in `pairs`. Correct the name or the type."
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


def pairs_layout(
    tables_dir: str, pairs: GraphPairs, splits: SplitPlan, *, access: TableAccess | None = None
) -> TableLayout:
    """Describes the table of pairs: ids, declared features, and, as text, the columns that decide splits.

    The file name is relative to `tables_dir`, the folder of the graph schema.
    """
    access = access or TableAccess()
    text = pa.large_string()
    columns = {
        SOURCE_KEY: TableColumn(name=pairs.left_column, dtype=text),
        TARGET_KEY: TableColumn(name=pairs.right_column, dtype=text),
    }
    if pairs.id_column:
        columns[ID_FEATURE] = TableColumn(name=pairs.id_column, dtype=text)
    for name, dtype in pairs.features.items():
        columns[name] = TableColumn(name=name, dtype=_ARROW_TYPES[dtype])
    if pairs.split_by == "pair":
        for name in (splits.column, splits.group_column):
            if name:
                columns[EXTRA_PREFIX + name] = TableColumn(name=name, dtype=text)
    if not resolve_table_files(
        tables_dir, pairs.filename, allow_outside_files=access.allow_outside_files, place="the table of pairs"
    ):
        raise ValueError(
            "`pairs.filename` must name a file that exists, relative to the folder of the tables; got "
            f"{pairs.filename!r} in {tables_dir!r}. Correct the name or put the file there."
        )
    return seeds_layout(tables_dir, pairs.filename, columns, kind=PAIRS, access=access)


def make_pair_schema(
    of_graph: GraphSchema, pairs: GraphPairs, *, index_features: IndexFeatures, left_out: str = ""
) -> GraphSchema:
    """Makes the schema of pairs from that of the graphs, whose `#id` they do not keep.

    `index_features` are those of the graphs; each copy holds indices of nodes of its own side. `left_out` is a column
    of the table of pairs that is no feature of the examples.
    """
    schema = GraphSchema()
    schema.info.CopyFrom(of_graph.info)
    for side in pairs.sides:
        for name, feature in sorted(of_graph.context.features.items()):
            if name != ID_FEATURE:
                schema.context.features[name_on_side(side, name)].CopyFrom(feature)
        for name, node_set in sorted(of_graph.node_sets.items()):
            schema.node_sets[name_on_side(side, name)].CopyFrom(node_set)
        for name, edge_set in sorted(of_graph.edge_sets.items()):
            edges = schema.edge_sets[name_on_side(side, name)]
            edges.CopyFrom(edge_set)
            edges.source, edges.target = (name_on_side(side, end) for end in (edge_set.source, edge_set.target))
    for name, dtype in pairs.features.items():
        if name != left_out:
            schema.context.features[name].dtype = _DTYPES[dtype].as_datatype_enum
    schema.context.features[ID_FEATURE].dtype = tf.string.as_datatype_enum
    schema.context.features[ID_FEATURE].description = "Id of the pair."
    for side in pairs.sides:
        mark_index_features(schema, _index_features_on_side(index_features, side))
    return schema


def check_names_of_pairs(of_graph: GraphSchema, pairs: GraphPairs) -> None:
    """Checks that the copies on both sides, and the features of pairs, have different names."""
    kinds: dict[str, tuple[list[str], list[str]]] = {
        "the node sets": (list(of_graph.node_sets), []),
        "the edge sets": (list(of_graph.edge_sets), []),
        "the context": ([name for name in of_graph.context.features if name != ID_FEATURE], list(pairs.features)),
    }
    for kind, (copied, own) in kinds.items():
        names = [*own, *(name_on_side(side, name) for side in pairs.sides for name in copied)]
        again = sorted(name for name, count in collections.Counter(names).items() if count > 1)
        if again:
            raise ValueError(
                "`left` and `right` must give every set and context feature of a pair a name of its own; got "
                f"{again} twice in {kind}. Choose other names."
            )


def _index_features_on_side(features: IndexFeatures, side: str) -> IndexFeatures:
    on_side = {}
    for key, by_feature in features.items():
        kind, _, set_name = key.partition("/")
        is_context = kind == CONTEXT
        on_side[key if is_context else f"{kind}/{name_on_side(side, set_name)}"] = {
            name_on_side(side, name) if is_context else name: name_on_side(side, node_sets)
            if isinstance(node_sets, str)
            else tuple(name_on_side(side, node_set) for node_set in node_sets)
            for name, node_sets in by_feature.items()
        }
    return on_side

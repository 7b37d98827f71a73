"""The table of pairs of graphs, and the schema of examples that hold both graphs of a pair."""

from __future__ import annotations

import collections

import pyarrow as pa
import tensorflow as tf

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.index_features import mark_index_features
from tfx_gnn.graph.tensor.index_features import IndexFeatures
from tfx_gnn.sampling.plan.graph_pairs import PAIRS, GraphPairs, name_on_side
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.data_files import resolve_table_files
from tfx_gnn.tables.schema_layouts import CONTEXT, seeds_layout
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn.tables.table_layout import EXTRA_PREFIX, ID_FEATURE, SOURCE_KEY, TARGET_KEY, TableColumn, TableLayout

_DTYPES = {"int64": tf.int64, "float32": tf.float32, "string": tf.string}
_ARROW_TYPES = {"int64": pa.int64(), "float32": pa.float32(), "string": pa.large_string()}


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

"""The tf.Example keys that hold the parts of a graph.

The layout is TF-GNN's: `nodes/<set>.#size`, `nodes/<set>.<feature>`,
`edges/<set>.#size|#source|#target|<feature>` and `context/<feature>`. A ragged
dimension at axis i of a feature (counting the items as axis 0) has its row
lengths in `<key>.d<i>`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.graph.schema.hyperedges import refuse_hyperedges
from tfx_gnn.graph.schema.index_features import index_features

CONTEXT_PREFIX = const.CONTEXT


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureColumn:
    """One feature of a set, as stored in tf.Examples.

    Attributes:
        key: its tf.Example key.
        name: its name within the set.
        dtype: tf.int64, tf.float32 or tf.string: the dtype in tf.Examples, whatever the schema declares.
        shape: shape of one item's value; None marks a ragged dimension.
    """

    key: str
    name: str
    dtype: tf.DType
    shape: tuple[int | None, ...] = ()

    @property
    def is_ragged(self) -> bool:
        """Whether items may differ in their number of values."""
        return None in self.shape

    @property
    def row_length_keys(self) -> dict[int, str]:
        """Keys of the row lengths by position in `shape`, for ragged dimensions only."""
        return {axis: f"{self.key}.d{axis + 1}" for axis, size in enumerate(self.shape) if size is None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SetLayout:
    """One node set, edge set or the context, as stored in tf.Examples.

    Attributes:
        set_type: "nodes", "edges" or "context".
        name: name of the set; empty for the context.
        features: its features in alphabetical order, including "#id".
        source: node set that edges start from; empty unless an edge set.
        target: node set that edges point to; empty unless an edge set.
        index_features: names of the features that hold indices of nodes, to the node sets of their columns, or to the
            only node set if there are no columns.
    """

    set_type: str
    name: str
    features: tuple[FeatureColumn, ...] = ()
    index_features: Mapping[str, str | tuple[str, ...]] = dataclasses.field(default_factory=dict)
    source: str = ""
    target: str = ""

    @property
    def prefix(self) -> str:
        """Prefix of all keys of the set: "nodes/<name>", "edges/<name>" or "context"."""
        return CONTEXT_PREFIX if self.set_type == const.CONTEXT else f"{self.set_type}/{self.name}"

    @property
    def label(self) -> str:
        """The set in words, for messages."""
        return {
            const.CONTEXT: "the context",
            const.NODES: f"node set {self.name!r}",
            const.EDGES: f"edge set {self.name!r}",
        }[self.set_type]

    @property
    def size_key(self) -> str:
        """Key of the number of items; the context, which has one item per example, has no such key."""
        return self.key_of(const.SIZE_NAME)

    @property
    def source_key(self) -> str:
        """Key of the source node indices of an edge set."""
        return self.key_of(const.SOURCE_NAME)

    @property
    def target_key(self) -> str:
        """Key of the target node indices of an edge set."""
        return self.key_of(const.TARGET_NAME)

    @property
    def structure_keys(self) -> tuple[str, ...]:
        """Keys that are not features: sizes, and the ends of edges."""
        if self.set_type == const.CONTEXT:
            return ()
        if self.set_type == const.NODES:
            return (self.size_key,)
        return (self.size_key, self.source_key, self.target_key)

    @property
    def id_column(self) -> FeatureColumn | None:
        """The "#id" feature, if the set has one."""
        return next((column for column in self.features if column.name == ID_NAME), None)

    def key_of(self, feature: str) -> str:
        """Key of a feature, or of "#size", "#source", "#target"."""
        return f"{self.prefix}/{feature}" if self.set_type == const.CONTEXT else f"{self.prefix}.{feature}"


@dataclasses.dataclass(frozen=True)
class GraphLayout:
    """All sets of a graph, as stored in tf.Examples.

    Attributes:
        sets: the context first, then node sets, then edge sets, each in alphabetical order.
    """

    sets: tuple[SetLayout, ...]

    @functools.cached_property
    def features(self) -> dict[str, FeatureColumn]:
        """All features by key."""
        return {column.key: column for one_set in self.sets for column in one_set.features}

    @functools.cached_property
    def index_keys(self) -> frozenset[str]:
        """Keys of the features that hold indices of nodes."""
        return frozenset(one_set.key_of(name) for one_set in self.sets for name in one_set.index_features)

    @functools.cached_property
    def set_of_key(self) -> dict[str, SetLayout]:
        """The set that each key belongs to; keys are those of features, their row lengths, and structure keys."""
        owners: dict[str, SetLayout] = {}
        for one_set in self.sets:
            for key in _keys_of_set(one_set):
                owners[key] = one_set
        return owners

    def owner_of(self, key: str) -> SetLayout:
        """Returns the set that a key belongs to by its form, whether or not such a feature exists; else KeyError.

        Every graph has a context, even if its schema declares none.
        """
        prefix = prefix_of_key(key, self.set_by_prefix)
        if prefix == CONTEXT_PREFIX:
            return self.set_by_prefix.get(prefix, SetLayout(set_type=const.CONTEXT, name=""))
        if prefix is None or prefix not in self.set_by_prefix:
            raise KeyError(f"`key` must belong to one of {sorted(self.set_by_prefix)}; got {key!r}.")
        return self.set_by_prefix[prefix]

    @functools.cached_property
    def set_by_prefix(self) -> dict[str, SetLayout]:
        """The sets by `SetLayout.prefix`."""
        return {one_set.prefix: one_set for one_set in self.sets}


def graph_layout(schema: graph_schema_pb2.GraphSchema) -> GraphLayout:
    """Derives the layout from a valid graph schema; without a context in the schema, there is no context set.

    Raises ValueError if the schema has hyperedges, a key could belong to two sets, tf.Examples cannot hold a dtype, or
    a feature cannot hold the indices that it is declared to hold.
    """
    refuse_hyperedges(schema, "examples of the components")
    sets: list[SetLayout] = []
    if schema.context.features:
        sets.append(_set_layout(const.CONTEXT, "", schema.context))
    sets += [_set_layout(const.NODES, name, schema.node_sets[name]) for name in sorted(schema.node_sets)]
    sets += [_set_layout(const.EDGES, name, schema.edge_sets[name]) for name in sorted(schema.edge_sets)]
    declared = index_features(schema)
    layout = GraphLayout(
        tuple(dataclasses.replace(one_set, index_features=declared.get(one_set.prefix, {})) for one_set in sets)
    )
    _check_keys_are_unique(layout)
    return layout


def schema_features(schema: graph_schema_pb2.GraphSchema, prefix: str) -> Mapping[str, graph_schema_pb2.Feature]:
    """Returns the schema's own map of a set's features, in which looking up a missing name adds it."""
    set_type, _, name = prefix.partition("/")
    if set_type == const.CONTEXT:
        return schema.context.features
    if set_type == const.NODES:
        return schema.node_sets[name].features
    return schema.edge_sets[name].features


def prefix_of_key(key: str, prefixes: Iterable[str]) -> str | None:
    """Finds the prefix of the set that a key belongs to: "context", or one of the given ones; None if none fits."""
    if key.startswith(CONTEXT_PREFIX + "/"):
        return CONTEXT_PREFIX
    return max((prefix for prefix in prefixes if key.startswith(prefix + ".")), key=len, default=None)


def wire_dtype(dtype: tf.DType) -> tf.DType:
    """Returns the dtype of tf.Examples for values of a dtype: tf.int64 for bool, tf.float32 for all floats."""
    if dtype == tf.string:
        return tf.string
    if dtype == tf.bool or (dtype.is_integer and not dtype.is_quantized):
        return tf.int64
    if dtype.is_floating:
        return tf.float32
    raise ValueError(
        f"`dtype` must be a bool, integer, float or string type; got {dtype.name}. "
        "A tf.Example holds no other; declare the feature with one of these."
    )


def _set_layout(
    set_type: str,
    name: str,
    message: graph_schema_pb2.Context | graph_schema_pb2.NodeSet | graph_schema_pb2.EdgeSet,
) -> SetLayout:
    bare = SetLayout(set_type=set_type, name=name)
    if isinstance(message, graph_schema_pb2.EdgeSet):
        bare = dataclasses.replace(bare, source=message.source, target=message.target)
    columns = []
    for feature_name in sorted(message.features):
        feature = message.features[feature_name]
        columns.append(
            FeatureColumn(
                key=bare.key_of(feature_name),
                name=feature_name,
                dtype=wire_dtype(tf.dtypes.as_dtype(feature.dtype)),
                shape=tuple(None if dim.size < 0 else dim.size for dim in feature.shape.dim),
            )
        )
    return dataclasses.replace(bare, features=tuple(columns))


def _check_keys_are_unique(layout: GraphLayout) -> None:
    prefixes = sorted(layout.set_by_prefix)
    for prefix in prefixes:
        for other in prefixes:
            if other.startswith(prefix + "."):
                raise ValueError(
                    f"`schema` must name sets so that tf.Example keys distinguish them; got {prefix!r} and {other!r}. "
                    "Rename one of them."
                )
    for one_set in layout.sets:
        keys = list(_keys_of_set(one_set))
        repeated = sorted({key for key in keys if keys.count(key) > 1})
        if repeated:
            raise ValueError(
                f"`schema` must give every feature tf.Example keys of its own; got {repeated} twice in "
                f"{one_set.label}. Rename a feature: `<feature>.d<i>` is taken by row lengths of a ragged one."
            )


def _keys_of_set(one_set: SetLayout) -> Iterator[str]:
    yield from one_set.structure_keys
    for column in one_set.features:
        yield column.key
        yield from column.row_length_keys.values()

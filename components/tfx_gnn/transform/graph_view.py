"""The view of a graph that the user's preprocessing function gets.

tf.Transform accepts neither extension types nor nested dicts, so the function
gets plain Python objects around flat tensors, which concatenate the items of a
set over all graphs of the batch. Any tf.Transform analyzer or mapper works on
them, and `elementwise=True` means per dimension.

Features that the schema declares to hold indices of nodes are structure, like the ends of edges: they are
not in the view, and pass through unchanged.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import ID_NAME
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.fields import row_indices
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records.graph_layout import CONTEXT_PREFIX, GraphLayout, SetLayout

_FEATURE_DTYPES = (tf.int64, tf.float32, tf.string)
_Set = TypeVar("_Set", bound="ItemsView")


class UnknownNameError(KeyError, ValueError):
    """A set or feature does not exist: a KeyError, and also a ValueError because the user can fix it."""

    def __str__(self) -> str:
        """Returns the plain message; KeyError would show its repr."""
        return str(self.args[0])


class ItemsView(Mapping[str, Any]):
    """The features of the context, or of one node set or edge set.

    A mapping from feature names to tensors of shape `[total_items, *feature_shape]`: the items of
    all graphs of the batch, in order. Ragged features are `tf.RaggedTensor`s of that shape. The dtype
    is int64, float32 or string, the three that tf.Transform and tf.Example support.
    """

    def __init__(
        self, label: str, features: Mapping[str, const.Field], make_row_splits: Callable[[], tf.Tensor]
    ) -> None:
        """Wraps tensors.

        Args:
            label: the set in words, for messages.
            features: tensors by feature name.
            make_row_splits: returns int64 [num_graphs + 1], where the items of each graph begin. It is
                called on demand, so that statistics of features do not depend on sizes.
        """
        self._label = label
        self._features = dict(features)
        self._make_row_splits = make_row_splits

    def __getitem__(self, name: str) -> Any:
        """Returns the tensor of a feature."""
        if name not in self._features:
            raise UnknownNameError(
                f"`name` must be a feature of {self._label}; got {name!r}. It has {sorted(self._features)}. "
                f"{did_you_mean(name, self._features)}"
            )
        return self._features[name]

    def __iter__(self) -> Iterator[str]:
        """Iterates over feature names."""
        return iter(self._features)

    def __len__(self) -> int:
        """Number of features."""
        return len(self._features)

    def __repr__(self) -> str:
        """Names, dtypes and shapes."""
        inner = ", ".join(f"{name}: {value.dtype.name}{list(value.shape)}" for name, value in self._features.items())
        return f"{type(self).__name__}({self._label}: {inner})"

    @property
    def features(self) -> Mapping[str, Any]:
        """The same mapping, under its name in a GraphTensor."""
        return self

    @property
    def row_splits(self) -> tf.Tensor:
        """int64 [num_graphs + 1]: graph i has the items from `row_splits[i]` to before `row_splits[i + 1]`."""
        return self._make_row_splits()

    @property
    def sizes(self) -> tf.Tensor:
        """int64 [num_graphs]: number of items of each graph."""
        splits = self.row_splits
        return splits[1:] - splits[:-1]

    @property
    def total_size(self) -> tf.Tensor:
        """int64 scalar: number of items of all graphs."""
        return self.row_splits[-1]

    @property
    def _fields(self) -> dict[str, Any]:
        """The arguments that create any piece of a GraphTensor.

        They skip validation: its assertions are side effects, on which tf.Transform makes every statistic depend.
        """
        return {"features": self._features, "sizes": self.sizes, "validate": False}

    def with_features(self: _Set, features: Mapping[str, const.Field]) -> _Set:
        """Returns a copy that has exactly the given features.

        Args:
            features: tensors of shape `[total_items, *feature_shape]` by feature name. A SparseTensor
                `[total_items, n]` becomes the ragged rows of its values, without their columns.

        Returns:
            The copy.

        Raises:
            TypeError: if a value is not a tensor, or has a dtype that tf.Examples cannot hold.
            ValueError: if a name is reserved, or a value has no item dimension.
        """
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy._features = {name: _checked_feature(self._label, name, value) for name, value in features.items()}
        return copy


class ContextView(ItemsView):
    """Features of whole graphs, shape `[num_graphs, *feature_shape]`."""


class NodeSetView(ItemsView):
    """One node set; see `ItemsView`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdjacencyView:
    """Sources and targets of the edges of one edge set.

    Attributes:
        source_name: node set that edges start from.
        target_name: node set that edges point to.
        source: int64 [total_edges], positions in the flat tensors of the source node set.
        target: int64 [total_edges], positions in the flat tensors of the target node set.
    """

    source_name: str
    target_name: str
    source: tf.Tensor
    target: tf.Tensor

    def to_adjacency(self) -> Adjacency:
        """Returns the same sources and targets as part of a GraphTensor."""
        return Adjacency.from_indices((self.source_name, self.source), (self.target_name, self.target), validate=False)


class EdgeSetView(ItemsView):
    """One edge set; see `ItemsView`."""

    def __init__(
        self,
        label: str,
        features: Mapping[str, const.Field],
        make_row_splits: Callable[[], tf.Tensor],
        make_adjacency: Callable[[], AdjacencyView],
    ) -> None:
        """Wraps tensors.

        Args:
            label: see `ItemsView`.
            features: see `ItemsView`.
            make_row_splits: see `ItemsView`.
            make_adjacency: returns the sources and targets of the edges, on demand.
        """
        super().__init__(label, features, make_row_splits)
        self._make_adjacency = make_adjacency

    @property
    def adjacency(self) -> AdjacencyView:
        """Sources and targets of the edges, as positions in the flat tensors of the node sets."""
        return self._make_adjacency()


class _Sets(Mapping[str, _Set], Generic[_Set]):
    """Node sets or edge sets by name, with a helpful error for an unknown name."""

    def __init__(self, kind: str, sets: Mapping[str, _Set]) -> None:
        self._kind = kind
        self._sets = dict(sets)

    def __getitem__(self, name: str) -> _Set:
        if name not in self._sets:
            raise UnknownNameError(
                f"`name` must be {self._kind} of the graph; got {name!r}. The graph has {sorted(self._sets)}. "
                f"{did_you_mean(name, self._sets)}"
            )
        return self._sets[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sets)

    def __len__(self) -> int:
        return len(self._sets)

    def __repr__(self) -> str:
        return repr(self._sets)


class GraphView:
    """The graphs of a batch, set by set. See the module's docstring.

    Attributes:
        context: features of whole graphs.
        node_sets: node sets by name.
        edge_sets: edge sets by name.
    """

    def __init__(
        self, context: ContextView, node_sets: Mapping[str, NodeSetView], edge_sets: Mapping[str, EdgeSetView]
    ) -> None:
        """Assembles a view; user code gets one, and makes others with `replace_features`."""
        self.context = context
        self.node_sets: Mapping[str, NodeSetView] = _Sets("a node set", node_sets)
        self.edge_sets: Mapping[str, EdgeSetView] = _Sets("an edge set", edge_sets)

    def __repr__(self) -> str:
        """Shows sets and features with dtypes and shapes."""
        return f"GraphView(context={self.context}, node_sets={self.node_sets}, edge_sets={self.edge_sets})"

    def replace_features(
        self,
        context: Mapping[str, const.Field] | None = None,
        node_sets: Mapping[str, Mapping[str, const.Field]] | None = None,
        edge_sets: Mapping[str, Mapping[str, const.Field]] | None = None,
    ) -> GraphView:
        """Returns a view with other features, like `GraphTensor.replace_features`.

        Args:
            context: if given, the context has exactly these features.
            node_sets: features by node set; sets named here have exactly these features, others keep theirs.
            edge_sets: the same for edge sets.

        Returns:
            The new view; this one is unchanged.

        Raises:
            UnknownNameError: if a set does not exist.
            TypeError: if a value is not a tensor, or has a dtype that tf.Examples cannot hold.
            ValueError: if a name is reserved, or a value has no item dimension.
        """
        new_node_sets = dict(self.node_sets)
        for name, features in (node_sets or {}).items():
            new_node_sets[name] = self.node_sets[name].with_features(features)
        new_edge_sets = dict(self.edge_sets)
        for name, features in (edge_sets or {}).items():
            new_edge_sets[name] = self.edge_sets[name].with_features(features)
        return GraphView(
            self.context if context is None else self.context.with_features(context), new_node_sets, new_edge_sets
        )

    def to_graph_tensor(self) -> GraphTensor:
        """Returns the same graphs as one GraphTensor, so that every operation on graphs works here too.

        To make the result of such an operation a feature, pass it to `replace_features` of this view.
        tf.Transform's analyzers work on features of the GraphTensor as on those of the view; a statistic of
        a value that depends on sizes or edges needs `analyze="as_sampled"`.

        Returns:
            Scalar graph whose components are the graphs of the batch, with all sets and features; sizes and
            edges are int64. Nothing is asserted at run time.

        Example:
            >>> def preprocessing_fn(graph: GraphView) -> GraphView:
            ...     paper = graph.node_sets["paper"]
            ...     cites = tfx_gnn.pool_neighbors_to_node(
            ...         graph.to_graph_tensor(), "cites", tfx_gnn.SOURCE, reduce_type="mean", feature_name="year"
            ...     )
            ...     return graph.replace_features(node_sets={"paper": {**paper, "year_of_cited": cites}})
        """
        return GraphTensor.from_pieces(
            context=Context.from_fields(**self.context._fields),
            node_sets={name: NodeSet.from_fields(**view._fields) for name, view in self.node_sets.items()},
            edge_sets={
                name: EdgeSet.from_fields(**view._fields, adjacency=view.adjacency.to_adjacency())
                for name, view in self.edge_sets.items()
            },
            validate=False,
        )


def graph_view_from_ragged(tensors: Mapping[str, tf.RaggedTensor], layout: GraphLayout) -> GraphView:
    """Makes the view of a batch of parsed tf.Examples; features that hold indices of nodes are not in it.

    `tensors` has every key of the layout, including structure keys, with shape `[num_graphs, (num_items),
    *feature_shape]`.
    """

    def row_splits_of(one_set: SetLayout) -> Callable[[], tf.Tensor]:
        if one_set.set_type == const.CONTEXT:
            return lambda: tf.range(_num_graphs(tensors) + 1)
        return lambda: _row_splits_from_sizes(tensors[one_set.size_key])

    def adjacency_of(one_set: SetLayout) -> Callable[[], AdjacencyView]:
        def flat_index(key: str, node_set: str) -> tf.Tensor:
            local = tensors[key]
            node_splits = row_splits_of(layout.set_by_prefix[f"{const.NODES}/{node_set}"])()
            return local.values + tf.gather(node_splits, row_indices(local))

        return lambda: AdjacencyView(
            source_name=one_set.source,
            target_name=one_set.target,
            source=flat_index(one_set.source_key, one_set.source),
            target=flat_index(one_set.target_key, one_set.target),
        )

    context = ContextView("the context", {}, lambda: tf.range(_num_graphs(tensors) + 1))
    node_sets: dict[str, NodeSetView] = {}
    edge_sets: dict[str, EdgeSetView] = {}
    for one_set in layout.sets:
        columns = [column for column in one_set.features if column.name not in one_set.index_features]
        features = {column.name: tensors[column.key].values for column in columns}
        if one_set.set_type == const.CONTEXT:
            context = ContextView(one_set.label, features, row_splits_of(one_set))
        elif one_set.set_type == const.NODES:
            node_sets[one_set.name] = NodeSetView(one_set.label, features, row_splits_of(one_set))
        else:
            edge_sets[one_set.name] = EdgeSetView(
                one_set.label, features, row_splits_of(one_set), adjacency_of(one_set)
            )
    return GraphView(context, node_sets, edge_sets)


def ragged_from_graph_view(graph: GraphView) -> dict[str, tf.RaggedTensor]:
    """Splits the features of a view by graph again, keyed by tf.Example key, without structure keys.

    Their shape is `[num_graphs, (num_items), *feature_shape]`.
    """
    pieces: list[tuple[SetLayout, ItemsView]] = [(SetLayout(set_type=const.CONTEXT, name=""), graph.context)]
    pieces += [(SetLayout(set_type=const.NODES, name=name), view) for name, view in graph.node_sets.items()]
    pieces += [(SetLayout(set_type=const.EDGES, name=name), view) for name, view in graph.edge_sets.items()]
    ragged: dict[str, tf.RaggedTensor] = {}
    for one_set, view in pieces:
        if not view:
            continue
        row_splits = view.row_splits
        for name, value in view.items():
            # Validation would add assertions, and tf.Transform makes every statistic depend on them.
            ragged[one_set.key_of(name)] = tf.RaggedTensor.from_row_splits(value, row_splits, validate=False)
    return ragged


def _checked_feature(label: str, name: str, value: Any) -> const.Field:
    place = f"feature {name!r} of {label}"
    if name.startswith("#") and name != ID_NAME:
        raise ValueError(f"`name` must not start with '#', except {ID_NAME!r}; got {place}. Rename the feature.")
    if not name:
        raise ValueError(f"`name` must not be empty; got {place}. Name the feature.")
    if isinstance(value, tf.SparseTensor) and value.shape.rank == 2:
        # tf.Transform's text functions return SparseTensors whose values have an unknown shape.
        rows, values = value.indices[:, 0], tf.reshape(value.values, [-1])
        value = tf.RaggedTensor.from_value_rowids(values, rows, value.dense_shape[0], validate=False)
    if not isinstance(value, (tf.Tensor, tf.RaggedTensor)):
        raise TypeError(
            f"`value` must be a tensor; got {type(value).__name__} for {place}. Compute it from the features."
        )
    if value.dtype not in _FEATURE_DTYPES:
        raise TypeError(
            f"`value` must be int64, float32 or string, as in tf.Examples; got {value.dtype.name} for {place}. "
            "Convert it with tf.cast."
        )
    if value.shape.rank is None or value.shape.rank < 1:
        raise ValueError(
            f"`value` must have shape [total_items, ...]; got shape {value.shape} for {place}. "
            "Give one row for each item."
        )
    return value


def _row_splits_from_sizes(sizes: tf.RaggedTensor) -> tf.Tensor:
    """Computes the row splits of the items from `#size`; an example without `#size` has no items."""
    ends = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(sizes.values)], axis=0)
    return tf.gather(ends, sizes.row_splits)


def _num_graphs(tensors: Mapping[str, tf.RaggedTensor]) -> tf.Tensor:
    # Keys of the context come last, because context features may be absent from an example.
    keys = sorted(tensors, key=lambda key: (key.startswith(CONTEXT_PREFIX + "/"), key))
    return tensors[keys[0]].nrows(out_type=tf.int64)

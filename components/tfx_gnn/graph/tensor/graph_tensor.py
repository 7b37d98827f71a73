"""Graphs as TensorFlow values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tfx_gnn.graph.graph_constants import (
    CONTEXT,
    EDGES,
    NODES,
    EdgeSetName,
    Field,
    FieldName,
    Fields,
    NodeSetName,
    SetName,
)
from tfx_gnn.graph.tensor import batch_items, run_time_checks, tf_hooks
from tfx_gnn.graph.tensor.graph_piece import GraphPiece, GraphPieceSpec
from tfx_gnn.graph.tensor.graph_tensor_spec import (
    CONTEXT_PART,
    EDGE_SETS_PART,
    NODE_SETS_PART,
    GraphTensorSpec,
    check_piece_types,
    first_set,
)
from tfx_gnn.graph.tensor.index_features import IndexFeatures, check_index_features, shifted_index_features
from tfx_gnn.graph.tensor.notebook_html import graph_html
from tfx_gnn.graph.tensor.piece_parts import FrozenMapping, check_mapping
from tfx_gnn.graph.tensor.piece_specs import check_component_count
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, FeaturePiece, NodeSet
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors


class GraphTensor(GraphPiece):
    """A heterogeneous graph with features, or a batch of such graphs.

    A scalar graph (shape []) has node sets, edge sets that connect them, and a context. It may
    consist of several *components*: the nodes of the first component come first in each node
    set, and no edge joins two components. A batch of shape [b1, ..., br] holds graphs with the
    same sets and features, each with node indices of its own; `merge_batch_to_components` turns
    it into one scalar graph, for use in a model.

    Graphs are composite tensors: they are elements of tf.data, arguments and results of
    tf.function, and inputs of Keras models (with `tf_keras.layers.Input(type_spec=graph.spec)`).
    They are immutable; methods return new graphs that share the tensors.

    Example:
        >>> graph = GraphTensor.from_pieces(
        ...     node_sets={"paper": NodeSet.from_fields(sizes=[3], features={"x": [1.0, 2.0, 3.0]})}
        ... )
        >>> graph.node_sets["paper"]["x"].numpy().tolist()
        [1.0, 2.0, 3.0]
    """

    _SPEC_TYPE: ClassVar[type[GraphPieceSpec]] = GraphTensorSpec

    #: For `batch_items`: the graphs of a batch that a loop is taking, and how many it took one after another.
    _unstacked: list[GraphTensor] | None = None
    _num_in_turn: int = 0

    @classmethod
    @tf_hooks.supports_keras_tensors
    def from_pieces(
        cls,
        context: Context | None = None,
        node_sets: Mapping[NodeSetName, NodeSet] | None = None,
        edge_sets: Mapping[EdgeSetName, EdgeSet] | None = None,
        validate: bool | None = None,
    ) -> GraphTensor:
        """Makes a graph.

        Args:
            context: features of the components; by default none. The number of components and the
                dtypes of sizes and row splits come from the first edge set by name or, without
                edge sets, from the first node set by name.
            node_sets: node set names to node sets.
            edge_sets: edge set names to edge sets.
            validate: whether to assert at run time that edges connect existing nodes; None for the
                process-wide setting. For batches, that setting checks only one endpoint of an edge
                set per node set, as TF-GNN does; merging the batch checks all endpoints.

        Raises:
            ValueError: if a piece is of the wrong kind, an edge set is incident to an unknown node set, the pieces have
                different batch shapes, or the context disagrees on the number of components.
        """
        check_mapping(node_sets, "node_sets", "node sets")
        check_mapping(edge_sets, "edge_sets", "edge sets")
        nodes, edges = dict(node_sets or {}), dict(edge_sets or {})
        given_context = Context.from_fields() if context is None else context
        check_piece_types(given_context, nodes, edges, (Context, NodeSet, EdgeSet))
        if run_time_checks.checks_statically():
            _check_incident_node_sets(nodes, edges)
        piece = first_set(nodes, edges)
        if piece is not None:
            if run_time_checks.checks_sizes_statically(validate):
                check_component_count(given_context.features, piece.sizes)
            given_context = given_context.with_row_splits_dtype(piece.row_splits_dtype)
            given_context = given_context.with_sizes(_ones_like(piece.sizes))
            if run_time_checks.checks_at_runtime(validate):
                given_context._assert_sizes_match()
        graph = cls._from_parts(given_context, nodes, edges)
        if run_time_checks.checks_at_runtime(validate):
            run_time_checks.assert_valid(graph, one_end=graph.rank > 0 and not validate)
        return graph

    @classmethod
    def _from_parts(
        cls,
        context: Context,
        node_sets: dict[NodeSetName, NodeSet],
        edge_sets: dict[EdgeSetName, EdgeSet],
        row_splits_dtype: tf.DType | None = None,
    ) -> GraphTensor:
        parts = {CONTEXT_PART: context, NODE_SETS_PART: node_sets, EDGE_SETS_PART: edge_sets}
        return cls._assemble(parts, shape=context.shape, row_splits_dtype=row_splits_dtype)

    @classmethod
    def _decides_row_splits(cls, part_name: str, leaf: Any) -> bool:
        return part_name != CONTEXT_PART or leaf.has_ragged_fields

    @property
    def context(self) -> Context:
        """The features of the graph components."""
        return self._parts[CONTEXT_PART]

    @property
    def node_sets(self) -> FrozenMapping[NodeSet]:
        """Node set names to node sets."""
        return FrozenMapping(self._parts[NODE_SETS_PART])

    @property
    def edge_sets(self) -> FrozenMapping[EdgeSet]:
        """Edge set names to edge sets."""
        return FrozenMapping(self._parts[EDGE_SETS_PART])

    @tf.autograph.experimental.do_not_convert
    def __getitem__(self, key: Any) -> GraphTensor:
        """Returns one or several graphs of a batch, along its first dimension.

        Args:
            key: index of a graph, an integer or a scalar integer tensor; or a slice, a bool mask of shape
                [batch_size], or a list, array or tensor of indices, of shape [num_graphs]. Negative indices count
                from the end.

        Returns:
            For an index, a graph without the first dimension of the batch shape; else, a batch of graphs.

        Raises:
            TypeError: if the graph is scalar, or `key` is none of these.
            IndexError: if an index is not in the batch, or a mask has another size. While a tf.function runs, this
                is a `tf.errors.InvalidArgumentError`; XLA does not check it.
        """
        return batch_items.take_items(self, key)

    # No `__iter__` and no `__len__`: with these, Keras, absl and others take any graph for a sequence. A loop over a
    # batch calls `graph[0]`, `graph[1]` and so on until the IndexError.

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_unstacked", "_num_in_turn")}

    def unstack(self) -> list[GraphTensor]:
        """Divides a batch into its graphs, along its first dimension.

        Same graphs as `list(graph)`.

        Returns:
            One graph of shape `graph.shape[1:]` for each index.

        Raises:
            TypeError: if the graph is scalar, or the size of the batch is unknown in a tf.function.

        Example:
            >>> graph = tfx_gnn.homogeneous(
            ...     source=tf.constant([0]), target=tf.constant([1]), node_features=tf.ones([2]))
            >>> batch = next(iter(tf.data.Dataset.from_tensors(graph).repeat(3).batch(3)))
            >>> [one.shape for one in batch.unstack()]
            [TensorShape([]), TensorShape([]), TensorShape([])]
        """
        return batch_items.unstack(self)

    @property
    def num_components(self) -> tf.Tensor:
        """The number of components of each graph: a tensor of the batch shape."""
        return self.context.num_components

    @property
    def total_num_components(self) -> tf.Tensor:
        """The number of components of all graphs together: a scalar tensor."""
        return self.context.total_num_components

    @tf.autograph.experimental.do_not_convert
    def merge_batch_to_components(self, *, index_features: IndexFeatures | None = None) -> GraphTensor:
        """Merges all graphs of a batch into one scalar graph.

        The graphs become components, in order: nodes, edges and components of later graphs
        come after those of earlier ones, and node indices are shifted accordingly. No edges are
        added. Ragged item dimensions become dense; later ragged dimensions of features stay ragged.

        Args:
            index_features: features that hold indices of nodes, as `tfx_gnn.index_features` reads them from a graph
                schema; they are shifted like the ends of edges, -1 ("no node") excepted. Other features never are.

        Returns:
            Graph of shape []; the graph itself if it already has this shape.

        Raises:
            ValueError: if `index_features` names a feature that the graph lacks, or that cannot hold indices.
            tf.errors.InvalidArgumentError: at run time, if an index feature refers to a node that its graph lacks.
        """
        if index_features:
            check_index_features(self.spec, index_features)
        if self.rank == 0:
            return self
        if run_time_checks.checks_at_runtime():
            # An out-of-range index would refer to a node of the next graph.
            run_time_checks.assert_valid(self)
        offsets = {
            name: tf.cumsum(node_set._items_per_graph(), exclusive=True) for name, node_set in self.node_sets.items()
        }
        merged = self._from_parts(
            self.context.merge_batch(),
            {name: node_set.merge_batch() for name, node_set in self.node_sets.items()},
            {name: edge_set.merge_batch(offsets) for name, edge_set in self.edge_sets.items()},
            row_splits_dtype=self.row_splits_dtype,
        )
        if not index_features:
            return merged
        items_by_graph = {key: piece._items_per_graph() for key, piece in self._pieces_by_key().items()}
        return shifted_index_features(merged, items_by_graph, index_features)

    def _pieces_by_key(self) -> dict[str, FeaturePiece]:
        """Returns the context, node sets and edge sets by "context", "nodes/<set>" and "edges/<set>"."""
        pieces: dict[str, FeaturePiece] = {CONTEXT: self.context}
        pieces |= {f"{NODES}/{name}": node_set for name, node_set in self.node_sets.items()}
        return pieces | {f"{EDGES}/{name}": edge_set for name, edge_set in self.edge_sets.items()}

    @tf.autograph.experimental.do_not_convert
    def replace_features(
        self,
        context: Fields | None = None,
        node_sets: Mapping[NodeSetName, Fields] | None = None,
        edge_sets: Mapping[EdgeSetName, Fields] | None = None,
    ) -> GraphTensor:
        """Returns the graph with the features of some pieces replaced.

        Args:
            context: all features of the context, shape [*batch_shape, num_components, ...]; None
                to keep the current ones.
            node_sets: node set names to all features of the set, shape
                [*batch_shape, num_nodes, ...]; other node sets keep their features.
            edge_sets: edge set names to all features of the set, shape
                [*batch_shape, num_edges, ...]; other edge sets keep their features.

        Raises:
            ValueError: if a set does not exist, or features do not fit their set.
        """
        _check_names_exist("node", node_sets, self.node_sets)
        _check_names_exist("edge", edge_sets, self.edge_sets)
        old = self.context
        return self._from_parts(
            old if context is None else old.replace_features(context),
            _replace_in_sets(self.node_sets, node_sets),
            _replace_in_sets(self.edge_sets, edge_sets),
            row_splits_dtype=self.row_splits_dtype,
        )

    @tf.autograph.experimental.do_not_convert
    def remove_features(
        self,
        context: Sequence[FieldName] | None = None,
        node_sets: Mapping[NodeSetName, Sequence[FieldName]] | None = None,
        edge_sets: Mapping[EdgeSetName, Sequence[FieldName]] | None = None,
    ) -> GraphTensor:
        """Returns the graph without some of its features.

        Args:
            context: names of context features to remove.
            node_sets: node set names to names of features to remove.
            edge_sets: edge set names to names of features to remove.

        Raises:
            KeyError: if a set does not exist.
            ValueError: if a feature does not exist.
        """
        return self.replace_features(
            None if context is None else _without(self.context, context, "context"),
            {
                name: _without(self.node_sets[name], features, f"node_sets[{name!r}]")
                for name, features in (node_sets or {}).items()
            },
            {
                name: _without(self.edge_sets[name], features, f"edge_sets[{name!r}]")
                for name, features in (edge_sets or {}).items()
            },
        )

    def __repr__(self) -> str:
        return (
            f"GraphTensor(\n  context={self.context!r},\n  node_set_names={list(self.node_sets)},\n"
            f"  edge_set_names={list(self.edge_sets)})"
        )

    def _repr_html_(self) -> str:
        """Shows the graph in a notebook."""
        return graph_html("GraphTensor", self.spec, self)

    def __str__(self) -> str:
        """Describes all pieces, one per line."""
        lines = [f"  context={self.context!r},"]
        for part, sets in (("node_sets", self.node_sets), ("edge_sets", self.edge_sets)):
            entries = "".join(f"    {name!r}: {piece!r},\n" for name, piece in sets.items())
            lines.append(f"  {part}={{\n{entries}  }}," if entries else f"  {part}={{}},")
        return "\n".join(["GraphTensor(", *lines, ")"])


def _ones_like(sizes: Field) -> Field:
    if isinstance(sizes, tf.Tensor) and sizes.shape.is_fully_defined():
        return tf.ones(sizes.shape, sizes.dtype)
    return tf.ones_like(sizes)


def _check_incident_node_sets(
    node_sets: Mapping[NodeSetName, NodeSet], edge_sets: Mapping[EdgeSetName, EdgeSet]
) -> None:
    for edge_set_name, edge_set in edge_sets.items():
        for node_set_name, _ in edge_set.adjacency.get_indices_dict().values():
            if node_set_name not in node_sets:
                raise ValueError(
                    f"The edge set {edge_set_name} is incident to the non-existent node set "
                    f"{node_set_name}; the graph has node sets {sorted(node_sets)}."
                )


def _check_names_exist(kind: str, changes: Mapping[SetName, Any] | None, existing: Mapping[SetName, Any]) -> None:
    unknown = sorted(set(changes or {}) - set(existing))
    if unknown:
        raise ValueError(f"Some {kind} sets in the `{kind}_sets` are not present in the graph tensor: {unknown}")


def _replace_in_sets(sets: Mapping[SetName, Any], changes: Mapping[SetName, Fields] | None) -> dict[SetName, Any]:
    changes = changes or {}
    return {name: piece.replace_features(changes[name]) if name in changes else piece for name, piece in sets.items()}


def _without(piece: FeaturePiece, names: Sequence[FieldName], where: str) -> dict[FieldName, Field]:
    if isinstance(names, str):
        raise TypeError(f"`{where}` must be a sequence of feature names; got {names!r}. Write [{names!r}].")
    features = piece.get_features_dict()
    for name in names:
        if name not in features:
            raise ValueError(f"GraphTensor has no feature {where}[{name!r}]; it has {sorted(piece.features)}.")
    return {name: value for name, value in features.items() if name not in names}


@refuses_keras_tensors()
def graph_tensor_to_values(graph: GraphTensor) -> dict[str, Any]:
    """Returns the features of a graph as nested lists.

    Args:
        graph: eager graph of any shape.

    Returns:
        Dict with keys "context", a dict of feature names to lists, and "node_sets" and
        "edge_sets", dicts of set names to such dicts. UTF-8 strings are returned as `str`,
        other strings as `bytes`.

    Example:
        >>> from tfx_gnn.graph.tensor.pieces import NodeSet
        >>> paper = NodeSet.from_fields(features={"title": ["a", "b"]}, sizes=[2])
        >>> graph_tensor_to_values(GraphTensor.from_pieces(node_sets={"paper": paper}))["node_sets"]
        {'paper': {'title': ['a', 'b']}}
    """
    return {
        "context": _values_of(graph.context),
        "node_sets": {name: _values_of(piece) for name, piece in graph.node_sets.items()},
        "edge_sets": {name: _values_of(piece) for name, piece in graph.edge_sets.items()},
    }


def _values_of(piece: Any) -> dict[str, Any]:
    return {name: _list_of(feature) for name, feature in piece.features.items()}


def _list_of(field: Field) -> Any:
    values = field.to_list() if isinstance(field, tf.RaggedTensor) else field.numpy().tolist()
    return _decoded(values) if field.dtype == tf.string else values


def _decoded(values: Any) -> Any:
    if isinstance(values, list):
        return [_decoded(value) for value in values]
    try:
        return values.decode("utf-8")
    except UnicodeDecodeError:
        return values

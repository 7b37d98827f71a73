"""GraphLearn's `BatchGraph`: subgraphs of one node and edge type, merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tfx_gnn.graph.graph_constants import EDGES, NODES
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.graphlearn.data.additional_arrays import WithAdditionalArrays
from tfx_gnn.graphlearn.data.batch_parts import (
    FlatTensors,
    additional_arrays,
    check_additional_rows,
    check_edge_rows,
    counts_to_starts,
    join_edge_data,
    split_additional,
)
from tfx_gnn.graphlearn.data.composite_value import CompositeSpec, CompositeValue, as_tensor, num_rows
from tfx_gnn.graphlearn.data.data import ENCODED, Data, as_data, data_of, data_or_encoded
from tfx_gnn.graphlearn.data.ego_graph import graph_features
from tfx_gnn.graphlearn.data.handler_scope import transform_in_scope
from tfx_gnn.graphlearn.data.merging import (
    check_graphs,
    check_known,
    check_starts,
    counts_of,
    edge_counts,
    join_additional,
    join_data,
    join_edges,
    ragged_rows,
    split_data,
    split_edges,
    starts_of,
)
from tfx_gnn.graphlearn.data.schema import (
    GivenSchema,
    TypeSchema,
    as_type_schema,
    schemas_from_plain,
    schemas_to_plain,
)
from tfx_gnn.graphlearn.data.sub_graph import SubGraph


class BatchGraphSpec(CompositeSpec):
    """Type spec of `BatchGraph`."""


class BatchGraph(WithAdditionalArrays, CompositeValue, SubGraph):
    """A batch of subgraphs with nodes and edges of one type.

    Nodes and edges are those of the first subgraph, then those of the second one, and so on. `graph` is the same as a
    GraphTensor with one component for each subgraph. TensorFlow takes a `BatchGraph` as a value: in tf.function,
    tf.data and SavedModel.

    Example:
        >>> graphs = [
        ...     SubGraph([[0, 1], [1, 2]], Data(ids=np.array([10, 20, 30]))),
        ...     SubGraph([[0], [1]], Data(ids=np.array([10, 40]))),
        ... ]
        >>> batch = BatchGraph.from_graphs(graphs)
        >>> batch.edge_index.tolist(), batch.graph_node_offsets.tolist(), batch.graph_edge_offsets.tolist()
        ([[0, 1, 3], [1, 2, 4]], [0, 3], [0, 2])
        >>> batch.graph.node_sets["nodes"].sizes.numpy().tolist()
        [3, 2]
    """

    _SPEC_TYPE: ClassVar[type[CompositeSpec]] = BatchGraphSpec

    def __init__(
        self,
        edge_index: Any,
        nodes: Any,
        node_schema: GivenSchema | None,
        graph_node_offsets: Any,
        edges: Any = None,
        edge_schema: GivenSchema | None = None,
        graph_edge_offsets: Any = None,
        additional_keys: Sequence[str] = (),
        *,
        additional_offsets: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Holds merged subgraphs; `from_graphs` merges them.

        Args:
            edge_index: int32 of shape [2, num_edges]: the positions of source and target nodes in the batch.
            nodes: all nodes, a `Data` or a float tensor of shape [num_nodes, dimension].
            node_schema: (name of the type, FeatureSpec or Decoder); None if nothing is to be encoded. The name is
                that of the node set in `graph`; "nodes" without a schema.
            graph_node_offsets: int64 of shape [num_graphs]: where the nodes of each subgraph begin.
            edges: all edges, in the form of `nodes`; None if they have no attributes.
            edge_schema: the same as `node_schema`, for edges.
            graph_edge_offsets: int64 of shape [num_graphs]: where the edges of each subgraph begin. By default, it
                follows from the source nodes.
            additional_keys: names of further arrays, whose rows belong to the subgraphs.
            additional_offsets: by further key, where the rows of each subgraph begin. By default there is one row per
                node.
            **kwargs: the further arrays.

        Raises:
            TypeError: if nodes or edges are neither a Data nor a tensor, or `kwargs` are not the additional keys.
            ValueError: if numbers of rows do not fit together.
        """
        self._edge_index = edge_index
        self._nodes = as_data(nodes, "nodes")
        self._node_schema = None if node_schema is None else as_type_schema(node_schema, "node_schema")
        self._graph_node_offsets = graph_node_offsets
        self._edges = None if edges is None else as_data(edges, "edges")
        self._edge_schema = None if edge_schema is None else as_type_schema(edge_schema, "edge_schema")
        num_nodes = self._nodes.num_items
        check_starts(graph_node_offsets, num_nodes, "graph_node_offsets")
        check_edge_rows(self._edges, self.num_edges, "edges")
        if graph_edge_offsets is None:
            starts = (graph_node_offsets, graph_node_offsets)
            counts = edge_counts(edge_index, starts, (num_nodes, num_nodes), "edge_index")
            graph_edge_offsets = counts_to_starts(counts)
        check_starts(graph_edge_offsets, self.num_edges, "graph_edge_offsets")
        self._graph_edge_offsets = graph_edge_offsets
        self._names = (
            NODES if self._node_schema is None else self._node_schema[0],
            EDGES if self._edge_schema is None else self._edge_schema[0],
        )
        self._additional = additional_arrays(type(self), additional_keys, kwargs)
        self._additional_keys = list(additional_keys)
        self._additional_offsets = {
            key: (additional_offsets or {}).get(key, graph_node_offsets) for key in self._additional
        }
        check_additional_rows(
            {key: value for key, value in self._additional.items() if key not in (additional_offsets or {})},
            num_nodes,
        )

    @classmethod
    def from_graphs(
        cls,
        graphs: Sequence[SubGraph],
        additional_keys: Sequence[str] = (),
        *,
        node_schema: GivenSchema | None = None,
        edge_schema: GivenSchema | None = None,
    ) -> BatchGraph:
        """Merges subgraphs.

        Args:
            graphs: subgraphs with the same arrays; at least one.
            additional_keys: names of further arrays of the subgraphs, which are concatenated along their first
                dimension.
            node_schema: as for the constructor.
            edge_schema: as for the constructor.

        Returns:
            The batch, in numpy.

        Raises:
            TypeError: if `graphs` holds anything else.
            ValueError: if there is no subgraph, arrays differ in dtype or shape, or an edge leads to no node.
        """
        check_graphs(graphs, SubGraph)
        nodes, num_nodes = join_data([graph._nodes for graph in graphs], "nodes")
        edge_index, num_edges = join_edges([graph._edge_index for graph in graphs], num_nodes, num_nodes, "edge_index")
        edges = join_edge_data([graph._edges for graph in graphs], num_edges, "edges")
        additional, offsets = join_additional(graphs, additional_keys)
        return cls(
            edge_index,
            nodes,
            node_schema,
            starts_of(num_nodes),
            edges,
            edge_schema,
            starts_of(num_edges),
            additional_keys,
            additional_offsets=offsets,
            **additional,
        )

    @tf.autograph.experimental.do_not_convert
    def to_graphs(self) -> list[SubGraph]:
        """Returns the subgraphs that `from_graphs` merged, in numpy.

        Raises:
            ValueError: if values are not known, because a function is being traced.
        """
        check_known(self._components(), "to_graphs")
        num_nodes = counts_of(self.graph_node_offsets, self.num_nodes)
        num_edges = counts_of(self.graph_edge_offsets, self.num_edges)
        nodes = split_data(self._nodes, num_nodes)
        edges = [None] * len(nodes) if self._edges is None else split_data(self._edges, num_edges)
        ends = split_edges(self._edge_index, num_edges, num_nodes, num_nodes)
        further = split_additional(self._additional, self._additional_offsets)
        return [
            SubGraph(index, some_nodes, some_edges, **{key: rows[position] for key, rows in further.items()})
            for position, (index, some_nodes, some_edges) in enumerate(zip(ends, nodes, edges, strict=True))
        ]

    @property
    def graph(self) -> GraphTensor:
        """The batch as a scalar GraphTensor with one component for each subgraph.

        The arrays of a `Data` are features under their names, encoded attributes the feature "hidden_state", and
        additional arrays ragged features of the context.
        """
        node_set, edge_set = self._names
        node_sizes = tf.cast(counts_of(self._graph_node_offsets, self.num_nodes), tf.int32)
        edge_sizes = tf.cast(counts_of(self._graph_edge_offsets, self.num_edges), tf.int32)
        edge_index = as_tensor(self._edge_index)
        return GraphTensor.from_pieces(
            context=Context.from_fields(
                features={
                    key: ragged_rows(value, self._additional_offsets[key]) for key, value in self._additional.items()
                }
            ),
            node_sets={node_set: NodeSet.from_fields(features=graph_features(self._nodes), sizes=node_sizes)},
            edge_sets={
                edge_set: EdgeSet.from_fields(
                    features={} if self._edges is None else graph_features(self._edges),
                    sizes=edge_sizes,
                    adjacency=Adjacency.from_indices((node_set, edge_index[0]), (node_set, edge_index[1])),
                )
            },
        )

    @property
    def edge_index(self) -> Any:
        """The positions of source and target nodes in the batch, shape [2, num_edges]."""
        return self._edge_index

    @property
    def nodes(self) -> Any:
        """All nodes: a `Data`, or after `transform` a float tensor of shape [num_nodes, dimension]."""
        return data_or_encoded(self._nodes)

    @property
    def edges(self) -> Any:
        """All edges, in the form of `nodes`; None if they have no attributes."""
        return None if self._edges is None else data_or_encoded(self._edges)

    @property
    def node_data(self) -> Data:
        """All nodes, always as a `Data`: labels and weights stay there."""
        return self._nodes

    @property
    def edge_data(self) -> Data | None:
        """All edges, always as a `Data`; None if they have no attributes."""
        return self._edges

    @property
    def labels(self) -> Any:
        """The labels of the nodes, or None."""
        return self._nodes.labels

    @property
    def weights(self) -> Any:
        """The weights of the nodes, or None."""
        return self._nodes.weights

    @property
    def graph_node_offsets(self) -> Any:
        """Where the nodes of each subgraph begin, shape [num_graphs]."""
        return self._graph_node_offsets

    @property
    def graph_edge_offsets(self) -> Any:
        """Where the edges of each subgraph begin, shape [num_graphs]."""
        return self._graph_edge_offsets

    @property
    def needs_encoding(self) -> bool:
        """Whether `transform` encodes something: there is a schema, and nodes are not encoded yet."""
        return self._node_schema is not None and self._nodes[ENCODED] is None

    @property
    def node_schema(self) -> TypeSchema | None:
        """(name of the type, FeatureSpec) of the nodes; None if nothing is to be encoded."""
        return self._node_schema

    @property
    def edge_schema(self) -> TypeSchema | None:
        """(name of the type, FeatureSpec) of the edges; None if nothing is to be encoded."""
        return self._edge_schema

    @property
    def num_graphs(self) -> Any:
        """The number of subgraphs: an int if it is known, else a scalar tensor."""
        return num_rows(self._graph_node_offsets)

    @property
    def num_nodes(self) -> Any:
        """The number of all nodes: an int if it is known, else a scalar tensor."""
        return self._nodes.num_items

    @property
    def num_edges(self) -> Any:
        """The number of all edges: an int if it is known, else a scalar tensor."""
        static = self._edge_index.shape[1]
        return tf.shape(self._edge_index, tf.int64)[1] if static is None else int(static)

    def _node_starts(self) -> tuple[Any, Any]:
        return self._graph_node_offsets, self.num_nodes

    @property
    def keys(self) -> list[str]:
        """The names of all attributes that are not None."""
        edges = ["edges"] if self._edges is not None else []
        return ["edge_index", "nodes", *edges, "graph_node_offsets", "graph_edge_offsets", *self._additional]

    def transform(self, transform_func: Callable[[BatchGraph], BatchGraph] | None = None) -> BatchGraph:
        """Encodes the attributes with the feature handlers of the enclosing model.

        Args:
            transform_func: applied to the batch first; returns a BatchGraph.

        Returns:
            The batch with a float tensor of the width of the feature spec as `nodes` (and `edges`, if they have a
            schema). Schemas are kept; labels, weights and ids stay in `node_data`. A batch without `node_schema`, or
            with encoded nodes, is returned as it is, so that a second call changes nothing.

        Raises:
            RuntimeError: if no model encloses the call.
        """
        if not self.needs_encoding and transform_func is None:
            return self
        return transform_in_scope(self, transform_func)

    @tf.autograph.experimental.do_not_convert
    def replace(self, nodes: Data, edges: Data | None) -> BatchGraph:
        """Returns a batch of the same form with other attributes.

        Args:
            nodes: all nodes.
            edges: all edges, or None.
        """
        static = self._static()
        components = self._components()
        components.pop("edges", None)
        components["nodes"] = nodes.arrays
        if edges is not None:
            components["edges"] = edges.arrays
        return self._from_components(components, static)

    @tf.autograph.experimental.do_not_convert
    def flatten(self) -> list[Any]:
        """Returns all arrays in GraphLearn's order; `from_tensors` is the inverse.

        Returns:
            The edge index; the arrays of the nodes in the order of `Data.flatten`, and the offsets of nodes; the
            arrays of the edges, if there are any, and the offsets of edges; the additional arrays in their order, then
            their offsets.
        """
        return [
            self._edge_index,
            *self._nodes.flatten(),
            self._graph_node_offsets,
            *([] if self._edges is None else self._edges.flatten()),
            self._graph_edge_offsets,
            *self._additional.values(),
            *self._additional_offsets.values(),
        ]

    @classmethod
    @tf.autograph.experimental.do_not_convert
    def from_tensors(cls, tensors: Sequence[Any], spec: BatchGraphSpec) -> BatchGraph:
        """Makes the batch that `flatten` was called on.

        Args:
            tensors: the result of `flatten`.
            spec: `spec` of that batch, or of another one with the same arrays.

        Raises:
            ValueError: if the number of tensors is not that of the spec.
        """
        given = FlatTensors(tensors)
        components: dict[str, Any] = {"edge_index": given.take()}
        components["nodes"] = given.take_data(spec.components["nodes"])
        components["graph_node_offsets"] = given.take()
        if "edges" in spec.components:
            components["edges"] = given.take_data(spec.components["edges"])
        components["graph_edge_offsets"] = given.take()
        keys = spec.static["additional_keys"]
        components["additional"] = {key: given.take() for key in keys}
        components["additional_offsets"] = {key: given.take() for key in keys}
        given.check_all_taken()
        return cls._from_components(components, spec.static)

    def _components(self) -> dict[str, Any]:
        return {
            "edge_index": self._edge_index,
            "nodes": self._nodes.arrays,
            "graph_node_offsets": self._graph_node_offsets,
            **({} if self._edges is None else {"edges": self._edges.arrays}),
            "graph_edge_offsets": self._graph_edge_offsets,
            "additional": dict(self._additional),
            "additional_offsets": dict(self._additional_offsets),
        }

    def _static(self) -> dict[str, Any]:
        return {
            "node_schema": schemas_to_plain(None if self._node_schema is None else [self._node_schema]),
            "edge_schema": schemas_to_plain(None if self._edge_schema is None else [self._edge_schema]),
            "additional_keys": tuple(self._additional),
            "declared_keys": tuple(self._additional_keys),
            "names": self._names,
        }

    @classmethod
    def _relaxed(cls, components: Any) -> Any:
        specs = super()._relaxed(components)
        return {**specs, "edge_index": tf.TensorSpec([2, None], components["edge_index"].dtype)}

    @classmethod
    def _from_components(cls, components: dict[str, Any], static: Any) -> BatchGraph:
        batch = cls.__new__(cls)
        batch._edge_index = components["edge_index"]
        batch._nodes = data_of(components["nodes"])
        batch._graph_node_offsets = components["graph_node_offsets"]
        batch._edges = data_of(components["edges"]) if "edges" in components else None
        batch._graph_edge_offsets = components["graph_edge_offsets"]
        batch._node_schema = (schemas_from_plain(static["node_schema"]) or [None])[0]
        batch._edge_schema = (schemas_from_plain(static["edge_schema"]) or [None])[0]
        batch._names = tuple(static["names"])
        keys = static["additional_keys"]
        batch._additional_keys = list(static["declared_keys"])
        batch._additional = {key: components["additional"][key] for key in keys}
        batch._additional_offsets = {key: components["additional_offsets"][key] for key in keys}
        return batch

    def __repr__(self) -> str:
        return (
            f"BatchGraph(num_graphs={self.num_graphs}, num_edges={self.num_edges}, nodes={self._nodes}, "
            f"edges={self._edges}, additional_keys={self.additional_keys})"
        )

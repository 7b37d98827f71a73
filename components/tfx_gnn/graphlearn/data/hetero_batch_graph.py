"""GraphLearn's `HeteroBatchGraph`: subgraphs of several node and edge types, merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.graphlearn.data.additional_arrays import WithAdditionalArrays
from tfx_gnn.graphlearn.data.batch_parts import (
    FlatTensors,
    additional_arrays,
    as_schemas,
    check_additional_rows,
    check_edge_names,
    check_edge_rows,
    check_keys,
    check_lengths,
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
from tfx_gnn.graphlearn.data.schema import GivenSpec, keyed_from_plain, keyed_to_plain
from tfx_gnn.graphlearn.data.sub_graph import EdgeType, HeteroSubGraph
from tfx_gnn.graphlearn.feature_spec import FeatureSpec


class HeteroBatchGraphSpec(CompositeSpec):
    """Type spec of `HeteroBatchGraph`."""


class HeteroBatchGraph(WithAdditionalArrays, CompositeValue, HeteroSubGraph):
    """A batch of subgraphs with nodes and edges of several types.

    The nodes of each type are those of the first subgraph, then those of the second one, and so on; the same holds for
    edges. `graph` is the same as a GraphTensor with one component for each subgraph. TensorFlow takes it as a value: in
    tf.function, tf.data and SavedModel.

    Example:
        >>> click = ("user", "click", "item")
        >>> one = HeteroSubGraph({click: [[0], [1]]}, {"user": Data(ids=np.arange(1)), "item": Data(ids=np.arange(2))})
        >>> batch = HeteroBatchGraph.from_graphs([one, one])
        >>> batch.edge_index_dict[click].tolist(), batch.graph_node_offsets_dict["item"].tolist()
        ([[0, 1], [1, 3]], [0, 2])
    """

    _SPEC_TYPE: ClassVar[type[CompositeSpec]] = HeteroBatchGraphSpec

    def __init__(
        self,
        edge_index_dict: Mapping[EdgeType, Any],
        nodes_dict: Mapping[str, Any],
        node_schema_dict: Mapping[str, GivenSpec] | None,
        graph_node_offsets_dict: Mapping[str, Any],
        edges_dict: Mapping[EdgeType, Any] | None = None,
        edge_schema_dict: Mapping[EdgeType, GivenSpec] | None = None,
        graph_edge_offsets_dict: Mapping[EdgeType, Any] | None = None,
        additional_keys: Sequence[str] = (),
        *,
        additional_offsets: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Holds merged subgraphs; `from_graphs` merges them.

        Args:
            edge_index_dict: (source type, edge type, target type) to int32 of shape [2, num_edges]: the positions of
                source and target nodes in the batch.
            nodes_dict: node type to all its nodes, a `Data` or a float tensor of shape [num_nodes, dimension].
            node_schema_dict: node type to FeatureSpec or Decoder; types that are left out are not encoded. None if
                nothing is to be encoded.
            graph_node_offsets_dict: node type to int64 of shape [num_graphs]: where the nodes of each subgraph begin.
            edges_dict: keys of `edge_index_dict` to all edges, in the form of nodes; keys that are left out have no
                attributes.
            edge_schema_dict: the same as `node_schema_dict`, for edges.
            graph_edge_offsets_dict: keys of `edge_index_dict` to int64 of shape [num_graphs]: where the edges of each
                subgraph begin. By default, it follows from the source nodes.
            additional_keys: names of further arrays, whose rows belong to the subgraphs.
            additional_offsets: by further key, where the rows of each subgraph begin. By default there is one row per
                node of the first type.
            **kwargs: the further arrays.

        Raises:
            TypeError: if nodes or edges are neither a Data nor a tensor, or `kwargs` are not the additional keys.
            ValueError: if a type is unknown, two edge types have one name, or numbers of rows do not fit together.
        """
        self._edge_index_dict = dict(edge_index_dict)
        self._nodes_dict = {key: as_data(value, f"nodes_dict[{key!r}]") for key, value in nodes_dict.items()}
        self._edges_dict = {key: as_data(value, f"edges_dict[{key}]") for key, value in (edges_dict or {}).items()}
        self._node_schemas = as_schemas(node_schema_dict, "node_schema_dict", self._nodes_dict)
        self._edge_schemas = as_schemas(edge_schema_dict, "edge_schema_dict", self._edge_index_dict)
        check_keys(self._edges_dict, self._edge_index_dict, "edges_dict", "edge_index_dict")
        check_keys(self._nodes_dict, graph_node_offsets_dict, "nodes_dict", "graph_node_offsets_dict")
        check_edge_names(list(self._edge_index_dict))
        self._node_offsets = {key: graph_node_offsets_dict[key] for key in self._nodes_dict}
        if not self._nodes_dict:
            raise ValueError("`nodes_dict` must have a node type; got none. Add one, with empty arrays for no nodes.")
        for key, data in self._nodes_dict.items():
            check_starts(self._node_offsets[key], data.num_items, f"graph_node_offsets_dict[{key!r}]")
        self._edge_offsets = {
            key: self._edge_starts(key, (graph_edge_offsets_dict or {}).get(key)) for key in self._edge_index_dict
        }
        check_lengths({**self._node_offsets, **self._edge_offsets})
        first = next(iter(self._nodes_dict))
        self._additional = additional_arrays(type(self), additional_keys, kwargs)
        self._additional_keys = list(additional_keys)
        self._additional_offsets = {
            key: (additional_offsets or {}).get(key, self._node_offsets[first]) for key in self._additional
        }
        check_additional_rows(
            {key: value for key, value in self._additional.items() if key not in (additional_offsets or {})},
            self._nodes_dict[first].num_items,
        )

    def _edge_starts(self, key: EdgeType, given: Any) -> Any:
        """Returns where the edges of each graph begin: as given, or from their ends."""
        absent = [name for name in (key[0], key[2]) if name not in self._nodes_dict]
        if absent:
            raise ValueError(
                f"`nodes_dict` must have the node types of all edges; got none for {absent[0]!r} of {key}. Add it."
            )
        check_edge_rows(self._edges_dict.get(key), self.num_edges(key), f"edges_dict[{key}]")
        if given is None:
            starts = (self._node_offsets[key[0]], self._node_offsets[key[2]])
            numbers = (self.num_nodes(key[0]), self.num_nodes(key[2]))
            counts = edge_counts(self._edge_index_dict[key], starts, numbers, f"edge_index_dict[{key}]")
            given = counts_to_starts(counts)
        check_starts(given, self.num_edges(key), f"graph_edge_offsets_dict[{key}]")
        return given

    @classmethod
    def from_graphs(
        cls,
        graphs: Sequence[HeteroSubGraph],
        additional_keys: Sequence[str] = (),
        *,
        node_schema_dict: Mapping[str, GivenSpec] | None = None,
        edge_schema_dict: Mapping[EdgeType, GivenSpec] | None = None,
    ) -> HeteroBatchGraph:
        """Merges subgraphs.

        Args:
            graphs: subgraphs with the same types and arrays; at least one.
            additional_keys: names of further arrays of the subgraphs, which are concatenated along their first
                dimension.
            node_schema_dict: as for the constructor.
            edge_schema_dict: as for the constructor.

        Returns:
            The batch, in numpy.

        Raises:
            TypeError: if `graphs` holds anything else.
            ValueError: if there is no subgraph, types or arrays differ, or an edge leads to no node.
        """
        check_graphs(graphs, HeteroSubGraph)
        node_types, edge_types = graphs[0].node_types, graphs[0].edge_types
        for position, graph in enumerate(graphs):
            for what, expected, found in (
                ("nodes_dict", node_types, graph.node_types),
                ("edge_index_dict", edge_types, graph.edge_types),
            ):
                if set(expected) != set(found):
                    raise ValueError(
                        f"`{what}` must have the same types in all graphs; got {expected} in graph 0 and {found} in "
                        f"graph {position}. Give empty arrays for a type without items."
                    )
        nodes, num_nodes = {}, {}
        for node_type in node_types:
            nodes[node_type], num_nodes[node_type] = join_data(
                [graph.nodes_dict[node_type] for graph in graphs], f"nodes_dict[{node_type!r}]"
            )
        edge_index, edges, edge_offsets = {}, {}, {}
        for edge_type in edge_types:
            edge_index[edge_type], num_edges = join_edges(
                [graph.edge_index_dict[edge_type] for graph in graphs],
                num_nodes[edge_type[0]],
                num_nodes[edge_type[2]],
                f"edge_index_dict[{edge_type}]",
            )
            parts = [(graph.edges_dict or {}).get(edge_type) for graph in graphs]
            joined = join_edge_data(parts, num_edges, f"edges_dict[{edge_type}]")
            if joined is not None:
                edges[edge_type] = joined
            edge_offsets[edge_type] = starts_of(num_edges)
        additional, offsets = join_additional(graphs, additional_keys)
        return cls(
            edge_index,
            nodes,
            node_schema_dict,
            {node_type: starts_of(counts) for node_type, counts in num_nodes.items()},
            edges,
            edge_schema_dict,
            edge_offsets,
            additional_keys,
            additional_offsets=offsets,
            **additional,
        )

    @tf.autograph.experimental.do_not_convert
    def to_graphs(self) -> list[HeteroSubGraph]:
        """Returns the subgraphs that `from_graphs` merged, in numpy.

        Raises:
            ValueError: if values are not known, because a function is being traced.
        """
        check_known(self._components(), "to_graphs")
        num_nodes = self._node_counts()
        nodes = {key: split_data(data, num_nodes[key]) for key, data in self._nodes_dict.items()}
        ends, edges = {}, {}
        for key, index in self._edge_index_dict.items():
            counts = counts_of(self._edge_offsets[key], self.num_edges(key))
            ends[key] = split_edges(index, counts, num_nodes[key[0]], num_nodes[key[2]])
            if key in self._edges_dict:
                edges[key] = split_data(self._edges_dict[key], counts)
        further = split_additional(self._additional, self._additional_offsets)
        return [
            HeteroSubGraph(
                {key: parts[position] for key, parts in ends.items()},
                {key: parts[position] for key, parts in nodes.items()},
                {key: parts[position] for key, parts in edges.items()} or None,
                **{key: rows[position] for key, rows in further.items()},
            )
            for position in range(self.num_graphs)
        ]

    @property
    def graph(self) -> GraphTensor:
        """The batch as a scalar GraphTensor with one component for each subgraph.

        Node sets have the names of node types, edge sets those of edge types. The arrays of a `Data` are features
        under their names, encoded attributes the feature "hidden_state", and additional arrays ragged features of the
        context.
        """
        node_sets = {
            key: NodeSet.from_fields(features=graph_features(data), sizes=tf.cast(self._node_counts()[key], tf.int32))
            for key, data in self._nodes_dict.items()
        }
        edge_sets = {}
        for key, index in self._edge_index_dict.items():
            ends = as_tensor(index)
            edge_sets[key[1]] = EdgeSet.from_fields(
                features=graph_features(self._edges_dict[key]) if key in self._edges_dict else {},
                sizes=tf.cast(counts_of(self._edge_offsets[key], self.num_edges(key)), tf.int32),
                adjacency=Adjacency.from_indices((key[0], ends[0]), (key[2], ends[1])),
            )
        context = Context.from_fields(
            features={key: ragged_rows(value, self._additional_offsets[key]) for key, value in self._additional.items()}
        )
        return GraphTensor.from_pieces(context=context, node_sets=node_sets, edge_sets=edge_sets)

    def _node_counts(self) -> dict[str, Any]:
        return {key: counts_of(self._node_offsets[key], data.num_items) for key, data in self._nodes_dict.items()}

    @property
    def edge_index_dict(self) -> dict[EdgeType, Any]:
        """The positions of source and target nodes in the batch, by edge type."""
        return self._edge_index_dict

    @property
    def nodes_dict(self) -> dict[str, Any]:
        """All nodes by type: a `Data`, or after `transform` a float tensor of shape [num_nodes, dimension]."""
        return {key: data_or_encoded(data) for key, data in self._nodes_dict.items()}

    @property
    def edges_dict(self) -> dict[EdgeType, Any]:
        """All edges with attributes by type, in the form of nodes."""
        return {key: data_or_encoded(data) for key, data in self._edges_dict.items()}

    @property
    def node_data_dict(self) -> dict[str, Data]:
        """All nodes by type, always as a `Data`: labels and weights stay there."""
        return self._nodes_dict

    @property
    def edge_data_dict(self) -> dict[EdgeType, Data]:
        """All edges with attributes by type, always as a `Data`."""
        return self._edges_dict

    @property
    def graph_node_offsets_dict(self) -> dict[str, Any]:
        """Where the nodes of each subgraph begin, by type."""
        return self._node_offsets

    @property
    def graph_edge_offsets_dict(self) -> dict[EdgeType, Any]:
        """Where the edges of each subgraph begin, by type."""
        return self._edge_offsets

    @property
    def needs_encoding(self) -> bool:
        """Whether `transform` encodes something: a type with a schema has nodes that are not encoded yet."""
        return any(self._nodes_dict[key][ENCODED] is None for key in self._node_schemas or ())

    @property
    def node_schema_dict(self) -> dict[str, FeatureSpec] | None:
        """FeatureSpecs by node type; None if nothing is to be encoded."""
        return self._node_schemas

    @property
    def edge_schema_dict(self) -> dict[EdgeType, FeatureSpec] | None:
        """FeatureSpecs by edge type; None if nothing is to be encoded."""
        return self._edge_schemas

    @property
    def node_types(self) -> list[str]:
        """The node types."""
        return list(self._nodes_dict)

    @property
    def edge_types(self) -> list[EdgeType]:
        """The edge types: (source type, edge type, target type)."""
        return list(self._edge_index_dict)

    @property
    def num_graphs(self) -> Any:
        """The number of subgraphs: an int if it is known, else a scalar tensor."""
        return num_rows(next(iter(self._node_offsets.values())))

    @tf.autograph.experimental.do_not_convert
    def num_nodes(self, node_type: str) -> Any:
        """Returns the number of all nodes of a type: an int if it is known, else a scalar tensor."""
        return self._nodes_dict[node_type].num_items

    @tf.autograph.experimental.do_not_convert
    def num_edges(self, edge_type: EdgeType) -> Any:
        """Returns the number of all edges of a type: an int if it is known, else a scalar tensor."""
        index = self._edge_index_dict[edge_type]
        return tf.shape(index, tf.int64)[1] if index.shape[1] is None else int(index.shape[1])

    def _node_starts(self) -> tuple[Any, Any]:
        first = next(iter(self._nodes_dict))
        return self._node_offsets[first], self.num_nodes(first)

    @property
    def keys(self) -> list[str]:
        """The names of all attributes that are not None."""
        edges = ["edges_dict"] if self._edges_dict else []
        offsets = ["graph_node_offsets_dict", "graph_edge_offsets_dict"]
        return ["edge_index_dict", "nodes_dict", *edges, *offsets, *self._additional]

    def transform(self, transform_func: Callable[[HeteroBatchGraph], HeteroBatchGraph] | None = None) -> Any:
        """Encodes the attributes with the feature handlers of the enclosing model.

        Args:
            transform_func: applied to the batch first; returns a HeteroBatchGraph.

        Returns:
            The batch with float tensors of the width of the feature specs as nodes and edges of all types that have
            a schema. Schemas are kept; labels, weights and ids stay in `node_data_dict`. A batch without
            `node_schema_dict`, or with encoded nodes, is returned as it is, so that a second call changes nothing.

        Raises:
            RuntimeError: if no model encloses the call.
        """
        if not self.needs_encoding and transform_func is None:
            return self
        return transform_in_scope(self, transform_func)

    @tf.autograph.experimental.do_not_convert
    def replace(self, nodes_dict: Mapping[str, Data], edges_dict: Mapping[EdgeType, Data]) -> HeteroBatchGraph:
        """Returns a batch of the same form with other attributes.

        Args:
            nodes_dict: all nodes, for all types.
            edges_dict: all edges, for the types that have attributes.
        """
        static = {
            **self._static(),
            "attributed_edges": tuple(key in edges_dict for key in self._edge_index_dict),
        }
        components = {
            **self._components(),
            "nodes": [nodes_dict[key].arrays for key in self._nodes_dict],
            "edges": [edges_dict[key].arrays for key in self._edge_index_dict if key in edges_dict],
        }
        return self._from_components(components, static)

    @tf.autograph.experimental.do_not_convert
    def flatten(self) -> list[Any]:
        """Returns all arrays in GraphLearn's order; `from_tensors` is the inverse.

        Returns:
            The edge index of each type; for each node type its arrays in the order of `Data.flatten`, and the offsets;
            for each edge type its arrays, if there are any, and the offsets; the additional arrays in their order,
            then their offsets.
        """
        flat = list(self._edge_index_dict.values())
        for node_type, data in self._nodes_dict.items():
            flat += [*data.flatten(), self._node_offsets[node_type]]
        for edge_type, offsets in self._edge_offsets.items():
            flat += [*(self._edges_dict[edge_type].flatten() if edge_type in self._edges_dict else []), offsets]
        return [*flat, *self._additional.values(), *self._additional_offsets.values()]

    @classmethod
    @tf.autograph.experimental.do_not_convert
    def from_tensors(cls, tensors: Sequence[Any], spec: HeteroBatchGraphSpec) -> HeteroBatchGraph:
        """Makes the batch that `flatten` was called on.

        Args:
            tensors: the result of `flatten`.
            spec: `spec` of that batch, or of another one with the same arrays.

        Raises:
            ValueError: if the number of tensors is not that of the spec.
        """
        given = FlatTensors(tensors)
        static = spec.static
        components: dict[str, Any] = {"edge_index": [given.take() for _ in static["edge_types"]]}
        components["nodes"], components["node_offsets"] = [], []
        for arrays in spec.components["nodes"]:
            components["nodes"].append(given.take_data(arrays))
            components["node_offsets"].append(given.take())
        attributed = iter(spec.components["edges"])
        components["edges"], components["edge_offsets"] = [], []
        for is_attributed in static["attributed_edges"]:
            if is_attributed:
                components["edges"].append(given.take_data(next(attributed)))
            components["edge_offsets"].append(given.take())
        keys = static["additional_keys"]
        components["additional"] = {key: given.take() for key in keys}
        components["additional_offsets"] = {key: given.take() for key in keys}
        given.check_all_taken()
        return cls._from_components(components, static)

    def _components(self) -> dict[str, Any]:
        return {
            "edge_index": list(self._edge_index_dict.values()),
            "nodes": [data.arrays for data in self._nodes_dict.values()],
            "node_offsets": list(self._node_offsets.values()),
            "edges": [self._edges_dict[key].arrays for key in self._edge_index_dict if key in self._edges_dict],
            "edge_offsets": list(self._edge_offsets.values()),
            "additional": dict(self._additional),
            "additional_offsets": dict(self._additional_offsets),
        }

    def _static(self) -> dict[str, Any]:
        return {
            "node_types": tuple(self._nodes_dict),
            "edge_types": tuple(self._edge_index_dict),
            "attributed_edges": tuple(key in self._edges_dict for key in self._edge_index_dict),
            "node_schema": keyed_to_plain(self._node_schemas, self._nodes_dict),
            "edge_schema": keyed_to_plain(self._edge_schemas, self._edge_index_dict),
            "additional_keys": tuple(self._additional),
            "declared_keys": tuple(self._additional_keys),
        }

    @classmethod
    def _relaxed(cls, components: Any) -> Any:
        edge_index = [tf.TensorSpec([2, None], spec.dtype) for spec in components["edge_index"]]
        return {**super()._relaxed(components), "edge_index": edge_index}

    @classmethod
    def _from_components(cls, components: dict[str, Any], static: Any) -> HeteroBatchGraph:
        batch = cls.__new__(cls)
        node_types = list(static["node_types"])
        edge_types: list[Any] = [tuple(key) for key in static["edge_types"]]
        attributed = [key for key, is_so in zip(edge_types, static["attributed_edges"], strict=True) if is_so]
        batch._edge_index_dict = dict(zip(edge_types, components["edge_index"], strict=True))
        batch._nodes_dict = dict(zip(node_types, map(data_of, components["nodes"]), strict=True))
        batch._edges_dict = dict(zip(attributed, map(data_of, components["edges"]), strict=True))
        batch._node_offsets = dict(zip(node_types, components["node_offsets"], strict=True))
        batch._edge_offsets = dict(zip(edge_types, components["edge_offsets"], strict=True))
        batch._node_schemas = keyed_from_plain(static["node_schema"], node_types)
        batch._edge_schemas = keyed_from_plain(static["edge_schema"], edge_types)
        keys = static["additional_keys"]
        batch._additional_keys = list(static["declared_keys"])
        batch._additional = {key: components["additional"][key] for key in keys}
        batch._additional_offsets = {key: components["additional_offsets"][key] for key in keys}
        return batch

    def __repr__(self) -> str:
        edges = {key: self.num_edges(key) for key in self._edge_index_dict}
        return (
            f"HeteroBatchGraph(num_graphs={self.num_graphs}, num_edges={edges}, nodes={self._nodes_dict}, "
            f"edges={self._edges_dict}, additional_keys={self.additional_keys})"
        )

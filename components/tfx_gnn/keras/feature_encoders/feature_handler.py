"""Encodes all attributes of nodes or edges as one vector, as specified by a GraphLearn feature spec."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import tensorflow as tf
import tf_keras

from tfx_gnn.graphlearn.data.batch_graph import BatchGraph
from tfx_gnn.graphlearn.data.composite_value import as_tensor
from tfx_gnn.graphlearn.data.data import ENCODED, Data, data_of
from tfx_gnn.graphlearn.data.ego_graph import EgoGraph
from tfx_gnn.graphlearn.data.handler_scope import use_handlers
from tfx_gnn.graphlearn.data.hetero_batch_graph import HeteroBatchGraph
from tfx_gnn.graphlearn.feature_spec import (
    DenseSpec,
    DynamicSparseSpec,
    FeatureSpec,
    IntSpec,
    MultivalSpec,
    SparseSpec,
    StringSpec,
    spec_from_plain,
    spec_to_plain,
)
from tfx_gnn.keras.feature_encoders.category_values import OutOfRange, Vocabulary, combine_embeddings, flat_categories
from tfx_gnn.keras.feature_encoders.embedding_columns import (
    DynamicEmbeddingColumn,
    DynamicSparseEmbeddingColumn,
    EmbeddingColumn,
    SparseEmbeddingColumn,
)
from tfx_gnn.keras.feature_encoders.embedding_tables import EmbeddingTables
from tfx_gnn.keras.feature_encoders.encoder_options import MAX_DENSE_GRADIENT_ELEMENTS, Combiner
from tfx_gnn.keras.feature_encoders.feature_column import (
    FeatureColumn,
    NumericColumn,
    PartitionableColumn,
    as_columns,
    split_columns,
)

_Graph = TypeVar("_Graph")

KINDS = ("float", "int", "string")
"""Kinds of attributes, in the order of their encodings."""


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class FeatureHandler(tf_keras.layers.Layer):
    """Encodes float, integer and string attributes as a vector of width `feature_spec.dimension`.

    Encodings are in the order floats, integers, strings. With `fuse_embedding`, integers that are unhashed
    categories come after all other integers, those of equal dimension together, and all
    small tables of equal dimension share one variable and one lookup, whether their categories are hashed or not.

    One handler serves the source and neighbor nodes of a type, which thus share tables; `FeatureHandlers` keeps one
    handler per name. `prepare` and `encode` are the parts of a call with and without strings, as in `FeatureColumn`.

    Init args:
        name: name of the type of nodes or edges.
        feature_spec: how the attributes are encoded, such as `decoder.feature_spec`.
        fuse_embedding: whether categories of equal dimension share a lookup.
        combiner: how the embeddings of several values are combined: "mean" or "sum".
        vocabularies: vocabularies of dynamic categories, as values or as the path of a file, by "int_<i>" and
            "string_<i>", where i is the position among the integers or strings. Dynamic categories without a
            vocabulary are hashed to `num_buckets`.
        num_buckets: rows for dynamic categories without a vocabulary; 0: 131072.
        max_values: width to which `prepare` pads several values; 0: they stay ragged.
        out_of_range: as for `PartitionableColumn`, for integers that are not hashed.
        max_dense_gradient_elements: as for `EmbeddingTables`.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        data: `float_attrs`, `int_attrs` and `string_attrs`, as a mapping or as attributes of an object. Each is a
            tensor of shape [num_items, number of attributes], or a list with one tensor of shape [num_items] per
            attribute. A kind without attributes may be missing or None.

    Returns:
        Float tensor of shape [num_items, feature_spec.dimension].

    Raises:
        ValueError: if `vocabularies` names something that is not a dynamic category.

    Example:
        >>> spec = FeatureSpec(3)
        >>> spec.append_dense()
        >>> spec.append_sparse(10, 4)
        >>> spec.append_multival(100, 8, ",")
        >>> handler = FeatureHandler("user", spec)
        >>> encoded = handler({
        ...     "float_attrs": tf.constant([[0.5], [1.5]]),
        ...     "int_attrs": tf.constant([[3], [7]]),
        ...     "string_attrs": tf.constant([["art,law"], ["law"]]),
        ... })
        >>> encoded.shape.as_list(), handler.dimension
        ([2, 13], 13)
    """

    def __init__(
        self,
        name: str,
        feature_spec: FeatureSpec | Mapping[str, Any],
        fuse_embedding: bool = True,
        *,
        combiner: Combiner = "mean",
        vocabularies: Mapping[str, Vocabulary] | None = None,
        num_buckets: int = 0,
        max_values: int = 0,
        out_of_range: OutOfRange = "error",
        max_dense_gradient_elements: int = MAX_DENSE_GRADIENT_ELEMENTS,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        spec = feature_spec if isinstance(feature_spec, FeatureSpec) else spec_from_plain(feature_spec)
        self._plain_spec = spec_to_plain(spec)
        self._fuse_embedding = fuse_embedding
        self._options = {
            "combiner": combiner,
            "vocabularies": dict(vocabularies or {}),
            "num_buckets": num_buckets,
            "max_values": max_values,
            "out_of_range": out_of_range,
            "max_dense_gradient_elements": max_dense_gradient_elements,
        }
        unused = dict(vocabularies or {})
        several: dict[str, Any] = {"combiner": combiner, "max_values": max_values}

        def column(kind: str, position: int, one: IntSpec | StringSpec) -> FeatureColumn:
            column_name = f"{kind}_{position}"
            if isinstance(one, DenseSpec):
                return NumericColumn(column_name, dtype=self.dtype_policy)
            if isinstance(one, SparseSpec):
                # Hashes are in range.
                rule: Any = "error" if one.need_hash or kind == "string" else out_of_range
                sizes = (one.bucket_size, one.dimension, one.need_hash)
                return EmbeddingColumn(column_name, *sizes, out_of_range=rule, owner=name)
            if isinstance(one, MultivalSpec):
                return SparseEmbeddingColumn(column_name, one.bucket_size, one.dimension, one.delimiter, **several)
            vocabulary = unused.pop(column_name, ())
            dynamic: dict[str, Any] = {"vocabulary": vocabulary, "num_buckets": 0 if vocabulary else num_buckets}
            if isinstance(one, DynamicSparseSpec):
                return DynamicEmbeddingColumn(column_name, one.dimension, is_string=kind == "string", **dynamic)
            return DynamicSparseEmbeddingColumn(column_name, one.dimension, one.delimiter, **several, **dynamic)

        self._columns = {
            kind: [column(kind, position, one) for position, one in enumerate(specs)]
            for kind, specs in zip(KINDS, (spec.float_specs, spec.int_specs, spec.string_specs), strict=True)
        }
        if unused:
            raise ValueError(
                f"`vocabularies` must name dynamic categories; got {sorted(unused)} for {name!r}, which has "
                f"{[one.name for one in self._all_columns()]}. Remove them."
            )
        fused = [
            one.name
            for one, int_spec in zip(self._columns["int"], spec.int_specs, strict=True)
            if fuse_embedding and isinstance(int_spec, SparseSpec) and not int_spec.need_hash
        ]
        self._order = _order(self._columns, fused)
        self._tables = EmbeddingTables(
            {
                one.name: (one.rows, one.dimension)
                for one in self._all_columns()
                if isinstance(one, PartitionableColumn)
            },
            fuse=fuse_embedding,
            max_dense_gradient_elements=max_dense_gradient_elements,
            dtype=self.dtype_policy,
        )
        self.dimension = spec.dimension

    def prepare(self, data: Any) -> dict[str, Any]:
        """Runs the part that needs strings.

        Args:
            data: as for calls.

        Returns:
            Numbers by column, "float_<i>", "int_<i>" or "string_<i>": dense, [num_items] or [num_items, max_values], or
            ragged if items have several values.

        Raises:
            ValueError: if there are more or fewer attributes than in the feature spec.
        """
        prepared = {}
        for kind, columns in self._columns.items():
            parts = _parts(data, f"{kind}_attrs", len(columns), self.name)
            prepared.update({one.name: one.prepare(part) for one, part in zip(columns, parts, strict=True)})
        return prepared

    def encode(self, prepared: Mapping[str, Any]) -> tf.Tensor:
        """Runs the part that needs no strings.

        Args:
            prepared: the result of `prepare`.

        Returns:
            Float tensor of shape [num_items, dimension].
        """
        columns = {one.name: one for one in self._all_columns()}
        categories = {name: [flat_categories(prepared[name])] for name in self._tables.tables}
        found = self._tables(categories) if categories else {}
        encoded = []
        for name in self._order:
            one = columns[name]
            if isinstance(one, PartitionableColumn):
                encoded.append(combine_embeddings(found[name][0], prepared[name], one.combiner))
            else:
                encoded.append(as_columns(one.encode(prepared[name])))
        return tf.concat(encoded, axis=1)

    def call(self, data: Any) -> tf.Tensor:
        """Encodes attributes; see the class.

        Args:
            data: attributes by kind, each of shape [num_items, number of attributes].
        """
        return self.encode(self.prepare(data))

    def forward(self, data: Any) -> tf.Tensor:
        """Calls the handler; GraphLearn's name for it.

        Args:
            data: attributes by kind, each of shape [num_items, number of attributes].

        Returns:
            Float tensor of shape [num_items, dimension].
        """
        return self(data)

    def has_spec(self, feature_spec: FeatureSpec) -> bool:
        """Returns whether the handler was made for an equal feature spec.

        Args:
            feature_spec: the spec.
        """
        return spec_to_plain(feature_spec) == self._plain_spec

    def _all_columns(self) -> Iterator[FeatureColumn]:
        for columns in self._columns.values():
            yield from columns

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            **super().get_config(),
            "feature_spec": self._plain_spec,
            "fuse_embedding": self._fuse_embedding,
            **self._options,
        }


@tf_keras.utils.register_keras_serializable(package="tfx_gnn")
class FeatureHandlers(tf_keras.layers.Layer):
    """Encodes the attributes of EgoGraphs and batches of subgraphs, with one handler per type of nodes or edges.

    All items of a type share the tables of its handler, wherever they are in a graph. A model that holds the object as
    an attribute trains and saves the tables.

    Init args:
        fuse_embedding: as for `FeatureHandler`.
        handlers: handlers by name, to start with.
        out_of_range: as for `FeatureHandler`.
        **kwargs: arguments of `tf_keras.layers.Layer`.

    Call args:
        graph: as for `transform`.

    Returns:
        The graph with encoded attributes, float tensors of shape [num_items, dimension]; see `transform`.

    Example:
        >>> spec = FeatureSpec(1)
        >>> spec.append_sparse(10, 4)
        >>> handlers = FeatureHandlers()
        >>> source, neighbors = {"int_attrs": tf.constant([[3]])}, {"int_attrs": tf.constant([[3], [7]])}
        >>> encoded = handlers.encode([("user", spec), ("user", spec)], [source, neighbors])
        >>> [one.shape.as_list() for one in encoded], sorted(handlers.handlers)
        ([[1, 4], [2, 4]], ['user'])
    """

    def __init__(
        self,
        fuse_embedding: bool = True,
        handlers: Mapping[str, FeatureHandler] | None = None,
        *,
        out_of_range: OutOfRange = "error",
        **kwargs: Any,
    ) -> None:
        # Attributes have the dtypes of their columns.
        super().__init__(**{"autocast": False, **kwargs})
        self.fuse_embedding = fuse_embedding
        self.out_of_range: OutOfRange = out_of_range
        self.handlers = {
            name: tf_keras.layers.deserialize(handler) if isinstance(handler, dict) else handler
            for name, handler in (handlers or {}).items()
        }

    def call(self, graph: Any) -> Any:
        """Encodes the attributes of a graph; see `transform`.

        Args:
            graph: as for `transform`.
        """
        return self.transform(graph)

    def transform(self, graph: _Graph, transform_func: Callable[[_Graph], _Graph] | None = None) -> _Graph:
        """Encodes the attributes of all nodes and edges of a graph that have a schema.

        Args:
            graph: an EgoGraph, BatchGraph or HeteroBatchGraph.
            transform_func: applied to the graph first; returns a graph of the same class.

        Returns:
            The graph with float tensors of the width of the feature specs in place of attributes. An EgoGraph is then
            without `node_schema`; batches keep theirs, as in GraphLearn. Labels, weights, ids and all other arrays are
            kept. A graph without a node schema, or with encoded nodes, is returned as it is, so that a second call
            changes nothing.

        Raises:
            TypeError: if `graph`, or what `transform_func` returns, is not such a graph.
            ValueError: if attributes do not fit their schema, or a type has two schemas.
        """
        graph_class = _graph_class(graph)
        if transform_func is not None:
            graph = _checked_graph(transform_func(graph), graph_class)
        return self._encoded_graph(graph)

    # What users write, such as `transform_func`, is converted by AutoGraph; what is called below is not.
    @tf.autograph.experimental.do_not_convert
    def _encoded_graph(self, graph: Any) -> Any:
        if isinstance(graph, EgoGraph):
            return self._transform_ego(graph)
        if isinstance(graph, BatchGraph):
            return self._transform_batch(graph)
        return self._transform_hetero(graph)

    def _transform_ego(self, graph: Any) -> Any:
        if graph.node_schema is None:
            return graph
        levels = [
            self._encoded(name, spec, data) for (name, spec), data in zip(graph.node_schema, graph.levels, strict=True)
        ]
        edges = graph.edge_levels
        if graph.edge_schema:
            edges = [
                self._encoded(_edge_name(name), spec, data)
                for (name, spec), data in zip(graph.edge_schema, edges, strict=True)
            ]
        return graph.replace(levels, edges)

    def _transform_batch(self, graph: Any) -> Any:
        if not graph.needs_encoding:
            return graph
        edges = graph.edge_data
        if edges is not None and graph.edge_schema is not None and edges[ENCODED] is None:
            name, spec = graph.edge_schema
            edges = self._encoded(_edge_name(name), spec, edges)
        name, spec = graph.node_schema
        return graph.replace(self._encoded(name, spec, graph.node_data), edges)

    def _transform_hetero(self, graph: Any) -> Any:
        if not graph.needs_encoding:
            return graph
        nodes, edges = dict(graph.node_data_dict), dict(graph.edge_data_dict)
        for name, spec in graph.node_schema_dict.items():
            if nodes[name][ENCODED] is None:
                nodes[name] = self._encoded(name, spec, nodes[name])
        for key, spec in (graph.edge_schema_dict or {}).items():
            if key in edges and edges[key][ENCODED] is None:
                edges[key] = self._encoded(_edge_name(key[1]), spec, edges[key])
        return graph.replace(nodes, edges)

    def _encoded(self, name: str, spec: FeatureSpec, data: Data) -> Data:
        """Replaces the attributes of nodes or edges by their encoding."""
        fields = [f"{kind}_attrs" for kind in KINDS]
        kept = {key: value for key, value in data.arrays.items() if key not in fields}
        if spec.dimension:
            attributes = {field: as_tensor(data[field]) for field in fields if data[field] is not None}
            encoded = self.get(name, spec)(attributes)
        else:
            encoded = tf.zeros([data.num_items, 0], self.compute_dtype)
        return data_of({**kept, ENCODED: encoded})

    @tf.autograph.experimental.do_not_convert
    def in_use(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context in which `graph.transform()` uses these handlers."""
        return use_handlers(self)

    def get(self, name: str, feature_spec: FeatureSpec) -> FeatureHandler:
        """Returns the handler of a type, which is made at the first call.

        Args:
            name: name of the type.
            feature_spec: how its attributes are encoded.

        Returns:
            The same handler for the same name.

        Raises:
            ValueError: if the handler of this name has a different spec.
        """
        if name not in self.handlers:
            options: dict[str, Any] = {"out_of_range": self.out_of_range}
            self.handlers[name] = FeatureHandler(name, feature_spec, self.fuse_embedding, **options)
        if not self.handlers[name].has_spec(feature_spec):
            raise ValueError(
                f"`feature_spec` must be the same wherever a type is encoded; got another for {name!r}. Use "
                "another name for it."
            )
        return self.handlers[name]

    def encode(self, node_schema: Sequence[tuple[str, FeatureSpec]], nodes: Sequence[Any]) -> list[tf.Tensor]:
        """Encodes the source nodes and the neighbors of each hop.

        Args:
            node_schema: name of the type and feature spec, for the source and for each hop.
            nodes: attributes for the source and for each hop, as `FeatureHandler` takes them.

        Returns:
            Float tensors of shape [num_items, dimension], for the source and for each hop.

        Raises:
            ValueError: if `node_schema` and `nodes` differ in length.
        """
        if len(node_schema) != len(nodes):
            raise ValueError(
                f"`node_schema` must have one item for the source and one for each hop; got {len(node_schema)} for "
                f"{len(nodes)} `nodes`. Pass as many of both."
            )
        return [self.get(name, spec)(data) for (name, spec), data in zip(node_schema, nodes, strict=True)]

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor, with the handlers made so far."""
        return {
            **super().get_config(),
            "fuse_embedding": self.fuse_embedding,
            "out_of_range": self.out_of_range,
            "handlers": {name: tf_keras.layers.serialize(handler) for name, handler in self.handlers.items()},
        }


@tf.autograph.experimental.do_not_convert
def _graph_class(graph: Any) -> type[Any]:
    for graph_class in (EgoGraph, BatchGraph, HeteroBatchGraph):
        if isinstance(graph, graph_class):
            return graph_class
    raise TypeError(
        f"`graph` must be an EgoGraph, BatchGraph or HeteroBatchGraph; got {type(graph).__name__}. Take it from a "
        "tfx_gnn.graphlearn.Dataset."
    )


@tf.autograph.experimental.do_not_convert
def _checked_graph(graph: Any, graph_class: type[Any]) -> Any:
    if not isinstance(graph, graph_class):
        raise TypeError(
            f"`transform_func` must return the graph, of class {graph_class.__name__}; got {type(graph).__name__}. Add "
            "the return statement."
        )
    return graph


def _edge_name(edge_type: str) -> str:
    """Returns the name of the handler of an edge type, which a node type of the same name does not share."""
    return f"edges.{edge_type}"


def _order(columns: Mapping[str, Sequence[FeatureColumn]], fused: Sequence[str]) -> list[str]:
    """Returns GraphLearn's order of encodings; fused columns are grouped by dimension, in order of first use."""
    ints = columns["int"]
    dimensions = dict.fromkeys(
        one.dimension for one in ints if one.name in fused and isinstance(one, PartitionableColumn)
    )
    return [
        *(one.name for one in columns["float"]),
        *(one.name for one in ints if one.name not in fused),
        *(
            one.name
            for dimension in dimensions
            for one in ints
            if one.name in fused and isinstance(one, PartitionableColumn) and one.dimension == dimension
        ),
        *(one.name for one in columns["string"]),
    ]


def _parts(data: Any, field: str, expected: int, name: str) -> list[Any]:
    values = data.get(field) if isinstance(data, Mapping) else getattr(data, field, None)
    parts = [] if values is None else split_columns(values)
    if len(parts) != expected:
        raise ValueError(
            f"`data` must have the {expected} attributes of the feature spec; got {len(parts)} of {field!r} for "
            f"{name!r}. Correct the decoder, or the data."
        )
    return parts

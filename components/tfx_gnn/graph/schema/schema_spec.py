"""Converts graph schemas to GraphTensorSpecs and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Union

import tensorflow as tf
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto import graph_schema_pb2 as schema_pb2
from tfx_gnn.graph.schema.hyperedges import declare_hyperedges, hyperedge_ends
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec, HyperAdjacencySpec
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec
from tfx_gnn.graph.tensor.symbolic_calls import refuses_keras_tensors

SUPPORTED_DTYPES = (
    "Supported types are boolean, (non-quantized) integer types, "
    "(non-quantized, non-complex) floating-point types and string."
)


def is_schema_dtype(dtype: tf.DType) -> bool:
    """Returns whether a feature of this dtype can be declared in a schema and stored in a tf.Example."""
    return dtype in (tf.bool, tf.string) or (
        # A reference dtype has the properties of the dtype it refers to; only `base_dtype` shows the difference.
        dtype == dtype.base_dtype and not dtype.is_quantized and (dtype.is_integer or dtype.is_floating)
    )


def declared_dtype(number: int) -> tf.DType | None:
    """Returns the dtype that a value of the `dtype` field of a feature stands for.

    None for DT_INVALID and for numbers unknown to TensorFlow, which some releases of protobuf accept.
    """
    try:
        return tf.as_dtype(number) if number else None
    except TypeError:
        return None


def dtype_name(number: int) -> str:
    """Returns the name of a `tensorflow.DataType`, or the number if it has no name."""
    return types_pb2.DataType.Name(number) if number in types_pb2.DataType.values() else str(number)


GraphOrSpec = Union[GraphTensor, GraphTensorSpec]


def create_graph_spec_from_schema_pb(
    schema: schema_pb2.GraphSchema, indices_dtype: tf.DType = tf.int32
) -> GraphTensorSpec:
    """Makes the type spec of one graph of a data set from its schema.

    Args:
        schema: the schema. It should pass `validate_schema`.
        indices_dtype: tf.int32 or tf.int64, for sizes, edge endpoints and row splits.

    Returns:
        Spec of a scalar graph with one component. Features of node and edge sets have shape
        `[None, *feature_shape]`, context features `[1, *feature_shape]`; they are ragged up to the
        last dimension that the schema declares as -1.

    Raises:
        ValueError: if a feature has no dtype or a shape of unknown rank, or `indices_dtype` is
            not an index type.

    Example:
        >>> schema = tfx_gnn.parse_schema(
        ...     'node_sets { key: "paper" value { features { key: "year" value { dtype: DT_INT64 } } } }')
        >>> tfx_gnn.create_graph_spec_from_schema_pb(schema).node_sets_spec["paper"]["year"].shape.as_list()
        [None]
    """
    indices_dtype = tf.as_dtype(indices_dtype)
    if indices_dtype not in (tf.int32, tf.int64):
        raise ValueError(f"`indices_dtype` must be int32 or int64; got {indices_dtype!r}.")

    def features_spec(
        features: Mapping[str, schema_pb2.Feature], place: str, num_items: int | None
    ) -> dict[const.FieldName, const.FieldSpec]:
        return {
            name: _feature_spec(features[name], f"feature '{name}' of {place}", num_items, indices_dtype)
            for name in sorted(features)
        }

    sizes_spec = tf.TensorSpec([1], indices_dtype)
    index_spec = tf.TensorSpec([None], indices_dtype)
    context_spec = None
    if schema.context.features:
        context_spec = ContextSpec.from_field_specs(
            features_spec=features_spec(schema.context.features, "the context", 1), sizes_spec=sizes_spec
        )
    elif not schema.node_sets and not schema.edge_sets:
        context_spec = ContextSpec.from_field_specs(sizes_spec=tf.TensorSpec([0], indices_dtype))
    node_sets_spec = {
        name: NodeSetSpec.from_field_specs(
            features_spec=features_spec(schema.node_sets[name].features, f"node set '{name}'", None),
            sizes_spec=sizes_spec,
        )
        for name in sorted(schema.node_sets)
    }
    edge_sets_spec = {
        name: EdgeSetSpec.from_field_specs(
            features_spec=features_spec(schema.edge_sets[name].features, f"edge set '{name}'", None),
            sizes_spec=sizes_spec,
            adjacency_spec=_adjacency_spec(schema.edge_sets[name], name, index_spec),
        )
        for name in sorted(schema.edge_sets)
    }
    return GraphTensorSpec.from_piece_specs(
        context_spec=context_spec, node_sets_spec=node_sets_spec, edge_sets_spec=edge_sets_spec
    )


@refuses_keras_tensors()
def create_schema_pb_from_graph_spec(graph: GraphOrSpec) -> schema_pb2.GraphSchema:
    """Makes the schema that describes graphs of a given type.

    Args:
        graph: a scalar graph, or its spec, with one component.

    Returns:
        Schema with the dtypes and shapes of features and the endpoints of edge sets, those of hyperedges in
        `metadata.extra` (see `tfx_gnn.graph.schema.hyperedges`). Descriptions, other metadata and origin are
        left to the caller. Ragged dimensions have size -1.

    Raises:
        ValueError: if the graph is not scalar, does not have exactly one component, or holds a feature
            whose dtype a schema cannot declare.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> tfx_gnn.create_schema_pb_from_graph_spec(graph.spec).edge_sets["edges"].source
        'nodes'
    """
    spec = _one_component_spec(graph, "create_schema_pb_from_graph_spec()")
    schema = schema_pb2.GraphSchema()
    _declare(spec.context_spec.features_spec, schema.context.features, "Graph context")
    if not schema.context.features:
        schema.ClearField("context")
    for name, node_set_spec in spec.node_sets_spec.items():
        _declare(node_set_spec.features_spec, schema.node_sets[name].features, f"Node set {name}")
    for name, edge_set_spec in spec.edge_sets_spec.items():
        adjacency_spec = edge_set_spec.adjacency_spec
        if isinstance(adjacency_spec, AdjacencySpec):
            schema.edge_sets[name].source = adjacency_spec.source_name
            schema.edge_sets[name].target = adjacency_spec.target_name
        else:
            ends = adjacency_spec.get_index_specs_dict()
            declare_hyperedges(schema.edge_sets[name], {tag: node_set for tag, (node_set, _) in ends.items()})
        _declare(edge_set_spec.features_spec, schema.edge_sets[name].features, f"Edge set {name}")
    return schema


@refuses_keras_tensors()
def check_compatible_with_schema_pb(graph: GraphOrSpec, schema: schema_pb2.GraphSchema) -> None:
    """Checks that a graph agrees with a schema.

    Args:
        graph: a scalar graph, or its spec, with one component. Its numbers of nodes and edges may
            be static.
        schema: the schema.

    Raises:
        ValueError: if the graph is not scalar or does not have exactly one component, or if its
            sets, endpoints, features, dtypes or shapes differ from those of the schema; the
            message names the first differences.
    """
    spec = _one_component_spec(graph, "check_compatible_with_schema_pb()")
    actual = spec.relax(num_nodes=True, num_edges=True)
    imposed = create_graph_spec_from_schema_pb(schema, indices_dtype=tf.int64)
    differences = list(_differences(actual, imposed))
    if differences:
        raise ValueError(
            "Graph is not compatible with the graph schema: "
            + "; ".join(differences[:10])
            + (f"; and {len(differences) - 10} more" if len(differences) > 10 else "")
            + ". Make the graph's features agree with the schema, or the schema with the graph."
        )


def _adjacency_spec(edge_set: schema_pb2.EdgeSet, name: str, index_spec: tf.TensorSpec) -> HyperAdjacencySpec:
    ends = hyperedge_ends(edge_set, name)
    if ends:
        return HyperAdjacencySpec.from_incident_node_sets(ends, index_spec=index_spec)
    return AdjacencySpec.from_incident_node_sets(edge_set.source, edge_set.target, index_spec=index_spec)


def _feature_spec(
    feature: schema_pb2.Feature, place: str, num_items: int | None, row_splits_dtype: tf.DType
) -> const.FieldSpec:
    dtype = declared_dtype(feature.dtype)
    if dtype is None:
        found = dtype_name(feature.dtype) if feature.dtype else "none"
        raise ValueError(f"`dtype` must be declared; got {found} for {place}. {SUPPORTED_DTYPES}")
    if feature.shape.unknown_rank:
        raise ValueError(f"`shape` must have a known rank; got an unknown one for {place}. List its dimensions.")
    sizes = [None if dim.size == -1 else dim.size for dim in feature.shape.dim]
    if any(size is not None and size < 0 for size in sizes):
        raise ValueError(f"`shape` must hold sizes of at least 0, or -1 if ragged; got {sizes} for {place}.")
    ragged_rank = max((axis for axis, size in enumerate(sizes, start=1) if size is None), default=0)
    shape = tf.TensorShape([num_items, *sizes])
    if ragged_rank == 0:
        return tf.TensorSpec(shape, dtype)
    return tf.RaggedTensorSpec(shape, dtype, ragged_rank, row_splits_dtype)


def _one_component_spec(graph: GraphOrSpec, caller: str) -> GraphTensorSpec:
    spec = graph if isinstance(graph, GraphTensorSpec) else getattr(graph, "spec", None)
    if not isinstance(spec, GraphTensorSpec):
        raise ValueError(
            f"Unsupported value type {type(graph).__name__}: {caller} requires a GraphTensor or a GraphTensorSpec."
        )
    check_scalar_graph_tensor(spec, caller)
    if spec.total_num_components != 1:
        raise ValueError(
            f"{caller} requires scalar GraphTensor with a single graph component, "
            f"got a scalar GraphTensor with {spec.total_num_components} components."
        )
    return spec


def _declare(features_spec: const.FieldsSpec, features: Mapping[str, schema_pb2.Feature], place: str) -> None:
    for name, field_spec in features_spec.items():
        if not is_schema_dtype(field_spec.dtype):
            raise ValueError(
                f"{place} feature {name} has dtype={field_spec.dtype} "
                f"which is not supported by the GraphSchema. {SUPPORTED_DTYPES}"
            )
        features[name].dtype = field_spec.dtype.as_datatype_enum
        for size in field_spec.shape[1:].as_list():
            features[name].shape.dim.add(size=-1 if size is None else size)


def _differences(actual: GraphTensorSpec, imposed: GraphTensorSpec) -> Iterator[str]:
    yield from _feature_differences(
        actual.context_spec.features_spec, imposed.context_spec.features_spec, "the context"
    )
    yield from _name_differences(actual.node_sets_spec, imposed.node_sets_spec, "node set", "the graph")
    yield from _name_differences(actual.edge_sets_spec, imposed.edge_sets_spec, "edge set", "the graph")
    for name in actual.node_sets_spec.keys() & imposed.node_sets_spec.keys():
        yield from _feature_differences(
            actual.node_sets_spec[name].features_spec, imposed.node_sets_spec[name].features_spec, f"node set '{name}'"
        )
    for name in actual.edge_sets_spec.keys() & imposed.edge_sets_spec.keys():
        edge_set, imposed_edge_set = actual.edge_sets_spec[name], imposed.edge_sets_spec[name]
        endpoints = _endpoints(edge_set)
        if endpoints != _endpoints(imposed_edge_set):
            yield f"edge set '{name}' connects {endpoints} but the schema says {_endpoints(imposed_edge_set)}"
        yield from _feature_differences(edge_set.features_spec, imposed_edge_set.features_spec, f"edge set '{name}'")


def _endpoints(edge_set_spec: EdgeSetSpec) -> str:
    adjacency_spec = edge_set_spec.adjacency_spec
    if isinstance(adjacency_spec, AdjacencySpec):
        return f"'{adjacency_spec.source_name}' to '{adjacency_spec.target_name}'"
    return f"nodes of {[node_set for node_set, _ in adjacency_spec.get_index_specs_dict().values()]} as hyperedges"


def _name_differences(
    actual: Mapping[str, object], imposed: Mapping[str, object], kind: str, place: str
) -> Iterator[str]:
    for name in sorted(imposed.keys() - actual.keys()):
        yield f"{place} lacks the {kind} '{name}'"
    for name in sorted(actual.keys() - imposed.keys()):
        yield f"{place} has a {kind} '{name}' that the schema does not declare"


def _feature_differences(actual: const.FieldsSpec, imposed: const.FieldsSpec, place: str) -> Iterator[str]:
    yield from _name_differences(actual, imposed, "feature", place)
    for name in sorted(actual.keys() & imposed.keys()):
        found, declared = _describe(actual[name]), _describe(imposed[name])
        if found != declared:
            yield f"feature '{name}' of {place} is {found} but the schema says {declared}"


def _describe(field_spec: const.FieldSpec) -> str:
    kind = "ragged" if isinstance(field_spec, tf.RaggedTensorSpec) and field_spec.ragged_rank > 0 else "dense"
    return f"{kind} {field_spec.dtype.name}{field_spec.shape.as_list()[1:]}"

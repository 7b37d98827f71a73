"""Pads a graph to fixed total sizes, and makes masks of its real components, nodes and edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.index_shifts import component_sizes
from tfx_gnn.graph.batching.size_checks import assert_satisfies_size_constraints, num_components_of, num_items_of
from tfx_gnn.graph.batching.size_constraints import SetKey, Size, SizeConstraints, as_size, target_size
from tfx_gnn.graph.tensor import fields
from tfx_gnn.graph.tensor.adjacency import HyperAdjacency, make_adjacency
from tfx_gnn.graph.tensor.fields import component_indices
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor, named_set
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.index_features import IndexFeatures, check_index_features, padded_index_features
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet
from tfx_gnn.graph.tensor.symbolic_calls import becomes_keras_layer, refuses_keras_tensors

FeatureDefaults = Mapping[const.FieldName, Any]


class FeatureDefaultValues(NamedTuple):
    """Scalar padding values by feature, for the context, node sets and edge sets.

    Attributes:
        context: scalar by feature name.
        node_sets: scalar by feature name, by node set.
        edge_sets: scalar by feature name, by edge set.

    Example:
        >>> values = tfx_gnn.FeatureDefaultValues(node_sets={"_readout": {"label": -1}})
        >>> values.node_sets, values.edge_sets
        ({'_readout': {'label': -1}}, None)
    """

    context: FeatureDefaults | None = None
    node_sets: Mapping[const.NodeSetName, FeatureDefaults] | None = None
    edge_sets: Mapping[const.EdgeSetName, FeatureDefaults] | None = None


@refuses_keras_tensors("tfx_gnn.keras.layers.PadToTotalSizes")
def pad_to_total_sizes(
    graph_tensor: GraphTensor,
    size_constraints: SizeConstraints,
    *,
    padding_values: FeatureDefaultValues | None = None,
    validate: bool = True,
    index_features: IndexFeatures | None = None,
) -> tuple[GraphTensor, tf.Tensor]:
    """Adds components of padding nodes and edges until the total sizes are met exactly.

    Real components come first and do not change. All padding items go to the first padding
    component, except that each further padding component gets its minimum number of nodes.
    Padding edges connect padding nodes only, spread evenly over them. A graph that already has
    the target number of components is returned unchanged.

    Args:
        graph_tensor: a scalar graph.
        size_constraints: the sizes of the result (the padding budget); they must name each node
            set and edge set.
        padding_values: scalars for features of padding items. Other features are filled with zero,
            False or "". Ragged dimensions of padding items are empty.
        validate: whether to check at run time that the graph fits. False saves time for graphs
            that are known to fit, such as those that passed `satisfies_size_constraints`; the
            result is undefined for others.
        index_features: features that hold indices of nodes; see `mark_index_features`. Those of padding items refer
            to the first padding node, so that a model can gather by them, or are -1 if there is none. Those of real
            items do not change.

    Returns:
        The padded graph, whose shapes are static where the constraints are ints, and a bool
        tensor of shape [total_num_components] that is True for real components; `padding_mask`
        derives masks of nodes, edges and labels from it.

    Raises:
        ValueError: if the graph is not scalar, the constraints lack one of its sets, a padding value is
            not scalar or names an unknown feature, or the graph lacks an index feature.
        tf.errors.InvalidArgumentError: if the graph does not fit; raised at run time if its sizes
            are not static.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([2]), target=tf.constant([1]), node_features=tf.constant([[5.], [6.], [7.]]))
        >>> padded, mask = tfx_gnn.pad_to_total_sizes(
        ...     graph, tfx_gnn.SizeConstraints(2, {"nodes": 4}, {"edges": 3}))
        >>> padded.edge_sets["edges"].adjacency.source.numpy().tolist()
        [2, 3, 3]
        >>> mask.numpy().tolist()
        [True, False]
    """
    check_scalar_graph_tensor(graph_tensor, "pad_to_total_sizes()")
    values = padding_values_by_set(graph_tensor.spec, padding_values or FeatureDefaultValues())
    checks = assert_satisfies_size_constraints(graph_tensor, size_constraints) if validate else []
    with tf.control_dependencies(checks):
        padded, is_real = _pad(graph_tensor, size_constraints, values)
    if index_features:
        check_index_features(graph_tensor.spec, index_features)
        padded = padded_index_features(padded, component_sizes(padded), index_features, is_real)
    return padded, is_real


def _pad(
    graph: GraphTensor,
    constraints: SizeConstraints,
    padding_values: Mapping[SetKey, Mapping[const.FieldName, tf.Tensor]],
) -> tuple[GraphTensor, tf.Tensor]:
    minima = dict(constraints.min_nodes_per_component)
    components = _Extent(num_components_of(graph), as_size(constraints.total_num_components))
    nodes = {
        name: _Extent(num_items_of(node_set), target_size(constraints.total_num_nodes, name, "nodes"))
        for name, node_set in graph.node_sets.items()
    }
    edges = {
        name: _Extent(num_items_of(edge_set), target_size(constraints.total_num_edges, name, "edges"))
        for name, edge_set in graph.edge_sets.items()
    }
    padded_sizes = _pad_sizes(
        [piece.sizes for piece in [*graph.node_sets.values(), *graph.edge_sets.values()]],
        [extent.missing for extent in [*nodes.values(), *edges.values()]],
        [*(as_size(minima.get(name, 0)) for name in nodes), *(0 for _ in edges)],
        components,
    )
    padded = GraphTensor.from_pieces(
        context=Context.from_fields(
            features=_pad_features(graph.context.features, components, padding_values[const.CONTEXT, ""]),
            sizes=_with_static_items(
                tf.ones(tf.reshape(components.target, [1]), graph.indices_dtype), components.target
            ),
        ),
        node_sets={
            name: NodeSet.from_fields(
                features=_pad_features(node_set.features, nodes[name], padding_values[const.NODES, name]),
                sizes=sizes,
            )
            for (name, node_set), sizes in zip(graph.node_sets.items(), padded_sizes[: len(nodes)], strict=True)
        },
        edge_sets={
            name: EdgeSet.from_fields(
                features=_pad_features(edge_set.features, edges[name], padding_values[const.EDGES, name]),
                sizes=sizes,
                adjacency=_pad_adjacency(edge_set.adjacency, edges[name], nodes),
            )
            for (name, edge_set), sizes in zip(graph.edge_sets.items(), padded_sizes[len(nodes) :], strict=True)
        },
    )
    mask = tf.range(tf.cast(components.target, tf.int64)) < tf.cast(components.size, tf.int64)
    return padded, _with_static_items(mask, components.target)


@dataclasses.dataclass(frozen=True)
class _Extent:
    """The current and the target number of items."""

    size: Size
    target: Size

    @property
    def missing(self) -> Size:
        return self.target - self.size


def _pad_sizes(sizes: list[tf.Tensor], missing: list[Size], minima: list[Size], components: _Extent) -> list[tf.Tensor]:
    """Pads the sizes of all sets together, to save operations."""
    if not sizes:
        return []
    dtype = sizes[0].dtype

    def column(values: list[Size]) -> tf.Tensor:
        return tf.stack([tf.cast(value, dtype) for value in values])[:, tf.newaxis]

    demand = column(minima)
    surplus = column(missing) - demand * tf.cast(components.missing, dtype)
    position = tf.range(tf.cast(components.target, dtype))
    num_real = tf.cast(components.size, dtype)
    # All padding items beyond the demands go to the first padding component.
    fake = tf.where(position > num_real, demand, demand + surplus)
    table = tf.stack(sizes)
    if isinstance(components.missing, int):
        padded = tf.concat([table, fake[:, components.size :]], axis=1)
    else:
        padded = tf.concat([table, fake[:, num_real:]], axis=1)
    return [_with_static_items(row, components.target) for row in tf.unstack(padded, num=len(sizes))]


def _pad_adjacency(
    adjacency: HyperAdjacency, edges: _Extent, nodes: Mapping[const.NodeSetName, _Extent]
) -> HyperAdjacency:
    indices = {
        tag: (end, _pad_index(index, edges, nodes[end])) for tag, (end, index) in adjacency.get_indices_dict().items()
    }
    return make_adjacency(indices, like=adjacency)


def _pad_index(index: tf.Tensor, edges: _Extent, nodes: _Extent) -> tf.Tensor:
    # Products of two sizes can exceed int32.
    num_fake_edges, num_fake_nodes = tf.cast(edges.missing, tf.int64), tf.cast(nodes.missing, tf.int64)
    spread = tf.range(num_fake_edges) * num_fake_nodes // tf.maximum(num_fake_edges - 1, 1)
    fake = tf.cast(nodes.size, tf.int64) + tf.minimum(spread, num_fake_nodes - 1)
    return _with_static_items(tf.concat([index, tf.cast(fake, index.dtype)], axis=0), edges.target)


def _pad_features(
    features: const.Fields, items: _Extent, padding_values: Mapping[const.FieldName, tf.Tensor]
) -> dict[const.FieldName, const.Field]:
    return {
        name: _with_static_items(append_items(value, items.missing, padding_values[name]), items.target)
        for name, value in features.items()
    }


def append_items(value: const.Field, num_items: Size, fill_value: tf.Tensor) -> const.Field:
    """Appends equal items to a feature of shape [n, *feature_shape]; their ragged dimensions are empty."""
    if isinstance(num_items, int) and num_items == 0:
        return value
    if not isinstance(value, tf.RaggedTensor):
        num_after = tf.cast(num_items, tf.int32)
        paddings = tf.scatter_nd([[0, 1]], tf.reshape(num_after, [1]), [value.shape.rank, 2])
        padded = tf.pad(value, _static(paddings), constant_values=fill_value)
        padded.set_shape(tf.TensorShape([None]).concatenate(value.shape[1:]))
        return padded
    if value.uniform_row_length is not None:
        row_length = as_size(value.uniform_row_length)
        return tf.RaggedTensor.from_uniform_row_length(
            append_items(value.values, num_items * row_length, fill_value),
            tf.cast(row_length, value.row_splits.dtype),
            nrows=value.nrows() + tf.cast(num_items, value.row_splits.dtype),
            validate=False,
        )
    row_splits = tf.concat([value.row_splits, tf.fill(tf.reshape(num_items, [1]), value.row_splits[-1])], axis=0)
    return tf.RaggedTensor.from_row_splits(value.values, row_splits, validate=False)


def _static(tensor: tf.Tensor) -> Any:
    # XLA pads only by static amounts.
    value = tf.get_static_value(tensor)
    return tensor if value is None else value


def _with_static_items(value: const.Field, target: Size) -> const.Field:
    return fields.with_item_count(value, target) if isinstance(target, int) else value


def padding_values_by_set(
    spec: GraphTensorSpec, padding_values: FeatureDefaultValues
) -> dict[SetKey, dict[const.FieldName, tf.Tensor]]:
    """Checks padding values; returns a scalar for each feature of each set: 0, False or "" if none is given."""
    pieces: dict[SetKey, Any] = {(const.CONTEXT, ""): spec.context_spec}
    pieces |= {(const.NODES, name): piece for name, piece in spec.node_sets_spec.items()}
    pieces |= {(const.EDGES, name): piece for name, piece in spec.edge_sets_spec.items()}
    given: dict[SetKey, FeatureDefaults] = {(const.CONTEXT, ""): padding_values.context or {}}
    given |= {(const.NODES, name): values for name, values in (padding_values.node_sets or {}).items()}
    given |= {(const.EDGES, name): values for name, values in (padding_values.edge_sets or {}).items()}
    for key, values in given.items():
        if key not in pieces:
            known = [name for kind, name in pieces if kind == key[0]]
            raise ValueError(f"`padding_values` must name sets of the graph; got {_place(key)}. Known are {known}.")
        features = pieces[key].features_spec
        unknown = sorted(set(values) - set(features))
        if unknown:
            raise ValueError(
                f"`padding_values` must name features of the graph; got {unknown} for {_place(key)}. "
                f"Known are {sorted(features)}."
            )
    return {
        key: {
            name: _padding_value(
                given.get(key, {}).get(name, tf.zeros([], field_spec.dtype)), field_spec.dtype, name, key
            )
            for name, field_spec in piece.features_spec.items()
        }
        for key, piece in pieces.items()
    }


def _padding_value(value: Any, dtype: tf.DType, feature_name: const.FieldName, key: SetKey) -> tf.Tensor:
    scalar = tf.convert_to_tensor(value, dtype)
    if scalar.shape.rank != 0:
        raise ValueError(
            f"Default value for feature '{feature_name}' of {_place(key)} must be scalar, got shape={scalar.shape}. "
            "All elements of a padding item get the same value."
        )
    return scalar


def _place(key: SetKey) -> str:
    kind, name = key
    return "context" if kind == const.CONTEXT else f"{'node' if kind == const.NODES else 'edge'} set '{name}'"


@becomes_keras_layer
def padding_mask(
    graph_tensor: GraphTensor,
    component_mask: tf.Tensor,
    *,
    node_set_name: const.NodeSetName | None = None,
    edge_set_name: const.EdgeSetName | None = None,
) -> tf.Tensor:
    """Returns which nodes or edges of a padded graph are real.

    `pad_to_total_sizes` returns a mask of components, to be used as sample weights of a model with
    one output per component. This function makes the mask for a model with one output per node or
    edge. For the node set "_readout", it is the mask of the values that `structured_readout` reads,
    including labels.

    Args:
        graph_tensor: scalar graph, padded.
        component_mask: bool tensor of shape [num_components], True for real components: the second
            result of `pad_to_total_sizes`.
        node_set_name: the nodes to make a mask for. Either this or `edge_set_name`.
        edge_set_name: the edges to make a mask for.

    Returns:
        Bool tensor of shape [num_nodes] or [num_edges], True for items of real components. Its
        shape is static and it is XLA-compatible if the size of the set is static, as it is after
        padding to ints, except for node sets without features.

    Raises:
        ValueError: if the graph is not scalar, not exactly one set is named, or the mask is not a
            bool vector with one value per component.
        KeyError: if there is no such set.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0]), target=tf.constant([1]), node_features=tf.constant([[5.], [6.]]))
        >>> padded, mask = tfx_gnn.pad_to_total_sizes(
        ...     graph, tfx_gnn.SizeConstraints(2, {"nodes": 3}, {"edges": 2}))
        >>> tfx_gnn.padding_mask(padded, mask, node_set_name="nodes").numpy().tolist()
        [True, True, False]
    """
    check_scalar_graph_tensor(graph_tensor, "padding_mask()")
    piece = named_set(graph_tensor, node_set_name, edge_set_name, "padding_mask()")
    component_mask = tf.convert_to_tensor(component_mask)
    num_components = graph_tensor.spec.total_num_components
    if component_mask.dtype != tf.bool or not component_mask.shape.is_compatible_with([num_components]):
        raise ValueError(
            "`component_mask` must be a bool tensor with one value per graph component; got "
            f"{component_mask.dtype.name} of shape={component_mask.shape} for {num_components} components. Take the "
            "second result of pad_to_total_sizes()."
        )
    return tf.gather(component_mask, component_indices(piece.sizes, piece.total_size))

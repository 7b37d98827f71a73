"""Parses graphs from serialized tf.Examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.batching.index_shifts import component_sizes, shift_index_features
from tfx_gnn.graph.batching.padding import FeatureDefaultValues, pad_to_total_sizes
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.codec.flat_graphs import FlatField, FlatGraphs, FlatSet, finish_flat
from tfx_gnn.graph.codec.flat_padding import FlatPadder
from tfx_gnn.graph.codec.flat_parsing import read_flat
from tfx_gnn.graph.graph_constants import EDGES, NODES, Field
from tfx_gnn.graph.tensor.adjacency import make_adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.index_features import IndexFeatures, check_index_features, padded_index_features
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet


@tf.autograph.experimental.do_not_convert
def parse_example(
    spec: GraphTensorSpec,
    serialized: tf.Tensor,
    prefix: str | None = None,
    validate: bool = True,
    *,
    default_values: Mapping[str, Any] | None = None,
) -> GraphTensor:
    """Reads a batch of graphs, one from each tf.Example.

    Absent sizes count as 0 for every component if the number of components is static, else as
    no components; other features may be absent if there are no items. To get the merged graph,
    `parse_and_merge` is faster than merging the result of this function.

    Bytes are read as protobuf defines them, whoever encoded them, except for two cases described in
    `tfx_gnn.graph.codec.canonical_bytes`. Those that are not encoded as protobuf's libraries do take longer.

    Args:
        spec: spec of the scalar graph in one tf.Example.
        serialized: string tensor of shape [num_examples].
        prefix: prefix of the key of every feature, to distinguish several graphs in one
            tf.Example.
        validate: whether to check that every feature has the number of values given by the sizes,
            that node indices are in range, and that values fit the dtypes of their features.
        default_values: values for features that an example lacks, by key without the prefix:
            {"nodes/_readout.label": b""} lets a model serve examples without labels. A value
            is a scalar or has the shape of one item, and is used for every item of the example.

    Returns:
        Graph of shape [num_examples], whose spec is `spec` batched. Fields without a static number
        of items are ragged.

    Raises:
        TypeError: if a tf.Example cannot hold a feature of the spec.
        ValueError: if an argument does not fit the others.
        tf.errors.InvalidArgumentError: if an example is not a tf.Example, lacks a required
            feature, or holds wrong counts or indices, or values that do not fit the dtype of their
            feature; the message names the key.
        tf.errors.DataLossError: raised instead for damage inside of an example, when a tf.function or dataset runs.
        UnicodeDecodeError: raised instead for an example that is not a tf.Example, when a
            tf.function or dataset runs and TensorFlow's message quotes bytes that are not text.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> serialized = tfx_gnn.write_example(graph).SerializeToString()
        >>> tfx_gnn.parse_example(graph.spec, tf.constant([serialized] * 2)).node_sets["nodes"].sizes.numpy().tolist()
        [[3], [3]]
    """
    serialized = _check_arguments(spec, serialized, rank=1)
    return _parse(spec, serialized, prefix, default_values, validate=validate, merged=False)


@tf.autograph.experimental.do_not_convert
def parse_single_example(
    spec: GraphTensorSpec,
    serialized: tf.Tensor,
    prefix: str | None = None,
    validate: bool = True,
    *,
    default_values: Mapping[str, Any] | None = None,
) -> GraphTensor:
    """Reads the graph in one tf.Example.

    Args:
        spec: spec of the scalar graph.
        serialized: string tensor of shape [].
        prefix: as for `parse_example`.
        validate: as for `parse_example`.
        default_values: as for `parse_example`.

    Returns:
        Graph of shape [], compatible with `spec`.

    Raises:
        TypeError: as `parse_example`.
        ValueError: as `parse_example`.
        tf.errors.InvalidArgumentError: as `parse_example`.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> serialized = tfx_gnn.write_example(graph).SerializeToString()
        >>> tfx_gnn.parse_single_example(graph.spec, tf.constant(serialized)).node_sets["nodes"].sizes.numpy().tolist()
        [3]
    """
    serialized = _check_arguments(spec, serialized, rank=0)
    return _parse(spec, serialized[tf.newaxis], prefix, default_values, validate=validate, merged=True)


@tf.autograph.experimental.do_not_convert
def parse_and_merge(
    spec: GraphTensorSpec,
    serialized: tf.Tensor,
    prefix: str | None = None,
    validate: bool = True,
    *,
    default_values: Mapping[str, Any] | None = None,
    index_features: IndexFeatures | None = None,
) -> GraphTensor:
    """Reads a batch of tf.Examples straight into one scalar graph.

    Equal to `parse_example(...).merge_batch_to_components(...)` in values, dtypes and static
    shapes, at about the speed of `tf.io.parse_example`.

    Args:
        spec: spec of the scalar graph in one tf.Example.
        serialized: string tensor of shape [num_examples].
        prefix: as for `parse_example`.
        validate: as for `parse_example`.
        default_values: as for `parse_example`.
        index_features: features that hold indices of nodes, as `tfx_gnn.index_features` reads them from the graph
            schema. They are shifted like the ends of edges, and checked unless `validate` is False.

    Returns:
        Graph of shape [] with the components of all examples in order.

    Raises:
        TypeError: as `parse_example`.
        ValueError: as `parse_example`.
        tf.errors.InvalidArgumentError: as `parse_example`.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> serialized = tfx_gnn.write_example(graph).SerializeToString()
        >>> tfx_gnn.parse_and_merge(graph.spec, tf.constant([serialized] * 2)).node_sets["nodes"].sizes.numpy().tolist()
        [3, 3]
    """
    serialized = _check_arguments(spec, serialized, rank=1)
    if index_features:
        check_index_features(spec, index_features)
        if not _has_one_component(spec):
            # Indices count from the first node of the example, not of their component.
            graphs = parse_example(spec, serialized, prefix, validate, default_values=default_values)
            return graphs.merge_batch_to_components(index_features=index_features)
    graph = _parse(spec, serialized, prefix, default_values, validate=validate, merged=True)
    if not index_features:
        return graph
    return shift_index_features(graph, index_features, validate=validate)


@tf.autograph.experimental.do_not_convert
def parse_merge_and_pad(
    spec: GraphTensorSpec,
    serialized: tf.Tensor,
    size_constraints: SizeConstraints,
    prefix: str | None = None,
    validate: bool = True,
    *,
    default_values: Mapping[str, Any] | None = None,
    padding_values: FeatureDefaultValues | None = None,
    index_features: IndexFeatures | None = None,
) -> tuple[GraphTensor, tf.Tensor]:
    """Reads a batch of tf.Examples into one scalar graph of fixed sizes.

    Does the same as `pad_to_total_sizes(parse_and_merge(...), size_constraints)`, in fewer
    operations if the constraints are static and every example has one component; otherwise it
    calls these two functions. The number of examples may vary, as it does in packed batches.
    Padding edges are spread over padding nodes as evenly, but may connect different padding nodes.

    Args:
        spec: as for `parse_and_merge`.
        serialized: as for `parse_and_merge`, shape [num_examples].
        size_constraints: as for `pad_to_total_sizes`.
        prefix: as for `parse_example`.
        validate: whether to check the examples, as `parse_example` does, and that they fit.
        default_values: as for `parse_example`.
        padding_values: as for `pad_to_total_sizes`.
        index_features: as for `parse_and_merge` and `pad_to_total_sizes`.

    Returns:
        Graph of shape [] with the sizes of `size_constraints`, and a bool tensor of shape
        [total_num_components] that is True for the components of the examples.

    Raises:
        TypeError: as `parse_example`.
        ValueError: as `parse_example` and `pad_to_total_sizes`.
        tf.errors.InvalidArgumentError: as `parse_example`, or if the graphs do not fit.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> serialized = tfx_gnn.write_example(graph).SerializeToString()
        >>> budget = tfx_gnn.SizeConstraints(3, {"nodes": 8}, {"edges": 6})
        >>> padded, mask = tfx_gnn.parse_merge_and_pad(graph.spec, tf.constant([serialized] * 2), budget)
        >>> padded.node_sets["nodes"].sizes.numpy().tolist(), mask.numpy().tolist()
        ([3, 3, 2], [True, True, False])
    """
    serialized = _check_arguments(spec, serialized, rank=1)
    num_examples = serialized.shape[0]
    if not FlatPadder.can_pad(spec, size_constraints, num_examples):
        graph = parse_and_merge(
            spec,
            serialized,
            prefix,
            validate,
            default_values=default_values,
            index_features=index_features,
        )
        return pad_to_total_sizes(
            graph,
            size_constraints,
            padding_values=padding_values,
            validate=validate,
            index_features=index_features,
        )
    if index_features:
        check_index_features(spec, index_features)
    padder = FlatPadder(spec, size_constraints, num_examples, padding_values or FeatureDefaultValues())
    check = padder.assert_fit if validate else None
    flat, checks = read_flat(spec, serialized, prefix, default_values, validate=validate, check=check)
    with tf.control_dependencies(checks):
        graph, mask = padder.pad(flat)
    graph = graph.with_indices_dtype(spec.indices_dtype).with_row_splits_dtype(spec.row_splits_dtype)
    if index_features:
        sizes = component_sizes(graph)
        graph = padded_index_features(graph, sizes, index_features, mask, shift=True, validate=validate)
    return graph, mask


def _has_one_component(spec: GraphTensorSpec) -> bool:
    """Returns whether each example has one component, as far as the spec says."""
    pieces = [*spec.node_sets_spec.values(), *spec.edge_sets_spec.values()]
    return all(piece.sizes_spec.shape == [1] for piece in pieces)


def _check_arguments(spec: GraphTensorSpec, serialized: tf.Tensor, rank: int) -> tf.Tensor:
    if not isinstance(spec, GraphTensorSpec):
        raise TypeError(
            f"`spec` must be a GraphTensorSpec; got {type(spec).__name__}. Make one with "
            "create_graph_spec_from_schema_pb()."
        )
    if spec.rank:
        raise ValueError(f"`spec` must be the spec of the scalar graph in one tf.Example; got shape={spec.shape}.")
    serialized = tf.convert_to_tensor(serialized, tf.string)
    if serialized.shape.rank is None and rank == 0:
        serialized = tf.ensure_shape(serialized, [])
    if serialized.shape.rank != rank:
        shape = "a scalar" if rank == 0 else "a vector, of rank=1"
        raise ValueError(
            f"`serialized` must be {shape}; got shape={serialized.shape}. Use parse_example() for "
            "batches and parse_single_example() for single examples."
        )
    return serialized


def _parse(
    spec: GraphTensorSpec,
    serialized: tf.Tensor,
    prefix: str | None,
    default_values: Mapping[str, Any] | None,
    *,
    validate: bool,
    merged: bool,
) -> GraphTensor:
    flat, checks = read_flat(spec, serialized, prefix, default_values, validate=validate)
    with tf.control_dependencies(checks):
        finish_flat(spec, flat, merge_indices=merged)
    return _assemble(spec, flat, merged=merged)


def _assemble(spec: GraphTensorSpec, flat: FlatGraphs, *, merged: bool) -> GraphTensor:
    builder = _Builder(spec, flat, merged)
    node_sets, edge_sets = {}, {}
    for flat_set in flat.sets[1:]:
        name, piece_spec = flat_set.layout.set_name, flat_set.spec
        features = builder.features(flat_set)
        sizes = builder.sizes(flat_set)
        if flat_set.layout.set_type == NODES:
            node_set = NodeSet.from_fields(features=features, sizes=sizes, validate=False)
            node_sets[name] = node_set
        elif flat_set.layout.set_type == EDGES:
            ends = {
                tag: (
                    piece_spec.adjacency_spec.node_set_name(tag),
                    builder.index(flat_set, tag),
                )
                for tag in flat_set.layout.index_keys
            }
            edge_sets[name] = EdgeSet.from_fields(
                features=features,
                sizes=sizes,
                adjacency=make_adjacency(ends, like=piece_spec.adjacency_spec, validate=False),
                validate=False,
            )
    context_set = flat.sets[0]
    context = Context.from_fields(
        features=builder.features(context_set),
        sizes=builder.component_ones(context_set),
        validate=False,
    )
    graph = GraphTensor.from_pieces(context, node_sets, edge_sets, validate=False)
    return graph.with_indices_dtype(spec.indices_dtype).with_row_splits_dtype(spec.row_splits_dtype)


class _Builder:
    """Shapes flat fields into the fields of a merged graph, or of a batch of graphs."""

    def __init__(self, spec: GraphTensorSpec, flat: FlatGraphs, merged: bool) -> None:
        self._spec = spec
        self._num_examples = flat.static_num_examples
        self._merged = merged
        self._splits_dtype = spec.row_splits_dtype

    def features(self, flat_set: FlatSet) -> dict[str, Field]:
        return {name: self._field(field, flat_set) for name, field in flat_set.features.items()}

    def index(self, flat_set: FlatSet, tag: int) -> Field:
        field_spec = flat_set.spec.adjacency_spec[tag]
        return self._field(FlatField(values=flat_set.indices[tag], spec=field_spec), flat_set)

    def sizes(self, flat_set: FlatSet) -> Field:
        assert flat_set.sizes is not None
        field = FlatField(values=flat_set.sizes, spec=flat_set.spec.sizes_spec)
        return self._field(field, flat_set, of_components=True)

    def component_ones(self, context: FlatSet) -> Field:
        per_graph = context.spec.sizes_spec.shape[0]
        if per_graph is None or self._num_examples is None:
            total = context.component_splits[-1]
        else:
            total = per_graph * self._num_examples
        field = FlatField(values=tf.ones([total], self._spec.indices_dtype), spec=context.spec.sizes_spec)
        return self._field(field, context, of_components=True)

    def _field(self, field: FlatField, flat_set: FlatSet, *, of_components: bool = False) -> Field:
        per_graph = field.spec.shape[0]
        total = None
        if per_graph is not None and self._num_examples is not None:
            total = per_graph * self._num_examples
        values = field.items(self._splits_dtype, total)
        if self._merged:
            return values
        splits = flat_set.component_splits if of_components else flat_set.item_splits
        splits = tf.cast(splits, self._splits_dtype)
        if per_graph is None:
            return tf.RaggedTensor.from_row_splits(values, splits, validate=False)
        if isinstance(values, tf.RaggedTensor):
            num_examples = tf.shape(splits, out_type=self._splits_dtype)[0] - 1
            return tf.RaggedTensor.from_uniform_row_length(values, per_graph, nrows=num_examples, validate=False)
        batch = -1 if self._num_examples is None else self._num_examples
        # `reshape` cannot infer a dimension beside a dimension of 0, as in `FlatField.items`.
        if batch == -1 and 0 in field.spec.shape.as_list():
            batch = tf.shape(splits)[0] - 1
        return tf.reshape(values, [batch, *field.spec.shape.as_list()])

"""Random graphs of a given type, for tests and experiments."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.adjacency import make_adjacency
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

#: Values to choose from, by set type ("context", "nodes", "edges"), set name and feature name. The
#: name of the context is None or "".
SampleDict = Mapping[tuple[const.SetType, "const.SetName | None", const.FieldName], Sequence[Any]]


def random_graph_tensor(
    spec: GraphTensorSpec,
    sample_dict: SampleDict | None = None,
    row_lengths_range: tuple[int, int] = (2, 8),
    validate: bool = True,
    num_components_range: tuple[int, int] = (1, 2),
) -> GraphTensor:
    """Makes a random graph.

    In a traced function, including `tf.data.Dataset.map`, each call at run time makes a new
    graph. Call `tf.random.set_seed` for a reproducible sequence of graphs.

    Auxiliary sets are filled like any other sets, so a readout structure in the result is not
    valid: leave it out of the spec and add it afterwards.

    Args:
        spec: spec of a scalar graph; its numbers of components, nodes and edges are ignored.
        sample_dict: values to choose from, for some features; other features get random values of
            their dtype: letters, floats in [0, 1), ints in [0, 100).
        row_lengths_range: minimum and maximum (excluded) number of nodes per component of a node
            set, and of values in a ragged dimension.
        validate: whether to check the generated graph.
        num_components_range: minimum and maximum (excluded) number of components.

    Returns:
        Scalar graph, compatible with `spec` except for its sizes. Edges stay within components. The
        number of edges of a component is between 2/3 and 9/4 of its number of nodes, added up over
        the ends of the edges; it is 0 if an end has no nodes.

    Raises:
        ValueError: if the spec is not scalar, a range is empty or negative, or `sample_dict` names
            an unknown feature or holds no values for one.
        TypeError: if there are no random values of a dtype.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graph.spec.relax(num_nodes=True, num_edges=True).is_compatible_with(tfx_gnn.random_graph_tensor(graph.spec))
        True
    """
    check_scalar_graph_tensor(spec, "random_graph_tensor()")
    for name, (low, high) in (
        ("row_lengths_range", row_lengths_range),
        ("num_components_range", num_components_range),
    ):
        if not 0 <= low < high:
            raise ValueError(f"Expected 0 <= {name}[0] < {name}[1]; got {(low, high)}. The second is excluded.")
    samples = {(kind, name or "", feature): values for (kind, name, feature), values in (sample_dict or {}).items()}
    _check_samples(spec, samples)
    maker = _FeatureMaker(samples, row_lengths_range)

    dtype = spec.indices_dtype
    num_components = tf.random.uniform([], *num_components_range, dtype)
    node_sets = {}
    for name, node_set_spec in spec.node_sets_spec.items():
        sizes = tf.random.uniform([num_components], *row_lengths_range, dtype)
        node_sets[name] = NodeSet.from_fields(
            sizes=sizes,
            features=maker.make(const.NODES, name, node_set_spec.features_spec, tf.reduce_sum(sizes)),
            validate=validate,
        )
    edge_sets = {}
    for name, edge_set_spec in spec.edge_sets_spec.items():
        ends = {tag: end for tag, (end, _) in edge_set_spec.adjacency_spec.get_index_specs_dict().items()}
        sizes = _edge_counts([node_sets[end].sizes for end in ends.values()])
        indices = {tag: (end, _node_indices(node_sets[end].sizes, sizes)) for tag, end in ends.items()}
        edge_sets[name] = EdgeSet.from_fields(
            sizes=sizes,
            features=maker.make(const.EDGES, name, edge_set_spec.features_spec, tf.reduce_sum(sizes)),
            adjacency=make_adjacency(indices, like=edge_set_spec.adjacency_spec),
            validate=validate,
        )
    context = Context.from_fields(
        sizes=tf.ones([num_components], dtype),
        features=maker.make(const.CONTEXT, "", spec.context_spec.features_spec, num_components),
        validate=validate,
    )
    return GraphTensor.from_pieces(context=context, node_sets=node_sets, edge_sets=edge_sets, validate=validate)


def _edge_counts(node_sizes: list[tf.Tensor]) -> tf.Tensor:
    """Draws the number of edges of each component; it is 0 if an end has no nodes."""
    num_nodes = tf.where(tf.reduce_all(tf.stack(node_sizes) > 0, axis=0), tf.add_n(node_sizes), 0)
    low, high = num_nodes * 2 // 3, num_nodes * 9 // 4
    return low + _scaled(tf.random.uniform(tf.shape(low), dtype=tf.float64), high - low)


def _node_indices(node_sizes: tf.Tensor, edge_sizes: tf.Tensor) -> tf.Tensor:
    """Draws a node of the same component for each edge."""
    starts = tf.repeat(tf.cumsum(node_sizes, exclusive=True), edge_sizes)
    return starts + _scaled(tf.random.uniform(tf.shape(starts), dtype=tf.float64), tf.repeat(node_sizes, edge_sizes))


def _scaled(uniform: tf.Tensor, limits: tf.Tensor) -> tf.Tensor:
    """Turns random numbers in [0, 1) into ints in [0, limit), or 0 if the limit is 0."""
    return tf.cast(uniform * tf.cast(limits, uniform.dtype), limits.dtype)


class _FeatureMaker:
    def __init__(
        self, samples: Mapping[tuple[str, str, str], Sequence[Any]], row_lengths_range: tuple[int, int]
    ) -> None:
        self._samples = samples
        self._row_lengths_range = row_lengths_range

    def make(
        self, kind: const.SetType, set_name: const.SetName, features_spec: const.FieldsSpec, num_items: tf.Tensor
    ) -> dict[const.FieldName, const.Field]:
        return {
            name: self._feature(field_spec, num_items, self._samples.get((kind, set_name, name)))
            for name, field_spec in features_spec.items()
        }

    def _feature(self, spec: const.FieldSpec, num_items: tf.Tensor, values: Sequence[Any] | None) -> const.Field:
        if isinstance(spec, tf.TensorSpec):
            return _values(spec.dtype, num_items, spec.shape[1:], values)
        partitions: list[tuple[tf.Tensor, tf.Tensor]] = []
        count = tf.cast(num_items, spec.row_splits_dtype)
        for size in spec.shape[1 : spec.ragged_rank + 1].as_list():
            if size is None:
                lengths = tf.random.uniform([count], *self._row_lengths_range, spec.row_splits_dtype)
                partitions.append((count, lengths))
                count = tf.reduce_sum(lengths)
            else:
                partitions.append((count, tf.constant(size, spec.row_splits_dtype)))
                count *= size
        field: Any = _values(spec.dtype, count, spec.shape[spec.ragged_rank + 1 :], values)
        for num_rows, lengths in reversed(partitions):
            if lengths.shape.rank == 0:
                field = tf.RaggedTensor.from_uniform_row_length(field, lengths, nrows=num_rows)
            else:
                field = tf.RaggedTensor.from_row_lengths(field, lengths)
        return field


def _values(dtype: tf.DType, count: tf.Tensor, inner_shape: tf.TensorShape, samples: Sequence[Any] | None) -> tf.Tensor:
    """Draws values of shape [count, *inner_shape], from the samples if there are any."""
    shape = tf.concat([[count], tf.cast(inner_shape.as_list(), count.dtype)], axis=0)
    if samples is not None:
        candidates = tf.constant(list(samples), dtype)
        values = tf.gather(candidates, tf.random.uniform(shape, 0, len(samples), tf.int32))
    elif dtype == tf.string:
        values = tf.gather(tf.constant(list(string.ascii_uppercase)), tf.random.uniform(shape, 0, 26, tf.int32))
    elif dtype == tf.bool:
        values = tf.random.uniform(shape, 0, 2, tf.int32) == 1
    elif dtype.is_integer:
        values = tf.cast(tf.random.uniform(shape, 0, 100, tf.int32), dtype)
    elif dtype.is_floating:
        values = tf.random.uniform(shape, dtype=dtype)
    else:
        raise TypeError(f"Unsupported type for random values: {dtype}. Give some in `sample_dict`.")
    return tf.ensure_shape(values, tf.TensorShape([None]).concatenate(inner_shape))


def _check_samples(spec: GraphTensorSpec, samples: Mapping[tuple[str, str, str], Sequence[Any]]) -> None:
    known = {(const.CONTEXT, "", name) for name in spec.context_spec.features_spec}
    for kind, pieces in ((const.NODES, spec.node_sets_spec), (const.EDGES, spec.edge_sets_spec)):
        for set_name, piece in pieces.items():
            known.update((kind, set_name, name) for name in piece.features_spec)
    unknown = sorted(set(samples) - known)
    if unknown:
        raise ValueError(f"`sample_dict` must name features of `spec`; got {unknown}. Known are {sorted(known)}.")
    empty = sorted(key for key, values in samples.items() if not len(values))
    if empty:
        raise ValueError(f"`sample_dict` must hold values to choose from; got none for {empty}.")

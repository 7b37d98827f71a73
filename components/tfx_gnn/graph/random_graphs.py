"""Random graphs of a given type, for tests and trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.adjacency import Adjacency, HyperAdjacency
from tfx_gnn.graph.adjacency_spec import AdjacencySpec
from tfx_gnn.graph.context import Context
from tfx_gnn.graph.edge_set import EdgeSet
from tfx_gnn.graph.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.graph_tensor import GraphTensor
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.node_set import NodeSet

#: Values to choose from, by set type ("context", "nodes", "edges"), set name and feature name. The
#: name of the context is None or "".
SampleDict = Mapping[tuple[const.SetType, "const.SetName | None", const.FieldName], Sequence[Any]]

_LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), dtype=object)


def random_graph_tensor(
    spec: GraphTensorSpec,
    sample_dict: SampleDict | None = None,
    row_lengths_range: tuple[int, int] = (2, 8),
    validate: bool = True,
    num_components_range: tuple[int, int] = (1, 2),
) -> GraphTensor:
    """Makes a random graph.

    Auxiliary sets are filled like any others, so a readout structure of the result is not valid:
    leave it out of the spec and add it afterwards.

    Args:
        spec: spec of a scalar graph; its numbers of components, nodes and edges do not matter.
        sample_dict: values to choose from, for some features; others get random values of their
            dtype: letters, floats in [0, 1), ints in [0, 100).
        row_lengths_range: smallest and largest (excluded) number of nodes of a component in a set,
            of edges for each node where they start, and of values in a ragged dimension.
        validate: whether to check the made graph.
        num_components_range: smallest and largest (excluded) number of components.

    Returns:
        Scalar graph, compatible with `spec` but for its sizes. Edges stay within components; a
        component has none where it lacks nodes to connect.

    Raises:
        ValueError: if the spec is not scalar, a range is empty or negative, or `sample_dict` names
            an unknown feature or holds no values for one.
    """
    check_scalar_graph_tensor(spec, "random_graph_tensor()")
    for name, (low, high) in (
        ("row_lengths_range", row_lengths_range),
        ("num_components_range", num_components_range),
    ):
        if not 0 <= low < high:
            raise ValueError(f"`{name}` must be (low, high) with 0 <= low < high; got {(low, high)}.")
    samples = {(kind, name or "", feature): values for (kind, name, feature), values in (sample_dict or {}).items()}
    _check_samples(spec, samples)
    maker = _Maker(np.random.default_rng(), samples, row_lengths_range)

    num_components = int(maker.random.integers(*num_components_range))
    dtype = spec.indices_dtype
    node_sizes = {name: maker.lengths(num_components) for name in spec.node_sets_spec}
    node_sets = {
        name: NodeSet.from_fields(
            sizes=tf.constant(node_sizes[name], dtype),
            features=maker.features(const.NODES, name, node_set_spec.features_spec, node_sizes[name].sum()),
            validate=validate,
        )
        for name, node_set_spec in spec.node_sets_spec.items()
    }
    edge_sets = {}
    for name, edge_set_spec in spec.edge_sets_spec.items():
        ends = {tag: end for tag, (end, _) in edge_set_spec.adjacency_spec.get_index_specs_dict().items()}
        can_connect = np.all([node_sizes[end] > 0 for end in ends.values()], axis=0)
        sizes = maker.total_lengths(node_sizes[ends[min(ends)]]) * can_connect
        indices = {
            tag: (end, tf.constant(maker.node_indices(node_sizes[end], sizes), dtype)) for tag, end in ends.items()
        }
        edge_sets[name] = EdgeSet.from_fields(
            sizes=tf.constant(sizes, dtype),
            features=maker.features(const.EDGES, name, edge_set_spec.features_spec, sizes.sum()),
            adjacency=Adjacency.from_indices(indices[const.SOURCE], indices[const.TARGET])
            if isinstance(edge_set_spec.adjacency_spec, AdjacencySpec)
            else HyperAdjacency.from_indices(indices),
            validate=validate,
        )
    context = Context.from_fields(
        sizes=tf.ones([num_components], dtype),
        features=maker.features(const.CONTEXT, "", spec.context_spec.features_spec, num_components),
        validate=validate,
    )
    return GraphTensor.from_pieces(context=context, node_sets=node_sets, edge_sets=edge_sets, validate=validate)


class _Maker:
    def __init__(
        self,
        random: np.random.Generator,
        samples: Mapping[tuple[str, str, str], Sequence[Any]],
        row_lengths_range: tuple[int, int],
    ) -> None:
        self.random = random
        self._samples = samples
        self._row_lengths_range = row_lengths_range

    def lengths(self, count: int) -> Any:
        return self.random.integers(*self._row_lengths_range, size=count)

    def total_lengths(self, counts: Any) -> Any:
        """Draws a length for each of some things in each component, and adds them up."""
        return np.array([self.lengths(count).sum() for count in counts], dtype=np.int64)

    def node_indices(self, node_sizes: Any, edge_sizes: Any) -> Any:
        """Draws a node of the right component for each edge."""
        starts = np.repeat(np.cumsum(node_sizes) - node_sizes, edge_sizes)
        return starts + self.random.integers(0, np.maximum(np.repeat(node_sizes, edge_sizes), 1))

    def features(
        self, kind: const.SetType, set_name: const.SetName, features_spec: const.FieldsSpec, num_items: Any
    ) -> dict[const.FieldName, const.Field]:
        return {
            name: self._feature(field_spec, int(num_items), self._samples.get((kind, set_name, name)))
            for name, field_spec in features_spec.items()
        }

    def _feature(self, spec: const.FieldSpec, num_items: int, values: Sequence[Any] | None) -> const.Field:
        if isinstance(spec, tf.TensorSpec):
            shape = [num_items, *spec.shape[1:].as_list()]
            return tf.constant(self._values(spec.dtype, shape, values), spec.dtype, shape)
        partitions: list[Any] = []
        count = num_items
        for size in spec.shape[1 : spec.ragged_rank + 1].as_list():
            partition = self.lengths(count) if size is None else size
            partitions.append(partition)
            count = int(partition.sum()) if size is None else count * size
        shape = [count, *spec.shape[spec.ragged_rank + 1 :].as_list()]
        field: Any = tf.constant(self._values(spec.dtype, shape, values), spec.dtype, shape)
        for axis, partition in reversed(list(enumerate(partitions))):
            if isinstance(partition, int):
                num_rows = num_items if axis == 0 else _num_rows(num_items, partitions[:axis])
                field = tf.RaggedTensor.from_uniform_row_length(
                    field,
                    tf.constant(partition, spec.row_splits_dtype),
                    nrows=tf.constant(num_rows, spec.row_splits_dtype),
                )
            else:
                field = tf.RaggedTensor.from_row_lengths(field, tf.constant(partition, spec.row_splits_dtype))
        return field

    def _values(self, dtype: tf.DType, shape: list[int], values: Sequence[Any] | None) -> Any:
        if values is not None:
            return np.array(values, dtype=dtype.as_numpy_dtype)[self.random.integers(0, len(values), size=shape)]
        if dtype == tf.string:
            return self.random.choice(_LETTERS, size=shape)
        if dtype == tf.bool:
            return self.random.integers(0, 2, size=shape).astype(bool)
        if dtype.is_integer:
            return self.random.integers(0, 100, size=shape).astype(dtype.as_numpy_dtype)
        return self.random.random(size=shape).astype(dtype.as_numpy_dtype)


def _num_rows(num_items: int, partitions: list[Any]) -> int:
    count = num_items
    for partition in partitions:
        count = count * partition if isinstance(partition, int) else int(partition.sum())
    return count


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

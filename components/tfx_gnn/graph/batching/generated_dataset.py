"""Datasets from Python generators of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.tensor.adjacency import HyperAdjacencySpec
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_piece import GraphPiece, GraphPieceSpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import EdgeSetSpec, NodeSetSpec


def dataset_from_generator(generator: Callable[[], Iterable[Any]]) -> tf.data.Dataset:
    """Makes a data set of what a generator yields; the first element tells the type of all.

    Args:
        generator: called without arguments for each iteration, and once by this function; returns
            an iterable of nests of tensors and scalar graph pieces. In later elements, numbers of
            nodes and edges may differ; features, sets and numbers of components may not.

    Returns:
        Data set of unknown cardinality.

    Raises:
        TypeError: if `generator` cannot be called.
        ValueError: if it yields nothing, or a graph piece that is not scalar; at run time, if a
            later element does not fit the first (as `tf.errors.InvalidArgumentError`).

    Example:
        >>> def graphs():
        ...     for n in (1, 2):
        ...         yield tfx_gnn.NodeSet.from_fields(sizes=[n], features={"x": tf.zeros([n])})
        >>> [int(nodes.total_size) for nodes in tfx_gnn.dataset_from_generator(graphs)]
        [1, 2]
    """
    if not callable(generator):
        raise TypeError(
            f"`generator` must be callable, returning an iterable; got {type(generator).__name__}. "
            "Wrap a list as `lambda: my_list`."
        )
    first = next(iter(generator()), None)
    if first is None:
        raise ValueError("The generator must produce at least one value, to tell the type of all; got none.")
    spec = tf.nest.map_structure(_spec_of, _as_nest(first))

    def checked() -> Iterator[Any]:
        for position, element in enumerate(generator()):
            nest = _as_nest(element)
            tf.nest.assert_same_structure(nest, spec)
            for value, expected in zip(tf.nest.flatten(nest), tf.nest.flatten(spec), strict=True):
                if isinstance(value, GraphPiece) and not expected.is_compatible_with(value):
                    raise ValueError(
                        "Generated graph pieces are not compatible: all must have the features, sets and numbers of "
                        f"components of the first, {expected}; got {value.spec} in element {position}."
                    )
            yield nest

    return tf.data.Dataset.from_generator(checked, output_signature=spec)


def _as_nest(element: Any) -> Any:
    return tf.nest.map_structure(
        lambda value: value if isinstance(value, (GraphPiece, tf.RaggedTensor)) else tf.convert_to_tensor(value),
        element,
    )


def _spec_of(value: Any) -> Any:
    spec = tf.type_spec_from_value(value)
    if not isinstance(spec, GraphPieceSpec):
        return spec
    check_scalar_graph_tensor(value, "dataset_from_generator()")
    for spec_type, varying in _VARYING_SIZES.items():
        if isinstance(spec, spec_type):
            return spec.relax(**dict.fromkeys(varying, True))
    return spec


_VARYING_SIZES: dict[type[Any], tuple[str, ...]] = {
    GraphTensorSpec: ("num_nodes", "num_edges"),
    NodeSetSpec: ("num_nodes",),
    EdgeSetSpec: ("num_edges",),
    HyperAdjacencySpec: ("num_edges",),
}

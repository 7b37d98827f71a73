"""Dataset elements with graphs as flat dicts of tensors, as required by workers of ParameterServerStrategy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors, graph_to_flat_tensors
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec

Restore = Callable[[Mapping[str, tf.Tensor]], Any]


def flatten_elements(dataset: tf.data.Dataset) -> tuple[tf.data.Dataset, Restore]:
    """Converts the elements of a dataset to flat dicts of plain tensors.

    Args:
        dataset: elements are nests of graphs, tensors and ragged tensors. Graphs may have any shape.

    Returns:
        Dataset of dicts of tensors, and the function that converts such a dict back to an element, to be
        called on a worker inside the step. Keys consist of the position in the nest, as counted by
        `tf.nest`, and the key of `graph_to_flat_tensors`, such as "0/nodes/paper.x"; a plain tensor has
        the position only, such as "1". No tensor is copied; dtypes and static shapes are preserved.

    Raises:
        TypeError: if the dataset has other elements, such as sparse tensors.

    Example:
        >>> flat, restore = flatten_elements(tf.data.Dataset.from_tensors((tf.constant([1, 2]), {"x": 3.0})))
        >>> sorted(flat.element_spec)
        ['0', '1']
        >>> restore(next(iter(flat)))[1]["x"].numpy().item()
        3.0
    """
    spec = dataset.element_spec
    leaves = tf.nest.flatten(spec)
    for leaf in leaves:
        if not isinstance(leaf, (GraphTensorSpec, tf.TensorSpec, tf.RaggedTensorSpec)):
            raise TypeError(
                f"`dataset` must have elements of graphs, tensors and ragged tensors; got {type(leaf).__name__}. "
                "Map it to these first."
            )

    def flatten(*element: Any) -> dict[str, tf.Tensor]:
        values = tf.nest.flatten(element[0] if len(element) == 1 else element)
        return {
            key: tensor
            for place, (value, leaf) in enumerate(zip(values, leaves, strict=True))
            for key, tensor in _flat_leaf(str(place), value, leaf).items()
        }

    def restore(flat: Mapping[str, tf.Tensor]) -> Any:
        return tf.nest.pack_sequence_as(spec, [_restored(str(i), flat, leaf) for i, leaf in enumerate(leaves)])

    return dataset.map(tf.autograph.experimental.do_not_convert(flatten)), restore


def _flat_leaf(place: str, value: Any, spec: Any) -> dict[str, tf.Tensor]:
    if isinstance(value, GraphTensor):
        return {f"{place}/{key}": tensor for key, tensor in graph_to_flat_tensors(value).items()}
    tensors = tf.nest.flatten(value, expand_composites=True)
    return dict(zip(_keys(place, spec), tensors, strict=True))


def _restored(place: str, flat: Mapping[str, tf.Tensor], spec: Any) -> Any:
    if isinstance(spec, GraphTensorSpec):
        keys = graph_flat_tensor_specs(spec)
        return graph_from_flat_tensors(spec, {key: flat[f"{place}/{key}"] for key in keys})
    return tf.nest.pack_sequence_as(spec, [flat[key] for key in _keys(place, spec)], expand_composites=True)


def _keys(place: str, spec: Any) -> list[str]:
    """Returns the key of a dense tensor, or the keys of the flat values and row splits of a ragged tensor."""
    num_splits = spec.ragged_rank if isinstance(spec, tf.RaggedTensorSpec) else 0
    return [place, *(f"{place}.splits{dimension}" for dimension in range(1, num_splits + 1))]

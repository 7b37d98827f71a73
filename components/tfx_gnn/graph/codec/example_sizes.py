"""Reads the sizes of graphs from tf.Examples without parsing the rest."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfx_gnn.graph.codec import example_layout
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec


class ExampleItems:
    """Serialized tf.Examples, as items to be packed."""

    def __init__(self, spec: GraphTensorSpec, prefix: str | None, demands: dict[str, Any]) -> None:
        """Looks up where sizes are stored."""
        self._layouts = list(example_layout.set_layouts(spec, prefix))[1:]
        num_components = [example_layout.piece_spec(spec, layout).sizes_spec.shape[0] for layout in self._layouts]
        # What a set without `#size` has: zeros for components that there must be.
        self._features = {
            layout.size_key: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64, validate=False)
            if count is None
            else tf.io.FixedLenFeature([count], tf.int64, [0] * count)
            for layout, count in zip(self._layouts, num_components, strict=True)
        }
        self._num_components = spec.context_spec.sizes_spec.shape[0]
        self._demands = demands

    def sizes(self, fields: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        """Counts components, nodes and edges.

        What the counts promise is checked when the examples are parsed.
        """
        parsed = tf.io.parse_example(fields[0], self._features)
        sizes = [parsed[layout.size_key] for layout in self._layouts]
        totals = [tf.reduce_sum(size, axis=1) for size in sizes]
        zeros = tf.zeros_like(fields[0], tf.int64)
        if self._num_components is not None or not sizes:
            num_components = zeros + (self._num_components or 0)
        elif isinstance(sizes[0], tf.RaggedTensor):
            num_components = tf.cast(sizes[0].row_splits[1:] - sizes[0].row_splits[:-1], tf.int64)
        else:
            num_components = zeros + sizes[0].shape[1]
        is_enough = tf.equal(zeros, 0)
        for layout, size in zip(self._layouts, sizes, strict=True):
            if layout.set_type == "nodes" and layout.set_name in self._demands:
                demand = tf.cast(self._demands[layout.set_name], tf.int64)
                is_enough &= tf.reduce_all(size >= demand, axis=1)
        return tf.stack([num_components, *totals], axis=1), is_enough

    def nothing(self) -> tuple[tf.Tensor, ...]:
        """Returns no examples, boxed."""
        return self.box((tf.zeros([0], tf.string),))

    def box(self, fields: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        """Puts each string into a variant, which is moved without copying the string."""
        splits = tf.range(tf.size(fields[0], out_type=tf.int64) + 1)
        boxed = tf.raw_ops.RaggedTensorToVariant(
            rt_nested_splits=[splits], rt_dense_values=fields[0], batched_input=True
        )
        return (boxed,)

    def unbox(self, fields: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        """Undoes `box`."""
        unboxed = tf.raw_ops.RaggedTensorFromVariant(
            encoded_ragged=fields[0], input_ragged_rank=0, output_ragged_rank=1, Tvalues=tf.string, Tsplits=tf.int64
        )
        return (unboxed.output_dense_values,)

"""Fields of graphs without nodes and edges, which tf.distribute asks for when data runs out."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfx_gnn.graph.graph_constants import Field, FieldSpec


def empty_field(spec: FieldSpec, fill: int | None = None) -> Field:
    """Makes the smallest field of a type: unknown dimensions are 0, ragged rows are empty.

    Args:
        spec: spec of the field.
        fill: what stands at the places that static dimensions demand nevertheless, such as the
            sizes of one component; None if there must be none.

    Returns:
        Field that is compatible with `spec`.

    Raises:
        ValueError: if `fill` is None and the static dimensions demand values.
    """
    ragged_rank = spec.ragged_rank if isinstance(spec, tf.RaggedTensorSpec) else 0
    dimensions = spec.shape.as_list()
    rows = dimensions[0] or 0
    num_rows = [rows]
    for size in dimensions[1 : ragged_rank + 1]:
        rows *= size or 0
        num_rows.append(rows)
    flat_shape = [rows, *(size or 0 for size in dimensions[ragged_rank + 1 :])]
    if fill is None and all(flat_shape):
        raise ValueError(
            f"`spec` must allow a field without values; got non-empty shape {spec.shape}. Relax the numbers of nodes "
            "and edges, or make batches without drop_remainder=True."
        )
    field: Any = tf.cast(tf.fill(flat_shape, fill), spec.dtype) if fill else tf.zeros(flat_shape, spec.dtype)
    for level in reversed(range(ragged_rank)):
        size = dimensions[level + 1]
        if size is None:
            field = tf.RaggedTensor.from_row_splits(
                field, tf.zeros([num_rows[level] + 1], spec.row_splits_dtype), validate=False
            )
        else:
            field = tf.RaggedTensor.from_uniform_row_length(
                field,
                tf.constant(size, spec.row_splits_dtype),
                nrows=tf.constant(num_rows[level], spec.row_splits_dtype),
                validate=False,
            )
    return field

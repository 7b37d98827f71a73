"""Fields, the dense or ragged tensors that graph pieces consist of, and their specs.

A field of a graph piece of shape [b1, ..., br] (rank r) has shape [b1, ..., br, items, ...]:
the batch dimensions are followed by the item dimension, for nodes, edges or components.
If the number of items differs between the graphs of a batch, the item dimension is ragged.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import tensorflow as tf

from tfx_gnn.graph.graph_constants import Field, FieldSpec
from tfx_gnn.graph.tensor import tf_hooks

_AnyField = TypeVar("_AnyField", bound=Any)

INDEX_DTYPES = (tf.int32, tf.int64)


def as_field(value: Any, name: str) -> Field:
    """Converts `value` to a tensor; returns tensors and ragged tensors unchanged."""
    if isinstance(value, (tf.Tensor, tf.RaggedTensor)):
        return value
    if value is None:
        raise ValueError(f"`{name}` must be a tensor or a ragged tensor; got None. Leave it out instead.")
    converted = tf.convert_to_tensor(value)
    if not isinstance(converted, tf.Tensor):
        raise TypeError(
            f"`{name}` must be a tensor or a ragged tensor; got {type(value).__name__}. "
            "Convert it, for example with `tf.convert_to_tensor`."
        )
    return converted


def as_field_spec(spec: Any, name: str) -> FieldSpec:
    """Returns `spec`, converted to a `tf.TensorSpec` if it is a ragged spec without ragged dimensions."""
    if not isinstance(spec, (tf.TensorSpec, tf.RaggedTensorSpec)):
        raise TypeError(f"`{name}` must be a tf.TensorSpec or tf.RaggedTensorSpec; got {type(spec).__name__}.")
    if spec.shape.rank is None:
        raise ValueError(f"`{name}` must have a known rank; got {spec}. Give its shape.")
    if isinstance(spec, tf.RaggedTensorSpec) and spec.ragged_rank == 0:
        return tf.TensorSpec(spec.shape, spec.dtype)
    if isinstance(spec, tf.TensorSpec) and spec.name is not None:
        return tf.TensorSpec(spec.shape, spec.dtype)
    return spec


def spec_of_field(field: Field) -> FieldSpec:
    """Returns the spec with the current static shape of `field`."""
    if isinstance(field, tf.RaggedTensor):
        return tf.RaggedTensorSpec(field.shape, field.dtype, field.ragged_rank, field.row_splits.dtype)
    return tf.TensorSpec(field.shape, field.dtype)


def is_ragged(field: Any) -> bool:
    """Returns whether a field, or its spec, is ragged."""
    return isinstance(field, (tf.RaggedTensor, tf.RaggedTensorSpec))


def is_dense_tensor(value: Any) -> bool:
    """Returns whether `value` is a dense tensor, or a Keras tensor that stands for one.

    Args:
        value: anything.

    Example:
        >>> tfx_gnn.is_dense_tensor(tf.constant([1.0]))
        True
    """
    return isinstance(value, tf.Tensor) or isinstance(getattr(value, "type_spec", None), tf.TensorSpec)


def is_ragged_tensor(value: Any) -> bool:
    """Returns whether `value` is a ragged tensor, or a Keras tensor that stands for one.

    Args:
        value: anything.

    Example:
        >>> tfx_gnn.is_ragged_tensor(tf.ragged.constant([[1.0], []]))
        True
    """
    return isinstance(value, tf.RaggedTensor) or isinstance(getattr(value, "type_spec", None), tf.RaggedTensorSpec)


def row_splits_dtype_of(field: Any) -> tf.DType | None:
    """Returns the dtype of the row splits of a field or spec; None if it is dense."""
    if isinstance(field, tf.RaggedTensor):
        return field.row_splits.dtype
    if isinstance(field, tf.RaggedTensorSpec):
        return field.row_splits_dtype
    return None


def with_dtype(field: _AnyField, dtype: tf.DType) -> _AnyField:
    """Casts a field, or changes the dtype of its spec."""
    if field.dtype == dtype:
        return field
    if isinstance(field, tf.TensorSpec):
        return cast(_AnyField, tf.TensorSpec(field.shape, dtype))
    if isinstance(field, tf.RaggedTensorSpec):
        return cast(
            _AnyField,
            tf.RaggedTensorSpec(field.shape, dtype, field.ragged_rank, field.row_splits_dtype),
        )
    return cast(_AnyField, tf.cast(field, dtype))


def with_row_splits_dtype(field: _AnyField, dtype: tf.DType) -> _AnyField:
    """Casts the row splits of a field, or changes their dtype in its spec."""
    if row_splits_dtype_of(field) in (None, dtype):
        return field
    if isinstance(field, tf.RaggedTensorSpec):
        return cast(_AnyField, tf.RaggedTensorSpec(field.shape, field.dtype, field.ragged_rank, dtype))
    return cast(_AnyField, field.with_row_splits_dtype(dtype))


def with_batch_shape(field: _AnyField, batch_shape: tf.TensorShape) -> _AnyField:
    """Sets the static batch dimensions of a field, or replaces those of a spec.

    Known dimensions of a field cannot become unknown.
    """
    shape, rank = field.shape, batch_shape.rank
    if shape.rank is None or shape.rank <= rank:
        raise ValueError(
            f"Field rank must be greater than the batch rank: field shape={shape}, batch_rank={rank}. "
            "Give one more dimension for the items."
        )
    if not shape[:rank].is_compatible_with(batch_shape):
        raise ValueError(
            f"Fields batch dimensions do not match: batch_rank={rank}, field shape={shape}, batch shape={batch_shape}. "
            "All fields of a piece start with the same batch dimensions."
        )
    is_spec = isinstance(field, (tf.TensorSpec, tf.RaggedTensorSpec))
    merged = (batch_shape if is_spec else shape[:rank].merge_with(batch_shape)).concatenate(shape[rank:])
    if merged.as_list() == shape.as_list():
        return field
    if isinstance(field, tf.TensorSpec):
        return cast(_AnyField, tf.TensorSpec(merged, field.dtype))
    if isinstance(field, tf.RaggedTensorSpec):
        return cast(
            _AnyField,
            tf.RaggedTensorSpec(merged, field.dtype, field.ragged_rank, field.row_splits_dtype),
        )
    if isinstance(field, tf.RaggedTensor):
        return cast(_AnyField, tf_hooks.with_ragged_shape(field, merged))
    return cast(_AnyField, tf.ensure_shape(field, merged))


def batch_field_spec(spec: FieldSpec, batch_size: int | None, rank: int, row_splits_dtype: tf.DType) -> FieldSpec:
    """Returns the spec of `batch_size` stacked fields, ragged if the number of items is not static."""
    shape = tf.TensorShape([batch_size]).concatenate(spec.shape)
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank + 1, spec.row_splits_dtype)
    if spec.shape[rank] is None:
        return tf.RaggedTensorSpec(shape, spec.dtype, rank + 1, row_splits_dtype)
    return tf.TensorSpec(shape, spec.dtype)


def unbatch_field_spec(spec: FieldSpec) -> FieldSpec:
    """Returns the spec of one entry, along the first dimension, of a field of `spec`."""
    if isinstance(spec, tf.RaggedTensorSpec) and spec.ragged_rank > 1:
        return tf.RaggedTensorSpec(spec.shape[1:], spec.dtype, spec.ragged_rank - 1, spec.row_splits_dtype)
    return tf.TensorSpec(spec.shape[1:], spec.dtype)


def relax_item_dimension(spec: FieldSpec) -> FieldSpec:
    """Makes the number of items unknown in the spec of a field of a scalar graph piece."""
    shape = tf.TensorShape([None]).concatenate(spec.shape[1:])
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    return tf.TensorSpec(shape, spec.dtype)


def item_dimension(field: Any, rank: int) -> int | None:
    """Returns the static number of items per graph, if it is the same for all graphs."""
    size = field.shape[rank]
    return None if size is None else int(size)


def total_items(field: Any, rank: int) -> int | None:
    """Returns the static number of items of all graphs together."""
    dimensions: tf.TensorShape = field.shape[: rank + 1]
    total = dimensions.num_elements()
    return None if total is None else int(total)


def merge_outer_dimensions(field: Field, rank: int) -> Field:
    """Merges `rank` batch dimensions of a field into its item dimension, one graph after another."""
    if rank == 0:
        return field
    static_total = total_items(field, rank)
    while rank and isinstance(field, tf.RaggedTensor):
        field = field.values
        rank -= 1
    if rank:
        inner = field.shape[rank + 1 :]
        outer = static_total
        if outer is None:
            outer = tf.reduce_prod(tf.shape(field)[: rank + 1])
        if inner.is_fully_defined():
            field = tf.reshape(field, [outer, *inner.as_list()])
        else:
            field = tf.reshape(field, tf.concat([[outer], tf.shape(field)[rank + 1 :]], axis=0))
        field.set_shape(tf.TensorShape([static_total]).concatenate(inner))
    elif static_total is not None:
        field = with_item_count(field, static_total)
    return field


def with_item_count(field: Field, total: int) -> Field:
    """Sets the static first dimension of a field of a scalar graph piece."""
    if field.shape[0] is not None:
        return field
    shape = tf.TensorShape([total]).concatenate(field.shape[1:])
    if isinstance(field, tf.RaggedTensor):
        return tf_hooks.with_ragged_shape(field, shape)
    return tf.ensure_shape(field, shape)


def items_per_graph(field: Field, rank: int, dtype: tf.DType) -> tf.Tensor:
    """Counts the items of each graph in a batch of a given rank; the result has one element for a scalar piece."""
    levels = rank
    while levels and isinstance(field, tf.RaggedTensor):
        if levels == 1:
            return tf.cast(field.row_lengths(), dtype)
        field = field.values
        levels -= 1
    if levels == 0:
        return tf.cast(num_items(field), dtype)[tf.newaxis]
    shape = tf.shape(field, out_type=dtype)
    return tf.fill([tf.reduce_prod(shape[:levels])], shape[levels])


def num_items(field: Field) -> tf.Tensor:
    """Counts the items of a field of a scalar graph piece."""
    return field.nrows() if isinstance(field, tf.RaggedTensor) else tf.shape(field)[0]


def describe_field(field: Any) -> str:
    """Describes a field in one line: its kind, shape and dtype."""
    if isinstance(field, tf.RaggedTensor):
        return f"<tf.RaggedTensor: dtype={field.dtype!r}>"
    if isinstance(field, tf.Tensor):
        return f"<tf.Tensor: shape={field.shape}, dtype={field.dtype!r}>"
    return repr(field)


def component_indices(sizes: tf.Tensor, total_size: int | tf.Tensor) -> tf.Tensor:
    """Returns the component index of each item in a set of a scalar graph, shape [total_size], non-decreasing.

    Items of a component are contiguous, and components follow each other in order. The result is XLA-compatible and
    has a static shape if `total_size` is static.

    Example:
        >>> component_indices(tf.constant([2, 0, 3]), 5).numpy().tolist()
        [0, 0, 2, 2, 2]
    """
    ends = tf.cumsum(sizes)
    if tf.get_static_value(total_size) is not None:
        # Running sums of long vectors are slow in XLA; a search in the short vector is faster.
        positions = tf.range(tf.cast(total_size, sizes.dtype), dtype=sizes.dtype)
        return tf.searchsorted(ends, positions, side="right", out_type=sizes.dtype)
    # TensorFlow Lite has no kernel for searchsorted.
    return _num_bounds_reached(ends[:-1], total_size)


def row_indices(value: tf.RaggedTensor) -> tf.Tensor:
    """Returns the row of each of `value.values`, of the dtype of the row splits, as `value_rowids` does.

    `value_rowids` puts some 75 operations into a graph and compares each row with the longest one; this puts a tenth
    of them, and takes time in proportion to the number of values.
    """
    splits = value.row_splits
    return _num_bounds_reached(splits[1:-1], tf.shape(value.values, splits.dtype)[0])


def _num_bounds_reached(bounds: tf.Tensor, length: int | tf.Tensor) -> tf.Tensor:
    """Counts for each position in `range(length)` the bounds that are not above it, of the dtype of `bounds`."""
    steps = tf.scatter_nd(
        bounds[:, tf.newaxis], tf.ones_like(bounds), [tf.cast(length, bounds.dtype) + tf.ones([], bounds.dtype)]
    )
    return tf.cumsum(steps)[:-1]


def empty_field(spec: FieldSpec, fill: int | None = None) -> Field:
    """Makes the smallest field of a given spec: unknown dimensions are 0, ragged rows are empty.

    `fill` is the value of elements that static dimensions still require, such as the sizes of one component; without
    it, there must be no such elements.
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

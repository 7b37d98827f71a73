"""Every undocumented API of TensorFlow that the graph core uses.

Checked on TensorFlow 2.16 and 2.21. When a new release moves one of these names, this file is
the only place to follow it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import tensorflow as tf
from tensorflow.python.framework.composite_tensor import CompositeTensor
from tensorflow.python.framework.type_spec import BatchableTypeSpec
from tensorflow.python.framework.type_spec_registry import register as register_type_spec
from tensorflow.python.ops import control_flow_util

from tfx_gnn.graph.tensor import symbolic_calls

__all__ = [
    "BatchableTypeSpec",
    "CompositeTensor",
    "flat_tensor_specs",
    "from_flat_tensors",
    "in_xla_context",
    "no_flat_tensors",
    "num_flat_tensors",
    "register_type_spec",
    "supports_keras_tensors",
    "to_flat_tensors",
    "with_ragged_shape",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def supports_keras_tensors(function: _Function) -> _Function:
    """Lets a function take Keras tensors: called with one, it becomes a layer of the model.

    TensorFlow calls the function first and tries its dispatchers, Keras among them, when the
    function raises TypeError or ValueError. So a function decorated with this must raise one
    of them when it meets a value that is neither a tensor nor a graph piece.
    """

    @tf.autograph.experimental.do_not_convert
    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        symbolic_calls.load_handler()
        return function(*args, **kwargs)

    return cast(_Function, tf.__internal__.dispatch.add_dispatch_support(plain))


def in_xla_context() -> bool:
    """Tells whether operations made now are being traced for XLA, by `jit_compile=True` or for a TPU."""
    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def to_flat_tensors(spec: Any, value: Any, batched: bool) -> list[Any]:
    """Encodes `value` as the tensors that tf.data stores for it; a ragged tensor becomes one variant.

    If `batched`, the tensors have a first dimension to be split on.
    """
    if batched:
        return list(spec._to_batched_tensor_list(value))
    return list(spec._to_tensor_list(value))


def from_flat_tensors(spec: Any, tensors: list[Any]) -> Any:
    """Decodes what `to_flat_tensors` made, possibly stacked or split since."""
    if isinstance(spec, tf.TensorSpec) and tf.executing_eagerly():
        # As below, without comparing shapes that cannot be refined.
        return tensors[0]
    return spec._from_compatible_tensor_list(tensors)


def flat_tensor_specs(spec: Any) -> list[tf.TensorSpec]:
    """Describes the tensors that tf.data stores for a value of `spec`.

    They can be stacked; boxed ragged tensors are scalars.
    """
    return [tf.TensorSpec([], tf.variant) if flat.dtype == tf.variant else flat for flat in spec._flat_tensor_specs]


def num_flat_tensors(spec: Any) -> int:
    """Counts the tensors that tf.data stores for a value of `spec`."""
    return len(spec._flat_tensor_specs)


def no_flat_tensors(batch_spec: Any) -> list[tf.Tensor]:
    """Returns what `to_flat_tensors(batch_spec, ..., batched=True)` makes of an empty batch."""
    no_splits = [tf.zeros([1], tf.int64)]
    no_variants = tf.raw_ops.RaggedTensorToVariant(
        rt_nested_splits=no_splits, rt_dense_values=tf.zeros([0]), batched_input=True
    )
    return [
        no_variants if spec.dtype == tf.variant else tf.zeros([0, *spec.shape[1:]], spec.dtype)
        for spec in batch_spec._flat_tensor_specs
    ]


def with_ragged_shape(value: tf.RaggedTensor, shape: tf.TensorShape) -> tf.RaggedTensor:
    """Returns `value` with more static dimensions; its tensors are shared, not copied."""
    spec = tf.RaggedTensorSpec(shape, value.dtype, value.ragged_rank, value.row_splits.dtype)
    return spec._from_components([value.flat_values, *value.nested_row_splits])

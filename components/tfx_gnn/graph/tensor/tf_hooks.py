"""Wraps all undocumented TensorFlow APIs that the graph core uses.

Checked with TensorFlow 2.16 and 2.21. If a new release moves one of these names, only this file
needs to change.
"""

from __future__ import annotations

import base64
import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import tensorflow as tf
from tensorflow.core.protobuf import struct_pb2
from tensorflow.python.eager import record
from tensorflow.python.framework.composite_tensor import CompositeTensor
from tensorflow.python.framework.type_spec import BatchableTypeSpec
from tensorflow.python.framework.type_spec_registry import register as register_type_spec
from tensorflow.python.ops import control_flow_util
from tensorflow.python.saved_model import nested_structure_coder

from tfx_gnn.graph.tensor import symbolic_calls

__all__ = [
    "BatchableTypeSpec",
    "CompositeTensor",
    "decoded_structure",
    "encoded_structure",
    "flat_tensor_specs",
    "from_flat_tensors",
    "in_xla_context",
    "is_recording_gradients",
    "no_flat_tensors",
    "num_flat_tensors",
    "register_type_spec",
    "supports_keras_tensors",
    "to_flat_tensors",
    "with_ragged_shape",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def supports_keras_tensors(function: _Function) -> _Function:
    """Lets a function accept Keras tensors: called with one, it becomes a layer of the model.

    TensorFlow first calls the function and, if it raises TypeError or ValueError, tries its
    dispatchers, including the one of Keras. So the decorated function must raise one of these
    errors for a value that is neither a tensor nor a graph piece.
    """

    @tf.autograph.experimental.do_not_convert
    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        symbolic_calls.load_handler()
        return function(*args, **kwargs)

    return cast(_Function, tf.__internal__.dispatch.add_dispatch_support(plain))


def in_xla_context() -> bool:
    """Returns whether operations are currently being traced for XLA, by `jit_compile=True` or for a TPU."""
    return bool(control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()))


def is_recording_gradients() -> bool:
    """Returns whether a gradient tape or a forward accumulator may record what is computed now."""
    return bool(record.could_possibly_record())


def to_flat_tensors(spec: Any, value: Any, batched: bool) -> list[Any]:
    """Encodes `value` as the tensors that tf.data stores for it; a ragged tensor becomes one variant.

    If `batched`, the tensors can be split along their first dimension.
    """
    if batched:
        return list(spec._to_batched_tensor_list(value))
    return list(spec._to_tensor_list(value))


def from_flat_tensors(spec: Any, tensors: list[Any]) -> Any:
    """Decodes the result of `to_flat_tensors`, which may have been stacked or split since."""
    if tensors and isinstance(tensors[0], tf.__internal__.EagerTensor):
        # As below, without comparing shapes that cannot be refined. A loop over a dataset comes here for each field.
        if isinstance(spec, tf.TensorSpec):
            return tensors[0]
        if isinstance(spec, tf.RaggedTensorSpec) and spec.ragged_rank == 0:
            return tf.raw_ops.RaggedTensorFromVariant(
                encoded_ragged=tensors[0],
                input_ragged_rank=-1,
                output_ragged_rank=0,
                Tvalues=spec.dtype,
                Tsplits=spec.row_splits_dtype,
            ).output_dense_values
    return spec._from_compatible_tensor_list(tensors)


def flat_tensor_specs(spec: Any) -> list[tf.TensorSpec]:
    """Returns the specs of the tensors that tf.data stores for a value of `spec`.

    The tensors can be stacked; boxed ragged tensors are scalars.
    """
    return [tf.TensorSpec([], tf.variant) if flat.dtype == tf.variant else flat for flat in spec._flat_tensor_specs]


def num_flat_tensors(spec: Any) -> int:
    """Counts the tensors that tf.data stores for a value of `spec`."""
    return len(spec._flat_tensor_specs)


def no_flat_tensors(batch_spec: Any) -> list[tf.Tensor]:
    """Returns the result of `to_flat_tensors(batch_spec, ..., batched=True)` for an empty batch."""
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


def encoded_structure(structure: Any) -> str:
    """Writes tuples and dicts of shapes, dtypes and type specs as text, in TensorFlow's form for SavedModels."""
    with warnings.catch_warnings():
        # Whoever reads the text has imported this library, of which TensorFlow reminds at each type.
        warnings.filterwarnings("ignore", "Encoding a StructuredValue with type", UserWarning)
        encoded = nested_structure_coder.encode_structure(structure)
    return base64.b64encode(encoded.SerializeToString()).decode()


def decoded_structure(text: str) -> Any:
    """Reads what `encoded_structure` wrote."""
    value = struct_pb2.StructuredValue.FromString(base64.b64decode(text))
    return nested_structure_coder.decode_proto(value)

"""Which element types a graph schema may declare."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.core.framework import types_pb2

SUPPORTED_DTYPES = (
    "Supported types are boolean, (non-quantized) integer types, "
    "(non-quantized, non-complex) floating-point types and string."
)


def is_schema_dtype(dtype: tf.DType) -> bool:
    """Tells whether a feature of this type can be declared in a schema and kept in a tf.Example.

    Args:
        dtype: any TensorFlow type.

    Returns:
        True for bool, string, integers and real floats; False for complex, quantized, variant,
        resource and reference types.
    """
    return dtype in (tf.bool, tf.string) or (
        # Reference types answer for what they refer to, so they are told apart by `base_dtype`.
        dtype == dtype.base_dtype and not dtype.is_quantized and (dtype.is_integer or dtype.is_floating)
    )


def declared_dtype(number: int) -> tf.DType | None:
    """Returns the type that the `dtype` field of a feature stands for.

    Args:
        number: a `tensorflow.DataType`. Some releases of protobuf let numbers pass that are none.

    Returns:
        The type; None for DT_INVALID, and for a number that TensorFlow does not know.
    """
    try:
        return tf.as_dtype(number) if number else None
    except TypeError:
        return None


def dtype_name(number: int) -> str:
    """Returns the name of a `tensorflow.DataType`, or the number where there is none."""
    return types_pb2.DataType.Name(number) if number in types_pb2.DataType.values() else str(number)

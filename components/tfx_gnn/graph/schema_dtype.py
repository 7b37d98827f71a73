"""Which element types a graph schema may declare."""

from __future__ import annotations

import tensorflow as tf

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

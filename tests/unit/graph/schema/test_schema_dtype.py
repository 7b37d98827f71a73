"""Types that features may be declared with."""

import pytest
import tensorflow as tf

from tfx_gnn.graph.schema.schema_spec import declared_dtype, dtype_name, is_schema_dtype


@pytest.mark.parametrize(
    ("number", "dtype", "name"),
    [(0, None, "DT_INVALID"), (1, tf.float32, "DT_FLOAT"), (7, tf.string, "DT_STRING"), (999, None, "999")],
)
def test_numbers_stand_for_types(number, dtype, name):
    assert declared_dtype(number) == dtype
    assert dtype_name(number) == name


@pytest.mark.parametrize("dtype", [tf.bool, tf.string, tf.uint64, tf.int8, tf.bfloat16, tf.float64])
def test_types_that_examples_hold_can_be_declared(dtype):
    assert is_schema_dtype(dtype)


@pytest.mark.parametrize("dtype", [tf.complex64, tf.qint8, tf.variant, tf.resource, tf.float32._as_ref])
def test_other_types_cannot_be_declared(dtype):
    assert not is_schema_dtype(dtype)

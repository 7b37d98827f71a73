"""Numbers as they are or scaled, with a mark beside those that stand for no value."""

from __future__ import annotations

import math

import tensorflow as tf
import tensorflow_transform as tft

from tfx_gnn.records.graph_layout import FeatureColumn
from tfx_gnn.transform.feature_preparations import Log1pZScore, MinMax, NumericPreparation, ZScore


def check_missing_value(preparation: NumericPreparation, column: FeatureColumn) -> None:
    """Refuses a `missing_value` that a column of integers cannot hold.

    Raises:
        ValueError: if it has a fraction, or is out of range.
    """
    missing = preparation.missing_value
    if missing is None or column.dtype != tf.int64:
        return
    if missing != math.floor(missing) or not -(2.0**63) <= missing < 2.0**63:
        raise ValueError(
            f"`missing_value` must be an integer for {column.key!r}, whose values are; got {missing}. Write the value "
            "that the tables or the defaults of the graph schema have."
        )


def prepare_numbers(values: tf.Tensor, preparation: NumericPreparation) -> tf.Tensor:
    """Makes floats of numbers, as `preparation` says.

    Args:
        values: integers or floats, shape [total_items, ...].
        preparation: how to scale them, and what stands for no value.

    Returns:
        float32 of the same shape; with a `missing_value`, [total_items, numbers of an item + 1].
    """
    numbers = tf.cast(values, tf.float32)
    missing = preparation.missing_value
    if missing is None:
        return _scaled(numbers, preparation)
    # Integers are compared as such: a float does not hold all of them.
    equal = tf.equal(values, tf.constant(missing if values.dtype.is_floating else int(missing), values.dtype))
    width = math.prod(values.shape[1:])
    is_missing = tf.reduce_all(tf.reshape(equal, [-1, width]), axis=1, keepdims=True)
    # The statistics of tf.Transform leave NaN out.
    present = tf.where(is_missing, math.nan, tf.reshape(numbers, [-1, width]))
    scaled = _scaled(present if width > 1 else present[:, 0], preparation)
    known = tf.where(is_missing, 0.0, tf.reshape(scaled, [-1, width]))
    return tf.concat([known, tf.cast(is_missing, tf.float32)], axis=1)


def _scaled(numbers: tf.Tensor, preparation: NumericPreparation) -> tf.Tensor:
    is_vector = numbers.shape.rank > 1
    match preparation:
        case Log1pZScore():
            return tft.scale_to_z_score(tf.sign(numbers) * tf.math.log1p(tf.abs(numbers)), elementwise=is_vector)
        case MinMax() if preparation.missing_value is not None:
            return _between_0_and_1(numbers)
        case MinMax():
            return tft.scale_to_0_1(numbers, elementwise=is_vector)
        case ZScore():
            return tft.scale_to_z_score(numbers, elementwise=is_vector)
        case _:
            return numbers


def _between_0_and_1(numbers: tf.Tensor) -> tf.Tensor:
    """Scales as `tft.scale_to_0_1`, whose least and greatest values are NaN if one value is; a constant becomes 0."""
    is_missing = tf.math.is_nan(numbers)
    of_all_items = numbers.shape.rank == 1
    least = tft.min(tf.where(is_missing, numbers.dtype.max, numbers), reduce_instance_dims=of_all_items)
    greatest = tft.max(tf.where(is_missing, numbers.dtype.min, numbers), reduce_instance_dims=of_all_items)
    return tf.math.divide_no_nan(numbers - least, greatest - least)

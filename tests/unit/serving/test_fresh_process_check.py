from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.serving.fresh_process_check import (
    HALF_PRECISION_TOLERANCE,
    TOLERANCE,
    largest_difference,
    tolerance_of,
)

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        ([[1.0, 4.0]], [[1.0, 4.0]], 0.0),
        # Relative to the largest number of the row, whichever number differs.
        ([[1.0, 4.0], [0.5, 8.0]], [[1.0, 4.0], [0.0, 8.0]], 0.0625),
        # Of a longer row that is padded.
        ([[1.0, -INF, -INF]], [[1.0, -INF]], 0.0),
        ([[1.5, -INF]], [[2.0, -INF]], 0.25),
        ([[1.0, 2.0]], [[1.0, -INF]], INF),
        ([[NAN]], [[1.0]], INF),
        ([[1.0]], [[1.0, 2.0]], INF),
        ([0.25], [0.5], 0.5),
        # The scale of a small number is 0.01.
        ([0.0], [0.001], 0.1),
        ([], [], 0.0),
    ],
)
def test_difference_is_relative_to_the_largest_number_of_a_row(
    found: list[float], expected: list[float], difference: float
) -> None:
    answer = largest_difference(np.array(found), np.array(expected))

    assert answer == pytest.approx(difference)


@pytest.mark.parametrize(("found", "difference"), [([b"a", b"b"], 0.0), ([b"a", b"c"], INF)])
def test_what_is_no_float_must_be_equal(found: list[bytes], difference: float) -> None:
    assert largest_difference(np.array(found), np.array([b"a", b"b"])) == difference


@pytest.mark.parametrize(
    ("found", "expected", "is_near"),
    [
        # Small probabilities that became zero: all of many classes, and the only one.
        (np.zeros([1, 2000]), np.full([1, 2000], 5e-4), False),
        (np.zeros([1]), np.full([1], 5e-4), False),
        # The last bit of bfloat16 in a logit that is small beside the others.
        (np.array([[0.0079, 9.0]]), np.array([[0.0078, 9.0]]), True),
        (np.array([1e-6]), np.array([0.0]), True),
    ],
)
def test_rounding_errors_are_let_pass_and_lost_probabilities_are_not(
    found: np.ndarray, expected: np.ndarray, *, is_near: bool
) -> None:
    assert (largest_difference(found, expected) <= TOLERANCE) is is_near


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (tf.float32, TOLERANCE),
        (tf.bfloat16, HALF_PRECISION_TOLERANCE),
        (tf.float16, HALF_PRECISION_TOLERANCE),
    ],
)
def test_tolerance_is_that_of_the_precision_inside_of_a_model(
    tmp_path: Path, dtype: tf.DType, tolerance: float
) -> None:
    module = tf.Module()
    inner = tf.function(lambda values: tf.cast(tf.cast(values, dtype) * 3, tf.float32), autograph=False)
    module.call = tf.function(lambda values: {"result": inner(values)}, autograph=False)
    signature = module.call.get_concrete_function(tf.TensorSpec([None], tf.float32))
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": signature})

    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]

    assert tolerance_of(tf, loaded) == tolerance

"""Keeps GPUs from rounding the factors of float32 products."""

from __future__ import annotations

import threading
from types import TracebackType

import tensorflow as tf


class FullPrecision:
    """Context in which GPUs compute float32 products in float32, and not in TF32, TensorFlow's default.

    TF32 rounds the factors to ten bits, but not in every kernel: which one runs depends on the number of rows. So
    answers to an example would depend on those that share its call, by up to 0.003 for logits of 9 on an H200.

    TensorFlow has one setting for the process. Threads may overlap in the context: the last one that leaves it restores
    the setting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_inside = 0
        self._rounds_outside = True

    def __enter__(self) -> None:
        with self._lock:
            if not self._num_inside:
                self._rounds_outside = tf.config.experimental.tensor_float_32_execution_enabled()
                tf.config.experimental.enable_tensor_float_32_execution(enabled=False)
            self._num_inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._num_inside -= 1
            if not self._num_inside:
                tf.config.experimental.enable_tensor_float_32_execution(enabled=self._rounds_outside)


FULL_PRECISION = FullPrecision()
"""The context of this process."""

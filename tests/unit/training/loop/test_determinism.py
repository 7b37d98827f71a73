from __future__ import annotations

import tensorflow as tf

from tfx_gnn.training.loop.determinism import seconds_now, seeded


def test_clock_runs_also_where_operations_are_deterministic():
    """TensorFlow's own refuses to."""

    def seconds_between() -> tf.Tensor:
        before = seconds_now()
        with tf.control_dependencies([before]):
            return seconds_now() - before

    for deterministic in (False, True):
        with seeded(1, deterministic=deterministic):
            took = tf.function(seconds_between, autograph=False)()

        assert took.shape == []
        assert 0.0 <= float(took) < 60.0

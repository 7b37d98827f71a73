from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfx_gnn.training.loop.event_files import write_histograms


def test_histograms_hold_the_finite_values_as_tensorboard_reads_them(tmp_path):
    arrays = {
        "weights": np.array([[0.0, 3.0], [np.nan, 1.5]], np.float32),
        "same": np.full(5, 2.0, np.float32),
        "none": np.zeros(0, np.float32),
    }
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        write_histograms(arrays, step=4)

    (file,) = tmp_path.iterdir()
    *_, event = tf.compat.v1.train.summary_iterator(str(file))
    values = {value.tag: value for value in event.summary.value}
    weights, same, none = (tf.make_ndarray(values[tag].tensor) for tag in arrays)
    assert event.step == 4
    assert {value.metadata.plugin_data.plugin_name for value in values.values()} == {"histograms"}
    # Left end, right end and count of 30 bins.
    assert weights.shape == (30, 3)
    assert weights[:, 2].nonzero()[0].tolist() == [0, 15, 29]
    assert (weights[0, 0], weights[-1, 1], weights[:, 2].sum()) == (0.0, 3.0, 3.0)
    assert (same[:, 2].max(), same[:, 2].sum(), none[:, 2].sum()) == (5.0, 5.0, 0.0)

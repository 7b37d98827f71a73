"""What the predicates say of strategies, of which no machine here has all."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tfx_gnn.distribution.strategy_predicates import (
    is_multi_worker_strategy,
    is_parameter_server_strategy,
    is_tpu_strategy,
)

_KINDS = {
    "multi-worker": is_multi_worker_strategy,
    "parameter server": is_parameter_server_strategy,
    "TPU": is_tpu_strategy,
}


@pytest.mark.parametrize(
    ("strategy_class", "kind"),
    [
        (tf.distribute.OneDeviceStrategy, None),
        (tf.distribute.MirroredStrategy, None),
        (tf.distribute.MultiWorkerMirroredStrategy, "multi-worker"),
        (tf.distribute.experimental.MultiWorkerMirroredStrategy, "multi-worker"),
        (tf.distribute.ParameterServerStrategy, "parameter server"),
        (tf.distribute.experimental.ParameterServerStrategy, "parameter server"),
        (tf.distribute.TPUStrategy, "TPU"),
        (tf.distribute.experimental.TPUStrategy, "TPU"),
    ],
)
def test_a_strategy_is_of_the_kind_of_its_class(strategy_class, kind):
    # Without the set-up of machines that are not there: the class decides.
    strategy = strategy_class.__new__(strategy_class)

    assert [name for name, is_of_kind in _KINDS.items() if is_of_kind(strategy)] == ([] if kind is None else [kind])


def test_the_default_strategy_is_of_no_kind():
    assert not any(is_of_kind(tf.distribute.get_strategy()) for is_of_kind in _KINDS.values())

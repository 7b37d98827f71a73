from __future__ import annotations

import pytest
import tensorflow as tf
import tf_keras
from tensorflow.python.autograph.core import config
from tensorflow.python.autograph.impl import conversion

from tfx_gnn.models.losses import SmoothedCrossEntropy
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


@pytest.fixture(autouse=True)
def _rules_of_tensorflow(autograph_rules, monkeypatch):
    """Other tests exempt tf_keras anyway."""
    monkeypatch.setattr(config, "CONVERSION_RULES", autograph_rules)


class _SignLayer(tf_keras.layers.Layer):
    """Needs AutoGraph."""

    def call(self, x):
        if tf.reduce_sum(x) > 0:
            return x
        return -x


def _traced_sign(x):
    model = tf_keras.Sequential([_SignLayer()])
    return tf.function(model)(x)


def test_user_layers_are_still_rewritten():
    with libraries_traced_as_written():
        result = _traced_sign(tf.constant([[-3.0]]))

    assert result.numpy().tolist() == [[3.0]]


@pytest.mark.parametrize("function", [tf_keras.layers.Dense.call, SmoothedCrossEntropy.call])
def test_libraries_are_not_rewritten(function):
    with libraries_traced_as_written():
        assert conversion.is_allowlisted(function, check_call_override=False)


def test_the_exemption_ends_with_the_context():
    with libraries_traced_as_written():
        pass

    assert not conversion.is_allowlisted(SmoothedCrossEntropy.call, check_call_override=False)


def test_rules_are_as_before_after_an_error():
    before = config.CONVERSION_RULES

    with pytest.raises(RuntimeError), libraries_traced_as_written():  # noqa: PT012
        assert len(config.CONVERSION_RULES) == len(before) + 2
        raise RuntimeError

    assert config.CONVERSION_RULES is before

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.models.tasks import NodeRegression
from tfx_gnn.training.checkpoints.resumable_state import (
    BestWeights,
    PackedStates,
    best_weights,
    pack_state,
    unpack_state,
)
from tfx_gnn.training.options import GraphTrainerOptions

BFLOAT16 = tf.bfloat16.as_numpy_dtype


class _Owner:
    def __init__(self, **state):
        self.content = state

    def state(self):
        return self.content

    def restore(self, state):
        self.content = state


def test_arrays_and_json_come_back_as_they_were():
    state = {
        "best": {"loss": 0.5, "weights": np.array([[1.5, -2.0]], BFLOAT16), "empty": np.zeros([0, 3], np.int64)},
        "history": {"epochs": [{"loss": 1.0}, {"loss": 0.5}], "step": np.array(7)},
    }

    back = unpack_state(pack_state(state))

    assert back["history"]["epochs"] == [{"loss": 1.0}, {"loss": 0.5}]
    assert back["best"]["loss"] == 0.5
    for owner, name in (("best", "weights"), ("best", "empty"), ("history", "step")):
        assert back[owner][name].dtype == state[owner][name].dtype
        np.testing.assert_array_equal(back[owner][name], state[owner][name])
    back["best"]["weights"][0, 0] = 3.0  # a copy, not the bytes of the file


def test_texts_in_arrays_are_refused():
    with pytest.raises(TypeError, match="must hold arrays of numbers; got dtype=object"):
        pack_state({"history": {"names": np.array([b"a"], object)}})


def test_states_travel_with_a_checkpoint(tmp_path):
    saved, other = _Owner(loss=0.5), _Owner(loss=9.0)
    tf.train.Checkpoint(states=PackedStates({"best": saved})).write(str(tmp_path / "saved"))

    tf.train.Checkpoint(states=PackedStates({"best": other})).read(str(tmp_path / "saved")).assert_consumed()

    assert other.content == {"loss": 0.5}


def test_other_names_are_refused(tmp_path):
    tf.train.Checkpoint(states=PackedStates({"best": _Owner()})).write(str(tmp_path / "saved"))

    with pytest.raises(ValueError, match=r"`states` must be \['best'\]"):
        tf.train.Checkpoint(states=PackedStates({"history": _Owner()})).read(str(tmp_path / "saved"))


class _SetWeights(tf_keras.callbacks.Callback):
    """Sets the only weight before each validation; the loss is its square."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def on_test_begin(self, logs=None):
        self.model.set_weights([np.array([[self.values.pop(0)]], np.float32)])


def _fit(values, callback, epochs=None, **compile_options):
    model = tf_keras.Sequential([tf_keras.layers.Dense(1, use_bias=False)])
    model.compile(**{"optimizer": tf_keras.optimizers.SGD(0.0), "loss": "mse", **compile_options})
    x, y = np.ones([2, 1], np.float32), np.zeros([2, 1], np.float32)
    history = model.fit(
        x, y, validation_data=(x, y), epochs=epochs or len(values), verbose=0, callbacks=[_SetWeights(values), callback]
    )
    return model, len(history.epoch)


def test_training_stops_after_patience_and_best_weights_come_back():
    best = BestWeights(patience=2)

    model, epochs = _fit([3.0, 1.0, 2.0, 1.5, 0.5], best)

    assert epochs == 4
    assert best.stopped_early
    assert best.best_epoch == 2
    assert model.get_weights()[0].item() == 1.0


def test_best_weights_come_back_without_an_early_stop():
    best = BestWeights(patience=5)

    model, epochs = _fit([3.0, 1.0, 2.0], best)

    assert epochs == 3
    assert not best.stopped_early
    assert model.get_weights()[0].item() == 1.0


def test_best_epoch_may_be_the_one_with_the_largest_metric():
    best = BestWeights(patience=2, monitor="val_mae", maximize=True)

    model, epochs = _fit([1.0, 3.0, 2.0, 0.5, 9.0], best, weighted_metrics=["mae"])

    assert epochs == 4
    assert (best.best_epoch, best.best, best.stopped_early) == (2, 3.0, True)
    assert model.get_weights()[0].item() == 3.0


def test_metric_that_is_no_number_has_no_best_epoch():
    best = BestWeights(patience=5, monitor="val_mae")
    best.set_model(_fit([9.0], tf_keras.callbacks.Callback())[0])
    best.on_epoch_begin(0)
    best.on_epoch_end(0, {"val_mae": float("nan")})

    for end in (lambda: best.on_epoch_begin(1), best.on_train_end):
        with pytest.raises(ValueError, match="`monitor` must be a finite number after the first epoch; 'val_mae'"):
            end()


def test_only_a_metric_that_the_model_reports_is_watched():
    model, _ = _fit([1.0], tf_keras.callbacks.Callback(), weighted_metrics=["mae"])

    assert best_weights(model, _options(early_stopping_patience=2, monitor="mae")).monitor == "val_mae"
    with pytest.raises(ValueError, match=r"the model of 'm:f' reports, \['val_loss', 'val_mae'\]; got 'val_mse'\."):
        best_weights(model, _options(early_stopping_patience=2, monitor="mse"))


def _options(**options):
    return GraphTrainerOptions(model_fn="m:f", task=NodeRegression(label_feature="age"), **options)


def test_equal_loss_is_no_gain():
    best = BestWeights(patience=1)

    _, epochs = _fit([1.0, 1.0, 0.5], best)

    assert epochs == 2


def test_best_weights_outlive_the_process():
    first = BestWeights(patience=2)
    _fit([3.0, 1.0, 2.0], first)
    (packed,) = unpack_state(pack_state({"best": first.state()})).values()

    second = BestWeights(patience=2)
    second.restore(packed)
    second.set_model(_fit([9.0], tf_keras.callbacks.Callback())[0])
    second.on_epoch_end(3, {"val_loss": 2.0})
    second.on_train_end()

    assert second.stopped_early
    assert second.best_epoch == 2
    assert second.model.get_weights()[0].item() == 1.0


@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_scalar_weights_are_kept(dtype):
    model = tf_keras.Sequential([tf_keras.layers.Layer()])
    model.layers[0].add_weight("scale", shape=(), dtype=dtype, initializer="ones", trainable=dtype != "int32")
    model.build([None, 1])
    best = BestWeights(patience=2)
    best.set_model(model)
    best.on_epoch_end(0, {"val_loss": 1.0})
    (packed,) = unpack_state(pack_state({"best": best.state()})).values()

    model.set_weights([np.zeros([], model.get_weights()[0].dtype)])
    best.restore(packed)
    best.on_train_end()

    assert model.get_weights()[0] == 1
    assert model.get_weights()[0].shape == ()


def test_averages_of_the_weights_have_no_best_epoch():
    model = tf_keras.Sequential([tf_keras.layers.Dense(1)])
    model.compile(optimizer=tf_keras.optimizers.SGD(use_ema=True), loss="mse")

    assert best_weights(model, _options()) is None
    with pytest.raises(ValueError, match=r"must be 0 if the optimizer has `use_ema=True`.*got 3"):
        best_weights(model, _options(early_stopping_patience=3))


def test_no_best_weights_are_a_state_too():
    best = BestWeights(patience=2)

    best.restore(unpack_state(pack_state({"best": BestWeights(patience=2).state()}))["best"])

    assert (best.best_epoch, best.stopped_early) == (0, False)


def test_training_that_had_stopped_early_does_not_go_on():
    best = BestWeights(patience=1)
    best.restore({"best": 1.0, "best_epoch": 2, "stopped_early": True, "weight_0": np.array([[1.0]], np.float32)})
    best.set_model(_fit([9.0], tf_keras.callbacks.Callback())[0])

    best.on_train_begin()

    assert best.model.stop_training

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.training.checkpoints.resumable_state import PackedStates, pack_state, unpack_state

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

from __future__ import annotations

import types
from collections.abc import Iterator

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.serving.full_precision import FULL_PRECISION, FullPrecision
from tfx_gnn.serving.layerwise_model import LayerPlan, LayerwiseModel
from tfx_gnn.serving.prediction import ServingModel


def rounds() -> bool:
    return bool(tf.config.experimental.tensor_float_32_execution_enabled())


@pytest.fixture(params=[True, False], ids=["TF32", "float32"])
def rounds_outside(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = rounds()
    tf.config.experimental.enable_tensor_float_32_execution(request.param)
    yield request.param
    tf.config.experimental.enable_tensor_float_32_execution(before)


def test_setting_is_restored_after_an_error(rounds_outside):
    with pytest.raises(KeyError, match="False"), FULL_PRECISION:
        raise KeyError(rounds())

    assert rounds() == rounds_outside


def test_last_of_overlapping_threads_restores_the_setting(rounds_outside):
    context = FullPrecision()
    found = []

    context.__enter__()
    context.__enter__()
    context.__exit__(None, None, None)
    found.append(rounds())
    context.__exit__(None, None, None)
    found.append(rounds())

    assert found == [False, rounds_outside]


def test_exported_models_compute_in_full_precision(tmp_path, rounds_outside):
    class Exported(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"rounds": tf.fill(tf.shape(examples), tf.numpy_function(rounds, [], tf.bool))}

    exported = Exported()
    tf.saved_model.save(exported, str(tmp_path / "model"), signatures=exported.serve)
    model = ServingModel(str(tmp_path / "model"))

    answers = [model(tf.constant([b"", b""]))["rounds"].numpy(), model.outputs_of([b"", b""])["rounds"]]

    assert np.array(answers).tolist() == [[False, False], [False, False]]
    assert rounds() == rounds_outside


def test_layers_compute_in_full_precision(rounds_outside):
    def float_of_rounds(_: object) -> tf.Tensor:
        return tf.constant([float(rounds())])

    functions = {
        "encoder": lambda example: {"nodes/n": float_of_rounds(example)},
        "0/n": float_of_rounds,
        "head": lambda states: {"logits": float_of_rounds(states)},
    }
    plan = LayerPlan(seed_set="n", widths={"n": 1}, layers=({"n": 1},), relations=({"n": ()},), reads_all_states=False)
    layers = LayerwiseModel(types.SimpleNamespace(layer_functions=functions), plan)

    encoded = layers.encode(b"")["nodes/n"].numpy()
    answered = layers.answer([np.zeros([1, 1], np.float32)])["logits"]

    assert [*encoded, *layers.update(0, "n", {}), *answered] == [0.0, 0.0, 0.0]
    assert rounds() == rounds_outside

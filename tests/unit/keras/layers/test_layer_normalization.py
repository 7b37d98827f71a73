from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.layers import LayerNormalization

ARGUMENTS = [
    {},
    {"epsilon": 1e-6},
    {"center": False, "scale": False},
    {"axis": 1},
    {"axis": [1, 2]},
    {"gamma_initializer": "random_normal", "beta_initializer": "random_normal"},
    {"dtype": "float64"},
]


def _values(dtype="float32"):
    return tf.constant(np.random.default_rng(1).normal(3.0, 2.0, size=[4, 5, 6]), dtype)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_each_item_gets_mean_zero_and_variance_one_then_scale_and_offset(wrap):
    layer = LayerNormalization(epsilon=1.0)
    layer.build([None, 2])
    layer.set_weights([np.array([1.0, 10.0]), np.array([0.0, 0.5])])

    result = wrap(layer)(tf.constant([[1.0, 1.0 + 2 * 3**0.5], [5.0, 5.0]]))

    # The variance is 3, so with epsilon values are divided by 2.
    np.testing.assert_allclose(result, [[-(0.75**0.5), 10 * 0.75**0.5 + 0.5], [0.0, 0.5]], rtol=1e-6)


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_values_and_gradients_are_those_of_tf_keras(arguments):
    values = _values(arguments.get("dtype", "float32"))
    ours, theirs = LayerNormalization(**arguments), tf_keras.layers.LayerNormalization(**arguments)
    ours.build(values.shape)
    theirs.build(values.shape)
    ours.set_weights(theirs.get_weights())

    results = []
    for layer in (ours, theirs):
        with tf.GradientTape() as tape:
            tape.watch(values)
            result = layer(values)
            loss = tf.reduce_sum(tf.sin(result))
        results.append([result, *tape.gradient(loss, [values, *layer.trainable_weights])])

    assert [weight.name.rpartition("/")[2] for weight in ours.weights] == [
        weight.name.rpartition("/")[2] for weight in theirs.weights
    ]
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_ragged_values_are_those_of_tf_keras():
    values = tf.RaggedTensor.from_row_lengths(_values()[0], [2, 0, 3])

    np.testing.assert_allclose(
        LayerNormalization()(values).values, tf_keras.layers.LayerNormalization()(values).values, atol=1e-5
    )


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_statistics_are_exact_in_half_precision(policy):
    # In half precision, 4001 would be 4000.
    values = tf.constant([[4000.0, 4000.0, 4000.0, 4016.0]])
    dtype = tf_keras.mixed_precision.Policy(policy).compute_dtype

    result = LayerNormalization(dtype=policy)(tf.cast(values, dtype))

    assert result.dtype == dtype
    np.testing.assert_allclose(tf.cast(result, tf.float32), [[-(3**-0.5)] * 3 + [3**0.5]], atol=0.01)


@pytest.mark.parametrize("shape", [[0, 4], [3, 0], [0, 0]], ids=str)
@pytest.mark.parametrize("jit_compile", [False, True], ids=["", "xla"])
def test_no_items_or_no_values_give_none(shape, jit_compile):
    layer = LayerNormalization()
    layer.build([None, shape[1]])

    @tf.function(jit_compile=jit_compile)
    def step(values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss = tf.reduce_sum(layer(values))
        return [loss, *tape.gradient(loss, [values, *layer.trainable_weights])]

    loss, *gradients = step(tf.zeros(shape))

    assert loss == 0
    assert [tuple(gradient.shape) for gradient in gradients] == [tuple(shape), (shape[1],), (shape[1],)]
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_equal_values_have_finite_gradients():
    layer, values = LayerNormalization(), tf.ones([2, 3])

    with tf.GradientTape() as tape:
        tape.watch(values)
        loss = tf.reduce_sum(layer(values) ** 2)

    assert np.isfinite(tape.gradient(loss, values)).all()


def test_compiled_by_xla_it_gives_the_same():
    layer = LayerNormalization()
    values = _values()

    np.testing.assert_allclose(tf.function(layer, jit_compile=True)(values), layer(values), atol=1e-5)


def test_a_model_is_made_again(again):
    inputs = tf_keras.Input([2])
    model = tf_keras.Model(inputs, LayerNormalization(epsilon=0.1, center=False)(inputs))

    np.testing.assert_array_equal(again(model)(tf.constant([[1.0, 2.0]])), model(tf.constant([[1.0, 2.0]])))
    config = model.layers[1].get_config()
    assert (config["epsilon"], config["center"]) == (0.1, False)


def test_neither_trace_nor_grappler_makes_a_fused_normalization_of_it(tmp_path):
    layer = LayerNormalization()
    layer.build([None, 8])
    module = tf.Module()
    module.kernel = tf.Variable(tf.ones([4, 8]))
    module.layer_weights = layer.weights
    module.call = tf.function(
        lambda values: layer(values @ module.kernel), input_signature=[tf.TensorSpec([None, 4], tf.float32)]
    )
    tf.saved_model.save(module, str(tmp_path), signatures={"serving_default": module.call})

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        loaded = tf.compat.v1.saved_model.loader.load(session, ["serve"], str(tmp_path))
        signature = loaded.signature_def["serving_default"]
        (fed,), (fetched,) = signature.inputs.values(), signature.outputs.values()
        ran = tf.compat.v1.RunMetadata()
        asked = tf.compat.v1.RunOptions(output_partition_graphs=True)
        session.run(fetched.name, {fed.name: np.ones([3, 4])}, options=asked, run_metadata=ran)

    operations = {node.op for graph in ran.partition_graphs for node in graph.node}
    # What runs is what grappler made of the trace.
    assert {"Mean", "Rsqrt"} <= operations
    assert not [name for name in operations if "Norm" in name]

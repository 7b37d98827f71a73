import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import tfx_gnn as tfgnn
from tfx_gnn.keras.model_export import export_model

LEFT, RIGHT = tf.constant([[5.0]]), tf.constant([[3.0]])


def two_outputs(as_structure=list):
    left, right = tf_keras.Input([1], name="left"), tf_keras.Input([1], name="right")
    total = tf_keras.layers.Add(name="total")([left, right])
    difference = tf_keras.layers.Subtract(name="difference")([left, right])
    return tf_keras.Model([left, right], as_structure([total, difference]))


def as_dict(outputs):
    return {"x": outputs[0], "y": outputs[1]}


def answers(export_dir, **inputs):
    signatures = tf.saved_model.load(str(export_dir)).signatures
    assert list(signatures) == ["serving_default"]
    return {name: value.numpy().tolist() for name, value in signatures["serving_default"](**inputs).items()}


@pytest.mark.parametrize("use_legacy_model_save", [None, True, False])
@pytest.mark.parametrize(
    ("as_structure", "output_names", "expected"),
    [
        (list, None, {"total": 8.0, "difference": 2.0}),
        (list, ["sum", None], {"sum": 8.0, "difference": 2.0}),
        (as_dict, {"y": "minus", "x": "plus"}, {"plus": 8.0, "minus": 2.0}),
    ],
    ids=["of-layers", "some-chosen", "chosen-in-a-dict"],
)
def test_the_signature_has_the_names_of_inputs_and_outputs(
    tmp_path, as_structure, output_names, expected, use_legacy_model_save
):
    export_model(
        two_outputs(as_structure), tmp_path, output_names=output_names, use_legacy_model_save=use_legacy_model_save
    )

    assert answers(tmp_path, left=LEFT, right=RIGHT) == {name: [[value]] for name, value in expected.items()}


def test_a_model_that_makes_graphs_is_exported_and_loaded_as_keras_model(tmp_path):
    x = tf_keras.Input([2], name="x")
    nodes = tfgnn.NodeSet.from_fields(sizes=[3], features={"x": x})
    model = tf_keras.Model(x, nodes.replace_features({"x": nodes["x"] * 2.0})["x"])
    values = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)

    tfgnn.runner.export_model(model, str(tmp_path), output_names="doubled")

    assert answers(tmp_path, x=values) == {"doubled": (2 * values).tolist()}
    assert tf_keras.models.load_model(tmp_path)(values).numpy().tolist() == (2 * values).tolist()


def test_options_reach_the_export(tmp_path):
    aliased = tf.function(lambda x: x, input_signature=[tf.TensorSpec([])])
    options = tf.saved_model.SaveOptions(function_aliases={"alias": aliased.get_concrete_function()})

    export_model(two_outputs(), tmp_path, options=options, use_legacy_model_save=False)

    assert b"alias" in (tmp_path / "saved_model.pb").read_bytes()


@pytest.mark.parametrize(
    ("model", "output_names", "error", "message"),
    [
        (tf_keras.Model(name="fresh"), None, ValueError, "`model` must have inputs of known types; got Model 'fresh'"),
        (two_outputs(), ["a"], ValueError, "same number of elements"),
        (two_outputs(), {"a": "b", "c": "d"}, TypeError, "same sequence type"),
        (two_outputs(), ["total", "total"], ValueError, r"`output_names` must differ .* got \['total'\]"),
        (two_outputs(), ["total", 3], ValueError, r"must give every output .* got \['total', 3\]"),
    ],
)
def test_what_cannot_be_exported_is_refused(tmp_path, model, output_names, error, message):
    with pytest.raises(error, match=message):
        export_model(model, tmp_path, output_names=output_names)

    assert not list(tmp_path.iterdir())

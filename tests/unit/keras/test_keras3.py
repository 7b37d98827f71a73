"""Without TF_USE_LEGACY_KERAS=1, `tf.keras` is Keras 3: what meets graphs then is refused in words that help."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REMEDY = (
    "Graphs are composite tensors, which Keras 3 cannot hold. Set the environment variable TF_USE_LEGACY_KERAS=1 "
    "before TensorFlow is imported, so that `tf.keras` is tf_keras; or use `import tf_keras` in place of `tf.keras`."
)
PROGRAM = """
import json
import tensorflow as tf
import tf_keras
import tfx_gnn as tfgnn
from tfx_gnn.keras import layers

dense = tf.keras.layers.Dense(2)
graph = tfgnn.homogeneous(
    source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([[5.0], [6.0], [7.0]])
)
records = tf.constant([tfgnn.write_example(graph).SerializeToString()] * 2)


class Model(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.parse = layers.ParseExample(graph.spec)
        self.update = layers.MapFeatures(
            node_sets_fn=lambda node_set, **_: tf_keras.layers.Dense(4)(node_set["hidden_state"])
        )

    def call(self, examples):
        graph = self.parse(examples)
        return self.update(graph).node_sets["nodes"]["hidden_state"].values if self.trainable else graph.rank


def outcome(function):
    try:
        return repr(function())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


model, reader = Model(), Model()
reader.trainable = False
print(json.dumps({
    "version": tf.keras.__version__,
    "symbolic": outcome(lambda: layers.ParseExample(graph.spec)(tf.keras.Input([], dtype=tf.string))),
    "symbolic keyword": outcome(lambda: layers.Readout(node_set_name="nodes")(graph=tf.keras.Input([]))),
    "attribute": outcome(lambda: layers.NextStateFromConcat(dense)),
    "base class": outcome(lambda: layers.SimpleConv(dense, "mean", receiver_tag=tfgnn.TARGET)),
    "mapping": outcome(lambda: layers.NodeSetUpdate({"edges": dense}, dense)),
    "update": outcome(lambda: layers.GraphUpdate(node_sets={"nodes": dense})),
    "nested": outcome(lambda: setattr(layers.Readout(node_set_name="nodes"), "inner", [{"a": (dense,)}])),
    "callback": outcome(lambda: layers.MapFeatures(
        node_sets_fn=lambda node_set, **_: tf.keras.layers.Dense(4)(node_set["hidden_state"])
    )(graph)),
    "after the callback": outcome(lambda: dense(tf.ones([1, 3])).shape.as_list()),
    "inside": outcome(lambda: model(records)),
    "outside": outcome(lambda: model.update(model.parse(records)).shape.as_list()),
    "without weights": outcome(lambda: reader(records)),
    "input": outcome(lambda: tf.keras.layers.Input(type_spec=graph.spec)),
    "graph": outcome(lambda: dense(graph)),
    "sequential": outcome(lambda: tf.keras.Sequential([layers.Readout(node_set_name="nodes")])),
    "model": outcome(lambda: tf.keras.Model(tf_keras.layers.Input(type_spec=graph.spec), [])),
}))
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """Results or errors of the program in a process where `tf.keras` is Keras 3."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_USE_LEGACY_KERAS"}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    assert found["version"].startswith("3.")
    return found


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "symbolic",
            "`ParseExample` must be called with graphs and tensors of TensorFlow or tf_keras; got a",
        ),
        (
            "symbolic keyword",
            "`Readout` must be called with graphs and tensors of TensorFlow or tf_keras; got a Keras",
        ),
        (
            "attribute",
            "`NextStateFromConcat` must hold layers of tf_keras; got keras.src.layers.core.dense.Dense of",
        ),
        ("base class", "`SimpleConv` must hold layers of tf_keras; got keras.src.layers.core.dense.Dense of Keras 3."),
        (
            "mapping",
            "`NodeSetUpdate(edge_set_inputs={edges: ...})` must hold layers of tf_keras; got keras.",
        ),
        ("update", "must hold layers of tf_keras; got keras.src.layers.core.dense.Dense of Keras 3."),
        ("nested", "`Readout` must hold layers of tf_keras; got keras.src.layers.core.dense.Dense of Keras 3."),
        ("callback", "`MapFeatures(...=fn)` must compute with layers of tf_keras; got a layer of Keras 3."),
        (
            "inside",
            "`MapFeatures` must be part of a model of tf_keras; got a call by Model of Keras 3,",
        ),
    ],
)
def test_what_meets_our_layers_is_refused_with_the_variable_and_tf_keras(outcomes, name, message):
    assert outcomes[name].startswith("TypeError: ")
    assert message in outcomes[name]
    assert REMEDY in outcomes[name]


def test_layers_that_keras3_need_not_train_and_calls_outside_of_it_stay(outcomes):
    assert outcomes["outside"] == "[2]"
    assert outcomes["after the callback"] == "[1, 2]"
    assert outcomes["without weights"] == "1"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("input", "Input() got an unexpected keyword argument 'type_spec'"),
        ("graph", "Only input tensors may be passed as positional arguments. The following argument value should be"),
        ("sequential", "Only instances of `keras.Layer` can be added to a Sequential model. Received: <tfx_gnn.keras"),
        ("model", "All `inputs` values must be KerasTensors. Received: inputs=KerasTensor(type_spec=GraphTensorSpec"),
    ],
)
def test_what_keras3_refuses_itself_is_explained_in_the_guide(outcomes, name, message):
    """Keras 3 raises these before anything of this library is asked."""
    guide = (Path(__file__).parents[3] / "docs" / "input_pipeline.md").read_text()

    assert message in outcomes[name]
    first_words = message.partition(". ")[0].partition(" can be")[0]
    assert first_words in guide

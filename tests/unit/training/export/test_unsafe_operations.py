"""Which models are exported, and that the others are refused before they abort a server."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.layers import LayerNormalization
from tfx_gnn.models.tasks import GraphRegression
from tfx_gnn.training.export.unsafe_operations import check_operations, has_unsafe_kernels


def _refused(layer: str) -> Any:
    """Refused where the kernels are unsafe; elsewhere nothing is."""
    if not has_unsafe_kernels():
        return contextlib.nullcontext()
    told = rf"got FusedBatchNormV3 in layer '[^']*{layer}'.* tfx_gnn\.keras\.layers\.LayerNormalization .*fused=False"
    return pytest.raises(ValueError, match=told)


def _save(folder: Path, layer: tf_keras.layers.Layer, shape: list[int]) -> str:
    """Saves a layer in a function that the signature's function calls."""
    inputs = tf_keras.Input(shape)
    model = tf_keras.Model(inputs, layer(inputs))
    module = tf.Module()
    module.kept = model.variables
    module.inner = tf.function(lambda values: model(values, training=False))
    module.call = tf.function(
        lambda values: {"result": module.inner(values)}, input_signature=[tf.TensorSpec([None, *shape], tf.float32)]
    )
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.call})
    return str(folder)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (LayerNormalization(), [4]),
        (tf_keras.layers.LayerNormalization(epsilon=1e-6), [4]),
        (tf_keras.layers.BatchNormalization(), [4]),
        (tf_keras.layers.BatchNormalization(fused=False), [3, 3, 4]),
    ],
    ids=["ours", "too exact to be fused", "of rows", "not fused"],
)
def test_layers_of_safe_operations_are_let_pass(tmp_path, layer, shape):
    check_operations(_save(tmp_path, layer, shape))


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (tf_keras.layers.LayerNormalization(name="my_norm"), [4]),
        (tf_keras.layers.BatchNormalization(name="my_norm"), [3, 3, 4]),
    ],
    ids=["layer", "batch"],
)
def test_layer_of_an_unsafe_operation_is_refused_by_its_name(tmp_path, layer, shape):
    saved_model_dir = _save(tmp_path, layer, shape)

    with _refused("my_norm"):
        check_operations(saved_model_dir)


def test_export_is_refused_unless_it_is_asked_for(task_graphs, tmp_path):
    task = GraphRegression(label_feature="shape")
    good = task_graphs.model_of(task, task_graphs.NODE_SCHEMA)
    pooled = good.get_layer("embeddings").output
    normalized = tf_keras.layers.LayerNormalization(name="my_norm")(pooled)
    model = tf_keras.Model(good.input, tf_keras.layers.Dense(1)(normalized))

    with _refused("my_norm"):
        task_graphs.export(str(tmp_path / "refused"), task, task_graphs.NODE_SCHEMA, model)
    task_graphs.export(str(tmp_path / "asked for"), task, task_graphs.NODE_SCHEMA, model, allow_unsafe_operations=True)

    assert (tmp_path / "asked for" / "Format-Serving" / "saved_model.pb").exists()

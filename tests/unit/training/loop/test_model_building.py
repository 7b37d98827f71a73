"""Models by the user's function: what it is given, and what becomes of what it returns."""

from __future__ import annotations

import contextlib
import functools
import logging

import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.keras.weight_index import IndexBlock, WeightIndex, declared_weight_index
from tfx_gnn.models.tasks import NodeClassification, NodeRegression
from tfx_gnn.training.export.unsafe_operations import has_unsafe_kernels
from tfx_gnn.training.loop import model_building
from tfx_gnn.training.loop.model_building import ModelBuilder


class _Objective:
    """One number for each row of a tensor."""

    task = NodeRegression(label_feature="number")
    class_names = ()

    def check_output(self, output, sample):
        if output.shape != [sample.shape[0], 1]:
            raise ValueError(f"`model_fn` must return one number a row; got {output.shape}. Mend it.")

    def compile_arguments(self):
        return {"loss": "mse", "weighted_metrics": ["mae"]}


OBJECTIVE = _Objective()
GIVEN = {"tft_output": "transform", "objective": OBJECTIVE, "hyperparameters": {"learning_rate": 0.5}, "num_steps": 7}


def _build(model_fn, precision="float32"):
    builder = ModelBuilder(
        model_fn=model_fn, reference="mine:model_fn", graph_spec="spec", precision=precision, **GIVEN
    )
    return builder.build(tf.ones([2, 3]))


def _model(units=1):
    return tf_keras.Sequential([tf_keras.layers.Dense(units)])


def _of_spec(graph_spec):
    return {"graph_spec": graph_spec}


def _by_position(graph_spec, transform):
    return {"graph_spec": graph_spec, "tft_output": transform}


def _by_name(graph_spec, *, objective, num_steps):
    return {"graph_spec": graph_spec, "objective": objective, "num_steps": num_steps}


def _with_default(graph_spec, hyperparameters, units=3):
    assert units == 3
    return {"graph_spec": graph_spec, "hyperparameters": hyperparameters}


def _all(graph_spec, **more):
    return {"graph_spec": graph_spec, **more}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (_of_spec, set()),
        (_by_position, {"tft_output"}),
        (_by_name, {"objective", "num_steps"}),
        (_with_default, {"hyperparameters"}),
        (_all, set(GIVEN)),
    ],
)
def test_function_gets_what_it_asks_for(given, expected):
    seen = []

    @functools.wraps(given)
    def model_fn(*args, **more):
        seen.append(given(*args, **more))
        return _model()

    _build(model_fn)

    assert seen == [{"graph_spec": "spec", **{name: GIVEN[name] for name in expected}}]


def test_function_that_asks_for_something_else_is_refused():
    def model_fn(graph_spec, tft_output, units):
        raise AssertionError(graph_spec, tft_output, units)

    with pytest.raises(TypeError, match=r"further parameters by names among .*; got \['units'\] in 'mine:model_fn'"):
        _build(model_fn)


def test_model_that_is_not_compiled_is_compiled_by_the_task():
    model = _build(lambda _: _model())

    assert model.optimizer.learning_rate.numpy() == 0.5
    assert set(model.evaluate(tf.ones([2, 3]), tf.ones([2, 1]), verbose=0, return_dict=True)) == {"loss", "mae"}


def test_learning_rate_must_be_a_positive_number(monkeypatch):
    monkeypatch.setitem(GIVEN, "hyperparameters", {"learning_rate": "fast"})

    with pytest.raises(ValueError, match="must have a positive number as 'learning_rate'; got 'fast'"):
        _build(lambda _: _model())


def test_policy_of_precision_holds_for_the_model_alone():
    model = _build(lambda _: _model(), "mixed_bfloat16")

    assert (model.layers[0].compute_dtype, model.layers[0].kernel.dtype) == ("bfloat16", tf.float32)
    assert tf_keras.mixed_precision.global_policy().name == "float32"


def test_metrics_without_weights_get_a_warning(caplog):
    model = _model()
    model.compile("sgd", "mse", metrics=["mae"])

    with caplog.at_level(logging.WARNING):
        _build(lambda _: model)

    assert "got `metrics` ['mae'] in 'mine:model_fn', which count padding as examples" in caplog.text


@pytest.mark.parametrize(
    ("model_fn", "error", "message"),
    [
        (lambda _: "none", TypeError, "must return a tf_keras.Model; got <class 'str'> from 'mine:model_fn'"),
        (lambda _: _model(2), ValueError, "one number a row; got .* This is the model of 'mine:model_fn'"),
    ],
)
def test_what_is_no_model_of_the_task_is_refused(model_fn, error, message):
    with pytest.raises(error, match=message):
        _build(model_fn)


def test_layer_on_a_state_without_width_is_refused():
    def model_fn(graph_spec):
        empty = tf_keras.layers.Lambda(lambda rows: rows[:, :0])
        return tf_keras.Sequential([empty, tf_keras.layers.Dense(1, name="first")])

    is_refused = pytest.raises(
        ValueError,
        match=r"matrices have elements; got shapes \{'.*first/kernel:0': \[0, 1\]\} from 'mine.*LearnedState",
    )
    with is_refused if has_unsafe_kernels() else contextlib.nullcontext():
        _build(model_fn)


def test_units_of_the_users_last_layer_are_known_to_be_classes():
    given = tf_keras.layers.Input([3])
    model = tf_keras.Model(given, tf_keras.layers.Dense(2)(tf_keras.layers.Dense(2)(given)))
    task = NodeClassification(label_feature="kind", class_vocabulary="kinds")

    model_building._declare_classes(model, task.objective(lambda _: [b"a", b"b"]))

    classes = WeightIndex(axis=-1, blocks=(IndexBlock(name="", size=2, vocabulary="kinds"),))
    assert [declared_weight_index(layer) for layer in model.layers[1:]] == [None, classes]

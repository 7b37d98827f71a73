"""Models with one fault each, which a TPU would refuse: the check names its cause, its layer and a fix."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer.tpu_readiness import check_model_for_tpu
from tfx_gnn.graph.graph_constants import TARGET
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.keras import layers
from tfx_gnn.keras.feature_encoders.embedding_tables import DenseEmbedding
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.tpu_check import check
from tfx_gnn.training.data.input_pipeline import LabelledGraphs
from tfx_gnn.training.loop.model_building import ModelBuilder

SCHEMA = """
node_sets { key: "item" value {
  features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 4 } } } }
  features { key: "category" value { dtype: DT_INT64 } }
  %s } }
node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_INT64 } } } }
edge_sets { key: "knows" value { source: "item" target: "item" } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""
RAGGED = 'features { key: "words" value { dtype: DT_INT64 shape { dim { size: -1 } } } }'
COLORS = [b"blue", b"green", b"red"]
HERE = Path(__file__).name
SUMMARIES = tempfile.TemporaryDirectory()
PICTURE = tf.io.encode_png(tf.zeros([1, 1, 1], tf.uint8)).numpy()


def _budget(kind):
    return Budget(
        kind=kind,
        batch_size=4,
        total_num_components=5,
        total_num_nodes={"item": 24, "_readout": 5},
        total_num_edges={"knows": 32, "_readout/seed": 5},
        min_nodes_per_component={"_readout": 1},
        graphs_per_batch=4.0,
        fill=0.9,
        fill_by_set={},
        bytes_per_batch=0,
    )


class Planted(tf_keras.layers.Layer):
    """Adds the mean of what the fault computes to the states."""

    def __init__(self, fault, name="planted"):
        super().__init__(name=name.replace(" ", "_"))
        self._fault = fault

    def call(self, graph):
        states = graph.node_sets["item"]["hidden_state"]
        value = self._fault(states, graph.edge_sets["knows"].adjacency.target)
        if value is not None:
            states += tf.reduce_mean(tf.cast(value, states.dtype))
        return graph.replace_features(node_sets={"item": {"hidden_state": states}})


def _model(graph_spec, *, faults=None, embedding=None):
    def first_state(node_set, *, node_set_name):
        if node_set_name != "item":
            return None
        parts = [tf_keras.layers.Dense(8)(node_set["x"])]
        if embedding is not None:
            parts.append(embedding(node_set["category"]))
        return tf_keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]

    graph = inputs = tf_keras.layers.Input(type_spec=graph_spec)
    graph = layers.MapFeatures(node_sets_fn=first_state)(graph)
    for name, fault in (faults or {}).items():
        graph = Planted(fault, name)(graph)
    message = layers.SimpleConv(tf_keras.layers.Dense(8), "mean", receiver_tag=TARGET)
    update = layers.NodeSetUpdate({"knows": message}, layers.NextStateFromConcat(tf_keras.layers.Dense(8)))
    graph = layers.GraphUpdate(node_sets={"item": update})(graph)
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(len(COLORS))(layers.StructuredReadout("seed")(graph)))
    if faults:
        # Faster to trace than the default, Adam.
        loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf_keras.optimizers.SGD(), loss, weighted_metrics=["accuracy"])
    return model


def _check(make_model, *, feature="", precision="float32"):
    graph_spec = create_graph_spec_from_schema_pb(parse_schema(SCHEMA % feature))
    objective = NodeClassification(label_feature="color", class_vocabulary="color").objective(lambda _: COLORS)
    return check_model_for_tpu(
        lambda spec: ModelBuilder(
            model_fn=make_model,
            reference="tests:model_fn",
            graph_spec=spec,
            tft_output=None,
            objective=objective,
            hyperparameters={},
            num_steps=10,
            precision=precision,
        ),
        LabelledGraphs(graph_spec=graph_spec, objective=objective),
        training=_budget("fit_or_skip"),
        evaluation=_budget("tight"),
    )


def _table_lookup():
    keys_and_values = tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2]), tf.constant([3.0, 4.0]))
    table = tf.lookup.StaticHashTable(keys_and_values, 0.0)
    return lambda _, index: table.lookup(tf.cast(index, tf.int32))


def _summary(states, _):
    with tf.summary.create_file_writer(SUMMARIES.name).as_default():
        tf.summary.scalar("mean", tf.reduce_mean(states), step=0)


def _write_file(states, _):
    tf.io.write_file(f"{SUMMARIES.name}/states", tf.io.serialize_tensor(states))


def _ragged_rows(states, index):
    return tf.RaggedTensor.from_row_lengths(states, index[:3], validate=False).to_tensor()


def _print(states, _):
    tf.print(states[0])


def _grow_in_a_loop(states, index):
    return tf.while_loop(
        lambda i, _: i < tf.cast(index[0], tf.int32),
        lambda i, rows: (i + 1, tf.concat([rows, states], 0)),
        [0, states],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 8])],
        maximum_iterations=3,
    )[1]


def _loop_without_bound(states, index):
    return tf.while_loop(lambda i, _: i < tf.cast(index[0], tf.int32), lambda i, s: (i + 1, s * s), [0, states])[1]


def _collect_in_a_loop(states, index):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[8])
    return tf.while_loop(
        lambda i, _: i < tf.cast(index[0], tf.int32), lambda i, a: (i + 1, a.write(i, states[i])), [0, array]
    )[1].stack()


def _sparse_product(states, index):
    ends = tf.cast(tf.stack([tf.range(tf.size(index)), tf.cast(index, tf.int32)], 1), tf.int64)
    return tf.sparse.sparse_dense_matmul(tf.SparseTensor(ends, tf.ones_like(index, tf.float32), [32, 24]), states)


# Each: what is planted, the rule that it breaks, the operation that is named, and words of the fix.
SEEN_IN_THE_GRAPH = {
    "strings": (lambda _, i: tf.strings.length(tf.strings.as_string(i)), "host_only", "AsString", "preprocessing_fn"),
    "a lookup table": (_table_lookup(), "host_only", "LookupTableFindV2", "tft.apply_vocabulary"),
    "py_function": (
        lambda s, _: tf.ensure_shape(tf.py_function(lambda v: v, [s], tf.float32), [24, 8]),
        "host_only",
        "EagerPyFunc",
        "input pipeline",
    ),
    "tf.print": (_print, "host_only", "StringFormat", "as a metric"),
    "a summary": (_summary, "host_only", "WriteSummary", "outside of it"),
    "float64": (lambda s, _: tf.cast(s, tf.float64) * 2, "dtype", "Cast", "float32"),
    "complex128": (lambda s, _: tf.math.abs(tf.cast(s, tf.complex128)), "dtype", "Cast", "complex64"),
    "segment_sum": (
        lambda s, i: tf.math.segment_sum(tf.gather(s, i), tf.sort(i)),
        "no_kernel",
        "SegmentSum",
        "unsorted_segment_sum",
    ),
    "a product of sparse tensors": (_sparse_product, "no_kernel", "SparseTensorDenseMatMul", "unsorted_segment_sum"),
    "rows of several lengths": (_ragged_rows, "no_kernel", "RaggedTensorToTensor", "dense in `preprocessing_fn`"),
    "unique_with_counts": (
        lambda _, i: tf.unique_with_counts(i)[2],
        "no_kernel",
        "UniqueWithCounts",
        "unsorted_segment_sum",
    ),
    "random numbers of the host": (
        lambda s, _: s * tf.random.gamma([24, 8], 2.0),
        "no_kernel",
        "RandomGamma",
        "tf.random.normal",
    ),
    "a picture": (lambda *_: tf.image.decode_png(PICTURE), "host_only", "DecodePng", "input pipeline"),
    "a file": (_write_file, "host_only", "SerializeTensor", "outside of it"),
    "a dataset": (
        lambda *_: tf.data.Dataset.range(1).get_single_element(),
        "host_only",
        "RangeDataset",
        "input pipeline",
    ),
    "hashes by Keras": (
        lambda _, i: tf_keras.layers.Hashing(3)(i),
        "host_only",
        "AsString",
        "preprocessing_fn",
    ),
    "a branch of another shape": (
        lambda s, i: tf.cond(i[0] > 0, lambda: s, lambda: s[:3]),
        "dynamic_shape",
        "If",
        "same shape in all branches",
    ),
    "an array that grows in a loop": (_collect_in_a_loop, "loop_shape", "TensorListSetItem", "before it begins"),
}
OF_UNKNOWN_SIZE = {
    "a slice to a value": (lambda s, i: s[: i[0]], "dynamic_shape", "StridedSlice", "Python ints"),
    "tf.where of one argument": (lambda s, _: tf.where(s > 0), "dynamic_shape", "Where", "three arguments"),
    "boolean_mask": (lambda s, _: tf.boolean_mask(s, s[:, 0] > 0), "dynamic_shape", "Where", "by the mask"),
    "tf.unique": (lambda _, i: tf.unique(i)[0], "dynamic_shape", "Unique", "unsorted_segment_sum"),
}
REFUSED_BY_XLA = {
    "a number of segments by the data": (
        lambda s, i: tf.math.unsorted_segment_sum(tf.gather(s, i), i, tf.reduce_max(i) + 1),
        "compile_time_constant",
        "UnsortedSegmentSum",
        "static shape",
    ),
    "one-hot of the largest number": (
        lambda _, i: tf.one_hot(i, tf.cast(tf.reduce_max(i), tf.int32) + 1),
        "compile_time_constant",
        "OneHot",
        "static shapes",
    ),
    "a tensor that grows in a loop": (_grow_in_a_loop, "loop_shape", "While", "before it begins"),
    "the gradient of a loop without a bound": (
        _loop_without_bound,
        "unbounded_loop",
        "EmptyTensorList",
        "maximum_iterations",
    ),
}
MODELS = [SEEN_IN_THE_GRAPH, OF_UNKNOWN_SIZE, *({name: fault} for name, fault in REFUSED_BY_XLA.items())]


@pytest.mark.parametrize("planted", MODELS, ids=[" and ".join(model) for model in MODELS])
def test_each_fault_is_named_with_its_cause_its_layer_and_a_fix(planted, capfd):
    readiness = _check(lambda spec: _model(spec, faults={name: fault for name, (fault, *_) in planted.items()}))

    found = {}
    for problem in readiness.problems:
        found.setdefault(problem.layer, problem)
    for name, (_, rule, op, fix) in planted.items():
        problem = found.pop(f"Planted '{name.replace(' ', '_')}'")
        assert (problem.rule, problem.op.removeprefix("Stateless")) == (rule, op), str(problem)
        assert problem.where.startswith(f"tests/unit/components/graph_trainer/{HERE}:")
        assert fix in problem.fix
    assert found == {}
    # One problem for each fault, but that a summary has two operations that write.
    assert len(readiness.problems) <= len(planted) + 1, [str(problem) for problem in readiness.problems]
    with pytest.raises(ValueError, match="`model_fn` must make a model that a TPU can train"):
        readiness.raise_if_not_ready("mine")
    # What tf.print shows comes from the first batch through the untrained model.
    assert "assert_op.cc" not in capfd.readouterr().err


class _LossOfSome(tf_keras.losses.Loss):
    def call(self, y_true, y_pred):
        return tf.reduce_mean(tf.gather(y_pred, tf.where(y_true > 0)[:, 0]))


class _NumLabels(tf_keras.metrics.Mean):
    def update_state(self, y_true, y_pred, sample_weight=None):
        return super().update_state(tf.size(tf.unique(tf.reshape(y_true, [-1]))[0]))


class _Printing(tf_keras.Model):
    def train_step(self, data):
        logs = super().train_step(data)
        tf.print(logs)
        return logs


@pytest.mark.parametrize(
    ("parts", "function", "op"),
    [
        ({"loss": _LossOfSome}, "call", "Where"),
        ({"metric": _NumLabels}, "update_state", "Unique"),
        ({"model": _Printing}, "train_step", "StringFormat"),
    ],
    ids=["loss", "metric", "step"],
)
def test_a_fault_beside_the_model_is_told_with_its_function(parts, function, op):
    plain_loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def make_model(graph_spec):
        plain = _model(graph_spec)
        model = parts.get("model", tf_keras.Model)(plain.inputs, plain.outputs)
        metric = parts.get("metric", tf_keras.metrics.SparseCategoricalAccuracy)()
        loss = parts["loss"]() if "loss" in parts else plain_loss
        model.compile(tf_keras.optimizers.SGD(), loss, weighted_metrics=[metric])
        return model

    readiness = _check(make_model)

    assert [(problem.op, problem.layer) for problem in readiness.problems] == [(op, f"function '{function}'")]
    assert readiness.problems[0].where.startswith(f"tests/unit/components/graph_trainer/{HERE}:")


def test_the_sparse_gradient_of_an_embedding_is_traced_to_its_layer():
    readiness = _check(
        lambda graph_spec: _model(graph_spec, embedding=tf_keras.layers.Embedding(10, 4, name="identity"))
    )

    (problem,) = readiness.problems
    assert (problem.rule, problem.op, problem.layer) == ("sparse_gradient", "Unique", "Embedding 'identity'")
    assert "DenseEmbedding" in problem.fix


def test_a_ragged_feature_of_the_batch_is_named():
    readiness = _check(_model, feature=RAGGED)

    (problem,) = readiness.problems
    assert (problem.rule, problem.op, problem.tensor) == ("static_shape", "nodes/item.words", "int64 [?]")
    assert "dense in `preprocessing_fn`" in problem.fix


def test_a_layer_from_before_the_scope_is_named():
    dense = tf_keras.layers.Dense(8, name="early")
    dense.build([None, 8])

    readiness = _check(lambda graph_spec: _model(graph_spec, faults={"planted": lambda states, _: dense(states)}))

    assert [problem.op for problem in readiness.problems] == ["bias:0", "kernel:0"]
    assert {problem.rule for problem in readiness.problems} == {"foreign_variable"}
    assert {problem.layer for problem in readiness.problems} == {"Planted 'planted'"}
    assert "inside `model_fn`" in readiness.problems[0].fix


def test_a_large_constant_is_told_of_and_no_hindrance(monkeypatch):
    monkeypatch.setattr(check, "LARGE_CONSTANT_BYTES", 20_000)
    table = np.ones([1024, 8], np.float32)

    readiness = _check(
        lambda graph_spec: _model(graph_spec, faults={"planted": lambda _, index: tf.gather(table, index)})
    )

    assert [(problem.rule, problem.tensor) for problem in readiness.problems] == [
        ("large_constant", "float32 [1024, 8]")
    ]
    assert readiness.is_ready
    readiness.raise_if_not_ready("mine")


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_a_model_without_fault_is_ready_and_measured(precision, capfd):
    readiness = _check(
        lambda graph_spec: _model(
            graph_spec, embedding=DenseEmbedding(10, 4), faults={"planted": lambda s, _: tf.where(s > 0, s, 0)}
        ),
        precision=precision,
    )

    assert [str(problem) for problem in readiness.problems] == []
    memory = readiness.memory
    tensors = {tensor.name: tensor for tensor in memory.batch}
    assert tensors["nodes/item.x"].shape == (24, 4)
    assert tensors["nodes/item.x"].num_bytes == 24 * 4 * 4
    # Four columns are filled up to 128.
    assert tensors["nodes/item.x"].tiled_bytes == 24 * 128 * 4
    assert tensors["labels"].shape == (5,)
    # SGD keeps a momentum of each trained value, and counts its steps.
    assert memory.optimizer == memory.gradients + 8 > 8
    assert memory.total == 2 * memory.batch_bytes + memory.parameters + memory.gradients + memory.optimizer
    assert capfd.readouterr().err == ""

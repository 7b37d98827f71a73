from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.pieces import NodeSet
from tfx_gnn.tpu_check import check
from tfx_gnn.tpu_check.check import check_step
from tfx_gnn.tpu_check.problem import RULES, TpuProblem
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

STATES = tf.TensorSpec([6, 4])
INDICES = tf.TensorSpec([6], tf.int32)
HERE = Path(__file__).name


def _line_of(text):
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.strip().startswith(text)]
    return f"{HERE}:{number}"


def _only(problems):
    assert [type(problem) for problem in problems] == [TpuProblem], [str(problem) for problem in problems]
    return problems[0]


def _grows_in_a_loop(states, indices):
    return tf.while_loop(
        lambda i, _: i < indices[0],
        lambda i, rows: (i + 1, tf.concat([rows, states], 0)),
        [0, states],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 4])],
    )


def _writes_to_a_growing_array(states, indices):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[4])
    return tf.while_loop(lambda i, _: i < indices[0], lambda i, a: (i + 1, a.write(i, states[0])), [0, array])[
        1
    ].stack()


def _writes_as_often_as_data_say(states, indices):
    array = tf.TensorArray(tf.float32, size=indices[0], element_shape=[4])
    loop = (lambda i, _: i < indices[0], lambda i, a: (i + 1, a.write(i, states[0])))
    return tf.while_loop(*loop, [0, array])[1].stack()


@pytest.mark.parametrize(
    ("step", "rule", "op", "tensor"),
    [
        (lambda x, _: tf.reduce_sum(tf.where(x > 0)), "dynamic_shape", "Where", "int64 [<=24, 2]"),
        (lambda x, i: tf.boolean_mask(x, i > 0), "dynamic_shape", "Where", "int64 [<=6, 1]"),
        (lambda x, i: tf.gather(x, tf.unique(i)[0]), "dynamic_shape", "Unique", "int32 [<=6]"),
        (lambda x, i: x[: i[0]] * 2.0, "dynamic_shape", "StridedSlice", "float32 [<=6, 4]"),
        (lambda x, i: tf.dynamic_partition(x, i, 2)[1], "dynamic_shape", "DynamicPartition", "float32 [<=6, 4]"),
        (
            lambda x, i: tf.math.unsorted_segment_sum(x, i, tf.reduce_max(i) + 1),
            "compile_time_constant",
            "UnsortedSegmentSum",
            "input 2, int32 []",
        ),
        (lambda x, i: tf.reshape(x, [i[0], -1]), "compile_time_constant", "Reshape", "input 1, int32 [2]"),
        (lambda x, i: tf.repeat(x, i, axis=0), "compile_time_constant", "Range", "input 1, int32 []"),
        (lambda x, i: tf.math.segment_sum(x, i) * 2.0, "no_kernel", "SegmentSum", "float32 [?, 4]"),
        (
            lambda x, i: tf.sparse.sparse_dense_matmul(
                tf.SparseTensor(tf.cast(tf.stack([i, i], 1), tf.int64), x[:, 0], [6, 6]), x
            ),
            "no_kernel",
            "SparseTensorDenseMatMul",
            "float32 [6, 4]",
        ),
        (lambda _, i: tf.unique_with_counts(i)[2], "no_kernel", "UniqueWithCounts", "int32 [?]"),
        (lambda x, _: x * tf.random.gamma([6, 4], 2.0), "no_kernel", "RandomGamma", "float32 [6, 4]"),
        (lambda x, _: tf.io.serialize_tensor(x), "host_only", "SerializeTensor", "string []"),
        (
            lambda x, i: tf.RaggedTensor.from_row_lengths(x, i, validate=False).to_tensor(),
            "no_kernel",
            "RaggedTensorToTensor",
            "float32 [6, ?, 4]",
        ),
        (lambda x, i: tf.cond(i[0] > 0, lambda: x, lambda: x[:3]), "dynamic_shape", "StatelessIf", "float32 [?, 4]"),
        (_writes_as_often_as_data_say, "compile_time_constant", "TensorListReserve", "input 1, int32 []"),
        (lambda x, _: tf.numpy_function(np.sin, [x], tf.float32), "host_only", "PyFunc", "float32 of unknown rank"),
        (lambda _, i: tf.strings.length(tf.strings.as_string(i)), "host_only", "AsString", "string [6]"),
        (lambda *_: tf.timestamp(), "host_only", "Timestamp", "float64 []"),
        (lambda x, _: tf.cast(tf.cast(x, tf.float64) * 2, tf.float32), "dtype", "Cast", "float64 [6, 4]"),
        (lambda x, _: tf.math.abs(tf.signal.fft(tf.complex(x, x))), "", "", ""),
        (lambda _, i: tf.gather(tf.constant([1.0], tf.float64), i) > 0.5, "dtype", "GatherV2", "float64 [6]"),
        (_grows_in_a_loop, "loop_shape", "StatelessWhile", "f32[6,4] -> f32[12,4]"),
        (_writes_to_a_growing_array, "loop_shape", "TensorListSetItem", "list of 0"),
    ],
)  # fmt: skip
def test_what_a_tpu_refuses_is_named_with_its_cause(step, rule, op, tensor):
    problems = check_step(step, (STATES, INDICES))

    if not rule:
        assert problems == ()
        return
    problem = _only(problems)
    assert (problem.rule, problem.op, problem.tensor) == (rule, op, tensor)
    assert problem.where.startswith(f"tests/unit/tpu_check/{HERE}:")
    assert problem.fix.endswith(".")
    assert problem.blocks


def _counted_by_a_mask(states, mask):
    kept = tf.boolean_mask(states, mask)
    return tf.reduce_sum(kept)


def test_the_place_is_the_users_function_and_line():
    problem = _only(check_step(lambda x, i: _counted_by_a_mask(x, i > 0), (STATES, INDICES)))

    assert problem.layer == "function '_counted_by_a_mask'"
    assert problem.where.endswith(_line_of("kept = tf.boolean_mask"))
    assert str(problem).startswith("Where (int64 [<=6, 1]) in function '_counted_by_a_mask' at ")
    assert RULES["dynamic_shape"] in str(problem)


def test_functions_and_branches_are_looked_into_and_told_once():
    @tf.function
    def inner(states):
        return tf.cond(states[0, 0] > 0, lambda: tf.reduce_sum(tf.where(states > 0)), lambda: tf.constant(0, tf.int64))

    problem = _only(check_step(lambda x: inner(x) + inner(2 * x), (STATES,)))

    assert (problem.rule, problem.op) == ("dynamic_shape", "Where")
    assert problem.where.endswith(_line_of("return tf.cond(states"))


def test_what_xla_drops_or_computes_itself_is_no_problem():
    def step(states, indices):
        tf.strings.as_string(indices)  # Nobody asks for the result.
        tf.debugging.assert_greater(states, 0.0, message="Assertions are dropped, strings and all.")
        for _ in tf.range(indices[0]):  # The range itself is not used.
            states = states * 2.0
        scale = tf.cast(tf.constant(np.ones([4])) * 2, tf.float32)  # float64, by the compiler.
        counts = tf.math.unsorted_segment_sum(tf.ones_like(indices), indices, 3)
        return states * scale, tf.random.uniform([6]), tf.argsort(indices), tf.cast(counts, tf.int64)

    assert check_step(step, (STATES, INDICES)) == ()


def test_inputs_must_be_numbers_of_static_shapes():
    words = tf.ragged.constant([[1], [2, 3]])
    graph = GraphTensor.from_pieces(node_sets={"item": NodeSet.from_fields(sizes=[2], features={"words": words})})
    step = tf.function(lambda graph, *_: graph.node_sets["item"].sizes)

    specs = (
        graph.spec,
        tf.TensorSpec([None, 4], name="x"),
        tf.TensorSpec([2], tf.string),
        tf.TensorSpec([], tf.float64),
    )
    problems = check_step(step, specs)

    assert [(problem.rule, problem.op, problem.tensor) for problem in problems] == [
        ("static_shape", "nodes/item.words", "int32 [?]"),
        ("static_shape", "x", "float32 [?, 4]"),
        ("input_dtype", "input 2", "string [2]"),
        ("input_dtype", "input 3", "float64 []"),
    ]
    assert "dense" in problems[0].fix
    assert "drop_remainder" in problems[1].fix


def test_the_gradient_of_a_gather_is_traced_to_it_through_the_optimizer():
    table = tf.Variable(tf.ones([10, 4]))
    optimizer = tf_keras.optimizers.Adam()

    def step(states, indices):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, indices) * states)
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])

    with libraries_traced_as_written():
        problem = _only(check_step(step, (STATES, INDICES)))

    assert (problem.rule, problem.op) == ("sparse_gradient", "Unique")
    assert problem.where.endswith(_line_of("loss = tf.reduce_sum(tf.gather"))
    assert "DenseEmbedding" in problem.fix


def test_variables_of_others_are_problems_where_those_of_the_scope_are_known():
    own, foreign = tf.Variable(1.0, name="own"), tf.Variable(1.0, name="foreign")
    step = lambda x: x * own * foreign  # noqa: E731

    assert check_step(step, (STATES,)) == ()
    problem = _only(check_step(step, (STATES,), own_variables=[own]))
    assert (problem.rule, problem.op) == ("foreign_variable", "foreign:0")


def test_a_large_constant_is_told_of_and_does_not_block(monkeypatch):
    monkeypatch.setattr(check, "LARGE_CONSTANT_BYTES", 1000)
    table = np.zeros([300], np.float32)

    problem = _only(check_step(lambda i: tf.gather(tf.constant(table), i), (INDICES,)))

    assert (problem.rule, problem.tensor, problem.blocks) == ("large_constant", "float32 [300]", False)


def test_a_check_says_nothing_and_draws_no_random_number(capfd):
    tf.random.set_seed(3)
    expected = tf.random.normal([2]).numpy().tolist()
    tf.random.set_seed(3)

    def step(states):
        tf.debugging.assert_greater(states, 0.0)
        return states

    check_step(step, (STATES,))

    assert capfd.readouterr() == ("", "")
    assert tf.random.normal([2]).numpy().tolist() == expected


def test_what_the_step_itself_raises_is_let_through():
    def step(states):
        raise RuntimeError("of the user's")

    with pytest.raises(RuntimeError, match=re.escape("of the user's")):
        check_step(step, (STATES,))

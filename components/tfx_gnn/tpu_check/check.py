"""Checks, without a TPU, that a training step can run on one.

Running a step through XLA on a CPU proves too little: XLA for CPUs accepts data types that TPUs lack, and reads
shapes from the values of the one batch that it is given. The check therefore has four parts:
inputs must be static and numeric; every operation, including those in functions, loops and branches,
must have an XLA kernel and a data type that TPUs support; the step must lower to HLO from the specs of its inputs
alone; and the HLO must not hold a dimension for which only an upper bound is known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.tpu_check import xla
from tfx_gnn.tpu_check.problem import (
    BOUND_LOOPS,
    GIVE_LOOPS_SIZES,
    TpuProblem,
    advise_on_dynamic_shape,
    advise_on_host_operation,
    advise_on_missing_kernel,
    advise_on_refused_dtype,
    advise_on_unknown_constant,
)
from tfx_gnn.tpu_check.traced_graph import StepGraph

LARGE_CONSTANT_BYTES = 2**24
"""Constants above this size, 16 MiB, are reported."""

_OF_UNKNOWN_SIZE = frozenset({"Where", "Unique", "UniqueV2", "DynamicPartition"})
"""Operations whose results always have an unknown size, whatever their inputs."""


def check_step(
    step: Callable[..., Any],
    specs: Sequence[Any],
    *,
    module: tf.Module | None = None,
    own_variables: Collection[tf.Variable] | None = None,
) -> tuple[TpuProblem, ...]:
    """Finds what would keep a step from running on a TPU.

    The step is traced, not run, with its variables on the CPU. Objects that the step creates in its first call, such
    as the slots of an optimizer or metrics, are created. Lowering, the last part, is only tried on steps that have
    no other problem, and stops at the first problem: after a fix, check again.

    Args:
        step: function or tf.function of the arguments that `specs` describe.
        specs: nests of `tf.TensorSpec`, `GraphTensorSpec` and other type specs, one per argument.
        module: model whose layers locate problems.
        own_variables: variables that were created in the scope of the strategy; any other variable that the step uses
            is a problem. The collection is read after the step was traced. None to skip this check.

    Returns:
        The problems in the order of the step; empty if a TPU would run it. Problems with
        `blocks=False` only make it slow.
    """
    specs = tuple(specs)
    problems = list(_problems_of_inputs(specs))
    flat_specs = _without_names(tf.nest.flatten(specs, expand_composites=True))
    called_in_context = tf.__internal__.autograph.tf_convert

    def flat_step(*flat: tf.Tensor) -> Any:
        convert = called_in_context(step, tf.__internal__.autograph.control_status_ctx())
        return convert(*tf.nest.pack_sequence_as(specs, flat, expand_composites=True))

    # A call inside a call: only then does XLA drop unneeded operations, as it does in a real run.
    inner = tf.function(flat_step)
    function = tf.function(inner.__call__, jit_compile=True, autograph=False)
    concrete = function.get_concrete_function(*flat_specs)
    graph = StepGraph(concrete, module, boundary=__file__)
    problems += _problems_of_operations(graph)
    if own_variables is not None:
        problems += _problems_of_variables(concrete, graph, own_variables)
    if not any(problem.blocks for problem in problems):
        problems += _problems_of_lowering(function, flat_specs, graph)
    return tuple(problems)


def _without_names(specs: Sequence[tf.TensorSpec]) -> list[tf.TensorSpec]:
    # Two arguments of a function must not have the same name.
    return [tf.TensorSpec(spec.shape, spec.dtype) for spec in specs]


def _problems_of_inputs(specs: Sequence[Any]) -> Iterator[TpuProblem]:
    leaves = tf.nest.flatten(specs)
    for number, leaf in enumerate(leaves):
        for name, spec in _named_tensors(leaf, number):
            numeric = spec.dtype.is_floating or spec.dtype.is_integer or spec.dtype.is_complex or spec.dtype.is_bool
            if not numeric or spec.dtype in xla.REFUSED_DTYPES:
                fix = advise_on_refused_dtype(spec.dtype.name)
                yield _problem_of_input("input_dtype", name, spec, fix)
            if not spec.shape.is_fully_defined():
                fix = (
                    "Make the ragged feature dense in `preprocessing_fn`, or pad it to a fixed length."
                    if isinstance(leaf, tf.RaggedTensorSpec) or ".splits" in name or name + ".splits1" in _keys(leaf)
                    else "Pad graphs to a budget, and batch with drop_remainder=True."
                )
                yield _problem_of_input("static_shape", name, spec, fix)


def _named_tensors(leaf: Any, number: int) -> Iterator[tuple[str, tf.TensorSpec]]:
    if isinstance(leaf, GraphTensorSpec):
        yield from graph_flat_tensor_specs(leaf).items()
        return
    parts = tf.nest.flatten(leaf, expand_composites=True)
    for part, spec in enumerate(parts):
        name = getattr(leaf, "name", None) or f"input {number}"
        yield (name if len(parts) == 1 else f"{name}, part {part}"), spec


def _keys(leaf: Any) -> Collection[str]:
    return graph_flat_tensor_specs(leaf) if isinstance(leaf, GraphTensorSpec) else ()


def _problem_of_input(rule: str, name: str, spec: tf.TensorSpec, fix: str) -> TpuProblem:
    return TpuProblem(rule=rule, op=name, layer="the input", where="", tensor=_described(spec), fix=fix)


def _problems_of_operations(graph: StepGraph) -> Iterator[TpuProblem]:
    seen: set[tuple[str, ...]] = set()
    from_constants: set[tf.Operation] = set()
    for op in graph.operations:
        is_alright = xla.is_known(op.type) and not graph.has_branches_of_other_shapes(op)
        if graph.calls_functions(op) and is_alright:
            # The operations of the called functions are checked on their own.
            continue
        is_computed = op.inputs and not op.op_def.is_stateful
        if op.type == "Const" or (is_computed and all(tensor.op in from_constants for tensor in op.inputs)):
            # The compiler knows the value and computes it once.
            from_constants.add(op)
        for rule, fix in _broken_rules(op, graph, from_constants):
            layer, where = graph.place(op)
            # A problem of an operation repeats in its gradient and in operations that use its result.
            key = (layer, where) if graph.is_of_gradient(op) else (rule, layer, where)
            if key not in seen:
                seen |= {(rule, layer, where), (layer, where)}
                tensor = "list of 0" if rule == "loop_shape" else _described_result(op)
                yield TpuProblem(rule=rule, op=op.type, layer=layer, where=where, tensor=tensor, fix=fix)


def _broken_rules(
    op: tf.Operation, graph: StepGraph, from_constants: Collection[tf.Operation]
) -> Iterator[tuple[str, str]]:
    if _grows_an_empty_list(op, graph):
        yield "loop_shape", GIVE_LOOPS_SIZES
    if graph.has_branches_of_other_shapes(op):
        yield "dynamic_shape", advise_on_dynamic_shape(op.type)
    if not xla.has_kernel(op):
        host_fix = None if xla.is_known(op.type) else advise_on_host_operation(op.type)
        if host_fix is not None:
            yield "host_only", host_fix
        elif not xla.is_known(op.type):
            yield "no_kernel", advise_on_missing_kernel(op.type)
        elif not _hands_text_on(op):
            dtype = xla.refused_dtype(op)
            yield "dtype", advise_on_refused_dtype("" if dtype is None else dtype.name)
    elif op.type != "Placeholder" and op not in from_constants:
        dtype = xla.refused_dtype(op)
        handed_on = any(tensor.dtype in xla.REFUSED_DTYPES for tensor in op.inputs if tensor.op not in from_constants)
        # A gradient has the same type as its forward value.
        if dtype is not None and not handed_on and not graph.is_of_gradient(op):
            yield "dtype", advise_on_refused_dtype(dtype.name)
    elif op.type == "Const" and _num_bytes(op.outputs[0]) > LARGE_CONSTANT_BYTES:
        yield "large_constant", "Hold the values in a tf.Variable that is not trained, or pass them with the batch."


def _hands_text_on(op: tf.Operation) -> bool:
    """Tells whether an operation only passes on a string from another operation, which is reported itself."""
    if op.type != "Identity" or op.inputs[0].dtype != tf.string:
        return False
    return op.inputs[0].op.type not in ("Placeholder", "Const")


def _grows_an_empty_list(op: tf.Operation, graph: StepGraph) -> bool:
    """Newer releases of XLA lower writes to a list without space, and lose the written values."""
    if op.type != "TensorListSetItem" or not op.get_attr("resize_if_index_out_of_bounds"):
        return False
    made = (source for source in graph.sources(op) if source.type == "TensorListReserve")
    return any(tf.get_static_value(reserve.inputs[1]) == 0 for reserve in made)


def _problems_of_variables(concrete: Any, graph: StepGraph, own: Collection[tf.Variable]) -> Iterator[TpuProblem]:
    known = {variable.ref() for variable in own}
    for variable in sorted(concrete.graph.variables, key=lambda variable: variable.name):
        if variable.ref() not in known:
            layer, where = graph.first_use(variable)
            fix = "Create all variables and layers inside `model_fn`, not when its module is imported."
            yield TpuProblem(
                rule="foreign_variable",
                op=variable.name,
                layer=layer,
                where=where,
                tensor=_described(variable),
                fix=fix,
            )


def _problems_of_lowering(function: Any, specs: Sequence[tf.TensorSpec], graph: StepGraph) -> Iterator[TpuProblem]:
    try:
        lowered = xla.lower(function, specs)
    except xla.LoweringError as error:
        yield _problem_of_error(error, graph)
        return
    bounded: dict[tf.Operation, str] = {}
    lost = []
    for result in xla.bounded_results(lowered):
        op = graph.find(result.op_name, result.op_type)
        if op is None:
            lost.append(result)
        else:
            bounded[op] = result.shape
    # All others get their unknown size from their inputs.
    origins = [
        op
        for op in bounded
        if op.type in _OF_UNKNOWN_SIZE or not any(source in bounded for source in graph.sources(op))
    ]
    yield from (_problem_of_bounded(op, bounded[op], graph) for op in origins)
    if not origins and lost:
        first = lost[0]
        fix = advise_on_dynamic_shape(first.op_type)
        yield TpuProblem(
            rule="dynamic_shape", op=first.op_type, layer=first.op_name, where="", tensor=f"[{first.shape}]", fix=fix
        )


def _problem_of_error(error: xla.LoweringError, graph: StepGraph) -> TpuProblem:
    op = next((found for found in map(graph.find, error.op_names) if found is not None), None)
    layer, where = ("the step", "") if op is None else graph.place(op)
    op_type = "step" if op is None else op.type
    tensor = "no result" if op is None else _described_result(op)
    if error.input_index is not None and op is not None:
        rule, fix = "compile_time_constant", advise_on_unknown_constant(op_type)
        tensor = f"input {error.input_index}, {_described(op.inputs[error.input_index])}"
    elif error.is_unbounded_loop:
        rule, fix = "unbounded_loop", BOUND_LOOPS
    elif error.change:
        rule, fix, tensor = "loop_shape", GIVE_LOOPS_SIZES, error.change
    else:
        rule, fix = "not_compiled", f"XLA says: {error.summary}"
    return TpuProblem(rule=rule, op=op_type, layer=layer, where=where, tensor=tensor, fix=fix)


def _problem_of_bounded(op: tf.Operation, shape: str, graph: StepGraph) -> TpuProblem:
    tensor = f"{op.outputs[0].dtype.name} [{shape}]"
    origin = graph.origin_of_gradient(op) if op.type.startswith("Unique") else None
    if origin is None:
        layer, where = graph.place(op)
        fix = advise_on_dynamic_shape(op.type)
        return TpuProblem(rule="dynamic_shape", op=op.type, layer=layer, where=where, tensor=tensor, fix=fix)
    layer, where = graph.place(origin)
    fix = (
        "Use tfx_gnn's DenseEmbedding instead of tf_keras.layers.Embedding, or make the gradient dense by "
        "tf.convert_to_tensor before the optimizer gets it."
    )
    return TpuProblem(rule="sparse_gradient", op=op.type, layer=layer, where=where, tensor=tensor, fix=fix)


def _described_result(op: tf.Operation) -> str:
    tensor = op.outputs[0] if op.outputs else op.inputs[0] if op.inputs else None
    return "no result" if tensor is None else _described(tensor)


def _described(tensor: Any) -> str:
    if tensor.shape.rank is None:
        return f"{tensor.dtype.name} of unknown rank"
    return f"{tensor.dtype.name} [{', '.join('?' if size is None else str(size) for size in tensor.shape)}]"


def _num_bytes(tensor: tf.Tensor) -> int:
    return int(tensor.shape.num_elements() or 0) * tensor.dtype.size

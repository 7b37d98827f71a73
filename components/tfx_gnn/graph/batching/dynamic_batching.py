"""Batches as many consecutive graphs as fit: into size constraints (the padding budget), or below a number of items."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.batching.dynamic_batch_sampler import NODE, check_batch_limits
from tfx_gnn.graph.batching.graph_datasets import check_graph_dataset
from tfx_gnn.graph.batching.size_checks import assert_satisfies_size_constraints, sizes_by_graph
from tfx_gnn.graph.batching.size_constraints import SizeConstraints, SizeRule, as_size
from tfx_gnn.graph.tensor import tf_hooks
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_piece import GraphPiece
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_parts import map_parts

# Number of graphs per step; they share the fixed cost of the step.
_CHUNK_SIZE = 256

_Plan = Callable[[GraphTensor, tf.Tensor], tf.Tensor]


def dynamic_batch(dataset: tf.data.Dataset, constraints: SizeConstraints) -> tf.data.Dataset:
    """Batches as many consecutive graphs as can be padded together to given sizes.

    A graph joins the current batch if the batch can still be padded (see
    `satisfies_size_constraints`); otherwise it starts the next batch. No graph is skipped, and
    order is kept. Graphs are read in chunks, so the cost per graph does not depend on how many fit
    into a batch.

    Args:
        dataset: data set of scalar graphs; may be infinite.
        constraints: the sizes; they must name each node set and edge set, and no others.

    Returns:
        Data set of graphs of shape [num_graphs]. `merge_batch_to_components` and then
        `pad_to_total_sizes` turn each of them into a graph of exactly these sizes. The last batch
        may be small. The data set has infinite cardinality if `dataset` has.

    Raises:
        ValueError: if elements are not scalar graphs, or the constraints lack a set or name an
            unknown one.
        tf.errors.InvalidArgumentError: at run time, if a single graph exceeds the constraints.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graphs = tf.data.Dataset.from_tensors(graph).repeat(5)
        >>> budget = tfx_gnn.SizeConstraints(3, {"nodes": 7}, {"edges": 6})
        >>> [int(batch.shape[0]) for batch in tfx_gnn.dynamic_batch(graphs, budget)]
        [2, 2, 1]
    """
    spec = check_graph_dataset(dataset)
    check_scalar_graph_tensor(spec, "dynamic_batch()")
    _check_names(spec, constraints)
    rule = SizeRule.from_constraints(spec, constraints)
    demands = {name: as_size(size) for name, size in dict(constraints.min_nodes_per_component).items()}

    def plan(graphs: GraphTensor, is_last: tf.Tensor) -> tf.Tensor:
        sizes, is_valid = sizes_by_graph(graphs, demands)

        def fits(added: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
            return rule.fits(added[:, 0], added[:, 1:]) & is_valid[start:]

        def refuse(position: tf.Tensor) -> tf.Tensor:
            graph = _take(_without_features(graphs), position, position + 1)
            with tf.control_dependencies(assert_satisfies_size_constraints(graph, constraints)):
                return tf.zeros([], tf.int64)

        return _consecutive_lengths(sizes, fits, is_last=is_last, length_if_too_big=refuse)

    return _regroup(dataset, plan)


def batch_by_size(
    dataset: tf.data.Dataset,
    max_num: int,
    *,
    mode: str = NODE,
    set_name: str = "",
    skip_too_big: bool = False,
    num_steps: int | None = None,
    num_skipped: tf.Variable | None = None,
) -> tf.data.Dataset:
    """Batches as many consecutive graphs as have at most a given number of nodes, or of edges, together.

    A graph joins the current batch if their sum stays at or below `max_num`; otherwise it starts the next batch. Order
    is kept. A graph that is larger by itself is a batch of its own, or is left out if `skip_too_big`; either way, the
    graphs before it and after it are in different batches. `DynamicBatchSampler` makes the same batches of indices.

    The batches have different shapes, which XLA and TPUs would compile one by one. For them, use `dynamic_batch`,
    whose batches can be padded to one size.

    Args:
        dataset: data set of scalar graphs; may be infinite.
        max_num: the largest sum, at least 1.
        mode: "node" or "edge": what is counted.
        set_name: node set or edge set to count; "" counts all of them.
        skip_too_big: whether to leave out graphs that are larger than `max_num` by themselves.
        num_steps: number of batches after which the data set ends, at least 1; None: no limit.
        num_skipped: int64 scalar variable to which each pass adds the number of graphs that it left out. A `prefetch`
            later in the pipeline reads ahead, and counts ahead.

    Returns:
        Data set of graphs of shape [num_graphs]; `merge_batch_to_components` merges each batch.

    Raises:
        ValueError: if elements are not scalar graphs, or an argument is out of range.

    Example:
        >>> graphs = tfx_gnn.dataset_from_generator(lambda: (
        ...     tfx_gnn.homogeneous(source=tf.constant([0]), target=tf.constant([0]), node_features=tf.zeros([size, 1]))
        ...     for size in (2, 100, 3, 1)))
        >>> num_skipped = tf.Variable(0, dtype=tf.int64)
        >>> batches = tfx_gnn.batch_by_size(graphs, 5, skip_too_big=True, num_skipped=num_skipped)
        >>> [int(batch.shape[0]) for batch in batches], int(num_skipped)
        ([1, 2], 1)
    """
    spec = check_graph_dataset(dataset)
    check_scalar_graph_tensor(spec, "batch_by_size()")
    check_batch_limits(max_num, mode, num_steps)
    columns = _counted_columns(spec, mode, set_name)
    if num_skipped is not None and (num_skipped.dtype != tf.int64 or num_skipped.shape.rank != 0):
        raise ValueError(
            f"`num_skipped` must be an int64 scalar variable; got dtype={num_skipped.dtype.name}, "
            f"shape={num_skipped.shape}. Make it by tf.Variable(0, dtype=tf.int64)."
        )

    def sizes_of(graphs: GraphTensor) -> tf.Tensor:
        sizes, _ = sizes_by_graph(graphs, {})
        return tf.reduce_sum(tf.gather(sizes, columns, axis=1), axis=1, keepdims=True)

    def plan(graphs: GraphTensor, is_last: tf.Tensor) -> tf.Tensor:
        return _consecutive_lengths(
            sizes_of(graphs),
            lambda added, _: added[:, 0] <= max_num,
            is_last=is_last,
            length_if_too_big=lambda _: tf.ones([], tf.int64),
        )

    def is_wanted(batch: GraphTensor) -> tf.Tensor:
        # Only a graph that is too big by itself can be in a batch that is too big.
        is_too_big = tf.reduce_sum(sizes_of(batch)) > max_num
        if num_skipped is None:
            return tf.logical_not(is_too_big)
        with tf.control_dependencies([num_skipped.assign_add(tf.cast(is_too_big, tf.int64), read_value=False)]):
            return tf.logical_not(is_too_big)

    batches = _regroup(dataset, plan)
    if skip_too_big:
        batches = batches.filter(tf.autograph.experimental.do_not_convert(is_wanted))
    return batches if num_steps is None else batches.take(num_steps)


def _counted_columns(spec: GraphTensorSpec, mode: str, set_name: str) -> list[int]:
    """Finds the columns of `sizes_by_graph` to add up."""
    nodes, edges = list(spec.node_sets_spec), list(spec.edge_sets_spec)
    known = nodes if mode == NODE else edges
    if not known:
        raise ValueError(f"`mode` must name items that the graphs have; got {mode!r} for graphs without {mode} sets.")
    if set_name and set_name not in known:
        raise ValueError(
            f"`set_name` must be one of the {mode} sets {sorted(known)}; got {set_name!r}. "
            f"Name one of these, or leave it out to count the {mode}s of all."
        )
    first = 1 if mode == NODE else 1 + len(nodes)
    return [first + known.index(name) for name in ([set_name] if set_name else known)]


def _regroup(dataset: tf.data.Dataset, plan: _Plan) -> tf.data.Dataset:
    """Batches consecutive graphs by a plan.

    `plan` maps a batch of graphs, and whether they are the last ones, to the lengths of the batches to cut from the
    front, int64 of shape [num_batches]. Graphs beyond the sum of these lengths are carried over to the next chunk.
    """
    # Nothing here needs AutoGraph, which would take seconds to convert it.
    as_written = tf.autograph.experimental.do_not_convert
    chunks = dataset.batch(_CHUNK_SIZE)
    spec = chunks.element_spec

    def encode(graphs: GraphTensor) -> tuple[tf.Tensor, ...]:
        return tuple(tf_hooks.to_flat_tensors(spec, graphs, batched=False))

    def decode(tensors: tuple[tf.Tensor, ...]) -> GraphTensor:
        return tf_hooks.from_flat_tensors(spec, list(tensors))

    nothing = encode(spec._create_empty_value())
    flat = chunks.map(as_written(lambda graphs: (encode(graphs), tf.zeros([], tf.bool))))
    flat = flat.concatenate(tf.data.Dataset.from_tensors((nothing, tf.ones([], tf.bool))))

    # What is carried over is one scalar. Of tensors whose shapes change from step to step, `scan` would find the common
    # type by tracing twice.
    def pack(tensors: tuple[tf.Tensor, ...]) -> tf.Tensor:
        return tf.raw_ops.OptionalFromValue(components=tensors)

    def unpack(packed: tf.Tensor) -> tuple[tf.Tensor, ...]:
        specs = tf_hooks.flat_tensor_specs(spec)
        return tuple(
            tf.raw_ops.OptionalGetValue(
                optional=packed,
                output_types=[one.dtype for one in specs],
                output_shapes=[one.shape for one in specs],
            )
        )

    def step(carried: tf.Tensor, chunk: Any) -> tuple[Any, Any]:
        tensors, is_last = chunk
        graphs = _map_fields(_join, decode(unpack(carried)), decode(tensors))
        lengths = plan(graphs, is_last)
        total = tf.reduce_sum(lengths)
        rest = _take(graphs, total, None)
        return pack(encode(rest)), (encode(_take(graphs, 0, total)), lengths)

    def cut(tensors: Any, lengths: tf.Tensor) -> tf.data.Dataset:
        graphs = decode(tensors)
        ends = tf.cumsum(lengths)
        pieces = tf.data.Dataset.from_tensor_slices((ends - lengths, ends))
        return pieces.map(as_written(lambda start, end: encode(_take(graphs, start, end))))

    regrouped = flat.scan(pack(nothing), as_written(step)).flat_map(as_written(cut))
    decoded = regrouped.map(as_written(lambda *tensors: decode(tensors)))
    if tf.get_static_value(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        decoded = decoded.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
    return decoded


def _map_fields(function: Callable[..., Any], *pieces: GraphPiece) -> Any:
    """Applies a function to corresponding fields of pieces of one type, of rank 1.

    Sorted edges stay sorted within each graph: the order is stored in ordinary fields.
    """

    def map_leaf(_: str, *leaves: Any) -> Any:
        return _map_fields(function, *leaves) if isinstance(leaves[0], GraphPiece) else function(*leaves)

    first = pieces[0]
    return type(first)._assemble(
        map_parts(map_leaf, *(piece._parts for piece in pieces)),
        shape=tf.TensorShape([None]),
        static=first._given_spec._static,
        row_splits_dtype=first.row_splits_dtype,
    )


def _without_features(graphs: GraphTensor) -> GraphTensor:
    return graphs.replace_features(
        context={},
        node_sets={name: {} for name in graphs.node_sets},
        edge_sets={name: {} for name in graphs.edge_sets},
    )


def _take(graphs: GraphTensor, start: Any, end: Any) -> Any:
    """Takes the graphs from `start` to before `end`, or to the last where `end` is None."""
    return _map_fields(lambda field: _take_rows(field, start, end), graphs)


def _take_rows(field: Any, start: Any, end: Any) -> Any:
    # `field[start:end]` means the same, with almost twice as many operations for ragged fields.
    if not isinstance(field, tf.RaggedTensor):
        return field[start:end]
    length = field.uniform_row_length
    if length is not None:
        length = tf.cast(length, tf.int64)
        nrows = (field.nrows(tf.int64) if end is None else end) - start
        values = _take_rows(field.values, start * length, None if end is None else end * length)
        return tf.RaggedTensor.from_uniform_row_length(values, field.uniform_row_length, nrows, validate=False)
    splits = field.row_splits[start : None if end is None else end + 1]
    values = _take_rows(field.values, splits[0], None if end is None else splits[-1])
    return tf.RaggedTensor.from_row_splits(values, splits - splits[0], validate=False)


def _join(first: Any, second: Any) -> Any:
    return tf.concat([first, second], axis=0)


def _consecutive_lengths(
    sizes: tf.Tensor,
    fits: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    *,
    is_last: tf.Tensor,
    length_if_too_big: Callable[[tf.Tensor], tf.Tensor],
) -> tf.Tensor:
    """Cuts the longest batches that fit, from the front.

    `fits` gets the sizes of the batches from a start to each later graph, and the start. `length_if_too_big` gets the
    position of a graph that does not fit even alone; it returns the length of its batch, or raises an error.
    """
    totals = tf.pad(tf.cumsum(sizes, axis=0), [[1, 0], [0, 0]])
    num_graphs = tf.shape(sizes, tf.int64)[0]

    def is_unfinished(start: tf.Tensor, lengths: tf.Tensor, is_complete: tf.Tensor) -> tf.Tensor:
        del lengths
        return (start < num_graphs) & is_complete

    def cut_one(start: tf.Tensor, lengths: tf.Tensor, is_complete: tf.Tensor) -> tuple[tf.Tensor, ...]:
        del is_complete
        fitting = fits(totals[start + 1 :] - totals[start], start)
        # The number of graphs before the first one that does not fit: from there on, the products are zero.
        length = tf.reduce_sum(tf.math.cumprod(tf.cast(fitting, tf.int64)))
        length = tf.cond(length > 0, lambda: length, lambda: length_if_too_big(start))
        # A batch of all remaining graphs may still grow when more graphs arrive.
        is_complete = (start + length < num_graphs) | is_last
        lengths = tf.concat([lengths, tf.repeat(length, tf.cast(is_complete, tf.int64))], axis=0)
        return start + length, lengths, is_complete

    _, lengths, _ = tf.while_loop(
        is_unfinished,
        cut_one,
        (tf.zeros([], tf.int64), tf.zeros([0], tf.int64), tf.ones([], tf.bool)),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None]), tf.TensorShape([])),
    )
    return lengths


def _check_names(spec: GraphTensorSpec, constraints: SizeConstraints) -> None:
    minima = dict(constraints.min_nodes_per_component)
    for field, kind, named, known, must_be_complete in (
        ("total_num_nodes", "node", set(constraints.total_num_nodes), set(spec.node_sets_spec), True),
        ("total_num_edges", "edge", set(constraints.total_num_edges), set(spec.edge_sets_spec), True),
        ("min_nodes_per_component", "node", set(minima), set(spec.node_sets_spec), False),
    ):
        if must_be_complete and known - named:
            missing = min(known - named)
            raise ValueError(
                f"The maximum total number of <{missing}> {kind}s must be specified as "
                f"`constraints.{field}[<{missing}>]`; got {kind}s of {sorted(named)} only."
            )
        if named - known:
            invalid = ", ".join(f"<{name}>" for name in sorted(named - known))
            raise ValueError(
                f"The `constraints.{field}` keys must be existing {kind} set names. Invalid keys: [{invalid}]. "
                f"The graphs have {kind} sets {sorted(known)}."
            )

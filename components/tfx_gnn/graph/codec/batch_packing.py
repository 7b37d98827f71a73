"""Packs graphs into batches that fill size constraints (the padding budget), with a look-ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.batching.graph_datasets import check_graph_dataset
from tfx_gnn.graph.batching.packing_plan import planner
from tfx_gnn.graph.batching.size_checks import satisfies_size_constraints, sizes_by_graph
from tfx_gnn.graph.batching.size_constraints import SizeConstraints, SizeRule, as_size
from tfx_gnn.graph.codec import example_layout
from tfx_gnn.graph.tensor import tf_hooks
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec

_Fields = tuple[tf.Tensor, ...]

#: Minimum number of graphs per step; they share the fixed cost of the step, and are in memory together.
_MIN_GRAPHS = 64
#: The same for serialized graphs, which are small.
_MIN_EXAMPLES = 512


def pack_batches(
    dataset: tf.data.Dataset,
    size_constraints: SizeConstraints,
    *,
    window: int = 128,
    on_oversized: Callable[[Any], Any] | None = None,
    spec: GraphTensorSpec | None = None,
    prefix: str | None = None,
) -> tf.data.Dataset:
    """Batches graphs so that each batch fills a padding budget as well as possible.

    Graphs can be packed before they are parsed: if `spec` is given, the data set holds serialized
    tf.Examples, of which only the sizes are read. Moving strings is many times faster than moving
    all the fields of graphs, so this is the recommended training input:
    `pack_batches(records, budget, spec=spec).map(lambda batch: parse_merge_and_pad(spec, batch, budget))`.

    A batch starts with the graph that has waited longest. From the next `window` graphs, it then
    repeatedly takes the one that fits and promises the most nodes and edges in the complete batch:
    a graph that is large itself but leaves much of the scarcest size (components, a node set or an
    edge set). The emptier the batch, the more large graphs are preferred. When no graph fits, the
    batch is complete. No graph is skipped and no graph waits forever. The order is the same in each
    pass if the order of `dataset` is.

    Args:
        dataset: data set of scalar graphs; with `spec`, of serialized tf.Examples, strings of
            shape []. May be infinite.
        size_constraints: the padding budget; it must name each node set and edge set of the graphs.
        window: number of graphs to choose the next one from, at least 1. A larger window fills
            batches better and takes longer.
        on_oversized: TensorFlow function called with each element whose graph does not fit even
            alone; the element is then dropped. By default such a graph is an error.
        spec: spec of the scalar graph in each tf.Example, if the data set holds tf.Examples.
        prefix: prefix of the keys in tf.Examples, as for `parse_example`.

    Returns:
        Data set of graphs of shape [num_graphs], which `merge_batch_to_components` and then
        `pad_to_total_sizes` turn into graphs of exactly the sizes of the budget; or of strings of
        shape [num_graphs] for `parse_merge_and_pad`.

    Raises:
        ValueError: if elements are not scalar graphs, or not scalar strings although `spec` is
            given, `window` is too small, or the budget lacks a set or names an unknown one.
        tf.errors.InvalidArgumentError: at run time, if a graph does not fit even alone and
            `on_oversized` is not given.

    Example:
        >>> graph = tfx_gnn.homogeneous(
        ...     source=tf.constant([0, 1]), target=tf.constant([1, 2]), node_features=tf.constant([5., 6., 7.]))
        >>> graphs = tf.data.Dataset.from_tensors(graph).repeat(5)
        >>> budget = tfx_gnn.SizeConstraints(3, {"nodes": 7}, {"edges": 6})
        >>> [int(batch.shape[0]) for batch in tfx_gnn.pack_batches(graphs, budget)]
        [2, 2, 1]
    """
    if window < 1:
        raise ValueError(f"`window` must be at least 1; got {window}.")
    graph_spec = _check_graphs(dataset) if spec is None else _check_examples(dataset, spec)
    rule = SizeRule.from_constraints(graph_spec, size_constraints)
    _check_no_unknown_sets(rule, size_constraints)
    demands = {name: as_size(size) for name, size in dict(size_constraints.min_nodes_per_component).items()}
    if spec is not None:
        items: _Items = ExampleItems(spec, prefix, demands)
        boxed_spec: Any = (tf.TensorSpec([], tf.string),)
        batch_spec: Any = tf.TensorSpec([None], tf.string)
    else:
        if on_oversized is not None:
            report, on_oversized = on_oversized, None
            dataset = dataset.filter(lambda graph: _fits_or_is_reported(graph, size_constraints, report))
        batch_spec = graph_spec._batch(None)
        items = _GraphItems(batch_spec, demands)
        # Internally, the data set holds the boxed fields of the graphs; only its element spec says otherwise.
        boxed_spec = tuple(tf_hooks.flat_tensor_specs(graph_spec))
    elements = tf.data.experimental.from_variant(tf.data.experimental.to_variant(dataset), boxed_spec)
    packer = _Packer(rule, items, window, on_oversized)
    # Each chunk is measured while the chunks before it are planned.
    chunks = elements.batch(packer.chunk_size).map(packer.measure, num_parallel_calls=1, deterministic=True)
    chunks = chunks.concatenate(tf.data.Dataset.from_tensors(packer.end()))
    packed = chunks.scan(packer.start(), packer.step).flat_map(packer.cut)
    return tf.data.experimental.from_variant(tf.data.experimental.to_variant(packed), batch_spec)


def _check_graphs(dataset: tf.data.Dataset) -> GraphTensorSpec:
    spec = check_graph_dataset(dataset)
    check_scalar_graph_tensor(spec, "pack_batches()")
    return spec


def _check_examples(dataset: tf.data.Dataset, spec: GraphTensorSpec) -> GraphTensorSpec:
    check_scalar_graph_tensor(spec, "pack_batches()")
    if not tf.TensorSpec([], tf.string).is_compatible_with(dataset.element_spec):
        raise ValueError(
            "`dataset` must hold serialized tf.Examples, strings of shape [], if `spec` is given; got "
            f"{dataset.element_spec}. Leave `spec` out for a data set of graphs."
        )
    return spec


def _check_no_unknown_sets(rule: SizeRule, constraints: SizeConstraints) -> None:
    known = {name for _, name in rule.sets}
    named = {*constraints.total_num_nodes, *constraints.total_num_edges, *dict(constraints.min_nodes_per_component)}
    if not named <= known:
        raise ValueError(
            f"`size_constraints` must name sets of the graphs only; got {sorted(named - known)}. Known are "
            f"{sorted(known)}."
        )


def _fits_or_is_reported(
    graph: GraphTensor, constraints: SizeConstraints, report: Callable[[GraphTensor], Any]
) -> tf.Tensor:
    def leave_out() -> tf.Tensor:
        report(graph)
        return tf.zeros([], tf.bool)

    return tf.cond(satisfies_size_constraints(graph, constraints), lambda: tf.ones([], tf.bool), leave_out)


class _Items(Protocol):
    """The items to pack, as tensors with one row per graph."""

    def sizes(self, fields: _Fields) -> tuple[tf.Tensor, tf.Tensor]:
        """Counts components, nodes and edges."""
        ...

    def nothing(self) -> _Fields:
        """Returns no items, boxed."""
        ...

    def box(self, fields: _Fields) -> _Fields:
        """Wraps the fields in tensors whose elements are moved without copying their contents."""
        ...

    def unbox(self, fields: _Fields) -> _Fields:
        """Undoes `box`."""
        ...


class _GraphItems:
    """Graphs that are passed on as boxed fields, one variant tensor per field, without copying."""

    def __init__(self, batch_spec: Any, demands: dict[str, Any]) -> None:
        self._batch_spec = batch_spec
        self._demands = demands

    def sizes(self, fields: _Fields) -> tuple[tf.Tensor, tf.Tensor]:
        # Only the sizes are actually decoded: in a function, unused results cost nothing.
        graphs = tf_hooks.from_flat_tensors(self._batch_spec, list(fields))
        return sizes_by_graph(graphs, self._demands)

    def nothing(self) -> _Fields:
        return tuple(tf_hooks.no_flat_tensors(self._batch_spec))

    def box(self, fields: _Fields) -> _Fields:
        return fields

    def unbox(self, fields: _Fields) -> _Fields:
        return fields


class ExampleItems:
    """Serialized tf.Examples, as items to pack."""

    def __init__(self, spec: GraphTensorSpec, prefix: str | None, demands: dict[str, Any]) -> None:
        """Looks up where sizes are stored."""
        self._layouts = list(example_layout.piece_keys(spec, prefix))[1:]
        num_components = [example_layout.piece_spec(spec, layout).sizes_spec.shape[0] for layout in self._layouts]
        # A set without `#size` has size 0 in each component, if their number is static.
        self._features = {
            layout.size_key: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64, validate=False)
            if count is None
            else tf.io.FixedLenFeature([count], tf.int64, [0] * count)
            for layout, count in zip(self._layouts, num_components, strict=True)
        }
        self._num_components = spec.context_spec.sizes_spec.shape[0]
        self._demands = demands

    def sizes(self, fields: _Fields) -> tuple[tf.Tensor, tf.Tensor]:
        """Counts components, nodes and edges.

        Parsing the examples later checks whether other features agree with these counts.
        """
        parsed = tf.io.parse_example(fields[0], self._features)
        sizes = [parsed[layout.size_key] for layout in self._layouts]
        totals = [tf.reduce_sum(size, axis=1) for size in sizes]
        zeros = tf.zeros_like(fields[0], tf.int64)
        if self._num_components is not None or not sizes:
            num_components = zeros + (self._num_components or 0)
        elif isinstance(sizes[0], tf.RaggedTensor):
            num_components = tf.cast(sizes[0].row_splits[1:] - sizes[0].row_splits[:-1], tf.int64)
        else:
            num_components = zeros + sizes[0].shape[1]
        is_enough = tf.equal(zeros, 0)
        for layout, size in zip(self._layouts, sizes, strict=True):
            if layout.set_type == "nodes" and layout.set_name in self._demands:
                demand = tf.cast(self._demands[layout.set_name], tf.int64)
                is_enough &= tf.reduce_all(size >= demand, axis=1)
        return tf.stack([num_components, *totals], axis=1), is_enough

    def nothing(self) -> _Fields:
        """Returns no examples, boxed."""
        return self.box((tf.zeros([0], tf.string),))

    def box(self, fields: _Fields) -> _Fields:
        """Puts each string into a variant, which is moved without copying the string."""
        splits = tf.range(tf.size(fields[0], out_type=tf.int64) + 1)
        boxed = tf.raw_ops.RaggedTensorToVariant(
            rt_nested_splits=[splits], rt_dense_values=fields[0], batched_input=True
        )
        return (boxed,)

    def unbox(self, fields: _Fields) -> _Fields:
        """Undoes `box`."""
        unboxed = tf.raw_ops.RaggedTensorFromVariant(
            encoded_ragged=fields[0], input_ragged_rank=0, output_ragged_rank=1, Tvalues=tf.string, Tsplits=tf.int64
        )
        return (unboxed.output_dense_values,)


class _Packer:
    """Packs graphs step by step: functions for the stages of the input pipeline."""

    def __init__(
        self, rule: SizeRule, items: _Items, window: int, on_oversized: Callable[[tf.Tensor], Any] | None
    ) -> None:
        self._rule = rule
        self._items = items
        self._window = window
        self._on_oversized = on_oversized
        targets = np.asarray([rule.target_components, *rule.targets])
        # Part of the budget is reserved for a padding component.
        reserve = np.asarray([1, *rule.demands])
        self._capacity = np.maximum(targets - reserve, 1).astype(np.float32)
        self._limits = (np.int64(rule.target_components), rule.targets, rule.demands, self._capacity)
        self._planner = planner(window, rule.sets, tuple(rule.edge_positions), tuple(rule.end_positions))
        #: Number of new graphs per step.
        self.chunk_size = max(window, _MIN_EXAMPLES if isinstance(items, ExampleItems) else _MIN_GRAPHS)

    def measure(self, *fields: tf.Tensor) -> tuple[tf.Tensor, _Fields, tf.Tensor]:
        """Returns the sizes of the graphs, the boxed fields, and False: this is not the last chunk."""
        sizes, is_enough = self._items.sizes(fields)
        fits = is_enough & self._rule.fits(sizes[:, 0], sizes[:, 1:])
        if self._on_oversized is not None:
            sizes, fields = self._without_oversized(sizes, fields, fits)
            return sizes, self._items.box(fields), tf.zeros([], tf.bool)
        names = ["components", *(f"{kind}/{name}" for kind, name in self._rule.sets)]
        limits = [self._rule.target_components, *self._rule.targets]
        wrong = tf.where(tf.logical_not(fits))[:1, 0]
        message = (
            "`size_constraints` must have room for each graph and its padding; got a graph that does not fit even "
            f"alone. Numbers of {names}:"
        )
        check = tf.debugging.Assert(
            tf.equal(tf.size(wrong), 0),
            [
                message,
                tf.gather(sizes, wrong),
                "of at most:",
                limits,
            ],
            summarize=100,
        )
        with tf.control_dependencies([check]):
            return tf.identity(sizes), self._items.box(fields), tf.zeros([], tf.bool)

    def _without_oversized(self, sizes: tf.Tensor, fields: _Fields, fits: tf.Tensor) -> tuple[tf.Tensor, _Fields]:
        def report(field: tf.Tensor) -> tf.Tensor:
            assert self._on_oversized is not None
            self._on_oversized(field)
            return tf.zeros([], tf.bool)

        reports = tf.map_fn(report, tf.boolean_mask(fields[0], tf.logical_not(fits)), fn_output_signature=tf.bool)
        with tf.control_dependencies([reports]):
            kept = tf.where(fits)[:, 0]
        return tf.gather(sizes, kept), tuple(tf.gather(field, kept) for field in fields)

    def nothing(self) -> tuple[tf.Tensor, _Fields]:
        """Returns the sizes and fields of no graphs."""
        sizes = tf.zeros([0, len(self._capacity)], tf.int64)
        return sizes, self._items.nothing()

    def start(self) -> tuple[Any, ...]:
        """Returns the initial state: no waiting graphs, and an empty open batch."""
        return *self.nothing(), self.nothing()[1], tf.zeros([len(self._capacity)], tf.int64)

    def end(self) -> tuple[tf.Tensor, _Fields, tf.Tensor]:
        """Returns an empty chunk that is marked as the last one."""
        return *self.nothing(), tf.ones([], tf.bool)

    def step(self, carried: Any, chunk: Any) -> tuple[Any, Any]:
        """Completes batches from waiting and new graphs; carries over the remaining graphs and the open batch."""
        sizes = tf.concat([carried[0], chunk[0]], axis=0)
        fields = [_join(*parts) for parts in zip(carried[1], chunk[1], strict=True)]
        open_fields, used, is_last = carried[2], carried[3], chunk[2]
        num_graphs = tf.shape(sizes)[0]
        most = self._window + self.chunk_size
        padded = tf.ensure_shape(tf.pad(sizes, [[0, most - num_graphs], [0, 0]]), [most, len(self._capacity)])
        plan = self._planner(self._limits, padded, num_graphs, used, is_last)
        order = plan.order[: plan.num_taken]
        batched = [_join(first, tf.gather(field, order)) for first, field in zip(open_fields, fields, strict=True)]
        # Batch 0 continues the open batch; the last batch stays open until no more graphs fit.
        lengths = tf.math.bincount(plan.batch[: plan.num_taken], minlength=plan.current + 1, dtype=tf.int64)
        num_open = tf.shape(open_fields[0], tf.int64)[0]
        lengths = tf.concat([lengths[:1] + num_open, lengths[1:]], axis=0)
        lengths = tf.boolean_mask(lengths, is_last | (tf.range(tf.size(lengths)) < plan.current))
        lengths = tf.boolean_mask(lengths, lengths > 0)
        total = tf.reduce_sum(lengths)
        waiting = tf.where(plan.is_waiting)[:, 0]
        state = (
            tf.gather(sizes, waiting),
            tuple(tf.gather(field, waiting) for field in fields),
            tuple(field[total:] for field in batched),
            plan.used,
        )
        return state, (tuple(field[:total] for field in batched), lengths)

    def cut(self, fields: _Fields, lengths: tf.Tensor) -> tf.data.Dataset:
        """Cuts consecutive graphs into batches of the given lengths."""
        ends = tf.cumsum(lengths)
        pieces = tf.data.Dataset.from_tensor_slices((ends - lengths, ends))
        return pieces.map(lambda start, end: self._items.unbox(tuple(field[start:end] for field in fields)))


def _join(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Concatenates tensors, including variant tensors, for which `tf.concat` has no kernel."""
    if first.dtype != tf.variant:
        return tf.concat([first, second], axis=0)
    num_first = tf.shape(first)[0]
    indices = [tf.range(num_first), num_first + tf.range(tf.shape(second)[0])]
    return tf.dynamic_stitch(indices, [first, second])

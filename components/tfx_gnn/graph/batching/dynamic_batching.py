"""Batches of as many graphs as fit a padding budget.

Graphs are joined and cut as flat collections of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_checks import assert_satisfies_size_constraints
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.batching.size_rule import SizeRule, as_size
from tfx_gnn.graph.batching.size_search import check_graph_dataset
from tfx_gnn.graph.tensor import tf_hooks
from tfx_gnn.graph.tensor.graph_checks import check_scalar_graph_tensor
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ADJACENCY_PART
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

_Key = tuple[const.SetType, const.SetName, "const.FieldName | tuple[str, str]"]


def map_fields(function: Callable[..., const.Field], *graphs: GraphTensor) -> GraphTensor:
    """Applies a function to corresponding fields of graphs of one type."""
    spec = graphs[0].spec
    fields = [_fields(graph) for graph in graphs]
    return _from_fields(spec, {key: function(*(field[key] for field in fields)) for key in fields[0]})


def empty_batch(spec: GraphTensorSpec) -> GraphTensor:
    """Makes a batch of no graphs."""
    return _from_fields(spec, {key: _empty_field(field_spec) for key, field_spec in _field_specs(spec).items()})


def _fields(graph: GraphTensor) -> dict[_Key, const.Field]:
    fields: dict[_Key, const.Field] = {}
    for key, piece in _pieces(graph.context, graph.node_sets, graph.edge_sets):
        fields.update({(*key, const.SIZE_NAME): piece.sizes})
        fields.update({(*key, name): value for name, value in piece.features.items()})
        if isinstance(piece, EdgeSet):
            fields.update({(*key, (ADJACENCY_PART, part)): index for part, index in piece.adjacency._parts.items()})
    return fields


def _field_specs(spec: GraphTensorSpec) -> dict[_Key, const.FieldSpec]:
    specs: dict[_Key, const.FieldSpec] = {}
    for key, piece in _pieces(spec.context_spec, spec.node_sets_spec, spec.edge_sets_spec):
        specs.update({(*key, const.SIZE_NAME): piece.sizes_spec})
        specs.update({(*key, name): value for name, value in piece.features_spec.items()})
        if key[0] == const.EDGES:
            indices = piece.adjacency_spec._parts_spec
            specs.update({(*key, (ADJACENCY_PART, part)): index for part, index in indices.items()})
    return specs


def _from_fields(spec: GraphTensorSpec, fields: Mapping[_Key, const.Field]) -> GraphTensor:
    def arguments(kind: str, name: str, features_spec: const.FieldsSpec) -> dict[str, Any]:
        return {
            "sizes": fields[kind, name, const.SIZE_NAME],
            "features": {feature: fields[kind, name, feature] for feature in features_spec},
        }

    edge_sets = {}
    for name, edge_set_spec in spec.edge_sets_spec.items():
        adjacency_spec = edge_set_spec.adjacency_spec
        parts = {part: fields[const.EDGES, name, (ADJACENCY_PART, part)] for part in adjacency_spec._parts_spec}
        edge_sets[name] = EdgeSet.from_fields(
            **arguments(const.EDGES, name, edge_set_spec.features_spec),
            # Edges that are sorted stay so, graph by graph.
            adjacency=adjacency_spec.value_type._assemble(
                parts, shape=tf.TensorShape([None]), static=adjacency_spec._static
            ),
        )
    return GraphTensor.from_pieces(
        context=Context.from_fields(**arguments(const.CONTEXT, "", spec.context_spec.features_spec)),
        node_sets={
            name: NodeSet.from_fields(**arguments(const.NODES, name, node_set_spec.features_spec))
            for name, node_set_spec in spec.node_sets_spec.items()
        },
        edge_sets=edge_sets,
    )


def _pieces(context: Any, node_sets: Mapping[str, Any], edge_sets: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [
        ((const.CONTEXT, ""), context),
        *(((const.NODES, name), piece) for name, piece in node_sets.items()),
        *(((const.EDGES, name), piece) for name, piece in edge_sets.items()),
    ]


def _empty_field(spec: const.FieldSpec) -> const.Field:
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros([0, *(size or 0 for size in spec.shape[1:].as_list())], spec.dtype)
    inner = [size or 0 for size in spec.shape[spec.ragged_rank + 1 :].as_list()]
    field: Any = tf.zeros([0, *inner], spec.dtype)
    for size in reversed(spec.shape[1 : spec.ragged_rank + 1].as_list()):
        if size is None:
            field = tf.RaggedTensor.from_row_splits(field, tf.zeros([1], spec.row_splits_dtype))
        else:
            field = tf.RaggedTensor.from_uniform_row_length(
                field, tf.constant(size, spec.row_splits_dtype), nrows=tf.zeros([], spec.row_splits_dtype)
            )
    return field


# How many graphs are looked at together. The cost of a step is shared by all of them.
_CHUNK_SIZE = 256


_Plan = Callable[[GraphTensor, tf.Tensor], tf.Tensor]


def dynamic_batch(dataset: tf.data.Dataset, constraints: SizeConstraints) -> tf.data.Dataset:
    """Batches as many consecutive graphs as can be padded together to given sizes.

    A graph joins a batch if the batch can be padded afterwards (see `satisfies_size_constraints`);
    otherwise it starts the next one. Nothing is skipped, and order is kept. Graphs are read in
    chunks, so the cost of a graph does not depend on how many fit into a batch.

    Args:
        dataset: data set of scalar graphs; may be infinite.
        constraints: the sizes; they must name each node set and edge set, and no others.

    Returns:
        Data set of graphs of shape [num_graphs], which `merge_batch_to_components` and
        `pad_to_total_sizes` make graphs of exactly these sizes. The last batch may be small.
        It is known to be infinite if `dataset` is.

    Raises:
        ValueError: if elements are not scalar graphs, or the constraints lack a set or name an
            unknown one.
        tf.errors.InvalidArgumentError: at run time, if a graph does not fit even alone.

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
        has_demand = [
            tf.reduce_all(tf.cast(graphs.node_sets[name].sizes, tf.int64) >= tf.cast(demand, tf.int64), axis=-1)
            for name, demand in demands.items()
        ]
        num_components = tf.cast(graphs.num_components, tf.int64)
        is_valid = tf.reduce_all(tf.stack([*has_demand, tf.ones_like(num_components, tf.bool)]), axis=0)

        def complain(position: tf.Tensor) -> tf.Operation:
            graph = map_fields(lambda field: field[position : position + 1], graphs)
            return tf.group(*assert_satisfies_size_constraints(graph, constraints))

        return _consecutive_lengths(
            rule, num_components, _sizes_by_graph(graphs), is_valid, is_last=is_last, complain=complain
        )

    return regroup(dataset, plan)


def regroup(dataset: tf.data.Dataset, plan: _Plan) -> tf.data.Dataset:
    """Batches consecutive graphs by a plan.

    `plan` maps a batch of graphs, and whether they are the last ones, to the lengths of the batches to cut from the
    front, int64 of shape [num_batches]. Graphs beyond their sum come again with the next chunk.
    """
    # Nothing here needs AutoGraph, which takes seconds to read it all.
    as_written = tf.autograph.experimental.do_not_convert
    chunks = dataset.batch(_CHUNK_SIZE)
    spec = chunks.element_spec

    def encode(graphs: GraphTensor) -> tuple[tf.Tensor, ...]:
        return tuple(tf_hooks.to_flat_tensors(spec, graphs, batched=False))

    def decode(tensors: tuple[tf.Tensor, ...]) -> GraphTensor:
        return tf_hooks.from_flat_tensors(spec, list(tensors))

    nothing = encode(empty_batch(spec))
    flat = chunks.map(as_written(lambda graphs: (encode(graphs), tf.zeros([], tf.bool))))
    flat = flat.concatenate(tf.data.Dataset.from_tensors((nothing, tf.ones([], tf.bool))))

    def step(carried: Any, chunk: Any) -> tuple[Any, Any]:
        tensors, is_last = chunk
        graphs = map_fields(_join, decode(carried), decode(tensors))
        lengths = plan(graphs, is_last)
        total = tf.reduce_sum(lengths)
        rest = map_fields(lambda field: field[total:], graphs)
        return encode(rest), (encode(map_fields(lambda field: field[:total], graphs)), lengths)

    def cut(tensors: Any, lengths: tf.Tensor) -> tf.data.Dataset:
        graphs = decode(tensors)
        ends = tf.cumsum(lengths)
        pieces = tf.data.Dataset.from_tensor_slices((ends - lengths, ends))
        return pieces.map(as_written(lambda start, end: encode(map_fields(lambda field: field[start:end], graphs))))

    regrouped = flat.scan(nothing, as_written(step)).flat_map(as_written(cut))
    decoded = regrouped.map(as_written(lambda *tensors: decode(tensors)))
    if tf.get_static_value(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        decoded = decoded.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))
    return decoded


def _join(first: Any, second: Any) -> Any:
    return tf.concat([first, second], axis=0)


def _sizes_by_graph(graphs: GraphTensor) -> tf.Tensor:
    pieces = [*graphs.node_sets.values(), *graphs.edge_sets.values()]
    sizes = [tf.reduce_sum(tf.cast(piece.sizes, tf.int64), axis=-1) for piece in pieces]
    return tf.stack(sizes, axis=1) if sizes else tf.zeros([tf.size(graphs.num_components), 0], tf.int64)


def _consecutive_lengths(
    rule: SizeRule,
    num_components: tf.Tensor,
    sizes: tf.Tensor,
    is_valid: tf.Tensor,
    *,
    is_last: tf.Tensor,
    complain: Callable[[tf.Tensor], tf.Operation],
) -> tf.Tensor:
    """Cuts graphs into the longest batches that fit, from the front; complains of one that never does."""
    table = tf.concat([num_components[:, tf.newaxis], sizes], axis=1)
    totals = tf.pad(tf.cumsum(table, axis=0), [[1, 0], [0, 0]])
    num_graphs = tf.size(num_components, tf.int64)

    def is_unfinished(start: tf.Tensor, lengths: tf.Tensor, is_complete: tf.Tensor) -> tf.Tensor:
        del lengths
        return (start < num_graphs) & is_complete

    def cut_one(start: tf.Tensor, lengths: tf.Tensor, is_complete: tf.Tensor) -> tuple[tf.Tensor, ...]:
        del is_complete
        added = totals[start + 1 :] - totals[start]
        fits = rule.fits(added[:, 0], added[:, 1:]) & is_valid[start:]
        length = tf.reduce_sum(tf.math.cumprod(tf.cast(fits, tf.int64)))
        check = tf.cond(length > 0, tf.no_op, lambda: complain(start))
        with tf.control_dependencies([check]):
            length = tf.identity(length)
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

"""Batches of ego graphs: the sampled trees of seeds as dense tensors of fixed size.

A tree has the seed as its root, and `fan_out` children at every node of a level. A batch of trees is an ordinary graph
in which every example has the same number of nodes and edges, whatever was sampled: no budget has to be learned,
nothing is padded to the largest subgraph, and a network reaches the neighbors of all nodes by a reshape instead of a
gather. GraphLearn calls this an EgoGraph. Nodes that are in a tree several times are copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.adjacency import Adjacency
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.pieces import Context, EdgeSet, NodeSet

SEED_READOUT = f"{READOUT_NODE_SET}/seed"
"""Edge set from each seed to its `_readout` node."""


class EgoLevel(NamedTuple):
    """Where the nodes of a level are.

    Attributes:
        node_set: their node set.
        first: the first of them among the nodes of an example in that set.
        width: nodes of an example.
    """

    node_set: const.NodeSetName
    first: int
    width: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class EgoHop:
    """One hop of the trees.

    Attributes:
        feature: the context feature with the positions of its nodes, such as "hop_0"; -1 for no node.
        relation: what connects parents and children: the name of an edge set, followed by "_reverse" if children are at
            the sources. Hops of one relation can share weights.
        node_set: node set of the children.
        fan_out: children of each node of the level before.
    """

    feature: const.FieldName
    relation: str
    node_set: const.NodeSetName
    fan_out: int

    @property
    def edge_set(self) -> const.EdgeSetName:
        """Name of the edge set of a batch that leads from its children to their parents."""
        return f"{self.feature}/{self.relation}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class EgoTrees:
    """The form of the trees of all examples.

    Attributes:
        seed_node_set: node set of the seeds.
        hops: the hops, each from the nodes of the one before, the first from the seed.
    """

    seed_node_set: const.NodeSetName
    hops: tuple[EgoHop, ...]

    @property
    def levels(self) -> tuple[EgoLevel, ...]:
        """The seed, then the children of each hop.

        Example:
            >>> hops = [EgoHop(feature="hop_0", relation="cites", node_set="paper", fan_out=3),
            ...         EgoHop(feature="hop_1", relation="cites", node_set="paper", fan_out=2)]
            >>> [tuple(level) for level in EgoTrees(seed_node_set="paper", hops=tuple(hops)).levels]
            [('paper', 0, 1), ('paper', 1, 3), ('paper', 4, 6)]
        """
        return tuple(self._levels())

    def _levels(self) -> Iterator[EgoLevel]:
        taken: dict[const.NodeSetName, int] = {}
        width = 1
        for node_set, fan_out in ((self.seed_node_set, 1), *((hop.node_set, hop.fan_out) for hop in self.hops)):
            width *= fan_out
            yield EgoLevel(node_set, taken.get(node_set, 0), width)
            taken[node_set] = taken.get(node_set, 0) + width

    @property
    def nodes_per_example(self) -> dict[const.NodeSetName, int]:
        """Number of nodes of an example, by node set."""
        totals: dict[const.NodeSetName, int] = {}
        for level in self.levels:
            totals[level.node_set] = totals.get(level.node_set, 0) + level.width
        return totals

    def sizes(self, batch_size: int) -> SizeConstraints:
        """Returns the exact sizes of every batch.

        Args:
            batch_size: examples in a batch.
        """
        edges = {hop.edge_set: level.width for hop, level in zip(self.hops, self.levels[1:], strict=True)}
        nodes = {**self.nodes_per_example, READOUT_NODE_SET: 1}
        return SizeConstraints(
            total_num_components=batch_size,
            total_num_nodes={name: batch_size * number for name, number in nodes.items()},
            total_num_edges={name: batch_size * number for name, number in (edges | {SEED_READOUT: 1}).items()},
            min_nodes_per_component={READOUT_NODE_SET: 1},
        )


def is_ego_batch(spec: GraphTensorSpec) -> bool:
    """Returns whether a graph has the form that `ego_batch` makes."""
    return any(_mask_of(spec, name) is not None for name in spec.edge_sets_spec)


def ego_trees_of_batch(spec: GraphTensorSpec) -> EgoTrees:
    """Finds the form of the trees in the spec of a graph that `ego_batch` made.

    Args:
        spec: spec of such a graph of any size.

    Returns:
        The form of the trees.

    Raises:
        ValueError: if the graph is not one of trees.
    """
    hops = []
    for name in spec.edge_sets_spec:
        mask = _mask_of(spec, name)
        if mask is not None:
            feature, _, relation = name.partition("/")
            node_set = spec.edge_sets_spec[name].adjacency_spec.source_name
            fan_out = mask.shape[-1]
            hops.append(EgoHop(feature=feature, relation=relation, node_set=node_set, fan_out=fan_out))
    seeds = spec.edge_sets_spec.get(SEED_READOUT)
    if seeds is None or not hops:
        raise ValueError(
            "`graph_spec` must be that of a batch of ego graphs; got a graph with edge sets "
            f"{sorted(spec.edge_sets_spec)}. Sample by a plan with `is_ego`, and train with batching 'ego'."
        )
    by_depth = sorted(hops, key=lambda hop: len(spec.context_spec.features_spec[hop.feature].shape))
    return EgoTrees(seed_node_set=seeds.adjacency_spec.source_name, hops=tuple(by_depth))


def count_empty_places(graph: GraphTensor) -> tf.Tensor:
    """Counts the places of each example that have no node, and thus no edge to a parent.

    Args:
        graph: a batch of trees.

    Returns:
        int64 [batch_size].
    """
    masks = [graph.context[hop.feature] for hop in ego_trees_of_batch(graph.spec).hops]
    return tf.add_n([tf.math.count_nonzero(~mask, axis=tf.range(1, mask.shape.rank), dtype=tf.int64) for mask in masks])


def _mask_of(spec: GraphTensorSpec, edge_set: const.EdgeSetName) -> const.FieldSpec | None:
    """Returns the mask of the hop that an edge set of a batch stands for; None for other edge sets."""
    feature, _, relation = edge_set.partition("/")
    mask = spec.context_spec.features_spec.get(feature)
    # tf.Examples have no bools, so a feature of theirs is never taken for a mask.
    return mask if relation and mask is not None and mask.dtype == tf.bool else None


@tf.autograph.experimental.do_not_convert
def ego_batch(graph: GraphTensor, trees: EgoTrees, batch_size: int | None = None) -> tuple[GraphTensor, tf.Tensor]:
    """Copies the nodes of sampled trees to places that are the same in every example.

    Args:
        graph: scalar graph of one component per example, each with one seed that edge set `_readout/seed` reads
            out, and with positions in the context as `parse_and_merge` shifts them.
        trees: form of the trees.
        batch_size: examples in the result; all that are missing become padding. None: as many as there are.

    Returns:
        The graph, and bool [batch_size], False for padding. A node set of the trees has the features of the nodes, with
        the levels of an example one after the other, and zeros (or empty strings) where there is no node. Edge set
        `hop_i/<relation>` leads from the nodes of a level to their parents. Context feature `hop_i`, bool
        [batch_size, k_0, ..., k_i], says where there are nodes. The remaining context, `_readout` and `_readout/seed`
        are kept. All other sets are left out.

    Raises:
        ValueError: if the graph lacks a set or feature of the trees, or has a ragged feature, whose size is not fixed.
        tf.errors.InvalidArgumentError: at run time, if examples do not have one seed each, or are more than
            `batch_size`, or if a position is that of another example's node.

    Example:
        >>> papers = tfx_gnn.NodeSet.from_fields(sizes=[3], features={"year": [1.0, 2.0, 3.0]})
        >>> seed = tfx_gnn.EdgeSet.from_fields(
        ...     sizes=[1], adjacency=tfx_gnn.Adjacency.from_indices(("paper", [0]), ("_readout", [0])))
        >>> graph = tfx_gnn.GraphTensor.from_pieces(
        ...     context=tfx_gnn.Context.from_fields(features={"hop_0": tf.constant([[2, -1]], tf.int64)}),
        ...     node_sets={"paper": papers, "_readout": tfx_gnn.NodeSet.from_fields(sizes=[1])},
        ...     edge_sets={"_readout/seed": seed})
        >>> hop = EgoHop(feature="hop_0", relation="cites", node_set="paper", fan_out=2)
        >>> dense, is_real = ego_batch(graph, EgoTrees(seed_node_set="paper", hops=(hop,)), batch_size=2)
        >>> dense.node_sets["paper"]["year"].numpy().tolist(), is_real.numpy().tolist()
        ([1.0, 3.0, 0.0, 0.0, 0.0, 0.0], [True, False])
        >>> dense.context["hop_0"].numpy().tolist()
        [[True, False], [False, False]]
    """
    _check_form(graph, trees)
    num_examples = tf.size(graph.context.sizes)
    rows = num_examples if batch_size is None else batch_size
    indices_dtype = graph.indices_dtype
    seeds = graph.edge_sets[SEED_READOUT].adjacency.source
    checks = [
        tf.debugging.assert_equal(
            tf.size(seeds), num_examples, message="`graph` must have one seed for each example. Sample node plans."
        ),
        tf.debugging.assert_less_equal(
            num_examples, rows, message="`batch_size` must be at least the number of examples."
        ),
        *(_position_check(graph, hop) for hop in trees.hops),
    ]
    with tf.control_dependencies(checks):
        is_real = tf.range(rows) < num_examples
    static = [batch_size]

    def padded(values: tf.Tensor, fill: object) -> tf.Tensor:
        missing = rows - tf.shape(values)[0]
        rest = tf.fill(tf.concat([[missing], tf.shape(values)[1:]], 0), tf.constant(fill, values.dtype))
        return tf.ensure_shape(tf.concat([values, rest], axis=0), [*static, *values.shape[1:]])

    levels = trees.levels
    places = [padded(tf.cast(seeds, tf.int64)[:, tf.newaxis], -1)]
    places += [padded(tf.cast(graph.context[hop.feature], tf.int64), -1) for hop in trees.hops]
    sizes = {name: tf.fill([rows], tf.constant(n, indices_dtype)) for name, n in trees.nodes_per_example.items()}
    node_sets = {}
    for name, per_example in trees.nodes_per_example.items():
        own = [place for place, level in zip(places, levels, strict=True) if level.node_set == name]
        index = tf.reshape(tf.concat(own, axis=1), [-1])
        total = None if batch_size is None else batch_size * per_example
        features = {
            feature: tf.ensure_shape(_rows_of(value, index), [total, *value.shape[1:]])
            for feature, value in graph.node_sets[name].features.items()
        }
        node_sets[name] = NodeSet.from_fields(features=features, sizes=sizes[name], validate=False)
    readout = graph.node_sets[READOUT_NODE_SET]
    ones = tf.ones([rows], indices_dtype)
    node_sets[READOUT_NODE_SET] = NodeSet.from_fields(
        features={name: padded(value, _zero(value.dtype)) for name, value in readout.features.items()},
        sizes=ones,
        validate=False,
    )
    examples = tf.range(rows, dtype=indices_dtype)
    starts = {name: examples * n for name, n in trees.nodes_per_example.items()}
    edge_sets = {
        SEED_READOUT: EdgeSet.from_fields(
            sizes=ones,
            adjacency=Adjacency.from_indices(
                (trees.seed_node_set, starts[trees.seed_node_set]), (READOUT_NODE_SET, examples), validate=False
            ),
            validate=False,
        )
    }
    context = {
        name: padded(value, _zero(value.dtype))
        for name, value in graph.context.features.items()
        if name not in {hop.feature for hop in trees.hops}
    }
    fan_outs: list[int] = []
    for hop, parent, child, place in zip(trees.hops, levels, levels[1:], places[1:], strict=False):
        fan_outs.append(hop.fan_out)
        context[hop.feature] = tf.reshape(place >= 0, [-1 if batch_size is None else batch_size, *fan_outs])
        source, target = (
            tf.reshape(starts[level.node_set][:, tf.newaxis] + level.first + offsets, [-1])
            for level, offsets in (
                (child, tf.range(child.width, dtype=indices_dtype)),
                (parent, tf.range(child.width, dtype=indices_dtype) // hop.fan_out),
            )
        )
        edge_sets[hop.edge_set] = EdgeSet.from_fields(
            sizes=tf.fill([rows], tf.constant(child.width, indices_dtype)),
            adjacency=Adjacency.from_indices((child.node_set, source), (parent.node_set, target), validate=False),
            validate=False,
        )
    made = GraphTensor.from_pieces(
        Context.from_fields(features=context, sizes=ones, validate=False), node_sets, edge_sets, validate=False
    )
    return made, is_real


def ego_batch_spec(spec: GraphTensorSpec, trees: EgoTrees) -> GraphTensorSpec:
    """Returns the spec of the graph that `ego_batch` makes from any number of graphs of a spec.

    Args:
        spec: spec of one graph.
        trees: form of the trees.

    Returns:
        Spec of a scalar graph of unknown size.

    Raises:
        ValueError: as `ego_batch`.
    """
    merged = spec.relax(num_components=True, num_nodes=True, num_edges=True)
    traced = tf.function(lambda graph: ego_batch(graph, trees)[0], input_signature=[merged], autograph=False)
    made: GraphTensorSpec = traced.get_concrete_function().structured_outputs.spec
    return made.relax(num_components=True, num_nodes=True, num_edges=True)


def _check_form(graph: GraphTensor, trees: EgoTrees) -> None:
    named = {READOUT_NODE_SET, *(level.node_set for level in trees.levels)}
    absent = sorted(named - set(graph.node_sets))
    absent += [hop.feature for hop in trees.hops if hop.feature not in graph.context.features]
    absent += [SEED_READOUT] if SEED_READOUT not in graph.edge_sets else []
    if absent:
        raise ValueError(
            f"`graph` must have the node sets and context features of its trees; got none named {absent}. Sample by a "
            "plan with `is_ego`, and keep the seeds' readout."
        )
    ragged = [
        f"{name}.{feature}"
        for name, piece in (*graph.node_sets.items(), (const.CONTEXT, graph.context))
        for feature, value in piece.features.items()
        if isinstance(value, tf.RaggedTensor)
    ]
    if ragged:
        raise ValueError(
            f"`graph` must have features of fixed shape for batching 'ego'; got ragged features {ragged}. Give them a "
            "fixed shape in `preprocessing_fn`, or choose another batching."
        )
    for hop, level in zip(trees.hops, trees.levels[1:], strict=True):
        width = graph.context[hop.feature].shape[1:].as_list()
        if width != [level.width]:
            raise ValueError(
                f"`graph` must have {level.width} positions in context feature {hop.feature!r}; got shape {width}. "
                "Sample again by one plan."
            )


def _position_check(graph: GraphTensor, hop: EgoHop) -> tf.Operation:
    """Refuses positions that were not shifted: examples would get the nodes of the first one without a word."""
    positions = tf.cast(graph.context[hop.feature], tf.int64)
    sizes = tf.cast(graph.node_sets[hop.node_set].sizes, tf.int64)[:, tf.newaxis]
    firsts = tf.cumsum(sizes, axis=0, exclusive=True)
    is_own = (positions < 0) | ((positions >= firsts) & (positions < firsts + sizes))
    message = (
        f"`graph` must have positions of nodes of the same example in `{hop.feature}`; got others. Merge examples by "
        "`parse_and_merge(spec, examples, index_features=tfx_gnn.index_features(schema))`."
    )
    return tf.debugging.Assert(tf.reduce_all(is_own), [message])


def _rows_of(values: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
    """Gathers rows; index -1 gives zeros."""
    none = tf.fill(tf.concat([[1], tf.shape(values)[1:]], 0), tf.constant(_zero(values.dtype), values.dtype))
    number = tf.shape(values, out_type=tf.int64)[0]
    return tf.gather(tf.concat([values, none], axis=0), tf.where(index < 0, number, index))


def _zero(dtype: tf.DType) -> object:
    return "" if dtype == tf.string else dtype.as_numpy_dtype(0)

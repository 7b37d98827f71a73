"""Features that hold indices of nodes, and how their values change when graphs are merged.

The ends of edges are not the only indices in a graph: a feature may name its root, the nodes of a face, or the nodes at
the ends of a sampled path. Such features are declared, never guessed from their names, and then treated like the ends
of edges: merging a batch adds the number of nodes of all earlier graphs to each value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Union

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.tensor.fields import component_indices, row_indices

if TYPE_CHECKING:
    from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
    from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec

IndexFeatures = Mapping[str, Mapping[const.FieldName, Union[const.NodeSetName, tuple[const.NodeSetName, ...]]]]
"""Which features hold indices of nodes: by set ("context", "nodes/<set>" or "edges/<set>") and name of the feature, the
node set that the values are indices of, or a tuple with the node set of each column (the last dimension)."""

NO_NODE = -1
"""The value of an index feature that refers to no node; it never changes."""


class IndexFeature(NamedTuple):
    """One feature that holds indices of nodes.

    Attributes:
        set_key: "context", "nodes/<set>" or "edges/<set>".
        name: name of the feature.
        node_sets: the node set of all values, or that of each column.
        is_by_column: whether `node_sets` are those of columns.
    """

    set_key: str
    name: const.FieldName
    node_sets: tuple[const.NodeSetName, ...]
    is_by_column: bool

    def __str__(self) -> str:
        return f"index feature {self.name!r} of {self.set_key!r}"


def iter_index_features(features: IndexFeatures) -> Iterator[IndexFeature]:
    """Iterates over declared features, of which it checks the form."""
    for set_key, by_name in features.items() if isinstance(features, Mapping) else [("", features)]:
        if not isinstance(by_name, Mapping):
            raise TypeError(
                "`index_features` must give, by set and name of the feature, a node set or a tuple of them; got "
                f"{features!r}. Write {{'context': {{'root': 'docs'}}}} or so."
            )
        for name, node_sets in by_name.items():
            is_by_column = isinstance(node_sets, (tuple, list))
            if not is_by_column and not isinstance(node_sets, str):
                raise TypeError(
                    "`index_features` must name a node set, or a tuple with that of each column; got "
                    f"{node_sets!r} for {name!r} of {set_key!r}. Write 'docs' or ('docs', 'authors')."
                )
            yield IndexFeature(set_key, name, tuple(node_sets) if is_by_column else (str(node_sets),), is_by_column)


def present_index_features(spec: GraphTensorSpec, features: IndexFeatures) -> IndexFeatures:
    """Returns the declared features that a graph has."""
    return {
        set_key: present
        for set_key, by_name in features.items()
        if (present := {name: by_name[name] for name in by_name if _field_spec(spec, set_key, name) is not None})
    }


def check_index_features(spec: GraphTensorSpec, features: IndexFeatures) -> None:
    """Refuses declared features that a graph does not have, or that cannot hold indices of its nodes."""
    for one in iter_index_features(features):
        field = _field_spec(spec, one.set_key, one.name)
        if field is None:
            raise ValueError(
                f"`index_features` must name features of the graph, by 'context', 'nodes/<set>' or 'edges/<set>'; got "
                f"{one.name!r} of {one.set_key!r}. The graph has node sets {sorted(spec.node_sets_spec)} and edge sets "
                f"{sorted(spec.edge_sets_spec)}."
            )
        check_index_feature(one, field.dtype, field.shape[spec.rank + 1 :].as_list(), spec.node_sets_spec)


def _field_spec(spec: GraphTensorSpec, set_key: str, name: const.FieldName) -> const.FieldSpec | None:
    kind, _, set_name = set_key.partition("/")
    sets: Mapping[str, Any] = {
        const.CONTEXT: {"": spec.context_spec},
        const.NODES: spec.node_sets_spec,
        const.EDGES: spec.edge_sets_spec,
    }.get(kind, {})
    return sets[set_name].features_spec.get(name) if set_name in sets else None


def check_index_feature(
    one: IndexFeature, dtype: tf.DType, item_shape: list[int | None], node_sets: Mapping[str, Any]
) -> None:
    """Refuses a feature whose dtype or shape cannot hold indices of nodes of the given sets."""
    if dtype not in (tf.int32, tf.int64):
        raise ValueError(
            f"`index_features` must hold int32 or int64; got {dtype.name} in {one}. Other types cannot count all nodes "
            "of a batch: cast the feature."
        )
    unknown = sorted(set(one.node_sets) - set(node_sets))
    if unknown or not one.node_sets:
        raise ValueError(
            f"`index_features` must refer to node sets of the graph; got {unknown} for {one}. It has "
            f"{sorted(node_sets)}."
        )
    if one.is_by_column and (not item_shape or item_shape[-1] != len(one.node_sets)):
        raise ValueError(
            f"`index_features` must name one node set for each column, the last dimension; got {one.node_sets} for "
            f"{one} with items of shape {item_shape}. Name one set as a string if all values refer to it."
        )


def shifted_index_features(
    graph: GraphTensor,
    groups: Mapping[str, tf.Tensor],
    features: IndexFeatures,
    *,
    backward: bool = False,
    validate: bool = True,
    is_real: tf.Tensor | None = None,
) -> GraphTensor:
    """Shifts indices by the number of nodes in all earlier groups of items.

    `groups` holds the number of items of each group, shape [num_groups], for each set by its key; groups are the
    components of the scalar graph, or the graphs that were merged into it. `backward` subtracts instead of adding.
    `validate` asserts that values refer to nodes of their group.

    `is_real`, bool [num_groups], is False for groups of padding, which are not checked. Without it, any group may be
    one. Padding without nodes refers to a node of other padding; `backward` makes it -1.
    """

    def shift(one: IndexFeature, values: tf.Tensor, nodes: _Nodes) -> tf.Tensor:
        is_none = tf.equal(values, NO_NODE)
        is_padding = tf.zeros_like(is_none)
        if is_real is not None:
            is_padding = tf.reshape(~tf.gather(is_real, nodes.group), [-1] + [1] * (values.shape.rank - 1))
        if backward:
            is_none |= tf.equal(nodes.counts, 0) & (is_padding if is_real is not None else True)
        relative = values - nodes.firsts if backward else values
        is_valid = is_none | is_padding | ((relative >= 0) & (relative < nodes.counts))
        with tf.control_dependencies(_range_checks(one, values, is_valid) if validate else []):
            none = tf.constant(NO_NODE, values.dtype)
            return tf.where(is_none, none, relative if backward else values + nodes.firsts)

    return _with_values(graph, groups, features, shift)


def padded_index_features(
    graph: GraphTensor,
    groups: Mapping[str, tf.Tensor],
    features: IndexFeatures,
    is_real: tf.Tensor,
    *,
    shift: bool = False,
    validate: bool = True,
) -> GraphTensor:
    """Lets padding items refer to the first padding node, so that a model can gather by all values.

    That node may be in another padding component: most have no nodes. Without any padding node, it is none.

    Args:
        graph: scalar padded graph.
        groups: the number of items of each component, shape [num_components], for each set by its key.
        features: which features hold indices; checked.
        is_real: bool [num_components], False for padding.
        shift: whether to shift the values of real items, as `shifted_index_features` does.
        validate: whether to assert, before they are shifted, that they refer to nodes of their component.

    Returns:
        The graph with other values.
    """

    def point(one: IndexFeature, values: tf.Tensor, nodes: _Nodes) -> tf.Tensor:
        sizes = [tf.cast(groups[f"{const.NODES}/{name}"], values.dtype) for name in one.node_sets]
        real_sizes = [tf.where(is_real, by_component, tf.zeros_like(by_component)) for by_component in sizes]
        totals, num_real = (tf.stack([tf.reduce_sum(part) for part in parts]) for parts in (sizes, real_sizes))
        padding = tf.where(num_real < totals, num_real, tf.constant(NO_NODE, values.dtype))
        real = tf.reshape(tf.gather(is_real, nodes.group), [-1] + [1] * (values.shape.rank - 1))
        if shift:
            is_none = tf.equal(values, NO_NODE)
            is_valid = ~real | is_none | ((values >= 0) & (values < nodes.counts))
            with tf.control_dependencies(_range_checks(one, values, is_valid) if validate else []):
                values = tf.where(is_none, values, values + nodes.firsts)
        return tf.where(real, values, _spread(padding[tf.newaxis], values, one))

    return _with_values(graph, groups, features, point)


def renumbered_index_features(
    graph: GraphTensor, new_positions: Mapping[const.NodeSetName, tf.Tensor], features: IndexFeatures
) -> GraphTensor:
    """Lets values follow nodes that moved: node i of a set moved to element i of its tensor, shape [num_nodes]."""

    def renumber(one: IndexFeature, node_set: const.NodeSetName, values: tf.Tensor) -> tf.Tensor:
        if node_set not in new_positions:
            return values
        # The element after the last node is where "no node" goes, which it stays.
        moved = tf.concat([tf.cast(new_positions[node_set], values.dtype), [NO_NODE]], axis=0)
        num_nodes = tf.size(moved, values.dtype) - 1
        is_none = tf.equal(values, NO_NODE)
        with tf.control_dependencies(_range_checks(one, values, is_none | ((values >= 0) & (values < num_nodes)))):
            return tf.gather(moved, tf.where(is_none, num_nodes, values))

    def change(one: IndexFeature, _piece: Any, _field: const.Field, values: tf.Tensor) -> tf.Tensor:
        if not one.is_by_column:
            return renumber(one, one.node_sets[0], values)
        columns = [renumber(one, name, values[..., column]) for column, name in enumerate(one.node_sets)]
        return tf.stack(columns, axis=-1)

    return _with_changed_values(graph, features, change)


class _Nodes(NamedTuple):
    """The nodes that values may refer to.

    Attributes:
        group: the group of each row of values.
        firsts: the first node of the group, in a shape that can be combined with the values.
        counts: its number of nodes, in the same shape.
    """

    group: tf.Tensor
    firsts: tf.Tensor
    counts: tf.Tensor


def _with_values(
    graph: GraphTensor,
    groups: Mapping[str, tf.Tensor],
    features: IndexFeatures,
    change: Callable[[IndexFeature, tf.Tensor, _Nodes], tf.Tensor],
) -> GraphTensor:
    """Replaces the flat values of each feature, given the nodes that they may refer to."""

    def of_rows(one: IndexFeature, piece: Any, field: const.Field, values: tf.Tensor) -> tf.Tensor:
        group = _group_of_rows(field, groups[one.set_key], piece.total_size)
        sizes = tf.stack([tf.cast(groups[f"{const.NODES}/{name}"], field.dtype) for name in one.node_sets], axis=1)
        firsts, counts = (
            _spread(tf.gather(by_group, group), values, one)
            for by_group in (tf.cumsum(sizes, axis=0, exclusive=True), sizes)
        )
        return change(one, values, _Nodes(group, firsts, counts))

    return _with_changed_values(graph, features, of_rows)


def _with_changed_values(
    graph: GraphTensor,
    features: IndexFeatures,
    change: Callable[[IndexFeature, Any, const.Field, tf.Tensor], tf.Tensor],
) -> GraphTensor:
    """Replaces the flat values of each feature, given its piece and the feature as a whole."""
    replaced: dict[str, dict[const.FieldName, const.Field]] = {}
    pieces = graph._pieces_by_key()
    for one in iter_index_features(features):
        piece = pieces[one.set_key]
        fields = replaced.setdefault(one.set_key, piece.get_features_dict())
        field = fields[one.name]
        is_ragged = isinstance(field, tf.RaggedTensor)
        values = field.flat_values if is_ragged else field
        changed = tf.ensure_shape(change(one, piece, field, values), values.shape)
        fields[one.name] = field.with_flat_values(changed) if is_ragged else changed
    return graph.replace_features(
        context=replaced.get(const.CONTEXT),
        node_sets=_of_kind(replaced, const.NODES),
        edge_sets=_of_kind(replaced, const.EDGES),
    )


def _of_kind(by_set: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {key.partition("/")[2]: value for key, value in by_set.items() if key.startswith(f"{kind}/")}


def _group_of_rows(field: const.Field, sizes: tf.Tensor, num_items: tf.Tensor) -> tf.Tensor:
    """Returns the group of each row of a field's flat values."""
    group = component_indices(sizes, num_items)
    while isinstance(field, tf.RaggedTensor):
        group = tf.gather(group, row_indices(field))
        field = field.values
    return group


def _spread(by_row: tf.Tensor, values: tf.Tensor, one: IndexFeature) -> tf.Tensor:
    """Shapes numbers [num_rows, num_node_sets] so that they can be combined with values [num_rows, ...]."""
    columns = [len(one.node_sets)] if one.is_by_column else []
    inner = [1] * (values.shape.rank - 1 - len(columns))
    return tf.reshape(by_row, [-1, *inner, *columns])


def _range_checks(one: IndexFeature, values: tf.Tensor, is_valid: tf.Tensor) -> list[tf.Operation]:
    node_sets = repr(one.node_sets if one.is_by_column else one.node_sets[0])
    rule = f"The {one} must hold indices of nodes of the same graph in {node_sets}, or {NO_NODE} for none; got"
    advice = "Fix the feature, or do not declare it as one of indices."
    if tf.executing_eagerly():
        if not tf.reduce_all(is_valid):
            wrong = values[~is_valid].numpy()[:5].tolist()
            raise tf.errors.InvalidArgumentError(None, None, f"{rule} {wrong}. {advice}")
        return []
    # XLA has no tensors of unknown size: the first wrong value stands for all. The last one is never wrong.
    flat = tf.concat([tf.reshape(values, [-1]), tf.zeros([1], values.dtype)], axis=0)
    position = tf.argmin(tf.cast(tf.concat([tf.reshape(is_valid, [-1]), [True]], axis=0), tf.int32))
    return [tf.debugging.Assert(tf.reduce_all(is_valid), [rule, tf.gather(flat, position), advice])]

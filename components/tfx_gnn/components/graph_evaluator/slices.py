"""Slices of the data: examples that share a feature's value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tfx_gnn.components.graph_evaluator.measures import as_text, feature_values
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET

NO_VALUE = "(none)"
"""Slice of the examples that lack the feature."""

_ROOT_EDGE_SETS = tuple(f"{READOUT_NODE_SET}/{root}" for root in ("seed", "source"))

_Slice = TypeVar("_Slice")


def check_slice_keys(keys: Iterable[str]) -> None:
    """Checks feature names, written as in tf.Examples.

    Valid names are "context/<feature>", "nodes/<set>.<feature>", "nodes/<set>.#size" and "edges/<set>.#size".
    """
    keys = list(keys)
    for key in keys:
        kind, _, rest = key.partition("/")
        is_edge_feature = kind == "edges" and not key.endswith(".#size")
        is_no_node_feature = kind == "nodes" and "." not in rest
        if kind not in ("context", "nodes", "edges") or not rest or is_edge_feature or is_no_node_feature:
            raise ValueError(
                f"`slices` must name features as in tf.Examples; got {key!r}. Write 'context/<feature>', "
                "'nodes/<set>.<feature>' for the seed's own, or 'nodes/<set>.#size'."
            )
    if len(set(keys)) < len(keys):
        raise ValueError(f"`slices` must name each feature once; got {keys}. Remove the repetition.")


def check_slices_are_of_seeds(keys: Iterable[str], schema: GraphSchema) -> None:
    """Checks that node features belong to the seed's node set."""
    roots = [schema.edge_sets[name].source for name in _ROOT_EDGE_SETS if name in schema.edge_sets]
    for key in keys:
        node_set = key.removeprefix("nodes/").rpartition(".")[0]
        if key.startswith("nodes/") and not key.endswith(".#size") and node_set not in (*roots[:1], READOUT_NODE_SET):
            raise ValueError(
                f"`slices` must name features of the context or of the seed's node set {roots[:1]}; got {key!r}. "
                "Slice by a feature that each example has once."
            )


def slice_value(features: Mapping[str, Any], key: str, place: str) -> str:
    """Returns the slice of an example: the feature's value as text, or `NO_VALUE`.

    For a node feature, this is the seed's value; for a link, its source's.
    """
    kind, values = feature_values(features, key)
    if not values:
        return NO_VALUE
    if kind == "float_list":
        raise ValueError(
            f"`slices` must name strings or integers; got floats in {key!r} of {place}. Slice by another feature."
        )
    position, num_items = _position_and_items(features, key, place)
    if len(values) != num_items:
        raise ValueError(
            f"`slices` must name features with one value per item; got {len(values)} values for {num_items} in {key!r} "
            f"of {place}. Slice by another feature."
        )
    return as_text(values[position])


def largest_and_smallest(slices: Mapping[str, tuple[int, _Slice]], keep: int) -> tuple[dict[str, _Slice], int]:
    """Chooses the `keep` largest and the `keep` smallest slices, largest first, and counts the slices left out.

    `slices` maps a value to its number of examples and any payload.
    """
    ordered = sorted(slices, key=lambda value: (-slices[value][0], value))
    chosen = ordered if len(ordered) <= 2 * keep else [*ordered[:keep], *ordered[len(ordered) - keep :]]
    return {value: slices[value][1] for value in chosen}, len(ordered) - len(chosen)


def _position_and_items(features: Mapping[str, Any], key: str, place: str) -> tuple[int, int]:
    """Position of the item whose value slices an example, and the number of items in its set."""
    if key.startswith("context/") or key.endswith(".#size"):
        return 0, 1
    node_set = key.removeprefix("nodes/").rpartition(".")[0]
    num_items = features[f"nodes/{node_set}.#size"].int64_list.value[0]
    if node_set == READOUT_NODE_SET:
        return 0, num_items
    for edge_set in _ROOT_EDGE_SETS:
        root = f"edges/{edge_set}.#source"
        if root in features and features[root].int64_list.value:
            return int(features[root].int64_list.value[0]), num_items
    raise ValueError(
        f"`slices` must name features of the context where examples have no seed; got {key!r} in {place}. "
        "Slice by a feature of the context, or by '#size'."
    )

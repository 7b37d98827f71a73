"""Slices of the data: examples that share a feature's value."""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from tfx_gnn.components.graph_evaluator.measures import as_text, feature_values
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET

NO_VALUE = "(none)"
"""Slice of the examples that lack the feature."""

DEGREE_PREFIX = "degree/"
"""Begins the key of slices by the number of the seed's edges in an edge set of its subgraph."""

_ROOT_EDGE_SETS = tuple(f"{READOUT_NODE_SET}/{root}" for root in ("seed", "source"))

_Slice = TypeVar("_Slice")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slicing:
    """What examples are sliced by.

    Attributes:
        key: key of a feature in tf.Examples, or `DEGREE_PREFIX` and an edge set.
        edges: ascending numbers between the slices of a numeric feature; empty: a slice for each value.
        ends: for a degree, keys of the features with the ends of edges that may be the seed.
    """

    key: str
    edges: tuple[float, ...] = ()
    ends: tuple[str, ...] = ()


def make_slicings(
    keys: Iterable[str], edges: Mapping[str, tuple[float, ...]], schema: GraphSchema | None
) -> list[Slicing]:
    """Prepares slices; a degree needs the schema, which says which ends of the edges may be the seed."""
    slicings = []
    for key in keys:
        ends: tuple[str, ...] = ()
        if key.startswith(DEGREE_PREFIX):
            ends = _ends_at_seed(key, schema)
        slicings.append(Slicing(key=key, edges=tuple(edges.get(key, ())), ends=ends))
    return slicings


def check_slice_edges(edges: Mapping[str, Iterable[float]], keys: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Checks the numbers between slices, by feature."""
    checked = {}
    for key, given in edges.items():
        if key not in set(keys):
            raise ValueError(f"`slice_edges` must be of `slices`; got {key!r}. Add it there.")
        numbers = tuple(float(number) for number in given)
        if not numbers or not all(map(math.isfinite, numbers)) or list(numbers) != sorted(set(numbers)):
            raise ValueError(
                f"`slice_edges` must be ascending numbers; got {list(numbers)} for {key!r}. Write for example "
                "{'nodes/user.age': [20, 40, 60]} for four slices."
            )
        checked[key] = numbers
    return checked


def check_slice_keys(keys: Iterable[str]) -> None:
    """Checks feature names, written as in tf.Examples.

    Valid names are "context/<feature>", "nodes/<set>.<feature>", "nodes/<set>.#size", "edges/<set>.#size" and
    "degree/<edge set>".
    """
    keys = list(keys)
    for key in keys:
        kind, _, rest = key.partition("/")
        is_edge_feature = kind == "edges" and not key.endswith(".#size")
        is_no_node_feature = kind == "nodes" and "." not in rest
        if kind not in ("context", "nodes", "edges", "degree") or not rest or is_edge_feature or is_no_node_feature:
            raise ValueError(
                f"`slices` must name features as in tf.Examples; got {key!r}. Write 'context/<feature>', "
                "'nodes/<set>.<feature>' for the seed's own, 'nodes/<set>.#size', or 'degree/<edge set>'."
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


def slice_value(features: Mapping[str, Any], slicing: Slicing, place: str) -> str:
    """Returns the slice of an example: the feature's value as text, or between which numbers it is, or `NO_VALUE`.

    For a node feature, this is the seed's value; for a link, its source's.
    """
    key = slicing.key
    if slicing.ends:
        degree = _degree_of_seed(features, slicing.ends, place)
        return _between(degree, slicing.edges) if slicing.edges else _power_of_two_bin(degree)
    kind, values = feature_values(features, key)
    if not values:
        return NO_VALUE
    if kind == ("bytes_list" if slicing.edges else "float_list"):
        raise ValueError(
            f"`slice_edges` must be of numbers; got text in {key!r} of {place}. Leave them out."
            if slicing.edges
            else f"`slices` must name strings or integers unless `slice_edges` has numbers between them; got floats in "
            f"{key!r} of {place}. Write for example {{{key!r}: [0, 10]}} there."
        )
    position, num_items = _position_and_items(features, key, place)
    if len(values) != num_items:
        raise ValueError(
            f"`slices` must name features with one value per item; got {len(values)} values for {num_items} in {key!r} "
            f"of {place}. Slice by another feature."
        )
    return _between(float(values[position]), slicing.edges) if slicing.edges else as_text(values[position])


def _between(number: float, edges: tuple[float, ...]) -> str:
    """Names the slice of a number; an edge belongs to the slice above it."""
    if math.isnan(number):
        return NO_VALUE
    position = bisect.bisect_right(edges, number)
    # All digits, as times need them: slices of one name would be one slice.
    names = [repr(edge).removesuffix(".0") for edge in edges]
    if position == 0:
        return f"< {names[0]}"
    return f">= {names[-1]}" if position == len(edges) else f"[{names[position - 1]}, {names[position]})"


def _power_of_two_bin(degree: int) -> str:
    low = 1 << (degree.bit_length() - 1) if degree else 0
    return str(degree) if low < 2 else f"{low}-{2 * low - 1}"


def _ends_at_seed(key: str, schema: GraphSchema | None) -> tuple[str, ...]:
    edge_set = key.removeprefix(DEGREE_PREFIX)
    if schema is None or edge_set not in schema.edge_sets:
        known = sorted(schema.edge_sets) if schema is not None else "no schema"
        raise ValueError(f"`slices` must name an edge set of the examples; got {key!r}, but {known}. Check the name.")
    roots = [schema.edge_sets[name].source for name in _ROOT_EDGE_SETS if name in schema.edge_sets][:1]
    ends = {"#source": schema.edge_sets[edge_set].source, "#target": schema.edge_sets[edge_set].target}
    found = tuple(f"edges/{edge_set}.{end}" for end, node_set in ends.items() if [node_set] == roots)
    if not found:
        raise ValueError(
            f"`slices` must name an edge set that leads from or to the seed's node set {roots}; got {key!r} from "
            f"{ends['#source']!r} to {ends['#target']!r}. Slice by another edge set."
        )
    return found


def _degree_of_seed(features: Mapping[str, Any], ends: Iterable[str], place: str) -> int:
    """Counts the edges of the seed in its subgraph; a loop counts at both ends."""
    root = next((f"edges/{name}.#source" for name in _ROOT_EDGE_SETS if f"edges/{name}.#source" in features), None)
    if root is None or not features[root].int64_list.value:
        raise ValueError(
            f"`slices` must name features of the context where examples have no seed; got a degree in {place}. Slice "
            "by another feature."
        )
    seed = features[root].int64_list.value[0]
    return sum(list(features[end].int64_list.value).count(seed) for end in ends if end in features)


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

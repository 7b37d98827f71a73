"""Slices of the data: examples that share a feature's value."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tfx_gnn.components.graph_evaluator.measures import as_text, feature_values
from tfx_gnn.components.graph_evaluator.slice_knowledge import Hashes, SliceKnowledge, hash_node_ids
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import ID_NAME, READOUT_NODE_SET, SHADOW_PREFIX
from tfx_gnn.io.suggestions import did_you_mean

NO_VALUE = "(none)"
"""Slice of the examples that lack the feature."""

DEGREE_PREFIX = "degree/"
"""Begins the key of slices by the number of the seed's edges in an edge set of its subgraph."""

SEEN_IN_TRAINING = "seen_in_training"
"""Key of slices by whether the nodes that an example is about occur in the training's examples."""

MOST_QUANTILES = 100

_ROOT_EDGE_SETS = tuple(f"{READOUT_NODE_SET}/{root}" for root in ("seed", "source"))
_TARGET_EDGE_SET = f"{READOUT_NODE_SET}/target"
_SEEN = {
    (True,): "seen",
    (False,): "unseen",
    (True, True): "both ends seen",
    (True, False): "source seen",
    (False, True): "target seen",
    (False, False): "unseen",
}
"""Names of slices by whether the seed, or the ends of a link, occur in the training's examples."""

_Slice = TypeVar("_Slice")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Slicing:
    """What examples are sliced by.

    Attributes:
        key: key of a feature in tf.Examples, or `DEGREE_PREFIX` and an edge set, or `SEEN_IN_TRAINING`.
        edges: ascending numbers between the slices of a numeric feature; empty: a slice for each value.
        num_quantiles: slices of equal numbers of examples; 0 for other slices.
        ends: for a degree, keys of the features with the ends of edges that may be the seed.
        roots: for `SEEN_IN_TRAINING`, edge set and node set of the seed, or of the source and the target of a link.
    """

    key: str
    edges: tuple[float, ...] = ()
    num_quantiles: int = 0
    ends: tuple[str, ...] = ()
    roots: tuple[tuple[str, str], ...] = ()

    @property
    def is_numeric(self) -> bool:
        """Whether the slices are ranges of a feature's numbers."""
        return bool(self.edges or self.num_quantiles)


def make_slicings(
    keys: Iterable[str],
    edges: Mapping[str, tuple[float, ...]],
    schema: GraphSchema | None,
    quantiles: Mapping[str, int] | None = None,
) -> list[Slicing]:
    """Prepares slices; those by degree or by what training saw need the schema, which says what the seeds are."""
    return [
        Slicing(
            key=key,
            edges=tuple(edges.get(key, ())),
            num_quantiles=(quantiles or {}).get(key, 0),
            ends=_ends_at_seed(key, schema) if key.startswith(DEGREE_PREFIX) else (),
            roots=_roots(schema) if key == SEEN_IN_TRAINING else (),
        )
        for key in keys
    ]


def check_slice_quantiles(quantiles: Mapping[str, int], keys: Iterable[str], edges: Iterable[str]) -> dict[str, int]:
    """Checks the numbers of slices of equal size, by feature."""
    for key, number in quantiles.items():
        if key not in set(keys) or key == SEEN_IN_TRAINING:
            raise ValueError(f"`slice_quantiles` must be of numbers among `slices`; got {key!r}. Add it there.")
        if key in set(edges):
            raise ValueError(
                f"`slice_quantiles` must be of other features than `slice_edges`; got {key!r} in both. Leave one out."
            )
        if isinstance(number, bool) or not isinstance(number, int) or not 2 <= number <= MOST_QUANTILES:
            raise ValueError(
                f"`slice_quantiles` must be whole numbers in [2, {MOST_QUANTILES}]; got {number!r} for {key!r}. "
                "Write for example {'nodes/user.age': 4} for quartiles."
            )
    return dict(quantiles)


def check_slice_edges(edges: Mapping[str, Iterable[float]], keys: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Checks the numbers between slices, by feature."""
    checked = {}
    for key, given in edges.items():
        if key not in set(keys) or key == SEEN_IN_TRAINING:
            raise ValueError(f"`slice_edges` must be of numbers among `slices`; got {key!r}. Add it there.")
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

    Valid names are "context/<feature>", "nodes/<set>.<feature>", "nodes/<set>.#size", "edges/<set>.#size",
    "degree/<edge set>" and "seen_in_training".
    """
    keys = list(keys)
    for key in keys:
        if key == SEEN_IN_TRAINING:
            continue
        kind, _, rest = key.partition("/")
        is_edge_feature = kind == "edges" and not key.endswith(".#size")
        is_no_node_feature = kind == "nodes" and "." not in rest
        if kind not in ("context", "nodes", "edges", "degree") or not rest or is_edge_feature or is_no_node_feature:
            raise ValueError(
                f"`slices` must name features as in tf.Examples; got {key!r}. Write 'context/<feature>', "
                "'nodes/<set>.<feature>' for the seed's own, 'nodes/<set>.#size', 'degree/<edge set>', or "
                f"{SEEN_IN_TRAINING!r}."
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


def slice_values(
    examples: Sequence[Mapping[str, Any]], slicing: Slicing, places: Sequence[str], knowledge: SliceKnowledge
) -> list[str]:
    """Returns the slice of each example: the feature's value as text, or between which numbers it is, or `NO_VALUE`.

    For a node feature, this is the seed's value; for a link, its source's. `places` is for error messages.
    """
    if slicing.roots:
        known = [knowledge.has_seen(hashes) for hashes in hash_roots(examples, slicing, places)]
        return [_SEEN[tuple(of_example)] for of_example in zip(*(one.tolist() for one in known), strict=True)]
    if not slicing.is_numeric:
        return [_text_value(features, slicing, place) for features, place in zip(examples, places, strict=True)]
    numbers = slice_numbers(examples, slicing, places)
    edges = knowledge.quantiles.get(slicing.key, ()) if slicing.num_quantiles else slicing.edges
    name = _quantile_name if slicing.num_quantiles else _between
    return [NO_VALUE if math.isnan(number) else name(number, edges) for number in numbers]


def slice_numbers(examples: Sequence[Mapping[str, Any]], slicing: Slicing, places: Sequence[str]) -> list[float]:
    """Returns the numbers whose ranges are slices; NaN for examples without one."""
    return [_number(features, slicing, place) for features, place in zip(examples, places, strict=True)]


def hash_roots(examples: Sequence[Mapping[str, Any]], slicing: Slicing, places: Sequence[str]) -> list[Hashes]:
    """Hashes the ids of the seeds of examples, or of sources and of targets of their first pairs.

    Each result has shape [num_examples].
    """
    found = []
    for edge_set, node_set in slicing.roots:
        ids = []
        for features, place in zip(examples, places, strict=True):
            _, positions = feature_values(features, f"edges/{edge_set}.#source")
            _, of_nodes = feature_values(features, f"nodes/{node_set}.{ID_NAME}")
            if not positions or positions[0] >= len(of_nodes):
                missing = f"#id of node set {node_set!r}" if positions else f"edge of {edge_set!r}"
                raise ValueError(
                    f"`slices` must not name {SEEN_IN_TRAINING!r} where seeds have no id; got no {missing} in {place}. "
                    "Leave it out, or sample the examples with ids."
                )
            ids.append(of_nodes[positions[0]])
        found.append(hash_node_ids(node_set, ids))
    return found


def _number(features: Mapping[str, Any], slicing: Slicing, place: str) -> float:
    if slicing.ends:
        return float(_degree_of_seed(features, slicing.ends, place))
    kind, value = _value(features, slicing.key, place)
    if kind == "bytes_list":
        option = "slice_quantiles" if slicing.num_quantiles else "slice_edges"
        raise ValueError(f"`{option}` must be of numbers; got text in {slicing.key!r} of {place}. Leave them out.")
    return float(value) if kind else math.nan


def _text_value(features: Mapping[str, Any], slicing: Slicing, place: str) -> str:
    if slicing.ends:
        return _power_of_two_bin(_degree_of_seed(features, slicing.ends, place))
    kind, value = _value(features, slicing.key, place)
    if kind == "float_list":
        raise ValueError(
            "`slices` must name strings or integers unless `slice_edges` has numbers between them, or "
            f"`slice_quantiles` how many slices there are; got floats in {slicing.key!r} of {place}. Write for example "
            f"{{{slicing.key!r}: [0, 10]}} there."
        )
    return as_text(value) if kind else NO_VALUE


def _value(features: Mapping[str, Any], key: str, place: str) -> tuple[str, Any]:
    """Returns the kind and the value by which an example is sliced; the kind is empty if the feature is absent."""
    kind, values = feature_values(features, key)
    if not values:
        return "", None
    position, num_items = _position_and_items(features, key, place)
    if len(values) != num_items:
        raise ValueError(
            f"`slices` must name features with one value per item; got {len(values)} values for {num_items} in {key!r} "
            f"of {place}. Slice by another feature."
        )
    return kind, values[position]


def quantile_ranges(edges: tuple[float, ...]) -> dict[str, str]:
    """Returns the ranges of slices by quantiles, by their names; an edge belongs to the slice below it."""
    shown = [_shown(edge) for edge in edges]
    inner = [f"({low}, {high}]" for low, high in itertools.pairwise(shown)]
    ranges = [f"<= {shown[0]}", *inner, f"> {shown[-1]}"]
    return {f"q{number}": one for number, one in enumerate(ranges, 1)}


def _quantile_name(number: float, edges: tuple[float, ...]) -> str:
    # Of equal edges, all numbers go to the lowest slice, so the names of others stay.
    return f"q{bisect.bisect_left(edges, number) + 1}"


def _between(number: float, edges: tuple[float, ...]) -> str:
    """Names the slice of a number; an edge belongs to the slice above it."""
    position = bisect.bisect_right(edges, number)
    names = [_shown(edge) for edge in edges]
    if position == 0:
        return f"< {names[0]}"
    return f">= {names[-1]}" if position == len(edges) else f"[{names[position - 1]}, {names[position]})"


def _shown(edge: float) -> str:
    # All digits, as times need them: slices of one name would be one slice.
    return repr(edge).removesuffix(".0")


def _power_of_two_bin(degree: int) -> str:
    low = 1 << (degree.bit_length() - 1) if degree else 0
    return str(degree) if low < 2 else f"{low}-{2 * low - 1}"


def _ends_at_seed(key: str, schema: GraphSchema | None) -> tuple[str, ...]:
    edge_set = key.removeprefix(DEGREE_PREFIX)
    if schema is None or edge_set not in schema.edge_sets:
        known = sorted(schema.edge_sets) if schema is not None else "no schema"
        raise ValueError(
            f"`slices` must name an edge set of the examples; got {key!r}, but {known}. "
            f"{did_you_mean(edge_set, schema.edge_sets if schema is not None else (), otherwise='Check the name.')}"
        )
    roots = [schema.edge_sets[name].source for name in _ROOT_EDGE_SETS if name in schema.edge_sets][:1]
    ends = {"#source": schema.edge_sets[edge_set].source, "#target": schema.edge_sets[edge_set].target}
    found = tuple(f"edges/{edge_set}.{end}" for end, node_set in ends.items() if [node_set] == roots)
    if not found:
        raise ValueError(
            f"`slices` must name an edge set that leads from or to the seed's node set {roots}; got {key!r} from "
            f"{ends['#source']!r} to {ends['#target']!r}. Slice by another edge set."
        )
    return found


def _roots(schema: GraphSchema | None) -> tuple[tuple[str, str], ...]:
    """Finds edge sets and node sets of what examples are about."""
    names = [name for name in (*_ROOT_EDGE_SETS, _TARGET_EDGE_SET) if schema is not None and name in schema.edge_sets]
    found = tuple((name, schema.edge_sets[name].source) for name in names) if schema is not None else ()
    if not found or any(node_set.startswith(SHADOW_PREFIX) for _, node_set in found):
        what = f"seeds of {[node_set for _, node_set in found]}" if schema is not None else "no schema"
        raise ValueError(
            f"`slices` must not name {SEEN_IN_TRAINING!r} where examples are not about nodes or pairs of nodes; got "
            f"{what}. Leave it out."
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

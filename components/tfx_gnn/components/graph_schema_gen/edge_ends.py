"""Infers which node sets edges join, where no graph schema says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.tensor.graph_checks import get_aux_type_prefix
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.records.example_summary import ExamplesSummary


class EdgeEnds(NamedTuple):
    """What the edges of a set join, and how that is known; `evidence` is empty if nothing had to be inferred."""

    source: str
    target: str
    evidence: str = ""


class _End(NamedTuple):
    candidates: Sequence[str]  # at least one
    evidence: str = ""


def find_edge_ends(
    summary: ExamplesSummary,
    node_sets: Sequence[str],
    edge_sets: Sequence[str],
    declared: Mapping[str, tuple[str, str]],
) -> dict[str, EdgeEnds]:
    """Finds the ends of all edge sets.

    Args:
        summary: evidence of all examples.
        node_sets: names of the node sets.
        edge_sets: names of the edge sets.
        declared: ends that the user declares.

    Returns:
        The ends by edge set.

    Raises:
        ValueError: if the ends of a set are neither declared nor certain, or a declared end cannot be right.
    """
    for name in declared:
        if name not in edge_sets:
            raise ValueError(
                f"`edge_set_ends` must name edge sets of the examples; got {name!r}, not one of {list(edge_sets)}. "
                f"{did_you_mean(name, edge_sets)}"
            )
    found: dict[str, EdgeEnds] = {}
    unclear: list[str] = []
    for name in edge_sets:
        ends = []
        for position, end in enumerate((const.SOURCE_NAME, const.TARGET_NAME)):
            key = f"{const.EDGES}/{name}.{end}"
            ruled_out = summary.keys[key].ruled_out if key in summary.keys else {}
            if name in declared:
                ends.append(_declared_end(name, declared[name][position], node_sets, ruled_out))
            else:
                ends.append(_inferred_end(name, end, node_sets, ruled_out))
        source, target = ends
        if len(source.candidates) == len(target.candidates) == 1:
            evidence = " ".join(filter(None, (source.evidence, target.evidence)))
            found[name] = EdgeEnds(source.candidates[0], target.candidates[0], evidence)
        else:
            unclear.append(f"{name!r} from {_any_of(source.candidates)} to {_any_of(target.candidates)}")
    if unclear:
        raise ValueError(
            f"`edge_set_ends` must say which node sets edges join where the examples leave it open; got edge sets "
            f"{', '.join(unclear)}. Set them as in edge_set_ends={{'cites': ('paper', 'paper')}}, or give the graph "
            "schema: next to the splits, or as `declared_graph_schema`, which an Importer provides."
        )
    return found


def _declared_end(name: str, node_set: str, node_sets: Sequence[str], ruled_out: Mapping[str, str]) -> _End:
    if node_set not in node_sets:
        raise ValueError(
            f"`edge_set_ends` must name node sets of the examples; got {node_set!r} for edge set {name!r}, not one of "
            f"{list(node_sets)}. {did_you_mean(node_set, node_sets)}"
        )
    if node_set in ruled_out:
        raise ValueError(
            f"`edge_set_ends` must name node sets that have all nodes that edges point to; got {node_set!r} for edge "
            f"set {name!r}, with {ruled_out[node_set]}. Correct the pair, or make the examples again."
        )
    return _End([node_set])


def _inferred_end(name: str, end: str, node_sets: Sequence[str], ruled_out: Mapping[str, str]) -> _End:
    if len(node_sets) == 1:
        return _End(node_sets)
    readout = name.partition("/")[0]
    is_readout = readout.partition(":")[0] == READOUT_NODE_SET and readout in node_sets
    if is_readout and end == const.TARGET_NAME:
        return _End([readout], f"{end} is {readout!r} by the name of the edge set.")
    possible = [node_set for node_set in node_sets if not (is_readout and node_set == readout)]
    if get_aux_type_prefix(name) is None:
        # Auxiliary sets are no part of the graph, so no other edges lead to them.
        possible = [node_set for node_set in node_sets if get_aux_type_prefix(node_set) is None]
    candidates = [node_set for node_set in possible if node_set not in ruled_out]
    if not candidates:
        raise ValueError(
            f"`examples_dir` must hold edges that point to nodes; got {end} of edge set {name!r}, which fits no node "
            f"set: {_findings(ruled_out)}. Make the examples again."
        )
    if len(possible) == 1:
        return _End(candidates, f"{end} is {candidates[0]!r}, as there is no other node set.")
    left = {node_set: ruled_out[node_set] for node_set in possible if node_set in ruled_out}
    return _End(candidates, f"{end} is {candidates[0]!r}, as others have too few nodes: {_findings(left)}.")


def _findings(ruled_out: Mapping[str, str]) -> str:
    return "; ".join(f"{node_set!r}: {finding}" for node_set, finding in sorted(ruled_out.items()))


def _any_of(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))

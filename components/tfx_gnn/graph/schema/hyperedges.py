"""Reads and writes the node sets of hyperedges in a graph schema, which has fields only for a source and a target.

An edge set without `source` and `target` names the node set of each end in `metadata.extra`, by its tag:

    edge_sets { key: "reaction" value { metadata {
      extra { key: "node_set/0" value: "enzyme" }
      extra { key: "node_set/1" value: "substance" }
      extra { key: "node_set/2" value: "substance" } } } }
"""

from __future__ import annotations

from collections.abc import Mapping

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto.graph_schema_pb2 import EdgeSet, GraphSchema

_KEY = "node_set/"


def declare_hyperedges(edge_set: EdgeSet, ends: Mapping[const.IncidentNodeTag, const.NodeSetName]) -> None:
    """Declares the node sets at the ends of an edge set that has none yet."""
    for tag, name in sorted(ends.items()):
        edge_set.metadata.extra.add(key=f"{_KEY}{tag}", value=name)


def hyperedge_ends(edge_set: EdgeSet, name: str) -> dict[const.IncidentNodeTag, const.NodeSetName]:
    """Returns the node set of each end by tag, in ascending order; empty for ordinary edges."""
    entries = [entry for entry in edge_set.metadata.extra if entry.key.startswith(_KEY)]
    found = {entry.key[len(_KEY) :]: entry.value for entry in entries}
    if len(found) < len(entries):
        raise ValueError(
            "`metadata.extra` must name the node set of each end of hyperedges once; got tags "
            f"{sorted(entry.key[len(_KEY) :] for entry in entries)} in edge set {name!r}. Remove the repetition."
        )
    wrong = sorted(tag for tag in found if not (tag.isascii() and tag.isdigit() and str(int(tag)) == tag))
    if wrong or (found and (edge_set.source or edge_set.target)):
        raise ValueError(
            f"`metadata.extra` must name the node sets of hyperedges by tags 0, 1, 2, ... of an edge set without "
            f"`source` and `target`; got tags {sorted(found)}, source {edge_set.source!r} and target "
            f"{edge_set.target!r} in edge set {name!r}. Declare either two ends or hyperedges."
        )
    return {tag: found[str(tag)] for tag in sorted(map(int, found))}


def refuse_hyperedges(schema: GraphSchema, what: str) -> None:
    """Refuses a schema with hyperedges, for `what` takes only edges with a source and a target."""
    found = sorted(name for name in schema.edge_sets if hyperedge_ends(schema.edge_sets[name], name))
    if found:
        raise ValueError(
            f"`schema` must have edges with a source and a target for {what}; got hyperedges in edge sets {found}. "
            "Make each hyperedge a node, with an ordinary edge to each of its ends."
        )

"""Reads and writes which context features of a graph schema hold the sampled trees of seeds.

They are marked in `metadata.extra` of the context, by a key that ends with the name of the feature and a value that
names the relation between parents and children; their node set is that of the index feature:

    context { metadata { extra { key: "ego_hop/hop_0" value: "cites_reverse" } } }
"""

from __future__ import annotations

from collections.abc import Mapping

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.batching.ego_batches import SEED_READOUT, EgoHop, EgoTrees
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.index_features import index_features

EGO_HOP_KEY = "ego_hop/"
"""Beginning of the keys of these entries of `metadata.extra`."""


def mark_ego_hops(schema: GraphSchema, relations: Mapping[const.FieldName, str]) -> None:
    """Declares which context features hold trees.

    Args:
        schema: the graph schema, which is changed; the features must be marked as index features.
        relations: the relation between parents and children, by feature.
    """
    for feature, relation in relations.items():
        schema.context.metadata.extra.add(key=f"{EGO_HOP_KEY}{feature}", value=relation)


def ego_trees(schema: GraphSchema) -> EgoTrees | None:
    """Returns the form of the trees that a schema declares; None if there are none.

    Args:
        schema: the graph schema of examples.

    Raises:
        ValueError: if a marked feature is not an index feature of fixed width, or there is no seed.
    """
    relations = {
        entry.key[len(EGO_HOP_KEY) :]: entry.value
        for entry in schema.context.metadata.extra
        if entry.key.startswith(EGO_HOP_KEY)
    }
    if not relations:
        return None
    node_sets = index_features(schema).get(const.CONTEXT, {})
    widths = {name: _width(schema, name) for name in relations}
    hops = []
    width = 1
    for name in sorted(relations, key=lambda name: (widths[name], len(name), name)):
        node_set = node_sets.get(name)
        if not isinstance(node_set, str) or widths[name] < width or widths[name] % width:
            raise ValueError(
                f"`metadata.extra` must mark features of the context as trees that hold indices of one node set, and a "
                f"multiple of those of the hop before; got {name!r} with {widths[name]} indices of {node_set!r} after "
                f"{width}. Let the sampler write the graph schema."
            )
        hops.append(EgoHop(feature=name, relation=relations[name], node_set=node_set, fan_out=widths[name] // width))
        width = widths[name]
    if SEED_READOUT not in schema.edge_sets:
        raise ValueError(
            f"`schema` must have edge set {SEED_READOUT!r} where it declares trees; got {sorted(schema.edge_sets)}. "
            "Keep the seeds' readout."
        )
    return EgoTrees(seed_node_set=schema.edge_sets[SEED_READOUT].source, hops=tuple(hops))


def _width(schema: GraphSchema, name: str) -> int:
    sizes = [dim.size for dim in schema.context.features[name].shape.dim]
    return sizes[0] if len(sizes) == 1 else 0

"""Says how examples in memory become batches and graphs: rules of single keys, and which set each key belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Union

from tfx_gnn.graph.graph_constants import CONTEXT, EDGES, NODES, SIZE_NAME, EdgeSetName, FieldName, NodeSetName

#: Name of a value of an example; for heterogeneous examples, preceded by the type of nodes or edges.
Key = Union[str, tuple[str, ...]]
_NO_NAMES: Mapping[FieldName, Key] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldRule:
    """How the values of one key become one value of a batch.

    Integers that grow are indices: each must be in [0, number of what they count), or -1 for none, which stays -1.
    Where rows of `increment` differ, values are matrices, and the names belong to rows (or columns) of the dimension
    that is not concatenated: `FieldRule(axis=-1, increment=("x_s", "x_t"))` for edges from x_s to x_t.

    Attributes:
        axis: dimension along which arrays are concatenated; None to stack them along a new first dimension.
        increment: what the values count, so that they grow from graph to graph by the number of these: a key with
            arrays, a key with integers such as "num_nodes", or a node set of the layout; a tuple of these for each row.
            None for values that stay as they are.

    Example:
        >>> tfx_gnn.FieldRule(axis=None)
        FieldRule(axis=None, increment=None)
    """

    axis: int | None = 0
    increment: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Checks the types of both."""
        if not (self.axis is None or (isinstance(self.axis, int) and not isinstance(self.axis, bool))):
            raise TypeError(f"`axis` must be an integer or None; got {self.axis!r}.")
        names = self.increment if isinstance(self.increment, tuple) else (self.increment,)
        is_none = self.increment is None
        if not is_none and (not names or not all(isinstance(name, str) for name in names)):
            raise TypeError(
                f"`increment` must name a key or node set, or be a tuple of names; got {self.increment!r}. To grow by "
                "a number, store it under a key of each example."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EdgeLayout:
    """Which keys of an example make up an edge set.

    Attributes:
        source: node set where edges start.
        target: node set where edges end.
        index: key of the node indices of both ends, shape [2, num_edges].
        features: feature names to keys of arrays of shape [num_edges, ...].

    Example:
        >>> tfx_gnn.EdgeLayout(source="atoms", target="atoms").index
        'edge_index'
    """

    source: NodeSetName
    target: NodeSetName
    index: Key = "edge_index"
    features: Mapping[FieldName, Key] = _NO_NAMES


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphLayout:
    """Which keys of an example make up which sets of a graph.

    It yields the increments of all edges, so that examples need no `__inc__`, and the graphs of batches and files. Keys
    that it does not name are collated, but are not part of graphs.

    Attributes:
        node_sets: node set names to a dict of feature names to keys of arrays of shape [num_nodes, ...]. The first
            feature tells the number of nodes; a node set without features has "#size" (`tfx_gnn.SIZE_NAME`) for the key
            of an integer.
        edge_sets: edge set names to keys of edges.
        context: feature names to keys of values with one row per graph.
        rules: key to rule, for keys that hold further indices or that are stacked.

    Example:
        >>> layout = tfx_gnn.GraphLayout(
        ...     node_sets={"s": {"x": "x_s"}, "t": {"x": "x_t"}},
        ...     edge_sets={"s_bonds": tfx_gnn.EdgeLayout(source="s", target="s", index="edge_index_s")},
        ... )
        >>> layout.rule_of("edge_index_s")
        FieldRule(axis=-1, increment='s')
    """

    node_sets: Mapping[NodeSetName, Mapping[FieldName, Key]] = dataclasses.field(default_factory=dict)
    edge_sets: Mapping[EdgeSetName, EdgeLayout] = dataclasses.field(default_factory=dict)
    context: Mapping[FieldName, Key] = dataclasses.field(default_factory=dict)
    rules: Mapping[Key, FieldRule] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Checks that edges connect node sets of the layout, and that node sets have a size."""
        for name, features in self.node_sets.items():
            if not features:
                raise ValueError(
                    f"`node_sets` must name a key for each node set; got none for {name!r}. Without features, write "
                    f"{{{SIZE_NAME!r}: 'num_nodes'}}."
                )
        for edge_set_name, edges in self.edge_sets.items():
            if not isinstance(edges, EdgeLayout):
                raise TypeError(f"`edge_sets` must hold EdgeLayouts; got {edges!r} for {edge_set_name!r}.")
            for end in (edges.source, edges.target):
                if end not in self.node_sets:
                    raise ValueError(
                        f"`edge_sets` must connect node sets of the layout; got {end!r} in {edge_set_name!r}. Known "
                        f"are {list(self.node_sets)}."
                    )

    def rule_of(self, key: Key) -> FieldRule | None:
        """Returns the rule of a key; None if the layout does not name the key.

        Args:
            key: key of examples.
        """
        if key in self.rules:
            return self.rules[key]
        for edges in self.edge_sets.values():
            if edges.index == key:
                ends = (edges.source, edges.target)
                return FieldRule(axis=-1, increment=ends if len(set(ends)) == 2 else edges.source)
        return FieldRule() if key in self.feature_keys() else None

    def size_key(self, node_set_name: NodeSetName) -> Key:
        """Returns the key that tells the number of nodes of a node set.

        Args:
            node_set_name: name of the node set.
        """
        features = self.node_sets[node_set_name]
        return features.get(SIZE_NAME) or next(iter(features.values()))

    def index_features(self) -> dict[str, dict[FieldName, NodeSetName | tuple[NodeSetName, ...]]]:
        """Returns the features of graphs whose rules let them grow, in the form of `mark_index_features`.

        Raises:
            ValueError: if a feature counts what is not a node set of the layout.
        """
        sets: dict[str, Mapping[FieldName, Key]] = {CONTEXT: self.context}
        sets |= {f"{NODES}/{name}": features for name, features in self.node_sets.items()}
        sets |= {f"{EDGES}/{name}": edges.features for name, edges in self.edge_sets.items()}
        found: dict[str, dict[FieldName, NodeSetName | tuple[NodeSetName, ...]]] = {}
        for set_key, features in sets.items():
            for feature, key in features.items():
                rule = self.rules.get(key)
                if rule is None or rule.increment is None:
                    continue
                counted = rule.increment
                found.setdefault(set_key, {})[feature] = (
                    self._counted_set(counted, key)
                    if isinstance(counted, str)
                    else tuple(self._counted_set(name, key) for name in counted)
                )
        return found

    def _counted_set(self, name: str, key: Key) -> NodeSetName:
        for node_set, features in self.node_sets.items():
            if name == node_set or name in features.values():
                return node_set
        raise ValueError(
            f"`rules` must let features of graphs count the nodes of a node set; got {name!r} for {key!r}. Known are "
            f"{list(self.node_sets)} and their keys."
        )

    def feature_keys(self) -> set[Key]:
        """Returns the keys of all features and sizes."""
        maps = [*self.node_sets.values(), *(edges.features for edges in self.edge_sets.values()), self.context]
        return {key for names in maps for key in names.values()}

"""What an example is about, as a hash that is the same in every run: by it, two runs' answers are paired.

The bytes of an example change with the sampling plan, and with every feature that is added. Its seed does not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfx_gnn.components.graph_evaluator.kept_predictions import BY_BYTES, BY_GRAPH, BY_SEED
from tfx_gnn.components.graph_evaluator.measures import feature_values
from tfx_gnn.components.graph_evaluator.paired_bootstrap import Hashes, hash_examples
from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import ID_NAME, READOUT_NODE_SET, SHADOW_PREFIX

_READOUT = f"{const.NODES}/{READOUT_NODE_SET}."
_GRAPH_ID = f"{const.CONTEXT}/{ID_NAME}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Root:
    """Where the ids of one root of an example are.

    Attributes:
        positions: key of the roots' positions in their set.
        ids: key of that set's ids; empty if it has none.
        ends: of an edge, keys of its ends' positions and of the ids in their node sets.
    """

    positions: str
    ids: str
    ends: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleIdentity:
    """How examples of a data set are told apart.

    Attributes:
        kind: `BY_SEED`, `BY_GRAPH` or `BY_BYTES`.
        roots: the roots that examples are about.
        features: keys of what else tells seeds apart, such as the time of a prediction.
    """

    kind: str = BY_BYTES
    roots: tuple[_Root, ...] = ()
    features: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: GraphSchema | None, label_keys: Collection[str]) -> ExampleIdentity:
        """Finds out what examples of a schema are about.

        Args:
            schema: their graph schema, if they have one.
            label_keys: keys of labels, which are compared and tell nothing apart.
        """
        if schema is None:
            return cls()
        roots = tuple(
            _root(schema, name, edge_set.source)
            for name, edge_set in sorted(schema.edge_sets.items())
            if edge_set.target == READOUT_NODE_SET and name.startswith(f"{READOUT_NODE_SET}/")
        )
        if roots and all(root.ends or root.ids for root in roots):
            keys = (_READOUT + name for name in sorted(schema.node_sets[READOUT_NODE_SET].features))
            return cls(kind=BY_SEED, roots=roots, features=tuple(key for key in keys if key not in label_keys))
        if not roots and ID_NAME in schema.context.features:
            return cls(kind=BY_GRAPH, features=(_GRAPH_ID,))
        return cls()

    def identify(self, records: Sequence[bytes], examples: Sequence[Mapping[str, Any]]) -> Hashes:
        """Hashes what examples are about; one that lacks its ids is identified by its bytes.

        Args:
            records: serialized examples.
            examples: their features by key.

        Returns:
            uint64 array, shape [n].
        """
        if self.kind == BY_BYTES:
            return hash_examples(records)
        texts = (self._described(features) for features in examples)
        return hash_examples([text or record for text, record in zip(texts, records, strict=True)])

    def _described(self, features: Mapping[str, Any]) -> bytes:
        """Writes down what an example is about; empty if it does not say it."""
        found: list[Any] = []
        for root in self.roots:
            positions = _values(features, root.positions)
            columns = [_taken(_values(features, root.ids), positions)] if root.ids else []
            for end, ids in root.ends:
                columns.append(_taken(_values(features, ids), _taken(_values(features, end), positions)))
            if not positions or not all(columns):
                return b""
            found.append((root.positions, columns))
        found += [(key, _values(features, key)) for key in self.features]
        return repr(found).encode() if self.roots or found[0][1] else b""


def _root(schema: GraphSchema, edge_set: str, source: str) -> _Root:
    positions = f"{const.EDGES}/{edge_set}.{const.SOURCE_NAME}"
    name = source.removeprefix(SHADOW_PREFIX)
    if name == source:
        return _Root(positions=positions, ids=_ids(schema.node_sets, const.NODES, source))
    # A shadow node is at the position of its edge.
    of_edges = schema.edge_sets.get(name)
    ends = ((const.SOURCE_NAME, of_edges.source), (const.TARGET_NAME, of_edges.target)) if of_edges is not None else ()
    known = tuple(
        (f"{const.EDGES}/{name}.{end}", ids)
        for end, node_set in ends
        if (ids := _ids(schema.node_sets, const.NODES, node_set))
    )
    return _Root(
        positions=positions,
        ids=_ids(schema.edge_sets, const.EDGES, name),
        ends=known if len(known) == len(ends) else (),
    )


def _ids(sets: Mapping[str, Any], kind: str, name: str) -> str:
    return f"{kind}/{name}.{ID_NAME}" if name in sets and ID_NAME in sets[name].features else ""


def _values(features: Mapping[str, Any], key: str) -> list[Any]:
    return list(feature_values(features, key)[1])


def _taken(values: list[Any], positions: list[Any]) -> list[Any]:
    """Takes values at positions; nothing if one of them is absent."""
    return [values[i] for i in positions] if all(0 <= i < len(values) for i in positions) else []

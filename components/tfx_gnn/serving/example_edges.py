"""The nodes and edges of a serialized graph tf.Example, and copies of it without some edges; needs no schema."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph.graph_constants import EDGES, NODES
from tfx_gnn.graph.reserved_names import ID_NAME

_SOURCE, _TARGET, _SIZE = ".#source", ".#target", ".#size"
_ROW_LENGTHS = re.compile(r".*\.d[0-9]+")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleGraph:
    """The structure of one example.

    Attributes:
        node_ids: original ids by node set that is not auxiliary, of sets that have ids.
        node_sizes: number of nodes by the same node sets.
        edges: indices of sources and targets, int64 [2, num_edges], by edge set that is not auxiliary.
        ends: node sets at the source and the target, by edge set.
    """

    node_ids: Mapping[str, list[Any]]
    node_sizes: Mapping[str, int]
    edges: Mapping[str, npt.NDArray[np.int64]]
    ends: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, example: tf.train.Example, ends: Mapping[str, Sequence[str]]) -> ExampleGraph:
        """Reads an example; `ends` are those that the model declares, and may lack sets of a graph of one node set."""
        features = example.features.feature
        node_sets = _set_names(features, NODES, _SIZE)
        edge_sets = _set_names(features, EDGES, _SOURCE)
        unknown = [name for name in edge_sets if name not in ends]
        if unknown and len(node_sets) != 1:
            raise ValueError(
                f"`saved_model_dir` must hold a model that declares the node sets at the ends of {unknown}; got one of "
                "an earlier version. Export it again."
            )
        return cls(
            node_ids={
                name: _values(features[f"{NODES}/{name}.{ID_NAME}"])
                for name in node_sets
                if f"{NODES}/{name}.{ID_NAME}" in features
            },
            node_sizes={name: sum(features[f"{NODES}/{name}{_SIZE}"].int64_list.value) for name in node_sets},
            edges={
                name: np.stack(
                    [np.asarray(features[f"{EDGES}/{name}{end}"].int64_list.value, int) for end in (_SOURCE, _TARGET)]
                )
                for name in edge_sets
            },
            ends={name: ends.get(name, node_sets * 2) for name in edge_sets},
        )

    def node_id(self, node_set: str, index: int) -> Any:
        """Returns the original id of a node, or None."""
        ids = self.node_ids.get(node_set)
        return None if ids is None else ids[index]

    def edges_of(self, node_set: str, index: int) -> dict[str, npt.NDArray[np.int64]]:
        """Returns the positions of all edges that begin or end at a node, by edge set."""
        found = {}
        for name, indices in self.edges.items():
            touches = np.zeros(indices.shape[1], bool)
            for end, end_set in zip(indices, self.ends[name], strict=True):
                if end_set == node_set:
                    touches |= end == index
            if touches.any():
                found[name] = np.flatnonzero(touches)
        return found


def has_ragged_feature(example: tf.train.Example, edge_set: str) -> bool:
    """Whether an edge set has a ragged feature, so that `without_edges` refuses to remove its edges."""
    start = f"{EDGES}/{edge_set}."
    return any(key.startswith(start) and _ROW_LENGTHS.fullmatch(key) is not None for key in example.features.feature)


def without_edges(example: tf.train.Example, removed: Mapping[str, Sequence[int] | npt.NDArray[np.int64]]) -> bytes:
    """Serializes an example without some of its edges.

    Args:
        example: graph tf.Example.
        removed: positions of edges by edge set.

    Returns:
        The serialized copy; nodes, and the order of other edges, are unchanged.

    Raises:
        ValueError: if an edge set has a ragged feature, whose rows cannot be told apart without a schema.
    """
    changed = tf.train.Example()
    changed.CopyFrom(example)
    features = changed.features.feature
    others = _set_names(features, EDGES, _SOURCE, with_auxiliary=True)
    for name, positions in removed.items():
        prefix = f"{EDGES}/{name}."
        longer = tuple(f"{EDGES}/{other}." for other in others if other.startswith(f"{name}."))
        num_edges = len(features[f"{EDGES}/{name}{_SOURCE}"].int64_list.value)
        kept = np.ones(num_edges, bool)
        kept[np.asarray(positions, int)] = False
        for key in [key for key in features if key.startswith(prefix) and not key.startswith(longer or ("\0",))]:
            if _ROW_LENGTHS.fullmatch(key):
                raise ValueError(
                    f"`examples` must have edges whose features have one shape, so that single edges can be removed; "
                    f"got the ragged feature {key.rpartition('.')[0]!r}. Explain with method 'gradients'."
                )
            values = list_of(features[key])
            if key.endswith(_SIZE):
                values[:] = [int(kept.sum())]
            elif num_edges and len(values):
                rows = np.asarray(values, object).reshape(num_edges, -1)
                values[:] = rows[kept].ravel().tolist()
    serialized: bytes = changed.SerializeToString(deterministic=True)
    return serialized


def _set_names(features: Mapping[str, Any], kind: str, suffix: str, *, with_auxiliary: bool = False) -> list[str]:
    start = f"{kind}/" if with_auxiliary else f"{kind}/(?!_)"
    pattern = re.compile(f"{start}(.*){re.escape(suffix)}")
    return sorted(found[1] for key in features if (found := pattern.fullmatch(key)))


def list_of(feature: Any) -> Any:
    """Returns the list of a tf.train.Feature, whatever its type."""
    return getattr(feature, feature.WhichOneof("kind") or "int64_list").value


def _values(feature: Any) -> list[Any]:
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in list_of(feature)]

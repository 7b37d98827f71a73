"""A request that a served model answers, as a command line to paste: by a real id, or with real values of features."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.graph_constants import CONTEXT, EDGES, NODES, SOURCE_NAME, TARGET_NAME
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.serving.server.examples_input import EXAMPLES, GRAPHS
from tfx_gnn.serving.server.inference import InputValues, items_of
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal
from tfx_gnn.serving.server.served_version import ServedVersion

_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where a server that listens on all addresses is reached from this machine."""
_MOST_CHARACTERS = 1500
"""Longest body that is worth while to paste."""


def curl_line(instance: Any, options: ServerOptions, url: str) -> str:
    """Writes a command line that asks a version for a prediction.

    Args:
        instance: what is asked about, an item of `instances`.
        options: those of the server. With tokens, the line takes one from the variable TOKEN.
        url: address of the server.

    Returns:
        The line.
    """
    place = urlsplit(url)
    host = _HERE.get(place.hostname or "", place.hostname or "")
    address = f"{place.scheme}://{f'[{host}]' if ':' in host else host}:{place.port}"
    words = ["curl", "-s", f"{address}/v1/models/{options.model_name}:predict", "-H", "Content-Type: application/json"]
    line = shlex.join([*words, "-d", json.dumps({"instances": [instance]})])
    return f'{line} -H "Authorization: Bearer $TOKEN"' if options.token_file else line


def example_instance(version: ServedVersion) -> Any:
    """Finds an item of `instances` that a version answers.

    Args:
        version: what answers it.

    Returns:
        The id of a node, or those of a pair, if the version is asked by ids. Else a request that was recorded with the
        model, without the neighbors of the seed if these are many; or nodes without values if none was recorded. None
        if nothing of this is answered, or short.
    """
    if version.seeds is not None:
        return version.seeds.example()
    for instance in _instances(version.recorded_example, version.graph_schema, version.roots):
        if len(json.dumps(instance)) <= _MOST_CHARACTERS and _is_answered(version, instance):
            return instance
    return None


def _is_answered(version: ServedVersion, instance: Mapping[str, Any]) -> bool:
    kind = EXAMPLES if "b64" in instance else GRAPHS
    try:
        items = items_of([InputValues(kind=kind, values=[instance], places=["instance"])], version, 1)
    except Refusal:
        return False
    (answer,) = version.signature("").answer([items])
    return not isinstance(answer, Refusal)


def _instances(
    record: bytes | None, schema: graph_schema_pb2.GraphSchema | None, roots: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    """Yields ways to send a recorded example, the most readable first; without one, a graph without values."""
    if record is None:
        if schema is not None and not _has_open_shapes(schema):
            yield _blank_graph(schema, roots)
        return
    if schema is not None and not _has_open_shapes(schema):
        try:
            graph = _GraphJson(record, schema, roots)
            yield graph.whole()
            if roots:
                yield graph.roots_alone()
        except (KeyError, UnicodeDecodeError):
            pass  # Texts that are no UTF-8, or features that requests do not have: only the bytes say all.
    yield {"b64": base64.b64encode(record).decode()}


def _has_open_shapes(schema: graph_schema_pb2.GraphSchema) -> bool:
    sets: list[Any] = [schema.context, *schema.node_sets.values(), *schema.edge_sets.values()]
    return any(dim.size < 0 for one in sets for feature in one.features.values() for dim in feature.shape.dim)


def _blank_graph(schema: graph_schema_pb2.GraphSchema, roots: Sequence[str]) -> dict[str, Any]:
    """Makes the nodes that are asked about, with 0 or "" for each feature."""

    def blank(feature: graph_schema_pb2.Feature) -> Any:
        value: Any = "" if tf.as_dtype(feature.dtype) == tf.string else 0
        for dim in reversed([dim.size for dim in feature.shape.dim]):
            value = [value] * dim
        return value

    names = {root: schema.edge_sets[f"{READOUT_NODE_SET}/{root}"].source for root in roots}
    nodes = {
        name: {feature: [blank(declared)] for feature, declared in schema.node_sets[name].features.items()}
        for name in {*names.values(), *([READOUT_NODE_SET] if roots else [])}
    }
    context = {name: blank(declared) for name, declared in schema.context.features.items()}
    given: dict[str, Any] = {"node_sets": {name: one for name, one in sorted(nodes.items()) if one}, "context": context}
    return {name: part for name, part in given.items() if part} | (
        {"readout": dict.fromkeys(roots, 0)} if roots else {}
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(str(np.float32(value)))  # 9.9, not 9.899999618530273
    return value.decode() if isinstance(value, bytes) else value


class _GraphJson:
    """A recorded example in the layout of `tfx_gnn.serving.server.graph_json`, features of fixed shapes only."""

    def __init__(self, record: bytes, schema: graph_schema_pb2.GraphSchema, roots: Sequence[str]) -> None:
        self._values = tf.train.Example.FromString(record).features.feature
        self._schema, self._roots = schema, roots

    def whole(self) -> dict[str, Any]:
        """The graph with all nodes and edges."""
        schema = self._schema
        nodes = {name: self._features(f"{NODES}/{name}.", one) for name, one in schema.node_sets.items()}
        edges = {name: self._edges(name, one) for name, one in schema.edge_sets.items()}
        return self._graph(nodes, edges, self._positions())

    def roots_alone(self) -> dict[str, Any]:
        """The nodes that are asked about, without neighbors."""
        nodes: dict[str, dict[str, list[Any]]] = {}
        readout: dict[str, list[int]] = {}
        for root, positions in self._positions().items():
            name = self._schema.edge_sets[f"{READOUT_NODE_SET}/{root}"].source
            features = self._features(f"{NODES}/{name}.", self._schema.node_sets[name])
            own = nodes.setdefault(name, {feature: [] for feature in features})
            start = len(next(iter(own.values()), ()))
            for feature, values in features.items():
                own[feature] += [values[position] for position in positions]
            readout[root] = list(range(start, start + len(positions)))
        readouts = {READOUT_NODE_SET: self._features(f"{NODES}/{READOUT_NODE_SET}.", self._readout_set())}
        return self._graph({**nodes, **readouts}, {}, readout)

    def _graph(self, nodes: Any, edges: Any, readout: Mapping[str, list[int]]) -> dict[str, Any]:
        context = {
            name: values[0] for name, values in self._features(f"{CONTEXT}/", self._schema.context, size=1).items()
        }
        ends = {root: positions[0] if len(positions) == 1 else positions for root, positions in readout.items()}
        given = {
            "node_sets": {name: one for name, one in nodes.items() if one},
            "edge_sets": {
                name: one for name, one in edges.items() if not (self._roots and name.startswith(READOUT_NODE_SET))
            },
            "context": context,
            "readout": ends,
        }
        return {name: part for name, part in given.items() if part}

    def _readout_set(self) -> Any:
        return self._schema.node_sets[READOUT_NODE_SET]

    def _positions(self) -> dict[str, list[int]]:
        key = f"{EDGES}/{READOUT_NODE_SET}"
        return {root: list(self._values[f"{key}/{root}.{SOURCE_NAME}"].int64_list.value) for root in self._roots}

    def _edges(self, name: str, edge_set: Any) -> dict[str, Any]:
        start = f"{EDGES}/{name}."
        ends = {"source": SOURCE_NAME, "target": TARGET_NAME}
        positions = {end: list(self._values[start + key].int64_list.value) for end, key in ends.items()}
        return {**positions, **self._features(start, edge_set)}

    def _features(self, start: str, declared: Any, *, size: int | None = None) -> dict[str, list[Any]]:
        """Reads the features of a set that the record has, one item for each node or edge."""
        found = {}
        for name, feature in declared.features.items():
            key = start + name
            if key not in self._values:
                continue
            field = self._values[key]
            values = [_plain(value) for value in getattr(field, field.WhichOneof("kind") or "int64_list").value]
            for dim in reversed([dim.size for dim in feature.shape.dim]):
                values = [values[first : first + dim] for first in range(0, len(values), dim)]
            found[name] = values if size is None else values[:size]
        return found

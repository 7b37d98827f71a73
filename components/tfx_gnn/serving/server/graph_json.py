"""Graphs as JSON: the layout, its validation against a model's schema, and the tf.Example that it stands for.

    {"node_sets": {"user": {"age": [31, 42]}, "item": {"price": [9.5]}},
     "edge_sets": {"buys": {"source": [0, 1], "target": [0, 0], "count": [1, 3]}},
     "context": {"day": "monday"},
     "readout": {"seed": 0}}

A feature has one value per node or edge, in their order; a value of several numbers is a list, and null is what the
schema declares for a missing value. `source` and `target`
are positions of nodes. `readout` has the positions of the nodes that the prediction is about, one number each for a
node, a list each for the sources and targets of candidate links.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfx_gnn.graph.codec.example_layout import row_lengths_key, stored_dtype
from tfx_gnn.graph.graph_constants import CONTEXT, EDGES, NODES, SIZE_NAME, SOURCE_NAME, TARGET_NAME
from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.reserved_names import ID_NAME, READOUT_NODE_SET
from tfx_gnn.graph.schema.feature_defaults import feature_defaults, fill_nulls
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.serving.server.refusals import malformed, shown

GRAPH_PARTS = ("node_sets", "edge_sets", "context", "readout")
_ENDS = {"source": SOURCE_NAME, "target": TARGET_NAME}
MAX_SIZE_ALONE = 100_000
"""Largest size of a set of which nothing else is said: a request of a few bytes would take any memory."""
_LARGEST_FLOAT = float(tf.float32.max)


def example_of_graph(graph: object, schema: graph_schema_pb2.GraphSchema, roots: Sequence[str], place: str) -> bytes:
    """Writes a graph in JSON to a tf.Example of the schema.

    Sets that are left out are empty. The feature `#id` may be left out: it is then "" or -1.

    Args:
        graph: what JSON was read to.
        schema: schema of the graphs in requests.
        roots: keys of `readout`: "seed", or "source" and "target", or none.
        place: where the graph is in the request, for messages.

    Returns:
        The serialized tf.Example.

    Raises:
        Refusal: if the graph does not have this layout, or is not one of the schema.
    """
    return _Writer(schema, tuple(roots)).write(_object(graph, place, GRAPH_PARTS, "a graph"), place)


def bytes_of(value: object, place: str) -> bytes:
    """Reads a text, or bytes in the form {"b64": <base64>}."""
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise malformed(
                f'`{place}` must be Unicode text; got half of a surrogate pair. Send bytes as {{"b64": ...}}.'
            ) from error
    if isinstance(value, Mapping) and list(value) == ["b64"] and isinstance(value["b64"], str):
        try:
            return _decoded(value["b64"])
        except (binascii.Error, ValueError) as error:
            raise malformed(
                f"`{place}.b64` must be base64; got {shown(value['b64'])} ({error}). Use the standard alphabet, with "
                "padding and without line breaks."
            ) from error
    raise malformed(f'`{place}` must be a text or {{"b64": <base64>}}; got {shown(value)}. Write it so.')


def _decoded(text: str) -> bytes:
    # Python takes padding that pads nothing, such as "=".
    if len(text) % 4:
        raise ValueError(f"{len(text)} characters, no multiple of 4")
    return base64.b64decode(text, validate=True)


class _Writer:
    """Writes one graph."""

    def __init__(self, schema: graph_schema_pb2.GraphSchema, roots: tuple[str, ...]) -> None:
        self._schema, self._roots = schema, roots
        self._example = tf.train.Example()
        self._sizes: dict[str, int] = {}

    def write(self, graph: Mapping[str, Any], place: str) -> bytes:
        schema = self._schema
        context = _object(graph.get("context", {}), f"{place}.context", schema.context.features, "a context")
        for name, feature in schema.context.features.items():
            if name not in context:
                raise _absent(f"{place}.context", name)
            items = fill_nulls([context[name]], feature, feature_defaults(schema.context).get(name))
            self._write_feature(f"{CONTEXT}/{name}", feature, items, f"{place}.context.{name}")
        node_sets = _object(graph.get("node_sets", {}), f"{place}.node_sets", schema.node_sets, "node sets")
        edge_sets = _object(graph.get("edge_sets", {}), f"{place}.edge_sets", schema.edge_sets, "edge sets")
        node_sets, edge_sets = self._with_readout(graph, dict(node_sets), dict(edge_sets), place)
        for name, node_set in schema.node_sets.items():
            where = f"{place}.node_sets.{name}"
            values = _object(node_sets.get(name, {}), where, (SIZE_NAME, *node_set.features), "a node set")
            self._sizes[name] = self._write_set(f"{NODES}/{name}.", node_set, values, where)
        for name, edge_set in schema.edge_sets.items():
            where = f"{place}.edge_sets.{name}"
            self._write_edges(name, edge_set, edge_sets.get(name, {"source": [], "target": []}), where)
        return bytes(self._example.SerializeToString(deterministic=True))

    def _with_readout(
        self, graph: Mapping[str, Any], node_sets: dict[str, Any], edge_sets: dict[str, Any], place: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Adds the node set `_readout`, and the edge sets that lead to it."""
        if not self._roots or ("readout" not in graph and READOUT_NODE_SET in node_sets):
            if "readout" in graph:
                raise malformed(
                    f"`{place}.readout` must be absent, because predictions are about whole graphs; got "
                    f"{shown(graph['readout'])}. Leave it out."
                )
            return node_sets, edge_sets
        where = f"{place}.readout"
        readout = _object(graph.get("readout", {}), where, self._roots, "a readout")
        lists = {}
        for root in self._roots:
            if root not in readout:
                raise malformed(
                    f"`{where}` must have {root!r}, the position of the node that the prediction is about; got "
                    f'{shown(dict(readout))}. Write "readout": {{"{root}": 0}} for the first node.'
                )
            lists[root] = readout[root] if isinstance(readout[root], list) else [readout[root]]
            if len(self._roots) == 1 and len(lists[root]) != 1:
                raise malformed(
                    f"`{where}.{root}` must be the position of one node; got {shown(readout[root])}. Send a graph for "
                    "each node to ask about."
                )
        lengths = {len(positions) for positions in lists.values()}
        if len(lengths) > 1:
            raise malformed(
                f"`{where}` must have as many of each of {list(self._roots)}; got "
                f"{[len(positions) for positions in lists.values()]}. A pair has one source and one target."
            )
        (size,) = lengths
        for root, positions in lists.items():
            edge_sets[f"{READOUT_NODE_SET}/{root}"] = {"source": positions, "target": list(range(size))}
        given = _object(
            node_sets.get(READOUT_NODE_SET, {}), f"{place}.node_sets.{READOUT_NODE_SET}", None, "a node set"
        )
        return {**node_sets, READOUT_NODE_SET: {SIZE_NAME: size, **given}}, edge_sets

    def _write_set(
        self,
        start: str,
        declared: graph_schema_pb2.NodeSet | graph_schema_pb2.EdgeSet,
        values: Mapping[str, Any],
        place: str,
    ) -> int:
        """Writes size and features of a set; returns the size."""
        features, defaults = declared.features, feature_defaults(declared)
        lists = {
            name: fill_nulls(_list(values[name], f"{place}.{name}"), feature, defaults.get(name))
            for name, feature in features.items()
            if name in values
        }
        size = values.get(SIZE_NAME, len(next(iter(lists.values()), ())))
        if not _is_int(size) or not 0 <= size < 2**31:
            raise malformed(f"`{place}.{SIZE_NAME}` must be a number of nodes or edges; got {shown(size)}. Count them.")
        if not lists and size > MAX_SIZE_ALONE:
            raise malformed(
                f"`{place}.{SIZE_NAME}` must be at most {MAX_SIZE_ALONE} in a set without values; got {size}. Send a "
                "serialized example."
            )
        for name, items in lists.items():
            if len(items) != size:
                raise malformed(
                    f"`{place}.{name}` must have one value for each of {size} nodes or edges; got {len(items)}. Give "
                    "all features and ends of a set equally many values."
                )
        if size or lists:
            for name, feature in features.items():
                if name in lists:
                    self._write_feature(start + name, feature, lists[name], f"{place}.{name}")
                elif name == ID_NAME:
                    unknown = "" if feature.dtype == tf.string.as_datatype_enum else -1
                    self._write_feature(start + name, feature, [unknown] * size, place)
                elif size:
                    raise _absent(place, name)
        self._example.features.feature[start + SIZE_NAME].int64_list.value.append(size)
        return int(size)

    def _write_edges(self, name: str, edge_set: graph_schema_pb2.EdgeSet, given: object, place: str) -> None:
        if not (edge_set.source and edge_set.target):
            raise malformed(
                f"`{place}` must be sent in serialized examples: its edges have other ends than a source and a target."
            )
        values = _object(given, place, (SIZE_NAME, *_ENDS, *edge_set.features), "an edge set")
        ends = {}
        for end, node_set in (("source", edge_set.source), ("target", edge_set.target)):
            if end not in values:
                raise malformed(
                    f"`{place}` must have 'source' and 'target', positions of nodes; got {sorted(values)}. "
                    f"Add {end!r}: for each edge, the position of its node in {node_set!r}, counted from 0."
                )
            ends[end] = _list(values[end], f"{place}.{end}")
            for number, position in enumerate(ends[end]):
                if not _is_int(position) or not 0 <= position < self._sizes[node_set]:
                    raise malformed(
                        f"`{place}.{end}[{number}]` must be the position of one of the {self._sizes[node_set]} nodes "
                        f"of {node_set!r}; got {shown(position)}. Count from 0."
                    )
        start = f"{EDGES}/{name}."
        sizes = {SIZE_NAME: len(ends["source"]), **{key: values[key] for key in values if key not in ends}}
        size = self._write_set(start, edge_set, sizes, place)
        for end, key in _ENDS.items():
            if len(ends[end]) != size:
                raise malformed(
                    f"`{place}.{end}` must have one position for each of {size} edges; got {len(ends[end])}. Give "
                    "'source' and 'target' equally many."
                )
            self._example.features.feature[start + key].int64_list.value.extend(ends[end])

    def _write_feature(self, key: str, feature: graph_schema_pb2.Feature, items: list[Any], place: str) -> None:
        sizes = [dim.size for dim in feature.shape.dim]
        level = items
        for dimension, size in enumerate(sizes, 1):
            for item in level:
                if not isinstance(item, list) or (size >= 0 and len(item) != size):
                    wanted = f"lists of {size} values" if size >= 0 else "lists"
                    raise malformed(
                        f"`{place}` must hold {wanted} at depth {dimension}; got {shown(item)}. A value has shape "
                        f"{sizes}, -1 being any length."
                    )
            if size < 0:
                lengths = self._example.features.feature[row_lengths_key(key, dimension)].int64_list
                lengths.value.extend(map(len, level))
            level = [value for item in level for value in item]
        dtype = tf.as_dtype(feature.dtype)
        stored = stored_dtype(dtype, key)
        field = self._example.features.feature[key]
        if stored == tf.string:
            field.bytes_list.value.extend([bytes_of(value, place) for value in level])
        elif stored == tf.float32:
            field.float_list.value.extend(_checked(level, _is_float, place, "a number in the range of float32"))
        else:
            is_valid = _is_bool if dtype.is_bool else _integers_of(dtype)
            wanted = "true or false" if dtype.is_bool else f"an integer in the range of {dtype.name}"
            # tf.Examples hold signed numbers; large unsigned ones keep their bits.
            values = [int(value) for value in _checked(level, is_valid, place, wanted)]
            field.int64_list.value.extend([value - 2**64 if value >= 2**63 else value for value in values])


def _checked(values: list[Any], is_valid: Callable[[Any], bool], place: str, wanted: str) -> list[Any]:
    for value in values:
        if not is_valid(value):
            raise malformed(f"`{place}` must hold {wanted} for each item; got {shown(value)}. Correct this value.")
    return values


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or (_is_int(value) and value in (0, 1))


def _is_float(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value) or abs(value) <= _LARGEST_FLOAT
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_FLOAT


def _integers_of(dtype: tf.DType) -> Callable[[Any], bool]:
    return lambda value: _is_int(value) and dtype.min <= value <= dtype.max


def _object(value: object, place: str, names: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise malformed(f"`{place}` must be {what}, a JSON object; got {shown(value)}. Write it as an object.")
    if names is not None:
        for name in _unknown(value, names):
            hint = did_you_mean(name, list(names), otherwise="Leave it out.")
            raise malformed(f"`{place}` must have keys among {sorted(names)}; got {shown(name)}. {hint}")
    return value


def _unknown(value: Mapping[str, Any], names: Any) -> Iterator[str]:
    return (name for name in value if name not in names)


def _list(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise malformed(f"`{place}` must be a list; got {shown(value)}. Give one value per node or edge.")
    return value


def _absent(place: str, name: str) -> Exception:
    return malformed(
        f"`{place}` must have feature {name!r}, which the model reads; got none. Give one value for each item."
    )

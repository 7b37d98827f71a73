"""What requests hold: serialized examples, graphs as JSON, or ids of nodes in a graph.

Each kind of input is a function from the values of a request to one item per value: a serialized example, or the seed
of one, around which a subgraph is sampled together with those of other requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfx_gnn.serving.server.graph_json import GRAPH_PARTS, bytes_of, example_of_graph
from tfx_gnn.serving.server.ids_input import Item
from tfx_gnn.serving.server.json_values import read_json
from tfx_gnn.serving.server.refusals import malformed, shown
from tfx_gnn.serving.server.served_version import ServedVersion

EXAMPLES, GRAPHS, IDS = "examples", "graphs", "ids"
ID, PAIR = "id", ("source", "target")
"""Keys of items that are asked about by id."""


def _serialized_examples(values: Sequence[Any], places: Sequence[str], _: ServedVersion) -> list[Item]:
    """Takes bytes, or {"b64": <base64>}."""
    return [
        value if isinstance(value, bytes) else _bytes_in_json(value, place)
        for value, place in zip(values, places, strict=True)
    ]


def _bytes_in_json(value: Any, place: str) -> bytes:
    if not isinstance(value, Mapping):
        raise malformed(
            f'`{place}` must be {{"b64": <base64 of a serialized tf.Example>}}, because it is not text; got '
            f"{shown(value)}. Encode its bytes in base64, send a graph as JSON, or ask by id; see /docs."
        )
    return bytes_of(value, place)


def _graphs(values: Sequence[Any], places: Sequence[str], version: ServedVersion) -> list[Item]:
    """Takes objects, or their JSON text."""
    for value, place in zip(values, places, strict=True):
        _check_says_what_it_is(value, place, version)
    schema = version.graph_schema
    if schema is None:
        raise malformed(
            f"`{places[0]}` must be a serialized example: the model was exported without the schema that graphs are "
            f"checked with; got a graph for version {version.version}. Send examples, or export it again."
        )
    return [
        example_of_graph(_parsed(value, place, "a graph"), schema, version.roots, place)
        for value, place in zip(values, places, strict=True)
    ]


def _check_says_what_it_is(item: Any, place: str, version: ServedVersion) -> None:
    """Refuses an object of plain values under names of its own, such as {"user": "u1"}, which is most likely an id."""
    if not isinstance(item, Mapping) or not item or any(name in (*GRAPH_PARTS, "b64") for name in item):
        return
    value = next(iter(item.values()))
    if isinstance(value, (Mapping, list)):
        return  # A part of a graph with a misspelt name, about which the reader of graphs says more.
    ways = ["`b64` for a serialized example"]
    if version.graph_schema is not None:
        ways.append(f"parts of a graph, {', '.join(GRAPH_PARTS)}")
    remedy = "This server finds no ids: to ask by the id of a node, start it with `--graph-index-dir`."
    if version.seeds is not None:
        fields = list(PAIR if version.seeds.are_pairs else (ID,))
        ways.insert(0, "`source` and `target` for a pair of nodes" if version.seeds.are_pairs else "`id` for a node")
        given = json.dumps(value)[:60] if isinstance(value, (str, int)) else '"u1"'
        written = ", ".join(f'"{name}": {given if name == fields[0] else "..."}' for name in fields)
        remedy = f"To ask by {'ids' if version.seeds.are_pairs else 'the id of a node'}, write {{{written}}}."
    raise malformed(
        f"`{place}` must have {', or '.join(ways)}; got the keys {shown(sorted(map(str, item))[:10])}. {remedy}"
    )


def _ids(values: Sequence[Any], places: Sequence[str], version: ServedVersion) -> list[Item]:
    """Takes ids of nodes; or objects with them, for pairs also as their JSON text."""
    if version.seeds is None:
        raise malformed(
            f"`{places[0]}` must be an example or a graph, because this server has no graph index; got "
            f"{shown(values[0])}. Send one, or start the server with `--graph-index-dir`."
        )
    if version.seeds.are_pairs:
        what = 'a pair of ids, {"source": ..., "target": ...},'
        values = [_parsed(value, place, what) for value, place in zip(values, places, strict=True)]
    return [version.seeds.read(value, place) for value, place in zip(values, places, strict=True)]


def _parsed(value: Any, place: str, what: str) -> Any:
    if not isinstance(value, (str, bytes)):
        return value
    try:
        return read_json(value if isinstance(value, bytes) else value.encode(errors="surrogatepass"))
    except ValueError as error:
        raise malformed(f"`{place}` must be {what} as JSON; got {shown(value)}: {error}. Correct it.") from error


INPUTS: dict[str, Callable[[Sequence[Any], Sequence[str], ServedVersion], list[Item]]] = {
    EXAMPLES: _serialized_examples,
    GRAPHS: _graphs,
    IDS: _ids,
}
"""Kinds of inputs by name: functions of the values, their places in the request, and the version that is asked."""

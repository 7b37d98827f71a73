"""Examples to look at: sampled graphs as JSON for the viewer of a page, of bounded size."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfx_gnn.graph.codec.example_parsing import parse_single_example
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.graph.tensor.graph_tensor import GraphTensor
from tfx_gnn.records.examples_folder import read_split, split_names
from tfx_gnn.reports.number_texts import shorten

MAX_NODES = 2000
"""Nodes of the largest example that is drawn."""

_OF_EACH_SPLIT = 4
_MAX_EXAMPLES = 12
_MAX_TEXT = 60
_MAX_VALUES = 6
_MAX_VALUES_IN_ALL = 60_000
_READOUT = f"{READOUT_NODE_SET}/"


def read_viewed_examples(examples_dir: str, schema: GraphSchema) -> tuple[list[dict[str, Any]], list[str]]:
    """Reads the first examples of each split.

    Args:
        examples_dir: raw graph tf.Examples.
        schema: their schema.

    Returns:
        The examples as JSON, and sentences about those that are left out.

    Raises:
        ValueError: if the folder holds no examples that can be read.
    """
    spec = create_graph_spec_from_schema_pb(schema)
    splits = split_names(examples_dir)
    shown: list[dict[str, Any]] = []
    notes: list[str] = []
    room = _MAX_VALUES_IN_ALL
    for split in sorted(splits, key=lambda name: (name != "train", name)):
        records: Iterable[bytes] = read_split(examples_dir, split).take(_OF_EACH_SPLIT).as_numpy_iterator()
        for position, record in enumerate(itertools.islice(records, _OF_EACH_SPLIT)):
            graph = parse_single_example(spec, tf.constant(record))
            title = f"{split}, example {position}"
            num_nodes = sum(int(tf.reduce_sum(graph.node_sets[name].sizes)) for name in graph.node_sets)
            if num_nodes > MAX_NODES:
                notes.append(f"{title} has {num_nodes:,} nodes and is not drawn; {MAX_NODES:,} are the most.")
                continue
            example = viewed_example(graph, title)
            cost = _num_texts(example)
            if shown and (cost > room or len(shown) == _MAX_EXAMPLES):
                return shown, [*notes, f"No more than {len(shown)} fit here; further examples are not drawn."]
            if cost > room:
                cost = _leave_out_features(example, room)
                notes.append(f"{title} has more values than fit here: some features of its nodes are left out.")
            room -= cost
            shown.append(example)
    return shown, notes


def _num_texts(example: Mapping[str, Any]) -> int:
    return sum(len(texts) for one in example["sets"] for texts in one["features"].values())


def _leave_out_features(example: dict[str, Any], room: int) -> int:
    """Keeps as many features of each node set as fit, ids first; returns how many texts remain."""
    most = max(1, room // max(1, sum(one["size"] for one in example["sets"])))
    for one in example["sets"]:
        kept = sorted(one["features"], key=lambda name: (name != "#id", name))[:most]
        one["features"] = {name: one["features"][name] for name in kept}
    return _num_texts(example)


def viewed_example(graph: GraphTensor, title: str) -> dict[str, Any]:
    """Turns a scalar graph with one component into JSON for the viewer.

    The readout is not drawn: it marks the seeds, and its features are the labels.
    """
    names = sorted(name for name in graph.node_sets if name != READOUT_NODE_SET)
    position = {name: i for i, name in enumerate(names)}
    seeds: list[list[int]] = []
    edges = []
    for name in sorted(graph.edge_sets):
        adjacency = graph.edge_sets[name].adjacency
        source, target = adjacency.source_name, adjacency.target_name
        if name.startswith(_READOUT):
            if source in position:
                seeds += [[position[source], int(index)] for index in adjacency.source.numpy()]
        elif source in position and target in position:
            edges.append(
                {
                    "name": name,
                    "source": position[source],
                    "target": position[target],
                    "s": adjacency.source.numpy().tolist(),
                    "t": adjacency.target.numpy().tolist(),
                }
            )
    labels = {}
    if READOUT_NODE_SET in graph.node_sets:
        labels = _texts_by_feature(graph.node_sets[READOUT_NODE_SET].features)
    context = _texts_by_feature(graph.context.features)
    return {
        "title": title,
        "labels": [[name, ", ".join(texts[:_MAX_VALUES])] for name, texts in {**labels, **context}.items()],
        "sets": [
            {
                "name": name,
                "size": int(tf.reduce_sum(graph.node_sets[name].sizes)),
                "features": _texts_by_feature(graph.node_sets[name].features),
            }
            for name in names
        ],
        "edges": edges,
        "seeds": seeds,
    }


def _texts_by_feature(features: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: [_text(value) for value in _rows(features[name])] for name in sorted(features)}


def _rows(field: tf.Tensor | tf.RaggedTensor) -> Sequence[Any]:
    rows: Sequence[Any] = field.to_list() if isinstance(field, tf.RaggedTensor) else field.numpy()
    return rows


def _text(value: Any) -> str:
    if isinstance(value, (list, np.ndarray)):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        more = len(items) - _MAX_VALUES
        shown = ", ".join(_text(item) for item in items[:_MAX_VALUES])
        return f"[{shown}{f', and {more} more' if more > 0 else ''}]"
    if isinstance(value, bytes):
        return shorten(value.decode("utf-8", "replace"), _MAX_TEXT)
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.5g}"
    return shorten(str(value), _MAX_TEXT)

"""A star of ten nodes, sampled into ten subgraphs, and a preprocessing of it.

The hub has value 100 and the nine leaves have 0, so the true mean is 10.0; over
the subgraphs, in which the hub is 10 of 28 nodes, it would be 35.71.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tensorflow_transform as tft

import tfx_gnn
from tfx_gnn.transform.graph_view import GraphView

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT32 } } }
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "value" value { dtype: DT_FLOAT } }
    features { key: "pair" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } }
    features { key: "boxes" value { dtype: DT_INT64 shape { dim { size: 2 } dim { size: -1 } } } } } }
node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_STRING } } } }
edge_sets { key: "link" value { source: "item" target: "item"
    features { key: "#id" value { dtype: DT_INT64 } }
    features { key: "weight" value { dtype: DT_FLOAT } } } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""

NODES = 10
VALUES = [100.0] + [0.0] * 9
PAIRS = [[float(node), 10.0 * node] for node in range(NODES)]
WORDS = [["hub"] * 3] + [["leaf", f"leaf{node}"][: node % 3] for node in range(1, NODES)]
BOXES = [[[node] * (node % 2), [node, node]] for node in range(NODES)]
WEIGHTS = [2.0 * leaf for leaf in range(1, NODES)]  # Edge leaf - 1 joins the leaf to the hub.


def subgraph(seed: int, color: str | None, year: int = 2000) -> dict[str, list[Any]]:
    """The seed and its neighbours: a leaf and the hub, or the hub and all leaves."""
    nodes = [seed, 0] if seed else list(range(NODES))
    leaves = [seed] if seed else list(range(1, NODES))
    content: dict[str, list[Any]] = {
        "context/year": [year],
        "nodes/item.#size": [len(nodes)],
        "nodes/item.#id": [f"n{node}" for node in nodes],
        "nodes/item.value": [VALUES[node] for node in nodes],
        "nodes/item.pair": [number for node in nodes for number in PAIRS[node]],
        "nodes/item.words": [word for node in nodes for word in WORDS[node]],
        "nodes/item.words.d1": [len(WORDS[node]) for node in nodes],
        "nodes/item.boxes": [number for node in nodes for box in BOXES[node] for number in box],
        "nodes/item.boxes.d2": [len(box) for node in nodes for box in BOXES[node]],
        "nodes/_readout.#size": [1],
        "edges/link.#size": [len(leaves)],
        "edges/link.#id": [leaf - 1 for leaf in leaves],
        "edges/link.weight": [WEIGHTS[leaf - 1] for leaf in leaves],
        "edges/link.#source": [nodes.index(leaf) for leaf in leaves],
        "edges/link.#target": [nodes.index(0)] * len(leaves),
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }
    if color is not None:
        content["nodes/_readout.color"] = [color]
    return content


def stranger() -> dict[str, list[Any]]:
    """A lone node that the training split has never seen, of an unseen color."""
    return {
        **subgraph(1, "green", year=2001),
        "nodes/item.#size": [1],
        "nodes/item.#id": ["new"],
        "nodes/item.value": [110.0],
        "nodes/item.pair": [-1.0, 5.0],
        "nodes/item.words": ["hub", "unheard"],
        "nodes/item.words.d1": [2],
        "nodes/item.boxes": [],
        "nodes/item.boxes.d2": [0, 0],
        "edges/link.#size": [0],
        "edges/link.#id": [],
        "edges/link.weight": [],
        "edges/link.#source": [],
        "edges/link.#target": [],
    }


SPLITS = {
    "train": [
        [subgraph(seed, "blue" if seed == 9 else "red") for seed in range(0, NODES, 2)],
        [subgraph(seed, "blue" if seed == 9 else "red") for seed in range(1, NODES, 2)],
    ],
    "val": [[stranger(), subgraph(0, "blue")]],
}


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Statistics of every kind of set, dense and ragged, and a feature of the structure."""
    item = graph.node_sets["item"]
    link = graph.edge_sets["link"]
    degree = tf.math.unsorted_segment_sum(tf.ones_like(link["weight"]), link.adjacency.target, item.total_size)
    return graph.replace_features(
        context={"year": graph.context["year"] - tft.min(graph.context["year"])},
        node_sets={
            "item": {
                "mean": tf.zeros_like(item["value"]) + tft.mean(item["value"]),
                "offset": item["value"] - tft.mean(item["value"]),
                "pair": tft.scale_to_z_score(item["pair"], elementwise=True),
                "words": tft.compute_and_apply_vocabulary(item["words"], vocab_filename="words", num_oov_buckets=1),
                "boxes": item["boxes"],
                "id": tft.compute_and_apply_vocabulary(item["#id"], vocab_filename="ids", num_oov_buckets=1),
                "degree": degree,
            },
            "_readout": {
                "color": tft.compute_and_apply_vocabulary(graph.node_sets["_readout"]["color"], vocab_filename="color")
            },
        },
        edge_sets={
            "link": {
                "weight": link["weight"] / tft.max(link["weight"]),
                "mean": tf.zeros_like(link["weight"]) + tft.mean(link["weight"]),
            }
        },
    )


def statistic_of_structure(graph: GraphView) -> GraphView:
    """Asks for something that unique nodes cannot tell."""
    sizes = tf.cast(graph.node_sets["item"].sizes, tf.float32)
    return graph.replace_features(context={"size": sizes - tft.mean(sizes)})


def mean_value(graph: GraphView) -> GraphView:
    """One statistic of the items."""
    item = graph.node_sets["item"]
    return graph.replace_features(node_sets={"item": {"mean": tf.zeros_like(item["value"]) + tft.mean(item["value"])}})


def half_the_rows(graph: GraphView) -> GraphView:
    """Loses items."""
    return graph.replace_features(node_sets={"item": {"value": graph.node_sets["item"]["value"][::2]}})


def no_graph(graph: GraphView) -> dict[str, tf.Tensor]:
    """Returns what a plain preprocessing function of tf.Transform would."""
    return {"value": graph.node_sets["item"]["value"]}


def sizes_as_context(graph: GraphView) -> GraphView:
    """Tells each graph how many items node set `a` has."""
    return graph.replace_features(context={"num_items": graph.node_sets["a"].sizes})


def statistics_of_occurrences(graph: GraphView) -> GraphView:
    """Statistics of values and of structure, for which every occurrence counts."""
    value = graph.node_sets["item"]["value"]
    sizes = tf.cast(graph.node_sets["item"].sizes, tf.float32)
    degree = tf.cast(tfx_gnn.node_degree(graph.to_graph_tensor(), "link", tfx_gnn.TARGET), tf.float32)
    return graph.replace_features(
        context={"mean": tf.zeros_like(sizes) + tft.mean(value), "size": sizes - tft.mean(sizes)},
        node_sets={"item": {"degree": tft.scale_by_min_max(degree)}},
        edge_sets={"link": {}},
    )


def features_of_several_sets(graph: GraphView) -> GraphView:
    """Operations on graphs beside statistics of features, which shall not depend on sizes and edges."""
    tensor = graph.to_graph_tensor()
    item, link = graph.node_sets["item"], graph.edge_sets["link"]
    years = tfx_gnn.broadcast_context_to_nodes(tensor, "item", feature_name="year")
    pairs = tfx_gnn.pool_neighbors_to_node(tensor, "link", tfx_gnn.TARGET, reduce_type="sum", feature_name="pair")
    weights = tfx_gnn.pool_edges_to_node(
        tensor, "link", tfx_gnn.TARGET, reduce_type="max_no_inf", feature_name="weight"
    )
    total = tfx_gnn.pool_nodes_to_context(tensor, "item", reduce_type="sum", feature_name="value")
    words = tensor.node_sets["item"]["words"]
    return graph.replace_features(
        context={"total": total - tft.mean(item["value"])},
        node_sets={
            "item": {
                "value": tft.scale_to_z_score(tensor.node_sets["item"]["value"]),
                "degree": tf.cast(tfx_gnn.node_degree(tensor, "link", tfx_gnn.TARGET), tf.int64),
                "year": years,
                "pairs_of_neighbours": pairs,
                "heaviest": weights,
                "num_words": tf.cast(words.row_lengths(), tf.int64),
            }
        },
        edge_sets={
            "link": {
                "difference": tfx_gnn.broadcast_node_to_edges(tensor, "link", tfx_gnn.SOURCE, feature_name="value")
                - tfx_gnn.broadcast_node_to_edges(tensor, "link", tfx_gnn.TARGET, feature_name="value"),
                "weight": link["weight"] / tft.max(tensor.edge_sets["link"]["weight"]),
            }
        },
    )


def statistics_of_each_set(graph: GraphView) -> GraphView:
    """Few statistics: of nodes, of edges, and of readouts, which have no identity."""
    item, link, readout = graph.node_sets["item"], graph.edge_sets["link"], graph.node_sets["_readout"]
    return graph.replace_features(
        node_sets={
            "item": {
                "value": item["value"] - tft.mean(item["value"]),
                "pair": tft.scale_to_z_score(item["pair"], elementwise=True),
                "words": tft.compute_and_apply_vocabulary(item["words"], vocab_filename="words", num_oov_buckets=1),
            },
            "_readout": {"color": tft.compute_and_apply_vocabulary(readout["color"], vocab_filename="color")},
        },
        edge_sets={"link": {"weight": link["weight"] - tft.mean(link["weight"])}},
    )

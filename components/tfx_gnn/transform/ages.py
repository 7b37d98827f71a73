"""Times of items relative to the time of the seed of their subgraph."""

from __future__ import annotations

import math

import tensorflow as tf

from tfx_gnn.graph import graph_constants as const
from tfx_gnn.graph.reserved_names import READOUT_NODE_SET
from tfx_gnn.records.graph_layout import GraphLayout, SetLayout
from tfx_gnn.transform.feature_preparations import Age
from tfx_gnn.transform.graph_view import GraphView, ItemsView

_READOUT_OF_SEED = f"{READOUT_NODE_SET}/seed"
_PERIODS = (1, 7)
"""Day and week, in days. The season is left out: of a year that training sees in part, the rest is news to a model."""
_MINUTES_PER_DAY = 1_440


def check_age(preparation: Age, layout: GraphLayout, key: str) -> None:
    """Refuses an age where the graphs do not show the time of a seed.

    Args:
        preparation: the declaration.
        layout: the graphs before the transform.
        key: the feature that it is declared for.

    Raises:
        ValueError: if neither the node set of the graphs' only seed node nor the context has the time.
    """
    in_context = _times_among(layout.set_by_prefix[const.CONTEXT]) if const.CONTEXT in layout.set_by_prefix else []
    seeds = layout.set_by_prefix.get(f"{const.EDGES}/{_READOUT_OF_SEED}")
    of_seeds = layout.set_by_prefix.get(f"{const.NODES}/{seeds.source}") if seeds is not None else None
    if of_seeds is None:
        if preparation.seed_time in in_context:
            return
        raise ValueError(
            "`age` must be of subgraphs around one seed node each, or with the seed's time in their context, which has "
            f"{in_context}; got {preparation.seed_time!r} for {key!r} where no edge set is named "
            f"{_READOUT_OF_SEED!r}. Choose another preparation; a plan that samples around nodes; or a table of seeds "
            "with the time among its `input_features`."
        )
    of_nodes = _times_among(of_seeds)
    num_places = (preparation.seed_time in of_nodes) + (preparation.seed_time in in_context)
    if num_places != 1:
        raise ValueError(
            f"`seed_time` must be an integer feature of {of_seeds.name!r}, the seeds, which has {of_nodes}, or of the "
            f"context, which has {in_context}; got {preparation.seed_time!r} for {key!r}, which "
            f"{'both have. Rename one' if num_places else 'neither has. Correct it'}; a time that `excluded_features` "
            "names is not there."
        )


def _times_among(one_set: SetLayout) -> list[str]:
    return [one.name for one in one_set.features if one.dtype == tf.int64 and not one.is_ragged and not one.shape]


def encode_age(graph: GraphView, items: ItemsView, times: tf.Tensor, preparation: Age) -> tf.Tensor:
    """Encodes times of the items of one set, as `Age` says.

    Args:
        graph: the subgraphs, each around one seed.
        items: the set.
        times: int64 [total_items].
        preparation: the name of the seeds' time, and the unit.

    Returns:
        float32 [total_items, 7].
    """
    elapsed = tf.repeat(_seed_times(graph, preparation.seed_time), items.sizes) - times
    is_later = elapsed < 0
    days = tf.cast(tf.maximum(elapsed, 0), tf.float32) / preparation.units_per_day
    columns = [tf.math.log1p(days) / 4, tf.math.log1p(days * _MINUTES_PER_DAY) / 8]
    for period in _PERIODS:
        length = period * preparation.units_per_day
        angle = tf.cast(tf.math.floormod(times, length), tf.float32) * (2 * math.pi / length)
        columns += [tf.sin(angle), tf.cos(angle)]
    hidden = [tf.where(is_later, 0.0, column) for column in columns]
    return tf.stack([tf.cast(is_later, tf.float32), *hidden], axis=1)


def _seed_times(graph: GraphView, name: str) -> tf.Tensor:
    """Finds the time of the seed of each graph, int64 [num_graphs]; padding has none."""
    if name in graph.context:
        return graph.context[name]
    edges = graph.edge_sets[_READOUT_OF_SEED]
    adjacency = edges.adjacency
    times = tf.gather(graph.node_sets[adjacency.source_name][name], adjacency.source)
    sizes = edges.sizes
    num_graphs = tf.shape(sizes)[0]
    return tf.math.unsorted_segment_max(times, tf.repeat(tf.range(num_graphs), sizes), num_graphs)

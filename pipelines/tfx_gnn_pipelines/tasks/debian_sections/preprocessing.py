"""Features of packages, sources, maintainers, tags and relations, ready for a model.

Every node set gets `numbers`, one float vector per node, and integer features
that are indices in a vocabulary of the same name. Counts in `numbers` are
logarithms scaled to mean 0 and variance 1 over all nodes, each counted once.
Flags stay 0 and 1, because scaling would turn a rare flag into an outlier.
Values outside a vocabulary get its size as index, so an embedding table needs
one more row.

Whatever would reveal the label is left out: names are used only as identities
(the index in a vocabulary of whole names, never their letters), and the model
has to hide the identity of the seed.
"""

from __future__ import annotations

import tensorflow as tf
import tensorflow_transform as tft

from tfx_gnn.transform import EdgeSetView, GraphView, ItemsView

LABEL = "section"
KNOWN_LABEL = "known_section"
"""Optional column: the section of training packages, empty for others, which neighbours of the seed may show."""

_COUNTS = {
    "package": ("installed_size_kib", "size_bytes"),
    "source": ("n_build_depends", "n_uploaders"),
}
"""Numbers that span orders of magnitude, so their logarithm is used."""

_FLAGS = {
    "package": ("arch_all", "essential", "has_homepage"),
    "source": ("has_testsuite", "has_vcs"),
    "maintainer": ("is_team",),
}

_CATEGORIES = {
    "package": ("multi_arch", "priority"),
    "source": ("format", "standards_version"),
    "tag": ("facet",),
}


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Prepares sampled subgraphs for the model.

    Args:
        graph: subgraphs with any of the node sets and edge sets of the tables.

    Returns:
        Node sets with `numbers` (float32 `[n, k]`, where the set has numbers), `<set>_id` and
        their categories (int64 `[n]`); edge sets with `numbers` (float32 `[n, k]`) where they have
        features; `_readout` with the label as class index, -1 for a section that is not in the
        analyzed splits.
    """
    node_sets = {name: _node_features(name, graph.node_sets[name]) for name in graph.node_sets if name[0] != "_"}
    node_sets["_readout"] = {
        LABEL: tft.compute_and_apply_vocabulary(graph.node_sets["_readout"][LABEL], vocab_filename=LABEL)
    }
    edge_sets = {name: _edge_features(graph.edge_sets[name]) for name in graph.edge_sets}
    return graph.replace_features(node_sets=node_sets, edge_sets=edge_sets)


def _node_features(name: str, nodes: ItemsView) -> dict[str, tf.Tensor]:
    features = {f"{name}_id": _vocabulary_index(nodes["#id"], f"{name}_id")}
    known_labels = [KNOWN_LABEL] if KNOWN_LABEL in nodes else []
    for category in (*_CATEGORIES.get(name, ()), *known_labels):
        features[category] = _vocabulary_index(nodes[category], category)
    numbers = []
    if name in _COUNTS:
        counts = tf.stack([tf.cast(nodes[count], tf.float32) for count in _COUNTS[name]], axis=1)
        numbers.append(tft.scale_to_z_score(_log_count(counts), elementwise=True))
    if name in _FLAGS:
        numbers.append(tf.stack([tf.cast(nodes[flag], tf.float32) for flag in _FLAGS[name]], axis=1))
    if numbers:
        features["numbers"] = tf.concat(numbers, axis=1)
    return features


def _edge_features(edges: EdgeSetView) -> dict[str, tf.Tensor]:
    names = sorted(name for name in edges if name != "#id")
    if not names:
        return {}
    # Flags, and positions that are rarely above 3: close to 1 without any statistics.
    return {"numbers": tf.stack([_log_count(tf.cast(edges[name], tf.float32)) for name in names], axis=1)}


def _log_count(counts: tf.Tensor) -> tf.Tensor:
    """Logarithm of 1 + count; a negative count in a request, which could make it NaN, is treated as 0."""
    return tf.math.log1p(tf.maximum(counts, 0.0))


def _vocabulary_index(values: tf.Tensor, vocabulary: str) -> tf.Tensor:
    return tft.compute_and_apply_vocabulary(values, vocab_filename=vocabulary, num_oov_buckets=1)

"""What packages look like to models that predict what they depend on."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_transform as tft

from tfx_gnn.models import READOUT_NODE_SET
from tfx_gnn.transform import GraphView


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Keeps section, priority, size and, if there are any, structure labels.

    Args:
        graph: subgraphs around pairs.

    Returns:
        The same, with features of packages and the labels of pairs alone.
    """
    package = graph.node_sets["package"]
    features = {
        "section": tft.compute_and_apply_vocabulary(package["section"], vocab_filename="section"),
        "priority": tft.compute_and_apply_vocabulary(package["priority"], vocab_filename="priority"),
        "size": tf.math.log1p(tf.cast(package["installed_size_kib"], tf.float32)) / 10.0,
    }
    if "structure_label" in package.features:
        features["structure_label"] = package["structure_label"]
    readout = graph.node_sets[READOUT_NODE_SET]
    return graph.replace_features(
        node_sets={"package": features, READOUT_NODE_SET: {"label": readout["label"]}}, edge_sets={"depends": {}}
    )

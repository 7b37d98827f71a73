"""Turns table columns into numbers for the model, with statistics over the training split."""

import tensorflow as tf
import tensorflow_transform as tft
from tfx_gnn.transform import GraphView


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Prepares the features; every value is a flat tensor with one row per node or edge.

    Functions of `tft.` first analyze the whole training split, for example for a mean or a vocabulary. Their results
    become part of the served model, which takes raw values.

    Args:
        graph: subgraphs with the columns that `data/graph_schema.pbtxt` declares.

    Returns:
        The same subgraphs; each set has exactly the features that are listed here.
    """
    users = graph.node_sets["user"]
    products = graph.node_sets["product"]
    purchases = graph.edge_sets["purchase"]
    labels = graph.node_sets["_readout"]

    # Mean 0 and variance 1. A user in many subgraphs counts once.
    age = tft.scale_to_z_score(users["age"])
    newsletter = tf.cast(users["newsletter"], tf.float32)
    # Prices span orders of magnitude, so take the logarithm. It is infinite for 0 and NaN for negative prices, and one
    # such value would make the mean and the loss non-finite: the lowest price is one cent here.
    price = tft.scale_to_z_score(tf.math.log(tf.maximum(products["price"], 0.01)))
    # Index in a vocabulary; categories that are not in the training split share one index after its end.
    category = tft.compute_and_apply_vocabulary(products["category"], vocab_filename="category", num_oov_buckets=1)
    # Requests may contain values that the tables never do, such as a quantity of 0.
    quantity = tf.math.log(tf.maximum(tf.cast(purchases["quantity"], tf.float32), 1.0))

    return graph.replace_features(
        node_sets={
            "user": {"numbers": tf.stack([age, newsletter], axis=1)},
            "product": {"numbers": price[:, tf.newaxis], "category": category},
            # The label as a class index; TASK names the vocabulary.
            "_readout": {"interest": tft.compute_and_apply_vocabulary(labels["interest"], vocab_filename="interest")},
        },
        edge_sets={"purchase": {"numbers": quantity[:, tf.newaxis]}},
    )

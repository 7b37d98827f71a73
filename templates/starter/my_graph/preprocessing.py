"""From columns of the tables to numbers for the model, with statistics of all the data."""

import tensorflow as tf
import tensorflow_transform as tft
from tfx_gnn.transform import GraphView


def preprocessing_fn(graph: GraphView) -> GraphView:
    """Prepares the features; every value is a flat tensor with one row a node or an edge.

    What begins with `tft.` looks at the whole training split first: a mean, a vocabulary. It becomes
    part of the served model, which takes raw values.

    Args:
        graph: subgraphs with the columns that `data/graph_schema.pbtxt` declares.

    Returns:
        The same subgraphs; each set has exactly the features that are given here.
    """
    users = graph.node_sets["user"]
    products = graph.node_sets["product"]
    purchases = graph.edge_sets["purchase"]
    labels = graph.node_sets["_readout"]

    # Mean 0 and variance 1. A user who is in many subgraphs still counts once.
    age = tft.scale_to_z_score(users["age"])
    newsletter = tf.cast(users["newsletter"], tf.float32)
    # Prices span orders of magnitude: their logarithm is what matters. That of 0 is infinite, that of less is none,
    # so what is free costs a cent here: one such value would spoil the mean of all, and the loss.
    price = tft.scale_to_z_score(tf.math.log(tf.maximum(products["price"], 0.01)))
    # Position in a vocabulary; categories that training lacks share one position behind its end.
    category = tft.compute_and_apply_vocabulary(products["category"], vocab_filename="category", num_oov_buckets=1)
    # Requests may hold what the tables never do, such as a quantity of 0.
    quantity = tf.math.log(tf.maximum(tf.cast(purchases["quantity"], tf.float32), 1.0))

    return graph.replace_features(
        node_sets={
            "user": {"numbers": tf.stack([age, newsletter], axis=1)},
            "product": {"numbers": price[:, tf.newaxis], "category": category},
            # The label as class index; TASK names the vocabulary.
            "_readout": {"interest": tft.compute_and_apply_vocabulary(labels["interest"], vocab_filename="interest")},
        },
        edge_sets={"purchase": {"numbers": quantity[:, tf.newaxis]}},
    )

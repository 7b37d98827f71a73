"""Graphs whose context names one of their nodes: a whole user project with an index feature."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras

from tfx_gnn.transform.graph_view import GraphView

SCHEMA = """
context { metadata { extra { key: "index_feature/root" value: "item" } }
  features { key: "root" value { dtype: DT_INT64 } }
  features { key: "is_positive" value { dtype: DT_INT64 } } }
node_sets { key: "item" value { features { key: "x" value { dtype: DT_FLOAT } } } }
edge_sets { key: "link" value { source: "item" target: "item" } }
"""


def preprocessing_fn(graph: GraphView) -> GraphView:
    assert list(graph.context) == ["is_positive"]
    return graph.replace_features(node_sets={"item": {"x": 10.0 * graph.node_sets["item"]["x"]}})


def replacing_fn(graph: GraphView) -> GraphView:
    return graph.replace_features(context={**graph.context, "root": graph.context["is_positive"]})


class OfRoot(tf_keras.layers.Layer):
    """The feature of the node that the context names."""

    def call(self, graph: Any) -> tf.Tensor:
        # Of all components, padding included: an index of no node would stop the CPU here.
        return tf.gather(graph.node_sets["item"]["x"], graph.context["root"])[:, tf.newaxis]


def model_fn(graph_spec: Any, tft_output: Any, *, objective: Any) -> tf_keras.Model:
    inputs = tf_keras.Input(type_spec=graph_spec)
    of_root = tf_keras.layers.Dense(4, activation="relu")(OfRoot()(inputs))
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(2)(of_root))
    model.compile(tf_keras.optimizers.Adam(0.05), **objective.compile_arguments())
    return model

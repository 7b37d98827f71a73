"""Small graphs for every task, and models whose answers are worked out by hand.

The state of an item with feature x is [x, -x]. Nothing is transformed: the transform of these graphs gives
what it gets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.io.fingerprint import fingerprint_folders
from tfx_gnn.keras.layers import MapFeatures, StructuredReadout
from tfx_gnn.models.tasks import Task
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.training.export.served_model import ServedModel
from tfx_gnn.transform.application import SavedGraphTransform, TransformRecord

_ITEMS = """
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "x" value { dtype: DT_FLOAT } } } }
edge_sets { key: "link" value { source: "item" target: "item" } }
"""

NODE_SCHEMA = f"""{_ITEMS}
context {{
    features {{ key: "#id" value {{ dtype: DT_STRING }} }}
    features {{ key: "shape" value {{ dtype: DT_INT64 }} }} }}
node_sets {{ key: "_readout" value {{
    features {{ key: "color" value {{ dtype: DT_INT64 }} }}
    features {{ key: "price" value {{ dtype: DT_FLOAT shape {{ dim {{ size: 2 }} }} }} }} }} }}
edge_sets {{ key: "_readout/seed" value {{ source: "item" target: "_readout" }} }}
"""

LINK_SCHEMA = f"""{_ITEMS}
node_sets {{ key: "_readout" value {{ features {{ key: "label" value {{ dtype: DT_INT64 }} }} }} }}
edge_sets {{ key: "_readout/source" value {{ source: "item" target: "_readout" }} }}
edge_sets {{ key: "_readout/target" value {{ source: "item" target: "_readout" }} }}
"""


def _items(name: str, xs: list[float]) -> dict[str, list[Any]]:
    return {
        "nodes/item.#size": [len(xs)],
        "nodes/item.#id": [f"{name}{i}" for i in range(len(xs))],
        "nodes/item.x": xs,
        "edges/link.#size": [1],
        "edges/link.#source": [0],
        "edges/link.#target": [len(xs) - 1],
    }


def node_example(name: str, xs: list[float], *, color: int, price: list[float], shape: int) -> dict[str, list[Any]]:
    """A graph whose last item is the seed."""
    return {
        **_items(name, xs),
        "context/#id": [name],
        "context/shape": [shape],
        "nodes/_readout.#size": [1],
        "nodes/_readout.color": [color],
        "nodes/_readout.price": price,
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [len(xs) - 1],
        "edges/_readout/seed.#target": [0],
    }


def link_example(name: str, xs: list[float], labels: list[int]) -> dict[str, list[Any]]:
    """Candidates that lead from the first item to the second, the third, and so on."""
    pairs = list(range(len(labels)))
    return {
        **_items(name, xs),
        "nodes/_readout.#size": [len(labels)],
        "nodes/_readout.label": labels,
        **{f"edges/_readout/{root}.#size": [len(labels)] for root in ("source", "target")},
        **{f"edges/_readout/{root}.#target": pairs for root in ("source", "target")},
        "edges/_readout/source.#source": [0] * len(labels),
        "edges/_readout/target.#source": [pair + 1 for pair in pairs],
    }


NODE_EXAMPLES = [
    node_example("a", [1.0, 0.5], color=0, price=[1.0, -1.0], shape=0),
    node_example("b", [3.0], color=0, price=[6.0, 1.0], shape=0),
    node_example("c", [1.0, 1.0, -5.0], color=1, price=[-9.0, 5.0], shape=0),
    node_example("d", [-4.0, 2.0], color=1, price=[4.0, float("nan")], shape=1),
]
LINK_EXAMPLES = [
    link_example("a", [1.0, 3.0, -2.0, 0.5], [1, 0, 0]),
    link_example("b", [-1.0, 2.0], [1]),
    link_example("c", [0.5, 1.0, 4.0], [1, 0]),
]


def write_identity_transform(folder: str, schema_text: str, nonfinite_features: tuple[str, ...] = ()) -> str:
    """Writes a TransformGraph that changes nothing."""
    schema = text_format.Parse(schema_text, GraphSchema())
    os.makedirs(os.path.join(folder, "metadata"))
    with open(os.path.join(folder, "metadata", "graph_schema.pbtxt"), "w") as file:
        file.write(schema_text)
    specs: dict[str, tf.TypeSpec] = {}
    for one_set in graph_layout(schema).sets:
        for column in one_set.features:
            specs[column.key] = tf.RaggedTensorSpec([None, None, *column.shape], column.dtype, ragged_rank=1)
        for key in one_set.structure_keys:
            specs[key] = tf.RaggedTensorSpec([None, None], tf.int64, ragged_rank=1)
    module = tf.Module()
    # Of `dict` itself, Python knows no signature.
    module.transform_fn = tf.function(lambda inputs: dict(inputs), input_signature=[specs])  # noqa: PLW0108
    tf.saved_model.save(module, os.path.join(folder, "transform_fn"))
    TransformRecord(
        transform=fingerprint_folders([folder]), raw_examples="", nonfinite_features=nonfinite_features
    ).write(folder)
    return folder


def raw_spec(schema_text: str) -> Any:
    """Spec of one graph."""
    return create_graph_spec_from_schema_pb(text_format.Parse(schema_text, GraphSchema()))


def with_states(spec: Any) -> tuple[Any, Any]:
    """The input of a model, and the graph with states."""
    inputs = tf_keras.Input(type_spec=spec)
    states = tf_keras.layers.Dense(
        2, use_bias=False, kernel_initializer=tf_keras.initializers.Constant([[1.0, -1.0]]), name="states"
    )

    def state(node_set: Any, *, node_set_name: str) -> Mapping[str, Any]:
        return {"hidden_state": states(node_set["x"][:, tf.newaxis])} if node_set_name == "item" else {}

    return inputs, MapFeatures(node_sets_fn=state)(inputs)


def inputs_with_states(task: Task, schema_text: str) -> tuple[Any, Any]:
    """The input of a model for a task, and the graph with states."""
    spec = task.objective().without_labels(raw_spec(schema_text))
    return with_states(_without_reserved(spec.relax(num_components=True, num_nodes=True, num_edges=True)))


def model_of(task: Task, schema_text: str) -> tf_keras.Model:
    """A model whose output layers have kernels [[1, 0], [0, 1]] and no bias."""
    inputs, graph = inputs_with_states(task, schema_text)
    model = tf_keras.Model(inputs, task.objective().output_layer()(graph))
    for layer in model.layers:
        if isinstance(layer, tf_keras.layers.Dense) and layer.name != "states":
            layer.set_weights([tf.eye(*layer.kernel.shape).numpy(), tf.zeros_like(layer.bias).numpy()])
    return model


def normalized_model_fn(graph_spec: Any, objective: Any) -> tf_keras.Model:
    """A user's model with tf_keras's layer normalization before its last layer."""
    inputs, graph = with_states(graph_spec)
    states = tf_keras.layers.LayerNormalization(name="my_norm")(StructuredReadout("seed")(graph))
    return tf_keras.Model(inputs, tf_keras.layers.Dense(objective.num_classes)(states))


def _without_reserved(spec: Any) -> Any:
    from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
    from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec

    def kept(piece: Any) -> dict[str, Any]:
        return {name: value for name, value in piece.features_spec.items() if not name.startswith("#")}

    context = spec.context_spec
    node_sets = {
        name: NodeSetSpec.from_field_specs(features_spec=kept(piece), sizes_spec=piece.sizes_spec)
        for name, piece in spec.node_sets_spec.items()
    }
    edge_sets = {
        name: EdgeSetSpec.from_field_specs(
            features_spec=kept(piece), sizes_spec=piece.sizes_spec, adjacency_spec=piece.adjacency_spec
        )
        for name, piece in spec.edge_sets_spec.items()
    }
    context = ContextSpec.from_field_specs(features_spec=kept(context), sizes_spec=context.sizes_spec)
    return GraphTensorSpec.from_piece_specs(context, node_sets, edge_sets)


def export(
    folder: str,
    task: Task,
    schema_text: str,
    model: tf_keras.Model | None = None,
    nonfinite_features: tuple[str, ...] = (),
    **options: Any,
) -> str:
    """Writes `<folder>/Format-Serving`, and a transform beside it."""
    objective, spec = task.objective(), raw_spec(schema_text)
    transform_dir = write_identity_transform(os.path.join(folder, "transform"), schema_text, nonfinite_features)
    transform = SavedGraphTransform(transform_dir)
    ServedModel(
        raw_spec=spec,
        transformed_spec=objective.without_labels(spec),
        transform=transform,
        model=model or model_of(task, schema_text),
        objective=objective,
        **options,
    ).save(os.path.join(folder, "Format-Serving"))
    return folder

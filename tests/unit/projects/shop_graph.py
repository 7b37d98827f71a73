"""A graph of 30 nodes for inference layer by layer: users who know each other and buy items that are alike.

It has nodes without edges, edges from a node to itself, and edges that occur twice.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from google.protobuf import text_format

from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.models import model_fns
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.sampling.index.graph_index import GraphIndex, open_graph_index
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.training.export.served_model import ServedModel
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.transform.application import SavedGraphTransform

SCHEMA = """
node_sets { key: "user" value { metadata { filename: "users.csv" }
  features { key: "age" value { dtype: DT_FLOAT } }
  features { key: "color" value { dtype: DT_INT64 } } } }
node_sets { key: "item" value { metadata { filename: "items.csv" }
  features { key: "price" value { dtype: DT_FLOAT } } } }
edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows.csv" } } }
edge_sets { key: "bought" value { source: "user" target: "item" metadata { filename: "bought.csv" }
  features { key: "count" value { dtype: DT_FLOAT } } } }
edge_sets { key: "alike" value { source: "item" target: "item" metadata { filename: "alike.csv" } } }
"""
NUM_USERS, NUM_ITEMS = 18, 12
TASK = NodeClassification(label_feature="color", num_classes=3)


def write_tables(folder: str) -> None:
    """Writes the tables; the last user and the last item have no edges."""
    random = np.random.default_rng(3)
    users, items = NUM_USERS - 1, NUM_ITEMS - 1

    def pairs(count: int, sources: int, targets: int) -> list[tuple[int, int]]:
        return list(zip(random.integers(0, sources, count), random.integers(0, targets, count), strict=True))

    knows = pairs(30, users, users)
    bought = pairs(25, users, items)
    alike = pairs(15, items, items)
    tables = {
        "graph_schema.pbtxt": SCHEMA,
        "users.csv": _csv("id,age,color", ((f"u{i}", random.normal(), i % 3) for i in range(NUM_USERS))),
        "items.csv": _csv("id,price", ((f"i{i}", random.normal()) for i in range(NUM_ITEMS))),
        "knows.csv": _csv("source,target", ((f"u{s}", f"u{t}") for s, t in [*knows, knows[0], (4, 4), (4, 4)])),
        "bought.csv": _csv(
            "source,target,count", ((f"u{s}", f"i{t}", random.normal()) for s, t in [*bought, bought[0]])
        ),
        "alike.csv": _csv("source,target", ((f"i{s}", f"i{t}") for s, t in [*alike, alike[1], (2, 2)])),
    }
    for name, text in tables.items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def index_of(tables_dir: str, index_dir: str) -> GraphIndex:
    """Builds and opens a graph index."""
    schema = read_tables_schema(tables_dir)
    write_graph_index(index_dir, schema, layouts_of(schema, tables_dir))
    return open_graph_index(index_dir)


_WAYS = (
    ("knows", "forward", "user", "user"),
    ("knows", "backward", "user", "user"),
    ("bought", "forward", "user", "item"),
    ("bought", "backward", "item", "user"),
    ("alike", "forward", "item", "item"),
    ("alike", "backward", "item", "item"),
)


def plan_of(num_layers: int, **options: Any) -> SamplingPlan:
    """A plan that follows all edges in both directions, as often as a network has layers."""
    options = {"strategy": "full", **options}
    inputs: dict[str, list[str]] = {"user": ["seed"], "item": []}
    hops: list[Hop] = []
    for number in range(num_layers):
        found: dict[str, list[str]] = {"user": [], "item": []}
        for edge_set, direction, start, end in _WAYS:
            if inputs[start]:
                name = f"{edge_set}_{direction}_{number}"
                way: Any = {"edge_set": edge_set, "direction": direction}
                hops.append(Hop(name=name, inputs=tuple(inputs[start]), **way, **options))
                found[end].append(name)
        inputs = found
    return SamplingPlan(seed_node_set="user", label_features=("color",), hops=tuple(hops))


PLAN = plan_of(2)


def make_model(network: str, index: GraphIndex, plan: SamplingPlan, **hyperparameters: Any) -> tf_keras.Model:
    """Makes a small untrained model, whose weights are the same each time."""
    tf_keras.utils.set_random_seed(1)
    spec = TASK.objective().without_labels(_spec(index, plan, ids=False))
    model: tf_keras.Model = getattr(model_fns, network)(
        spec.relax(num_components=True, num_nodes=True, num_edges=True),
        objective=TASK.objective(),
        hyperparameters={"units": 4, "num_layers": 2, **hyperparameters},
    )
    for weights in model.trainable_variables:
        # Biases and gates that are zero or one would hide mistakes.
        weights.assign_add(tf.random.normal(weights.shape, stddev=0.3))
    return model


def schema_text(index: GraphIndex, plan: SamplingPlan) -> str:
    """Schema of the examples, with labels."""
    text: str = text_format.MessageToString(make_subgraph_schema(index.schema, plan))
    return text


def served_model(
    model: tf_keras.Model, index: GraphIndex, plan: SamplingPlan, transform_dir: str, **options: Any
) -> ServedModel:
    """Makes what is exported."""
    with libraries_traced_as_written():
        return ServedModel(
            raw_spec=_spec(index, plan),
            transformed_spec=TASK.objective().without_labels(_spec(index, plan)),
            transform=SavedGraphTransform(transform_dir),
            model=model,
            objective=TASK.objective(),
            **options,
        )


def _spec(index: GraphIndex, plan: SamplingPlan, *, ids: bool = True) -> Any:
    schema = make_subgraph_schema(index.schema, plan)
    if not ids:
        for one in (*schema.node_sets.values(), *schema.edge_sets.values()):
            one.features.pop("#id", None)
    return create_graph_spec_from_schema_pb(schema)


def _csv(header: str, rows: Any) -> str:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n"

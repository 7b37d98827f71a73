"""All ready models are such as a TPU trains, also in bfloat16, where they learn what they learn in float32."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.graph.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors
from tfx_gnn.graph.schema import parse_schema
from tfx_gnn.graph.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.models import ready
from tfx_gnn.models.tasks import LinkPrediction, NodeClassification
from tfx_gnn.stages.sizes.size_constraints_file import Budget
from tfx_gnn.stages.training.fast_tracing import libraries_traced_as_written
from tfx_gnn.stages.training.input_pipeline import LabelledGraphs
from tfx_gnn.stages.training.model_building import ModelBuilder
from tfx_gnn.stages.training.tpu_readiness import check_model_for_tpu

SETS = """
node_sets { key: "user" value {
  features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 4 } } } }
  features { key: "category" value { dtype: DT_INT64 } } } }
node_sets { key: "item" value { features { key: "price" value { dtype: DT_FLOAT } } } }
edge_sets { key: "knows" value { source: "user" target: "user"
  features { key: "weight" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } } }
edge_sets { key: "buys" value { source: "user" target: "item" } }
node_sets { key: "_readout" value {
  features { key: "color" value { dtype: DT_INT64 } } features { key: "label" value { dtype: DT_INT64 } } } }
"""
SEED = 'edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }'
PAIR = """
edge_sets { key: "_readout/source" value { source: "user" target: "_readout" } }
edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }
"""
NODES = {"user": 24, "item": 16, "_readout": 5}
EDGES = {"knows": 32, "buys": 40}
COLOR = NodeClassification(label_feature="color", num_classes=3)


def _builder(name, objective, graph_spec, precision="float32"):
    hyperparameters = {
        "units": 8,
        "num_layers": 1,
        "dropout_rate": 0.0,
        "features": {"embeddings": {"user.category": {"rows": 10, "units": 4}}},
    }
    return ModelBuilder(
        model_fn=getattr(ready, name),
        reference=name,
        graph_spec=graph_spec,
        tft_output=None,
        objective=objective,
        hyperparameters=hyperparameters,
        num_steps=10,
        precision=precision,
    )


def _labelled(task, readout_edges):
    spec = create_graph_spec_from_schema_pb(parse_schema(SETS + readout_edges))
    return LabelledGraphs(graph_spec=spec, objective=task.objective())


def _check(name, task, readout_edges, precision):
    labelled = _labelled(task, readout_edges)
    readout_sets = [edge_set for edge_set in labelled.graph_spec.edge_sets_spec if edge_set.startswith("_readout/")]
    budget = Budget(
        kind="tight",
        batch_size=4,
        total_num_components=5,
        total_num_nodes=NODES,
        total_num_edges={**EDGES, **dict.fromkeys(readout_sets, NODES["_readout"])},
        min_nodes_per_component={"_readout": 1},
        graphs_per_batch=4.0,
        fill=0.9,
        fill_by_set={},
        bytes_per_batch=0,
    )
    return check_model_for_tpu(
        lambda spec: _builder(name, labelled.objective, spec, precision), labelled, training=budget, evaluation=budget
    )


@pytest.mark.parametrize("name", ["gcn", "graph_sage", "gat_v2", "mpnn", "rgcn", "hgt"])
def test_a_ready_model_is_ready_for_a_tpu_in_bfloat16(name):
    assert [str(problem) for problem in _check(name, COLOR, SEED, "mixed_bfloat16").problems] == []


def test_predicted_links_are_ready_for_a_tpu():
    task = LinkPrediction(scoring="hadamard", loss="softmax")

    assert [str(problem) for problem in _check("gcn", task, PAIR, "float32").problems] == []


def test_bfloat16_learns_what_float32_learns_and_answers_in_float32():
    labelled = _labelled(COLOR, SEED)
    random = np.random.default_rng(0)
    sizes = {f"nodes/{name}.#size": size for name, size in NODES.items()}
    sizes |= {f"edges/{name}.#size": size for name, size in {**EDGES, "_readout/seed": 5}.items()}
    ends = {"edges/buys.#target": 16, "edges/knows.#target": 24, "edges/knows.#source": 24, "edges/buys.#source": 24}
    flat = {}
    for key, spec in graph_flat_tensor_specs(labelled.objective.without_labels(labelled.graph_spec)).items():
        kind, _, rest = key.partition("/")
        size = sizes.get(f"{kind}/{rest.rpartition('.')[0]}.#size", 1)
        if key.endswith("#size"):
            value = np.array([size])
        elif key.startswith("edges/_readout"):
            value = np.arange(5)
        elif spec.dtype.is_integer:
            value = random.integers(0, ends.get(key, 3), size)
        else:
            value = random.normal(size=[size, *spec.shape[1:]])
        flat[key] = tf.cast(value, spec.dtype)
    graph = graph_from_flat_tensors(labelled.objective.without_labels(labelled.graph_spec), flat)
    data = (graph, tf.constant([0, 1, 2, 0, 1], tf.int64), tf.ones([5]))

    losses = {}
    for precision in ("float32", "mixed_bfloat16"):
        tf_keras.utils.set_random_seed(1)
        with libraries_traced_as_written():
            model = _builder("graph_sage", labelled.objective, graph.spec, precision).build(graph)
            step = tf.function(model.train_step)
            losses[precision] = []
            for _ in range(10):
                model.reset_metrics()
                losses[precision].append(float(step(data)["loss"]))
        assert model(graph).dtype == tf.float32

    assert losses["float32"][-1] < 0.99 * losses["float32"][0]
    np.testing.assert_allclose(losses["mixed_bfloat16"], losses["float32"], rtol=0.02)

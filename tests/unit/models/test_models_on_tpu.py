"""All ready models are such as a TPU trains, for every task; in bfloat16 they learn what they learn in float32."""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from tfx_gnn.components.graph_trainer.tpu_readiness import check_model_for_tpu
from tfx_gnn.graph.batching.ego_batches import EgoHop, EgoTrees
from tfx_gnn.graph.codec.flat_tensors import graph_flat_tensor_specs, graph_from_flat_tensors
from tfx_gnn.graph.schema.schema_io import parse_schema
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.keras.feature_encoders import PrepareFeatures
from tfx_gnn.models import model_fns as ready
from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    LabelSummary,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
)
from tfx_gnn.records.size_constraints_file import Budget
from tfx_gnn.training.data.input_pipeline import LabelledGraphs
from tfx_gnn.training.data.padded_batches import EgoBudget
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.training.loop.model_building import ModelBuilder

SETS = """
context {
  features { key: "kind" value { dtype: DT_INT64 } }
  features { key: "energy" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } }
node_sets { key: "user" value {
  features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 4 } } } }
  features { key: "category" value { dtype: DT_INT64 } }
  features { key: "city" value { dtype: DT_INT64 } }
  features { key: "tags" value { dtype: DT_INT64 shape { dim { size: 3 } } } } } }
node_sets { key: "item" value { features { key: "price" value { dtype: DT_FLOAT } } } }
edge_sets { key: "knows" value { source: "user" target: "user"
  features { key: "weight" value { dtype: DT_FLOAT shape { dim { size: 2 } } } } } }
edge_sets { key: "buys" value { source: "user" target: "item" } }
node_sets { key: "_readout" value {
  features { key: "color" value { dtype: DT_INT64 } }
  features { key: "age" value { dtype: DT_FLOAT } }
  features { key: "relation" value { dtype: DT_INT64 } }
  features { key: "label" value { dtype: DT_INT64 } } } }
"""
# Without the features that are embedded.
PLAIN_SETS = "".join(
    line
    for line in SETS.splitlines(keepends=True)
    if not any(key in line for key in ('"category"', '"city"', '"tags"'))
).replace("size: 4 } } } }", "size: 4 } } } } } }")
SEED = 'edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }'
PAIR = """
edge_sets { key: "_readout/source" value { source: "user" target: "_readout" } }
edge_sets { key: "_readout/target" value { source: "item" target: "_readout" } }
"""
TREES = EgoTrees(
    seed_node_set="user",
    hops=(
        EgoHop(feature="hop_0", relation="knows", node_set="user", fan_out=3),
        EgoHop(feature="hop_1", relation="buys", node_set="item", fan_out=2),
    ),
)
HOPS = """context {
  features { key: "hop_0" value { dtype: DT_INT64 shape { dim { size: 3 } } } }
  features { key: "hop_1" value { dtype: DT_INT64 shape { dim { size: 6 } } } }"""
NODES = {"user": 24, "item": 16, "_readout": 5}
EDGES = {"knows": 32, "buys": 40}
FEATURES = {
    "embeddings": {
        "user.category": {"rows": 10, "units": 4, "oov_rows": 2},
        # As many rows as `Vocabularies` says.
        "user.city": {"shared_name": "places"},
        "user.tags": {"rows": 6, "combiner": "sum"},
    },
}
CLASSES = LabelSummary(num_labels=40, num_counted=40, class_counts=(20, 15, 5))
NUMBER = LabelSummary(num_labels=40, num_counted=40, mean=(3.0,), std=(2.0,))

COLOR = NodeClassification(label_feature="color", num_classes=3)
BALANCED_COLOR = NodeClassification(label_feature="color", num_classes=3, class_weights="balanced", label_smoothing=0.1)
AGE = NodeRegression(label_feature="age", standardize=True, loss="huber", missing_values=(-1.0,))
KIND = GraphClassification(label_feature="kind", num_classes=3, class_weights={"1": 2.0}, pooling="mean|sum|max")
ENERGY = GraphRegression(label_feature="energy", num_outputs=2, loss="mae", mean=(1.0, 2.0), std=(0.5, 3.0))
TASKS = {
    "node classification": (BALANCED_COLOR, SEED, CLASSES),
    "node regression": (AGE, SEED, NUMBER),
    "graph classification": (KIND, SEED, None),
    "graph regression": (ENERGY, PAIR, None),
    "links by dot": (LinkPrediction(label_smoothing=0.1), PAIR, None),
    "links by Hadamard": (
        LinkPrediction(scoring="hadamard", hidden_units=(8,), loss="softmax", label_smoothing=0.1),
        PAIR,
        None,
    ),
    "links by distmult": (
        LinkPrediction(
            scoring="distmult", relation_feature="relation", num_relations=3, projects_states=False, loss="softmax"
        ),
        PAIR,
        None,
    ),
    "links by subgraph": (LinkPrediction(scoring="seal", pooling="mean|max", hidden_units=(8,)), PAIR, None),
    "several tasks": (
        MultiTask(
            tasks={"color": BALANCED_COLOR, "age": AGE, "kind": KIND, "energy": ENERGY}, loss_weights={"age": 0.5}
        ),
        SEED,
        {"color": CLASSES, "age": NUMBER},
    ),
}
MODELS = sorted(
    name
    for name, value in vars(ready).items()
    if inspect.isfunction(value) and value.__module__ == ready.__name__ and not name.startswith("_")
)


class Vocabularies:
    """What a transform tells of vocabularies."""

    def vocabulary_size_by_name(self, vocab_filename):
        return {"city": 7}[vocab_filename]


def _builder(name, objective, graph_spec, precision="float32", **options):
    return ModelBuilder(
        model_fn=getattr(ready, name),
        reference=name,
        graph_spec=graph_spec,
        tft_output=Vocabularies(),
        objective=objective,
        hyperparameters={"units": 8, "num_layers": 1, "dropout_rate": 0.1, "features": FEATURES, **options},
        num_steps=10,
        precision=precision,
    )


def _labelled(task, readout_edges, summary=None, sets=SETS, trees=None):
    spec = create_graph_spec_from_schema_pb(parse_schema(sets + readout_edges))
    objective = task.objective(summary=summary)
    objective.check_spec(spec)
    return LabelledGraphs(graph_spec=spec, objective=objective, trees=trees)


def _sets(embeds):
    return SETS if embeds else PLAIN_SETS


def _problems(name, labelled, precision="float32", **options):
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
    if labelled.trees is not None:
        budget = EgoBudget(batch_size=4, trees=labelled.trees)
    readiness = check_model_for_tpu(
        lambda spec: _builder(name, labelled.objective, spec, precision, **options),
        labelled,
        training=budget,
        evaluation=budget,
    )
    return [str(problem) for problem in readiness.problems]


def test_all_ready_models_are_among_those_below():
    assert {"gat_v2", "gcn", "gin", "graph_sage", "hgt", "mpnn", "rgcn"} <= set(MODELS)


# Every model once, with options that bring operations of their own, and every task; a check takes seconds.
RUNS = [
    ("gat_v2", "several tasks", "float32", {"heads_merge_type": "mean", "edge_dropout": 0.2, "normalization": "none"}),
    ("gcn", "links by dot", "mixed_bfloat16", {"degree_normalization": "in"}),
    (
        "gin",
        "graph classification",
        "float32",
        {"num_layers": 2, "learn_epsilon": True, "hidden_units": 16, "jumping_knowledge": "concat"},
    ),
    (
        "graph_sage",
        "node classification",
        "mixed_bfloat16",
        {"aggregator": "pool", "residual": True, "sort_edges": False},
    ),
    ("hgt", "node regression", "mixed_bfloat16", {"num_layers": 2, "skip": "sum", "jumping_knowledge": "max"}),
    (
        "mpnn",
        "graph regression",
        "float32",
        {"update_edges": True, "reduce_type": "max", "message_units": [8, 8], "sort_edges": False},
    ),
    ("mpnn", "links by Hadamard", "mixed_bfloat16", {}),
    ("graph_sage", "links by subgraph", "mixed_bfloat16", {"sort_edges": False}),
    ("rgcn", "links by distmult", "mixed_bfloat16", {"num_blocks": 2, "normalization": "layer"}),
]
RUNS_ON_TREES = [
    ("ego_gat", "node regression", "float32", {"num_layers": 2, "edge_dropout": 0.2, "heads_merge_type": "mean"}),
    ("ego_gin", "node classification", "float32", {"learn_epsilon": True, "hidden_units": 16}),
    ("ego_sage", "node classification", "mixed_bfloat16", {"num_layers": 2, "aggregator": "pool", "residual": True}),
]


def test_every_model_and_every_task_is_among_the_runs():
    assert {model for model, *_ in (*RUNS, *RUNS_ON_TREES)} == set(MODELS)
    assert {task for _, task, *_ in RUNS} == set(TASKS)


@pytest.mark.parametrize(
    ("model", "task", "precision", "options"),
    RUNS,
    ids=[f"{model}-{task}-{number}" for number, (model, task, *_) in enumerate(RUNS)],
)
def test_a_tpu_can_train_every_model(model, task, precision, options):
    # Encoders of all kinds in one run of each precision.
    embeds = task in ("several tasks", "node classification")
    more = {} if embeds else {"features": {}}

    assert _problems(model, _labelled(*TASKS[task], sets=_sets(embeds)), precision, **options, **more) == []


@pytest.mark.parametrize(("model", "task", "precision", "options"), RUNS_ON_TREES)
def test_a_tpu_can_train_every_model_of_trees(model, task, precision, options):
    embeds = model == "ego_sage"
    more = {} if embeds else {"features": {}}
    labelled = _labelled(*TASKS[task], sets=_sets(embeds).replace("context {", HOPS), trees=TREES)

    assert _problems(model, labelled, precision, **options, **more) == []


def test_values_that_are_hashed_or_many_are_ready_for_a_tpu_once_the_input_pipeline_prepared_them():
    several = SETS.replace("shape { dim { size: 3 } } } } } }", "shape { dim { size: -1 } } } } } }")
    raw = _labelled(COLOR, SEED, sets=several)
    embeddings = {
        **FEATURES["embeddings"],
        "user.category": {"rows": 10, "hashed": True},
        "user.tags": {"rows": 6, "max_values": 4},
    }
    prepare = PrepareFeatures(raw.graph_spec, {"embeddings": embeddings}, tft_output=Vocabularies())
    embeddings_of_integers = dataclasses.asdict(prepare.encoder_options)["embeddings"]

    in_the_step = _problems("graph_sage", raw, features={"embeddings": embeddings})
    before = _problems(
        "graph_sage",
        LabelledGraphs(graph_spec=prepare.output_spec, objective=raw.objective),
        features={"embeddings": embeddings_of_integers},
    )

    assert [problem.partition(" ")[0] for problem in in_the_step][:1] == ["nodes/user.tags"]
    assert any(problem.startswith("AsString ") and "`preprocessing_fn`" in problem for problem in in_the_step)
    assert before == []


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
            value = random.integers(0, ends.get(key, 3), [size, *spec.shape[1:]])
        else:
            value = random.normal(size=[size, *spec.shape[1:]])
        flat[key] = tf.cast(value, spec.dtype)
    graph = graph_from_flat_tensors(labelled.objective.without_labels(labelled.graph_spec), flat)
    data = (graph, tf.constant([0, 1, 2, 0, 1], tf.int64), tf.ones([5]))

    losses = {}
    for precision in ("float32", "mixed_bfloat16"):
        tf_keras.utils.set_random_seed(1)
        with libraries_traced_as_written():
            model = _builder("graph_sage", labelled.objective, graph.spec, precision, dropout_rate=0.0).build(graph)
            step = tf.function(model.train_step)
            losses[precision] = []
            for _ in range(10):
                model.reset_metrics()
                losses[precision].append(float(step(data)["loss"]))
        assert model(graph).dtype == tf.float32

    assert losses["float32"][-1] < 0.99 * losses["float32"][0]
    np.testing.assert_allclose(losses["mixed_bfloat16"], losses["float32"], rtol=0.02)

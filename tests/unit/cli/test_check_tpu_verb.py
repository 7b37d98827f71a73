from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
import tensorflow as tf
from typer.main import get_command
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.cli.check_tpu_verb import check_tpu
from tfx_gnn.cli.training_verbs import train
from tfx_gnn.components.graph_trainer.stage import train_graph_model
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.examples_folder import write_split_shard
from tfx_gnn.records.size_constraints_file import (
    Budget,
    SizeConstraintsFile,
    SplitSizes,
    fingerprint_examples,
    fingerprint_graph_schema,
    write_size_constraints,
)
from tfx_gnn.training.options import GraphTrainerOptions

SCHEMA = """
node_sets { key: "item" value { features { key: "x" value { dtype: DT_FLOAT shape { dim { size: 3 } } } } } }
node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_INT64 } } } }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""
MODELS = """
import tensorflow as tf
import tf_keras
from tfx_gnn.keras import layers


def good(graph_spec, *, hyperparameters):
    return _model(graph_spec, lambda states: states, hyperparameters["units"])


def bad(graph_spec):
    return _model(graph_spec, lambda states: states * tf.cast(tf.size(tf.where(states > 0.0)), tf.float32), 4)


def _model(graph_spec, mix, units):
    graph = inputs = tf_keras.layers.Input(type_spec=graph_spec)
    states = tf_keras.layers.Lambda(mix, name="mix")(layers.StructuredReadout("seed", feature_name="x")(graph))
    return tf_keras.Model(inputs, tf_keras.layers.Dense(2)(tf_keras.layers.Dense(units)(states)))
"""
INPUTS = (
    "transformed_examples_dir",
    "transform_graph_dir",
    "graph_schema_dir",
    "transformed_graph_schema_dir",
    "size_constraints_dir",
)


def _record(label):
    ints = {
        "nodes/item.#size": [1],
        "nodes/_readout.#size": [1],
        "nodes/_readout.color": [label],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }
    features = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=value)) for name, value in ints.items()}
    features["nodes/item.x"] = tf.train.Feature(float_list=tf.train.FloatList(value=[1.0, 2.0, 3.0]))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Four graphs of one item in each split, budgets for two of them, and modules of models."""
    path = tmp_path_factory.mktemp("check_tpu")
    for split in ("train", "val"):
        write_split_shard(str(path), split, 0, 1, [_record(0), _record(1)] * 2)
    (path / "graph_schema.pbtxt").write_text(SCHEMA)
    (path / "planted_models.py").write_text(MODELS)
    budgets = [
        Budget(
            kind=kind,
            batch_size=2,
            total_num_components=3,
            total_num_nodes={"item": 3, "_readout": 3},
            total_num_edges={"_readout/seed": 3},
            min_nodes_per_component={"_readout": 1},
            graphs_per_batch=2.0,
            fill=0.6,
            fill_by_set={},
            bytes_per_batch=0,
        )
        for kind in ("tight", "packing")
    ]
    content = SizeConstraintsFile(
        data_fingerprint=fingerprint_examples(str(path)),
        graph_schema_fingerprint=fingerprint_graph_schema(str(path)),
        options={"splits": [], "batch_size": 2, "success_ratios": []},
        splits={split: SplitSizes(num_graphs=4, node_sets={}, edge_sets={}) for split in ("train", "val")},
        budgets={budget.name: budget for budget in budgets},
    )
    write_size_constraints(content, str(path))
    return path


@pytest.fixture
def check(folder, monkeypatch):
    """Runs the verb."""
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    inputs = [part for name in INPUTS for part in (f"--{name.replace('_', '-')}", str(folder))]
    task = '{"kind": "node_classification", "label_feature": "color", "num_classes": 2}'

    def run(model, *options):
        command = ["check-tpu", *inputs, "--model-fn", f"planted_models:{model}", "--task-json", task, *options]
        return CliRunner().invoke(app, command, env={"COLUMNS": "500"})

    return run


def test_a_model_that_is_ready_is_said_to_be_and_measured(check):
    shown = check("good", "--hyperparameters", '{"units": 6}', "--precision", "mixed_bfloat16")

    assert shown.exit_code == 0, shown.output
    assert "ready for a TPU" in shown.stdout
    assert "NOT ready" not in shown.stdout
    assert "weights" in shown.stdout
    assert "rows that are filled up to a multiple of 8: nodes/item.x [3, 3]" in shown.stdout


def test_a_problem_is_shown_with_its_place_its_cause_and_a_fix(check):
    shown = check("bad")

    assert shown.exit_code == 1, shown.output
    for text in ("Where", "Lambda 'mix'", "planted_models.py:", "depends on values", "three arguments"):
        assert text in shown.stdout
    assert shown.stdout.splitlines()[-1] == "NOT ready for a TPU: 1 problem: Where in Lambda 'mix'"


def test_programs_get_json(check):
    shown = check("bad", "--json")

    assert shown.exit_code == 1, shown.output
    told = json.loads(shown.stdout)
    assert told["ready"] is False
    (problem,) = told["problems"]
    assert (problem["rule"], problem["op"], problem["tensor"]) == ("dynamic_shape", "Where", "int64 [<=9, 2]")
    assert problem["blocks"] is True
    batch = {tensor["name"]: tensor for tensor in told["memory"]["batch"]}
    assert batch["nodes/item.x"]["shape"] == [3, 3]
    assert (batch["nodes/item.x"]["num_bytes"], batch["nodes/item.x"]["tiled_bytes"]) == (36, 8 * 128 * 4)
    assert told["memory"]["parameters"] == 4 * (3 * 4 + 4 + 4 * 2 + 2)


@pytest.mark.parametrize(
    "options", [{"strategy": "tpu", "tpu": "nowhere"}, {"verify_tpu": "always"}], ids=["for a TPU", "on demand"]
)
def test_a_training_is_refused_before_anything_is_touched(folder, tmp_path, monkeypatch, options):
    monkeypatch.syspath_prepend(str(folder))

    with pytest.raises(ValueError, match=r"(?s)got 1 problems in 'planted_models:bad':\n- Where .*Lambda 'mix'"):
        train_graph_model(
            **{name: str(folder) for name in INPUTS},
            model_dir=str(tmp_path / "model"),
            model_run_dir=str(tmp_path / "run"),
            options=GraphTrainerOptions.from_flat(
                {
                    "model_fn": "planted_models:bad",
                    "task": NodeClassification(label_feature="color", num_classes=2),
                    "batch_size": 8,
                    **options,
                }
            ),
        )

    assert list(Path(tmp_path).iterdir()) == []


def test_the_verb_has_the_options_and_defaults_of_train():
    trained, checked = (inspect.signature(verb).parameters for verb in (train, check_tpu))

    for name in checked.keys() - {"as_json"}:
        assert checked[name].default == trained[name].default, name
    for parameter in get_command(app).commands["check-tpu"].params:
        assert parameter.help, f"--{parameter.name} has no help"

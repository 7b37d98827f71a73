"""From tables of graphs and of pairs of them, made examples on the command line, to a model that tells equal graphs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import tfx_gnn
from tfx_gnn.cli.app import app
from tfx_gnn.components.graph_trainer.stage import train_graph_model
from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
from tfx_gnn.io import options_json
from tfx_gnn.models.tasks import GraphMatching
from tfx_gnn.records import read_split
from tfx_gnn.sampling import GraphLevelExamples, GraphPairs, SplitPlan
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.training.options import GraphTrainerOptions

SCHEMA = """
context { features { key: "center" value { dtype: DT_INT64 } }
  metadata { filename: "graphs.csv" extra { key: "index_feature/center" value: "atoms" } } }
node_sets { key: "atoms" value {
  features { key: "mass" value { dtype: DT_FLOAT } } features { key: "charge" value { dtype: DT_FLOAT } }
  metadata { filename: "atoms.csv" } } }
edge_sets { key: "bonds" value { source: "atoms" target: "atoms" metadata { filename: "bonds.csv" } } }
"""
SPEC = GraphLevelExamples(
    label_features=("equal",),
    splits=SplitPlan(column="part"),
    pairs=GraphPairs(filename="pairs.csv", features={"equal": "int64"}, left="s", right="t"),
)


def write_tables(folder: Path) -> None:
    """Writes 260 rings and each again with its atoms in another order, paired with themselves and with others."""
    folder.mkdir()
    random = np.random.default_rng(5)
    rows: dict[str, list[str]] = {"graphs": [], "atoms": [], "bonds": [], "pairs": []}
    for number in range(260):
        size = int(random.integers(3, 7))
        atoms = [f"a{k},{x:.3f},{y:.3f}" for k, (x, y) in enumerate(random.normal(size=[size, 2]))]
        for graph, again in ((f"g{number}", atoms), (f"h{number}", random.permutation(atoms))):
            rows["graphs"].append(f"{graph},a1")
            rows["atoms"] += [f"{graph},{atom}" for atom in again]
            rows["bonds"] += [f"{graph},a{k},a{(k + 1) % size}" for k in range(size)]
        part = "train" if number < 180 else "val" if number < 220 else "test"
        rows["pairs"].append(f"g{number},h{number},1,{part}")
        if number % 40:
            rows["pairs"].append(f"g{number},h{number - 1},0,{part}")
    headers = {
        "graphs": "graph_id,center",
        "atoms": "graph_id,id,mass,charge",
        "bonds": "graph_id,source,target",
        "pairs": "left,right,equal,part",
    }
    for name, header in headers.items():
        (folder / f"{name}.csv").write_text("\n".join([header, *rows[name]]) + "\n")
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)


def is_equal(pair: str) -> bool:
    """Whether an id is that of a graph with itself, as in "g7|h7"."""
    left, right = pair.split("|")
    return left[1:] == right[1:]


def test_are_these_two_graphs_equal_is_learned_from_a_table_of_pairs(
    ring_project: Any, served_only: Any, tmp_path: Path
) -> None:
    folders = {
        name: str(tmp_path / name)
        for name in ("tables", "examples", "transform", "transformed", "schema", "sizes", "model", "run")
    }
    write_tables(tmp_path / "tables")
    (tmp_path / "pairs.json").write_text(options_json.to_json(SPEC))

    made = CliRunner().invoke(
        app,
        [
            "sample", "--tables-dir", folders["tables"], "--examples-dir", folders["examples"],
            "--graph-level-examples", str(tmp_path / "pairs.json"), "--num-shards", "1",
        ],
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    transform_graphs(
        examples_dir=folders["examples"],
        graph_schema_dir=folders["examples"],
        transform_graph_dir=folders["transform"],
        transformed_examples_dir=folders["transformed"],
        transformed_graph_schema_dir=folders["schema"],
        options=GraphTransformOptions(preprocessing_fn="ring_project:preprocessing_fn"),
    )
    learn_size_constraints(
        examples_dir=folders["transformed"],
        graph_schema_dir=folders["schema"],
        size_constraints_dir=folders["sizes"],
        options=SizeConstraintLearnerOptions(batch_size=16),
    )
    train_graph_model(
        transformed_examples_dir=folders["transformed"],
        transform_graph_dir=folders["transform"],
        graph_schema_dir=folders["examples"],
        transformed_graph_schema_dir=folders["schema"],
        size_constraints_dir=folders["sizes"],
        model_dir=folders["model"],
        model_run_dir=folders["run"],
        options=GraphTrainerOptions(
            model_fn="tfx_gnn.models.model_fns:graph_sage",
            task=GraphMatching(label_feature="equal", left=("s_atoms",), right=("t_atoms",), scoring="difference"),
            hyperparameters={
                "shared_node_sets": [["s_atoms", "t_atoms"]],
                "units": 16,
                "num_layers": 1,
                "dropout_rate": 0.0,
                "learning_rate": 0.02,
            },
            num_epochs=3,
        ),
        exporters=served_only,
    )

    assert tfx_gnn.index_features(tfx_gnn.read_schema(os.path.join(folders["schema"], "graph_schema.pbtxt"))) == {
        "context": {"s_center": "s_atoms", "t_center": "t_atoms"}
    }
    model = ServingModel(os.path.join(folders["model"], "Format-Serving"))
    answers = list(model.answers(read_split(folders["examples"], "test").as_numpy_iterator()))
    hits = [answer["label"] == str(int(is_equal(answer["id"]))) for answer in answers]
    assert len(hits) == 79
    assert np.mean(hits) >= 0.9

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfx_gnn.components.graph_trainer import CheckpointOptions, GraphTrainerOptions, train_graph_model
from tfx_gnn.models.tasks import NodeClassification
from tfx_gnn.records.blessing import write_blessing

TASK = NodeClassification(label_feature="color", class_vocabulary="color")


@pytest.mark.parametrize("name", ["model_dir", "model_run_dir", "checkpoint_dir"])
def test_place_that_cannot_be_written_is_named_before_anything_is_read(tmp_path, name):
    options = {"model_fn": "nowhere:model_fn", "task": TASK}
    places = {"model_dir": str(tmp_path / "model"), "model_run_dir": str(tmp_path / "run"), name: "/proc/x/y"}
    checkpoint_dir = places.pop("checkpoint_dir", "")

    with pytest.raises(ValueError, match=rf"`{name}` must be .*; got '/proc/x/y' in '/proc', where nothing can be"):
        train_graph_model(
            transformed_examples_dir="absent",
            transform_graph_dir="absent",
            graph_schema_dir="absent",
            transformed_graph_schema_dir="absent",
            size_constraints_dir="absent",
            **places,
            options=GraphTrainerOptions(**options, checkpoints=CheckpointOptions(directory=checkpoint_dir)),
        )

    assert os.listdir(tmp_path) == []


def train_on_nothing(tmp_path: Path, *, blessed: bool) -> None:
    (tmp_path / "blessing").mkdir()
    reasons = ["1 errors: /a/anomalies.json", "The same seed is in two splits."]
    write_blessing(str(tmp_path / "blessing"), blessed=blessed, reasons=reasons)
    names = ("transformed_examples", "transform_graph", "graph_schema", "transformed_graph_schema", "size_constraints")
    folders = {f"{name}_dir": str(tmp_path / name) for name in (*names, "model", "model_run", "blessing")}
    train_graph_model(**folders, options=GraphTrainerOptions(model_fn="nowhere:model_fn", task=TASK))


def test_examples_without_a_blessing_are_not_trained_on(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"`blessing_dir` must bless .* 1 errors: /a/anomalies.json The same seed"):
        train_on_nothing(tmp_path, blessed=False)


def test_blessed_examples_are(tmp_path: Path) -> None:
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        train_on_nothing(tmp_path, blessed=True)

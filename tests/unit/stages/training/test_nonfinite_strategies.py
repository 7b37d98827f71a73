"""The search for the batch that spoilt a training, where several replicas train in step."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from tfx_gnn.stages.size_constraint_learner import SizeConstraintLearnerOptions, learn_size_constraints
from tfx_gnn.stages.training.nonfinite_batch import read_nonfinite_batch

PROGRAM = Path(__file__).with_name("spoilt_training.py")


@pytest.fixture(scope="module")
def folder(write_examples, task_graphs, tmp_path_factory):
    """Twelve examples in one file; the eighth is too large."""
    spec = importlib.util.spec_from_file_location("spoilt_training", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    path = tmp_path_factory.mktemp("spoilt")
    splits = {"train": [[program.example(i) for i in range(12)]], "val": [[program.example(i) for i in range(4)]]}
    examples = write_examples(str(path / "examples"), splits, program.SCHEMA)
    task_graphs.write_identity_transform(str(path / "transform"), program.SCHEMA)
    learn_size_constraints(
        examples_dir=examples,
        graph_schema_dir=examples,
        size_constraints_dir=str(path / "sizes"),
        options=SizeConstraintLearnerOptions(batch_size=2),
    )
    return path


@pytest.mark.parametrize(
    ("strategy", "ids"),
    [
        # One pipeline gives each replica the next batch in turn.
        ("mirrored", [["item 4", "item 5"], ["item 6", "item 7"]]),
        # Each worker reads every second record.
        ("multi_worker_mirrored", [["item 4", "item 6"], ["item 5", "item 7"]]),
    ],
)
def test_step_tensor_and_batch_of_all_replicas_are_found(clusters, folder, tmp_path, strategy, ids):
    roles = {"worker": 2} if strategy == "multi_worker_mirrored" else {}

    outputs = clusters.run_cluster([str(PROGRAM), str(folder), str(tmp_path), strategy], roles)

    for output in outputs.values():
        assert output.returncode == 0, output.stderr[-4000:]
        cause = output.result["cause"]
        assert cause["position"] == {"epoch": 0, "step_in_epoch": 2, "global_step": 2}
        assert (cause["found_again"], cause["tensor"]) == (True, "loss")
        assert [replica["_readout/seed"] for replica in cause["example_ids"]] == ids
        assert "in epoch 1, step 2 (step 2 of all)" in output.result["message"]
    chief, *others = [output.result for output in outputs.values()]
    first, second = read_nonfinite_batch(chief["folder"]).replicas
    # Two graphs, and one of padding; the numbers are those that were trained on.
    for (graph, labels, weights), x in ((first, 1.0), (second, 1e30)):
        assert graph.node_sets["item"]["x"][:2].numpy().tolist() == pytest.approx([1.0, x])
        assert labels[:2].numpy().tolist() == [[1.0], [1.0]]
        assert weights.numpy().tolist() == [[1.0], [1.0], [0.0]]
    assert [other["folder"] for other in others] == [""] * len(others)
    assert not {"model", "run"} & set(os.listdir(tmp_path))

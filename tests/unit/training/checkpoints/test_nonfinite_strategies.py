"""The search for the batch that spoilt a training, where several replicas train in step."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
from pathlib import Path

import pytest

from tfx_gnn.components.size_constraint_learner.options import SizeConstraintLearnerOptions
from tfx_gnn.components.size_constraint_learner.stage import learn_size_constraints
from tfx_gnn.records.size_constraints_file import fingerprint_examples, write_size_constraints
from tfx_gnn.training.checkpoints.nonfinite_guard import read_nonfinite_batch

PROGRAM = Path(__file__).with_name("spoilt_training.py")


@pytest.fixture(scope="module")
def folder(write_examples, task_graphs, tmp_path_factory):
    """Twelve examples in one file, of which one spoils the training."""
    spec = importlib.util.spec_from_file_location("spoilt_training", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    path = tmp_path_factory.mktemp("spoilt")
    content = None
    for spoilt in program.SPOILT:
        numbers = range(12), range(program.FIRST_WATCHED, program.FIRST_WATCHED + 4)
        train, val = ([[program.example(i, spoilt) for i in some]] for some in numbers)
        examples = write_examples(str(path / spoilt), {"train": train, "val": val}, program.SCHEMA)
        sizes = path / "sizes" / spoilt
        if content is None:
            content = learn_size_constraints(
                examples_dir=examples,
                graph_schema_dir=examples,
                size_constraints_dir=str(sizes),
                options=SizeConstraintLearnerOptions(batch_size=2),
            )
        else:
            # Graphs have the same sizes, whatever is spoilt.
            sizes.mkdir()
            fingerprint = fingerprint_examples(examples, ())
            write_size_constraints(dataclasses.replace(content, data_fingerprint=fingerprint), str(sizes))
    task_graphs.write_identity_transform(str(path / "transform"), program.SCHEMA)
    return path


# Step, tensor and ids of the batches of all replicas, by strategy and by what is spoilt.
EXPECTED = {
    "one_device": {"large": (4, "loss", [["item 6", "item 7"]])},
    # One pipeline gives each replica the next batch in turn.
    "mirrored": {"hidden": (3, "feature nodes/item.x", [["item 8", "item 9"], ["item 10", "item 11"]])},
    # Each worker reads every second record.
    "multi_worker_mirrored": {"large": (2, "loss", [["item 4", "item 6"], ["item 5", "item 7"]])},
}


def _check_watched(found):
    """The watched split's second batch of two has an infinite squared error; all that is trained on is finite."""
    assert (found["tensor"], found["ids"]) == ("loss", {"_readout/seed": ["item 102", "item 103"]}), found
    assert (
        "`eval_split` must have examples for which the model's loss is finite; got inf after epoch 1"
        in found["message"]
    )
    assert "of the batch with the examples item 102, item 103. Clip" in found["message"]


@pytest.mark.parametrize(
    ("strategies", "roles"),
    [("one_device,mirrored", {}), ("multi_worker_mirrored", {"worker": 2})],
    ids=["one process", "two workers"],
)
def test_step_tensor_and_batch_of_all_replicas_are_found(clusters, folder, tmp_path, strategies, roles):
    arguments = [str(folder), str(tmp_path), strategies]

    outputs = (
        clusters.run_forked_cluster(PROGRAM, arguments, roles)
        if roles
        else clusters.run_cluster([str(PROGRAM), *arguments], roles)
    )

    for output in outputs.values():
        assert output.returncode == 0, output.stderr[-4000:]
    chief, *others = [output.result for output in outputs.values()]
    for strategy in strategies.split(","):
        if strategy != "mirrored":
            for one in (chief, *others):
                _check_watched(one[strategy]["watched"])
        for spoilt, (step, tensor, ids) in EXPECTED[strategy].items():
            for found in (chief[strategy][spoilt], *(other[strategy][spoilt] for other in others)):
                cause, message = found["cause"], found["message"]
                assert cause["position"] == {"epoch": 0, "step_in_epoch": step, "global_step": step}
                assert (cause["found_again"], cause["tensor"]) == (True, tensor)
                assert [replica["_readout/seed"] for replica in cause["example_ids"]] == ids
                assert f"in epoch 1, step {step} (step {step} of all). The first tensor" in message
                assert ("Clip the feature in `preprocessing_fn`" in message) == (spoilt == "hidden")
            assert [other[strategy][spoilt]["folder"] for other in others] == [""] * len(others)
            assert not {"model", "run"} & set(os.listdir(tmp_path / strategy / spoilt))
        if "large" not in EXPECTED[strategy]:
            continue
        replicas = read_nonfinite_batch(chief[strategy]["large"]["folder"]).replicas
        x = [value for graph, _, _ in replicas for value in graph.node_sets["item"]["x"][:2].numpy().tolist()]
        assert x == pytest.approx([1.0] * (len(x) - 1) + [1e30])
        for _, labels, weights in replicas:
            # The numbers are those that were trained on; one graph more is padding.
            assert labels[:2].numpy().tolist() == [[1.0], [1.0]]
            assert weights.numpy().tolist() == [[1.0], [1.0], [0.0]]


def test_parameter_servers_tell_what_they_know(clusters, folder, tmp_path):
    roles = {"chief": 1, "worker": 1, "ps": 1}

    output = clusters.run_forked_cluster(PROGRAM, [str(folder), str(tmp_path), "parameter_server"], roles)["chief0"]

    assert output.returncode == 0, output.stderr[-4000:]
    _check_watched(output.result["parameter_server"]["watched"])
    for spoilt, number in {"large": "inf", "hidden": "weight '.*kernel:0' that is not finite"}.items():
        message = output.result["parameter_server"][spoilt]["message"]
        assert re.search(rf"got {number} in epoch 1, step 6 \(step 6 of all\)\. Its batch cannot be found", message)
        assert not {"model", "run"} & set(os.listdir(tmp_path / "parameter_server" / spoilt))

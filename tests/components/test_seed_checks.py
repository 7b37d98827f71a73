"""Checks of seeds: classes that training lacks, times of splits, and copies of labels."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.models import MultiTask, NodeClassification, NodeRegression
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn_pipelines.checks.example_checks import check_examples
from tfx_gnn_pipelines.checks.findings import FindingsCollector
from tfx_gnn_pipelines.checks.seed_checks import label_copies, later_training_seeds, untrained_classes
from tfx_gnn_pipelines.config import quickstart
from tfx_gnn_pipelines.project import read_project
from tfx_gnn_pipelines.proposals.project_text import project_text
from tfx_gnn_pipelines.proposals.proposal import propose_project

KIND, SIZE = NodeClassification(label_feature="kind"), NodeRegression(label_feature="size")
LABELS = {
    "kind": pa.array([b"a", b"b", b"a", b"b", b"rare", None, b"rare", b"odd"], pa.large_binary()),
    "size": pa.array(range(8)),
}


def seeds_of(times=None, **rows):
    return {
        split: Seeds(
            keys=np.asarray(of_split, np.uint64),
            rows=np.asarray(of_split),
            readout_splits=np.arange(len(of_split) + 1),
            readout_nodes={"seed": np.asarray(of_split)},
            time_limits=None if times is None else np.asarray(times)[of_split],
        )
        for split, of_split in rows.items()
    }


def test_classes_outside_training_alone_are_named_with_their_rows():
    (message,) = untrained_classes(
        MultiTask(tasks={"kind": KIND, "size": SIZE}),
        LABELS,
        seeds_of(train=[0, 1], val=[2, 4, 5], test=[3, 6, 7]),
        train_split="train",
    )

    assert message.startswith(
        "`train` must have rows of every class; got 'rare', 'odd' of 'kind' in 1 rows of 'val' and 2 rows of 'test' "
        "alone."
    )


@pytest.mark.parametrize(
    ("task", "splits"),
    [(SIZE, {"train": [0, 1], "test": [6]}), (KIND, {"train": [0, 1, 4], "test": [2, 5, 6]}), (KIND, {"test": [2]})],
)
def test_nothing_is_said_of_numbers_and_of_classes_that_are_trained(task, splits):
    assert not list(untrained_classes(task, LABELS, seeds_of(**splits), train_split="train"))


@pytest.mark.parametrize(
    ("splits", "part"),
    [
        (
            {"train": [0, 1, 6, 7], "test": [5, 4]},
            "got 50.0% of the 4 seeds of 'train' that are later than the first of",
        ),
        ({"train": [0, 1, 2, 3], "test": [4, 5]}, ""),
        ({"train": [0, 1], "test": []}, ""),
    ],
)
def test_training_on_what_comes_after_the_test_is_said_with_its_share(splits, part):
    timed = seeds_of(times=range(8), **splits)

    message = later_training_seeds(timed, train_split="train", test_split="test")

    assert bool(message) == bool(part)
    assert part in message
    assert not later_training_seeds(seeds_of(**splits), train_split="train", test_split="test")


def test_features_that_tell_the_label_are_named_and_exact_ones_told_from_others():
    number = np.arange(400)
    is_yes = number % 3 == 0
    label = pa.array(np.where(is_yes, "yes", "no"))
    features = {
        "copy": pa.array(np.where(is_yes, 7, np.where(number % 2, 1, 2))),
        "nearly": pa.array(np.where(number == 30, 5, np.where(is_yes, 6, 5))),
        "noise": pa.array(number % 7),
        "id": pa.array(number),
    }
    (seeds,) = seeds_of(train=number).values()

    found = {name: is_exact for name, _, is_exact in label_copies(features, label, seeds, is_class=True)}
    of_numbers = [
        name for name, _, _ in label_copies({"x2": pa.array(2.0 * number)}, pa.array(number), seeds, is_class=False)
    ]

    assert found == {"copy": True, "nearly": False}
    assert of_numbers == ["x2"]


@pytest.mark.parametrize(
    ("features", "severities"),
    [("{copy: drop}", []), ("{copy: z_score}", ["error"])],
)
def test_a_copy_of_the_label_stops_a_project_unless_it_is_dropped(tmp_path, features, severities):
    draw = random.Random(1)
    plans = [draw.choice(["free", "pro"]) for _ in range(400)]
    users = {"id": list(range(400)), "plan": plans, "copy": [len(plan) for plan in plans]}
    pq.write_table(pa.table(users), tmp_path / "users.parquet")
    proposal = propose_project(str(tmp_path), label="users.plan")
    write_schema(proposal.schema, str(tmp_path / "graph_schema.pbtxt"))
    text = project_text(proposal, name="it", tables_dir=".").replace("  excluded_features: {users: [copy]}\n", "")
    text = re.sub(r"features:\n(  .*\n)*|features: {}\n", f"features:\n  nodes/users: {features}\n", text, count=1)
    (tmp_path / "project.yaml").write_text(text, encoding="utf-8")
    found = FindingsCollector()

    check_examples(
        quickstart(read_project(str(tmp_path)).task, root=str(tmp_path / "root")), str(tmp_path / "e"), found
    )

    assert [finding.severity for finding in found.findings] == severities
    assert all("got nodes/users.copy among the features" in finding.message for finding in found.findings)

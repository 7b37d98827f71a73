"""Filtered rankings: candidates that are true in any split do not stand in the way of the true pair."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.components.graph_evaluator.options import GraphEvaluatorOptions
from tfx_gnn.components.graph_evaluator.ranking import KnownLinks
from tfx_gnn.components.graph_evaluator.stage import evaluate_graph_model
from tfx_gnn.models.tasks import LinkPrediction, NodeRegression
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

# Of the two facts about a0 and a2, one is of another relation than the one that is asked for.
TABLE = "source,target,relation,split\na0,a1,likes,train\na0,a2,knows,test\nc0,c2,likes,test\nb0,c2,likes,val\n"
NAN = np.nan


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "facts.csv").write_text(TABLE)
    return str(tmp_path / "facts.csv")


def _asked(*relations: str) -> Any:
    example = tf.train.Example()
    values = [relation.encode() for relation in relations]
    example.features.feature["nodes/_readout.relation"].bytes_list.value.extend(values)
    return example.features.feature


TRUTH = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, NAN]])
OUTPUTS = {
    "source_id": np.array([[b"a0", b"a0", b"a0"], [b"c0", b"c0", b""]], object),
    "target_id": np.array([[b"a1", b"a2", b"a3"], [b"c1", b"c2", b""]], object),
}


@pytest.mark.parametrize(
    ("features", "marked"),
    [
        ((), [[1.0, -1.0, 0.0], [1.0, -1.0, NAN]]),
        (("relation",), [[1.0, 0.0, 0.0], [1.0, -1.0, NAN]]),
    ],
)
def test_false_candidates_that_are_known_to_be_true_are_left_out(path: str, features: Any, marked: Any) -> None:
    examples = [_asked("likes", "likes", "likes"), _asked("likes", "likes")]

    found = KnownLinks(path=path, features=features).without_false_negatives(TRUTH, examples, OUTPUTS)

    np.testing.assert_array_equal(found, marked)
    np.testing.assert_array_equal(TRUTH, [[1.0, 0.0, 0.0], [1.0, 0.0, NAN]])


def test_numbers_are_compared_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "links.csv").write_text("source,target\n7,8\n")
    ids = {"source_id": np.array([[7, 7]]), "target_id": np.array([[9, 8]])}

    known = KnownLinks(path=str(tmp_path / "links.csv"))

    assert known.without_false_negatives(np.array([[0.0, 0.0]]), [{}], ids).tolist() == [[0.0, -1.0]]


def test_examples_without_the_feature_are_refused(path: str) -> None:
    known = KnownLinks(path=path, features=("relation",))

    with pytest.raises(ValueError, match=r"`known_link_features` must name .* got 'relation' with 1"):
        known.without_false_negatives(TRUTH, [_asked("likes"), _asked("likes")], OUTPUTS)


def test_models_without_ids_are_refused(path: str) -> None:
    with pytest.raises(
        ValueError, match=r"`known_links` must be left out .* got no outputs \['source_id', 'target_id'"
    ):
        KnownLinks(path=path).without_false_negatives(TRUTH, [{}, {}], {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"task": LinkPrediction(), "known_link_features": ("x",)},
            "`known_link_features` must be columns of `known_l",
        ),
        (
            {"task": NodeRegression(label_feature="y"), "known_links": "x.csv"},
            "`known_links` must be empty where no li",
        ),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphEvaluatorOptions(**options)


@pytest.mark.parametrize(
    ("known", "counts", "mrr"),
    [
        # Scores 6, -4, 1; -4 alone; 1, 4: ranks 1 and 2.
        ({}, {"num_ranked": 2, "num_unranked": 1, "num_left_out": 0, "num_false_pairs": 3}, (1 + 1 / 2) / 2),
        # Without c2 nothing stands beside c1.
        (
            {"known_link_features": ("relation",)},
            {"num_ranked": 1, "num_unranked": 2, "num_left_out": 1, "num_false_pairs": 2},
            1.0,
        ),
    ],
    ids=["as labelled", "filtered"],
)
def test_the_evaluator_ranks_among_the_others(
    tmp_path: Path,
    path: str,
    task_graphs: Any,
    write_examples: Callable[..., str],
    *,
    known: dict[str, Any],
    counts: dict[str, int],
    mrr: float,
) -> None:
    task = LinkPrediction(projects_states=False)
    with libraries_traced_as_written():
        task_graphs.export(str(tmp_path / "model"), task, task_graphs.LINK_SCHEMA)
    examples = [
        {**example, "nodes/_readout.relation": ["likes"] * len(example["nodes/_readout.label"])}
        for example in task_graphs.LINK_EXAMPLES
    ]

    evaluate_graph_model(
        examples_dir=write_examples(str(tmp_path / "examples"), {"test": [examples]}, None),
        model_dir=str(tmp_path / "model"),
        evaluation_dir=str(tmp_path / "evaluation"),
        blessing_dir=str(tmp_path / "blessing"),
        options=GraphEvaluatorOptions(task=task, known_links=path if known else "", **known),
    )

    report = json.loads((tmp_path / "evaluation" / "metrics.json").read_text())
    assert {name: report[name] for name in counts} == counts
    assert report["mrr"] == pytest.approx(mrr)

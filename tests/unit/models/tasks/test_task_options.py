from __future__ import annotations

from typing import Any

import pytest

from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    LinkPrediction,
    MultiTask,
    NodeClassification,
    NodeRegression,
)

SECTION = NodeClassification(label_feature="section", class_vocabulary="sections")
PRICE = NodeRegression(label_feature="price")


def test_vocabulary_of_classes_has_the_name_of_the_label_unless_another_is_given() -> None:
    assert NodeClassification(label_feature="section").class_vocabulary == "section"
    assert NodeClassification(label_feature="section", class_vocabulary="names").class_vocabulary == "names"
    assert NodeClassification(label_feature="section", num_classes=3).class_vocabulary == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [("label_feature", ""), ("label_feature", None), ("label_feature", "#size"), ("class_vocabulary", "#size")],
)
def test_name_that_is_no_feature_is_refused(name: str, value: Any) -> None:
    arguments = {"label_feature": "section", "class_vocabulary": "sections", name: value}

    with pytest.raises(ValueError, match=f"`{name}` must be a name that does not begin with '#'"):
        NodeClassification(**arguments)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (NodeClassification, {"class_vocabulary": "y", "num_classes": 3}, "`num_classes` must be at least 2, and set"),
        (NodeClassification, {"num_classes": 1}, "got num_classes=1 and class_vocabulary=''"),
        (NodeClassification, {"num_classes": 2, "class_weights": "equal"}, "must be 'balanced', or map class names"),
        (NodeClassification, {"num_classes": 2, "class_weights": {"0": 0.0}}, "map class names to positive numbers"),
        (GraphClassification, {"num_classes": 2, "label_smoothing": 1.0}, r"must lie in \[0, 1\); got 1.0"),
        (
            GraphClassification,
            {"num_classes": 2, "pooling": "mean|mean"},
            r"one of \['mean', 'sum', 'max'\], or several",
        ),
        (NodeRegression, {"num_outputs": 0}, "`num_outputs` must be at least 1; got 0"),
        (NodeRegression, {"loss": "rmse"}, r"`loss` must be one of \['mse', 'mae', 'huber'\]; got 'rmse'"),
        (NodeRegression, {"mean": (1.0,)}, "`mean` and `std` must hold one number for each of 1 outputs"),
        (NodeRegression, {"mean": (1.0,), "std": (0.0,)}, "must be finite, and `std` positive"),
        (GraphRegression, {"mean": (1.0,), "std": (2.0,), "standardize": True}, "`standardize` must be False if"),
        (GraphRegression, {"pooling": "min"}, "`pooling` must be one of"),
        (NodeClassification, {"num_classes": 2, "pooling": "mean|mean"}, "`pooling` must be one of .* got 'mean.mean'"),
        (NodeRegression, {"pooling": "min"}, "`pooling` must be one of"),
        (LinkPrediction, {"scoring": "cosine"}, "`scoring` must be one of"),
        (LinkPrediction, {"loss": "mse"}, "`loss` must be one of"),
        (LinkPrediction, {"relation_feature": "r", "num_relations": 2}, "must be empty unless scoring='distmult'"),
        (LinkPrediction, {"scoring": "distmult", "relation_feature": "r"}, "at least 2 with `relation_feature`"),
        (LinkPrediction, {"scoring": "distmult", "num_relations": 2}, "and 1 without; got 2 and ''"),
        (LinkPrediction, {"hidden_units": (3,)}, "only for scoring='hadamard' or 'seal'; got"),
        (LinkPrediction, {"pooling": "mean"}, "`pooling` must be empty unless scoring='seal'; got 'mean' for 'dot'"),
        (LinkPrediction, {"scoring": "seal", "pooling": "min"}, "`pooling` must be one of"),
        (LinkPrediction, {"scoring": "seal", "loss": "softmax"}, "`loss` must be 'sigmoid' for scoring='seal', whose"),
        (LinkPrediction, {"hits_at": (0,)}, "`hits_at` must hold ranks from 1"),
        (LinkPrediction, {"label_smoothing": -0.1}, "`label_smoothing` must lie in"),
    ],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(kind: type, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(label_feature="y", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": {"a": SECTION}}, r"must hold at least two tasks; got \['a'\]"),
        ({"tasks": {"a b": SECTION, "c": PRICE}}, "letters, digits and underscores; got 'a b'"),
        ({"tasks": {"a": SECTION, "b": "c"}}, "must hold single tasks; got 'c' under the name 'b'"),
        ({"tasks": {"a": SECTION, "b": SECTION}}, r"must have a label each; got \['section', 'section'\]"),
        ({"tasks": {"a": SECTION, "b": PRICE}, "loss_weights": {"c": 1.0}}, r"by names among \['a', 'b'\]"),
        ({"tasks": {"a": SECTION, "b": PRICE}, "loss_weights": {"a": 0.0}}, "must be positive numbers"),
    ],
    ids=["one", "name", "kind", "label", "weight of no task", "no weight"],
)
def test_tasks_that_do_not_go_together_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiTask(**options)


def test_lists_of_json_become_tuples() -> None:
    task = LinkPrediction(scoring="hadamard", hidden_units=[4], hits_at=[1])  # type: ignore[arg-type]

    assert (task.hidden_units, task.hits_at) == ((4,), (1,))

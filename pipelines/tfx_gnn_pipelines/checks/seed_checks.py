"""Checks the seeds of all splits: classes that training lacks, times that lie after the test's, copies of labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.models.tasks import (
    GraphClassification,
    GraphRegression,
    MultiTask,
    NodeClassification,
    NodeRegression,
    Task,
)
from tfx_gnn.sampling.engine.seeds import Seeds
from tfx_gnn.tables.column_values import as_texts
from tfx_gnn_pipelines.checks.label_judge import LabelJudge

_SHOWN_CLASSES = 5
_LEAST_LATER = 0.01
"""Share of the training seeds that are later than the first test seed, from which on it is said."""


def untrained_classes(
    task: Task, labels: Mapping[str, pa.Array], seeds: Mapping[str, Seeds], *, train_split: str
) -> Iterator[str]:
    """Says which classes occur only outside training, a sentence for each label.

    Args:
        task: what is predicted.
        labels: by feature, the labels of the table of seeds, [num_rows].
        seeds: the seeds of each split.
        train_split: the split that is trained on.
    """
    if train_split not in seeds:
        return
    for feature in [name for name, is_class in predicted_labels(task).items() if is_class and name in labels]:
        trained = pc.unique(_labels_of(labels[feature], seeds[train_split]))
        unknown = []
        for split, of_split in seeds.items():
            if split != train_split:
                values = _labels_of(labels[feature], of_split)
                unknown.append((split, values.filter(pc.invert(pc.is_in(values, value_set=trained)))))
        names = pc.unique(pa.concat_arrays([values for _, values in unknown])) if unknown else []
        if len(names):
            yield (
                f"`{train_split}` must have rows of every class; got {_listed(names)} of {feature!r} in "
                f"{' and '.join(f'{len(values):,} rows of {split!r}' for split, values in unknown if len(values))} "
                "alone. A model can neither learn nor answer such a class, and the measures leave these rows out. Put "
                "rows of it into the training, or remove its labels."
            )


def later_training_seeds(seeds: Mapping[str, Seeds], *, train_split: str, test_split: str) -> str:
    """Says how many training seeds are later than the first one of the test; "" if hardly any are.

    Args:
        seeds: the seeds of each split; nothing is said if they have no times.
        train_split: the split that is trained on.
        test_split: the split that the model is tested on.
    """
    trained, tested = (seeds[split].time_limits if split in seeds else None for split in (train_split, test_split))
    if trained is None or tested is None or not len(trained) or not len(tested):
        return ""
    share = float((trained > tested.min()).mean())
    if share < _LEAST_LATER:
        return ""
    return (
        f"`splits` should divide seeds by their times; got {share:.1%} of the {len(trained):,} seeds of "
        f"{train_split!r} that are later than the first of {test_split!r}. The model learns from what comes after the "
        "rows that it is tested on, so that it looks better than it will be. Give {time_feature: ..., until: ...}, or "
        "a column that divides by time."
    )


def label_copies(
    features: Mapping[str, pa.Array], label: pa.Array, seeds: Seeds, *, is_class: bool
) -> Iterator[tuple[str, str, bool]]:
    """Finds the features of the seeds that tell their label almost alone.

    Args:
        features: by name, the values of the table of seeds, [num_rows].
        label: the labels, [num_rows]; null where there is none.
        seeds: the seeds that are looked at.
        is_class: whether the label is a class; otherwise it is a number.

    Yields:
        The name of a feature, how well it tells the label, in words, and whether each of its values occurs with one
        label only.
    """
    rows = pa.array(seeds.rows)
    labels = as_texts(label.take(rows), "label")
    if labels is None:
        return
    is_known = labels.is_valid()
    labels = labels.filter(is_known)
    judge = LabelJudge(pa.chunked_array([labels]), is_class=is_class)
    for name, values in features.items():
        texts = as_texts(values.take(rows), name)
        if texts is None:
            continue
        texts = texts.filter(is_known)
        evidence = judge.evidence(pa.chunked_array([texts]))
        if evidence:
            pairs = pa.table({"value": texts, "label": labels}).group_by(["value", "label"]).aggregate([])
            yield name, evidence, pairs.num_rows == pc.count_distinct(texts, mode="all").as_py()


def predicted_labels(task: Task) -> dict[str, bool]:
    """Lists the label features of the tasks about nodes and graphs, and whether each is a class or a number."""
    parts = task.tasks.values() if isinstance(task, MultiTask) else [task]
    found = {}
    for part in parts:
        if isinstance(part, (NodeClassification, GraphClassification)):
            found[part.label_feature] = True
        elif isinstance(part, (NodeRegression, GraphRegression)):
            found[part.label_feature] = False
    return found


def _labels_of(labels: pa.Array, seeds: Seeds) -> pa.Array:
    return labels.take(pa.array(seeds.rows)).drop_null()


def _listed(names: pa.Array) -> str:
    shown = ", ".join(
        repr(name.decode() if isinstance(name, bytes) else name) for name in names[:_SHOWN_CLASSES].to_pylist()
    )
    return f"{shown} and {len(names) - _SHOWN_CLASSES:,} more" if len(names) > _SHOWN_CLASSES else shown

"""Checks that training has rows of every class that a task has."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.models.tasks import GraphClassification, MultiTask, NodeClassification, Task
from tfx_gnn.sampling.engine.seeds import Seeds

_SHOWN_CLASSES = 5


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
    for feature in _class_features(task) & labels.keys():
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


def _class_features(task: Task) -> Collection[str]:
    parts = task.tasks.values() if isinstance(task, MultiTask) else [task]
    of_classes = [part for part in parts if isinstance(part, (NodeClassification, GraphClassification))]
    return {part.label_feature for part in of_classes if part.class_vocabulary}


def _labels_of(labels: pa.Array, seeds: Seeds) -> pa.Array:
    return labels.take(pa.array(seeds.rows)).drop_null()


def _listed(names: pa.Array) -> str:
    shown = ", ".join(
        repr(name.decode() if isinstance(name, bytes) else name) for name in names[:_SHOWN_CLASSES].to_pylist()
    )
    return f"{shown} and {len(names) - _SHOWN_CLASSES:,} more" if len(names) > _SHOWN_CLASSES else shown

"""Arranges what a model answers to a batch of examples as columns of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tfx_gnn.serving import model_interface as names
from tfx_gnn.serving.prediction import as_text
from tfx_gnn.serving.warmup_requests import signatures_of_examples

RECORD = "record"
"""Column with the position of a row's example in its file of the split, from 0."""
RANK = "rank"
"""Column with the place of a candidate pair among those of its example by score, from 1."""
INPUT_PREFIX = "context_"
"""Begins the names of columns with what an example says of its seed beside the id, such as its time."""

_UNSEEN = (names.UNSEEN_ID_OUTPUT, names.UNSEEN_SOURCE_ID_OUTPUT, names.UNSEEN_TARGET_ID_OUTPUT)
_IDENTITY = (RECORD, names.ID_OUTPUT, names.SOURCE_ID_OUTPUT, names.TARGET_ID_OUTPUT, *_UNSEEN)
_PREDICTIONS = (names.LABEL_OUTPUT, names.SCORE_OUTPUT, names.PREDICTION_OUTPUT)
_SCORES = (names.PROBABILITIES_OUTPUT, names.LOGITS_OUTPUT)
_OF_SEEDS = (names.ID_OUTPUT, names.UNSEEN_ID_OUTPUT)
_OF_PAIRS = (
    names.SOURCE_ID_OUTPUT,
    names.TARGET_ID_OUTPUT,
    names.UNSEEN_SOURCE_ID_OUTPUT,
    names.UNSEEN_TARGET_ID_OUTPUT,
)
_EMBEDDINGS = (names.EMBEDDING_OUTPUT, names.SOURCE_EMBEDDING_OUTPUT, names.TARGET_EMBEDDING_OUTPUT)
_ORDER = (*_IDENTITY, *_PREDICTIONS, RANK, *_SCORES, *_EMBEDDINGS)

Arrays = Mapping[str, npt.NDArray[Any]]


def answer_columns(
    records: npt.NDArray[np.int64], outputs: Arrays, *, with_scores: bool, inputs: Arrays | None = None
) -> pa.Table:
    """Makes the rows of a batch: one for each example, or for each candidate pair of a model of links.

    In a model of several tasks, the columns of each have the prefix "<task>/".

    Args:
        records: int64 array, shape [n]: positions of the examples in their file.
        outputs: outputs of the model, each of shape [n, ...]; those of the signature `embeddings`, too, if wanted.
        with_scores: whether to add `probabilities` and `logits`, in the order of the classes.
        inputs: what the examples say of their seeds beside ids, each of shape [n].

    Returns:
        The table: `record`; `id`, `source_id` and `target_id` if they are known; the inputs, such as `context_time`, by
        which rows of one id differ; `unseen_id` and so on, whether the model has no row of its own for an id, from
        models that know nodes by their ids. Strings as text.

    Raises:
        ValueError: if the model predicts neither classes, numbers nor links.
    """
    is_wanted = {*_PREDICTIONS, *_EMBEDDINGS, *(_SCORES if with_scores else ())}
    tasks = list(dict.fromkeys(name.rpartition("/")[0] for name in outputs))
    columns: dict[str, npt.NDArray[Any]] = {RECORD: records}
    columns |= {name: outputs[name] for name in _OF_SEEDS if name in outputs}
    columns |= {INPUT_PREFIX + name: values for name, values in (inputs or {}).items()}
    columns |= {name: values for name, values in outputs.items() if name.rpartition("/")[2] in is_wanted}
    counts = [name for name in outputs if name.rpartition("/")[2] == names.NUM_CANDIDATES_OUTPUT]
    if counts:
        columns = _by_pair(columns, outputs, outputs[counts[0]], tasks)
    if not any(name.rpartition("/")[2] in (*_PREDICTIONS, RANK) for name in columns):
        raise ValueError(
            f"`model_dir` must hold a model that predicts classes, numbers or links; got the outputs "
            f"{sorted(outputs)}. Choose a model that GraphTrainer made."
        )
    return pa.table({name: _array(columns[name]) for name in sorted(columns, key=_place)})


def check_outputs_exist(outputs: Sequence[str], saved_model_dir: str) -> None:
    """Refuses to write embeddings of a model that was exported without their signature."""
    found = signatures_of_examples(saved_model_dir)
    if "embeddings" in outputs and names.EMBEDDINGS_SIGNATURE not in found:
        raise ValueError(
            f"`outputs` must leave out 'embeddings' for a model without that signature; got {list(outputs)} for "
            f"{saved_model_dir!r}, whose signatures are {found}. Leave it out, or choose another model."
        )


def count_nonfinite(part: pa.Table) -> int:
    """Counts the floating point values of a table, in lists or not, that are NaN or infinite."""
    count = 0
    for column in part.columns:
        values = column.combine_chunks()
        values = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
        if pa.types.is_floating(values.type):
            count += int((~np.isfinite(values.to_numpy(zero_copy_only=False))).sum())
    return count


def _place(column: str) -> tuple[bool, str, int]:
    """Sorts columns: what a row is about, then task by task; a model's outputs come in any order."""
    if column.startswith(INPUT_PREFIX):
        return False, "", _IDENTITY.index(_UNSEEN[0])
    task, _, name = column.rpartition("/")
    return column not in _IDENTITY, task, _ORDER.index(name)


def _by_pair(
    columns: Mapping[str, npt.NDArray[Any]], outputs: Arrays, counts: npt.NDArray[np.int64], tasks: list[str]
) -> dict[str, npt.NDArray[Any]]:
    """Repeats what is known of an example for each of its pairs, and flattens what is known of pairs."""
    width = outputs[next(name for name in outputs if name.rpartition("/")[2] == names.SCORES_OUTPUT)].shape[1]
    is_pair = np.arange(width) < counts[:, np.newaxis]
    of_pairs = (names.SOURCE_EMBEDDING_OUTPUT, names.TARGET_EMBEDDING_OUTPUT)
    found = {
        name: values[is_pair] if name.rpartition("/")[2] in of_pairs else np.repeat(values, counts, axis=0)
        for name, values in columns.items()
    }
    found |= {name: outputs[name][is_pair] for name in _OF_PAIRS if name in outputs}
    for task in tasks:
        prefix = f"{task}/" if task else ""
        scores = outputs.get(prefix + names.SCORES_OUTPUT)
        if scores is not None:
            found[prefix + names.SCORE_OUTPUT] = scores[is_pair]
            order = np.argsort(-np.where(is_pair, scores, -np.inf), axis=1, kind="stable")
            ranks = np.empty_like(order)
            np.put_along_axis(ranks, order, np.arange(1, width + 1)[np.newaxis], axis=1)
            found[prefix + RANK] = ranks[is_pair]
    return found


def _array(values: npt.NDArray[Any]) -> pa.Array:
    if values.ndim > 1:
        flat = values.reshape([len(values), -1])
        # A model of one number predicts it as a list of one.
        return _array(flat[:, 0]) if flat.shape[1] == 1 else _fixed_lists(flat)
    if values.dtype == object:
        # Without rows, Arrow would not know the type.
        return pa.array([as_text(value) for value in values], pa.string())
    return pa.array(values)


def _fixed_lists(values: npt.NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])

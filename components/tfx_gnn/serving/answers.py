"""Outputs of an exported model as one plain answer an example, for people and for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.serving import signature

_Outputs = Mapping[str, npt.NDArray[Any]]


def plain_answers(outputs: _Outputs) -> list[dict[str, Any]]:
    """Arranges the outputs of a request by example.

    Args:
        outputs: arrays of `serving_default` by name, each of shape [n, ...].

    Returns:
        For each example, `id` if it is known, and what was asked: `label` and `score` of a classification,
        `prediction` of a regression, a number or a list; of link prediction `candidates`, from the best, each with
        `source_id`, `target_id` and `score`. Of several tasks, such dicts by their names.

    Raises:
        ValueError: if the model answers nothing of this.
    """
    names = sorted({name.rpartition("/")[0] for name in outputs if "/" in name}) or [""]
    num_examples = len(next(iter(outputs.values())))
    answers: list[dict[str, Any]] = [{} for _ in range(num_examples)]
    if signature.ID_OUTPUT in outputs:
        for answer, example_id in zip(answers, outputs[signature.ID_OUTPUT].tolist(), strict=True):
            answer[signature.ID_OUTPUT] = as_text(example_id)
    for name in names:
        prefix = f"{name}/" if name else ""
        for answer, of_task in zip(answers, _of_task(outputs, prefix), strict=True):
            answer.update({name: of_task} if name else of_task)
    return answers


def as_text(value: Any) -> Any:
    """Decodes bytes; other values stay as they are.

    Args:
        value: an item of an output.

    Returns:
        str for bytes.
    """
    return value.decode("utf-8", errors="replace") if isinstance(value, bytes) else value


def _of_task(outputs: _Outputs, prefix: str) -> list[dict[str, Any]]:
    if {prefix + signature.LABEL_OUTPUT, prefix + signature.SCORE_OUTPUT} <= outputs.keys():
        labels = outputs[prefix + signature.LABEL_OUTPUT].tolist()
        scores = outputs[prefix + signature.SCORE_OUTPUT].tolist()
        return [{"label": as_text(label), "score": score} for label, score in zip(labels, scores, strict=True)]
    if prefix + signature.PREDICTION_OUTPUT in outputs:
        rows = outputs[prefix + signature.PREDICTION_OUTPUT].tolist()
        return [{"prediction": row[0] if len(row) == 1 else row} for row in rows]
    if prefix + signature.SCORES_OUTPUT in outputs:
        return _candidates(outputs, prefix)
    raise ValueError(
        f"The model must answer a class, numbers or scores of candidates; got {sorted(outputs)}. Choose a model "
        "that GraphTrainer made."
    )


def _candidates(outputs: _Outputs, prefix: str) -> list[dict[str, Any]]:
    answers = []
    ids = [name for name in (signature.SOURCE_ID_OUTPUT, signature.TARGET_ID_OUTPUT) if name in outputs]
    counts = outputs[prefix + signature.NUM_CANDIDATES_OUTPUT].tolist()
    for row, count in enumerate(counts):
        scores = outputs[prefix + signature.SCORES_OUTPUT][row, :count]
        order = np.argsort(-scores, kind="stable").tolist()
        candidates = [
            {**{name: as_text(outputs[name][row, place]) for name in ids}, "score": float(scores[place])}
            for place in order
        ]
        answers.append({"candidates": candidates})
    return answers

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tfx_gnn.components.graph_evaluator import bootstrap_sample
from tfx_gnn.components.graph_evaluator.bootstrap_sample import Answers, BootstrapSample

HASHES = np.array([70, 20, 60, 10, 50, 30, 40], np.uint64)
LENGTHS = np.array([1, 25, 2, 0, 3, 1, 12])


def _part(rows: list[int]) -> BootstrapSample:
    """Row i has its length of values, all i; row 3 does not count."""
    lengths = LENGTHS[rows]
    answers = Answers(examples=np.arange(len(rows)), lengths=lengths, values={"value": np.repeat(rows, lengths)})
    slices = {"context/year": np.array([str(2000 + row % 2) for row in rows], object)}
    return BootstrapSample.of(HASHES[rows], slices, answers, answers)


def _plain(sample: BootstrapSample) -> Any:
    return json.loads(json.dumps(sample.to_json()))


def test_rows_are_in_the_order_of_their_hashes_and_keep_values_and_slices_together() -> None:
    whole = _part(list(range(7)))

    assert whole.hashes.tolist() == [20, 30, 40, 50, 60, 70]
    assert whole.slices["context/year"].tolist() == ["2001", "2001", "2000", "2000", "2000", "2000"]
    assert whole.model["value"].tolist() == [1] * 25 + [5] + [6] * 12 + [4] * 3 + [2] * 2 + [0]
    assert whole.rows(np.array([5, 1])).model["value"].tolist() == [0, 5]
    assert whole.share == 1.0
    assert _plain(BootstrapSample.from_json(_plain(whole))) == _plain(whole)


@pytest.mark.parametrize("most", [1, 8, 10, 11])
def test_the_same_rows_are_kept_in_whatever_order_parts_are_merged(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Of 25 values, a row counts as seven; so rows 1, 5, 6 and so on cost 7, 1, 3, 1, 1, 1."""
    monkeypatch.setattr(bootstrap_sample, "MOST_ROWS", most)
    whole = _part(list(range(7)))
    parts = [_part([row]) for row in (6, 4, 2, 0, 1, 3, 5)]

    merged = BootstrapSample.merged(
        [BootstrapSample.merged(parts[:3]), BootstrapSample.merged(parts[3:5]), BootstrapSample.merged(parts[5:])]
    )

    kept = {1: [], 8: [20, 30], 10: [20, 30], 11: [20, 30, 40]}[most]
    assert merged.hashes.tolist() == whole.hashes.tolist() == kept
    assert _plain(merged) == _plain(whole)
    assert whole.share == {1: 20, 8: 40, 10: 40, 11: 50}[most] / 2**64


def test_models_that_count_other_pairs_are_refused() -> None:
    model = Answers(examples=np.arange(1), lengths=np.array([2]), values={})
    blessed = Answers(examples=np.arange(1), lengths=np.array([1]), values={})

    with pytest.raises(ValueError, match="`blessed` must count the same examples and pairs; got other counts"):
        BootstrapSample.of(HASHES[:1], {}, model, blessed)

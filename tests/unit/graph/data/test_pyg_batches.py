"""Batches of random examples are PyG's, but for what it does wrong; see `pyg_examples.py`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tfx_gnn import GraphData, HeteroGraphData, collate

_SPEC = importlib.util.spec_from_file_location("pyg_examples", Path(__file__).with_name("pyg_examples.py"))
pyg_examples = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(pyg_examples)

CLASSES = pyg_examples.make_classes(GraphData, HeteroGraphData, lambda array: array)
ANSWERS = json.loads(pyg_examples.ANSWERS.read_text())


@pytest.mark.parametrize("seed", range(pyg_examples.NUM_LISTS))
def test_a_batch_is_that_of_pyg(seed):
    examples, follow = pyg_examples.make_list(seed, CLASSES)

    batch = collate(examples, follow_batch=follow)

    assert pyg_examples.describe_batch(batch) == ANSWERS[seed]


@pytest.mark.parametrize("seed", range(pyg_examples.NUM_LISTS))
def test_examples_come_back_from_a_batch(seed):
    examples, follow = pyg_examples.make_list(seed, CLASSES)

    again = collate(examples, follow_batch=follow).to_data_list()

    assert [pyg_examples.describe_batch(example) for example in again] == [
        pyg_examples.describe_batch(example) for example in examples
    ]

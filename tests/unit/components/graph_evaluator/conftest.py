"""What the evaluator's tests share."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from tfx_gnn.components.graph_evaluator import evaluation_pipeline
from tfx_gnn.serving.prediction import ServingModel


@pytest.fixture(scope="module", autouse=True)
def _loads_once() -> Iterator[None]:
    """Loads each model once, however often it is evaluated."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(evaluation_pipeline, "ServingModel", functools.cache(ServingModel))
        yield

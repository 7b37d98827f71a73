from __future__ import annotations

from collections.abc import Iterator

import pytest

from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


@pytest.fixture(scope="module", autouse=True)
def _traced_as_in_training() -> Iterator[None]:
    """Traces as the trainer does, which takes AutoGraph a fraction of the time."""
    with libraries_traced_as_written():
        yield

from __future__ import annotations

import sys
import time

import pytest

from tfx_gnn_pipelines.process_memory import MemoryWatch, resident_bytes

MIB = 2**20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems know no peak of a span of time")
def test_a_peak_is_seen_when_it_was_and_not_later():
    before = resident_bytes()
    with MemoryWatch() as first:
        started = time.time()
        block = b"x" * (256 * MIB)
        del block
        ended = time.time()
    with MemoryWatch() as second:
        later = time.time()

    assert first.peak_between(started, ended) >= before + 200 * MIB
    assert second.peak_between(later, later) < before + 200 * MIB


def test_no_memory_is_known_of_times_without_a_watch():
    with MemoryWatch() as watch:
        pass

    assert watch.peak_between(0.0, 1.0) == 0

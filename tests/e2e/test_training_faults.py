"""Trainings whose real processes are killed, and started again as a supervisor would.

benchmarks/fault_runs.py does the same at many more random steps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
KINDS = (
    "alone, while exporting",
    "alone, preempted",
    "chief of two",
    "parameter server and all",
)
DEADLINE_SECONDS = 900


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    """One run of each kind."""
    kinds = "|".join(KINDS)
    command = [sys.executable, "-W", "ignore", "fault_runs.py", "--json", "--num-seeds", "1", "--kind", kinds]
    done = subprocess.run(
        command, cwd=BENCHMARKS, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert done.stdout, done.stderr
    return {outcome["kind"]: outcome for outcome in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize("kind", KINDS)
def test_killed_training_completes_as_if_nothing_had_happened(outcomes: dict[str, Any], kind: str) -> None:
    outcome = outcomes[kind]

    assert outcome["problem"] == ""
    assert max(outcome["starts"].values()) > 1
    if kind.startswith("alone"):
        assert outcome["difference"] == 0.0

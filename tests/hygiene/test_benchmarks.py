"""The programs under benchmarks/ run rarely, so what they import may move away unnoticed."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
# PyTorch is no dependency of the tests.
_PEERS = {"torch", "torch_geometric"}


def test_every_benchmark_can_be_imported(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(_FOLDER))
    # Some set variables that TensorFlow reads at its start.
    monkeypatch.setattr(os, "environ", os.environ.copy())
    names = sorted(path.stem for path in _FOLDER.glob("*.py") if path.stem != "conftest")
    broken = {}
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name not in _PEERS:
                broken[name] = str(error)
        except (ImportError, OSError, AttributeError) as error:
            broken[name] = str(error)

    assert names
    assert broken == {}

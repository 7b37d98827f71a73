"""The notebooks that run whole chains, in kernels of their own; tests/unit/guide runs the others."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "notebooks"


def _execute(name, folder):
    """What each cell prints, and the pages of runs that the notebook shows; what is stored with it must be printed."""
    command = [sys.executable, "-m", "jupyter", "execute", "--output=done", shutil.copy(NOTEBOOKS / name, folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr

    outputs = [cell.get("outputs", []) for cell in json.loads((folder / "done.ipynb").read_text())["cells"]]
    stored = [cell.get("outputs", []) for cell in json.loads((NOTEBOOKS / name).read_text())["cells"]]
    printed = ["".join("".join(output.get("text", "")) for output in cell) for cell in outputs]
    shown = ["".join(output["data"].get("text/html", "")) for cell in outputs for output in cell if "data" in output]
    assert all("".join(output["text"]) in text for cell, text in zip(stored, printed, strict=True) for output in cell)
    # Plain lines: nothing moves a cursor.
    assert not any("\x1b[2K" in text for text in printed)
    return printed, [html for html in shown if html.startswith("<iframe")]


def test_notebook_takes_data_frames_to_a_pushed_model_and_shows_the_page(tmp_path):
    printed, (page,) = _execute("from_data_frames.ipynb", tmp_path)

    assert "customers.closed_by is left out of the examples" in printed[4]
    assert "&lt;html" in page
    assert (tmp_path / "shop" / "runs" / "shop" / "serving" / "1" / "saved_model.pb").is_file()


def test_notebook_repairs_a_run_and_shows_both_pages(tmp_path):
    _, (first, second) = _execute("reading_a_run.ipynb", tmp_path)

    assert "hotline_calls" in first
    assert "hotline_calls" not in second

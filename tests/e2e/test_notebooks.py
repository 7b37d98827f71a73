"""The notebook that runs a whole chain, in a kernel of its own; tests/unit/guide runs the others."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebooks" / "from_data_frames.ipynb"


def test_notebook_takes_data_frames_to_a_pushed_model_and_shows_the_page(tmp_path):
    command = [sys.executable, "-m", "jupyter", "execute", "--output=done", shutil.copy(NOTEBOOK, tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr

    outputs = [cell.get("outputs", []) for cell in json.loads((tmp_path / "done.ipynb").read_text())["cells"]]
    stored = [cell.get("outputs", []) for cell in json.loads(NOTEBOOK.read_text())["cells"]]
    printed = ["".join("".join(output.get("text", "")) for output in cell) for cell in outputs]
    (page,) = [output["data"]["text/html"] for cell in outputs for output in cell if "data" in output]

    assert all("".join(output["text"]) in text for cell, text in zip(stored, printed, strict=True) for output in cell)
    assert "customers.closed_by is left out of the examples" in printed[4]
    # Plain lines: nothing moves a cursor.
    assert not any("\x1b[2K" in text for text in printed)
    assert "&lt;html" in "".join(page)
    assert (tmp_path / "shop" / "runs" / "shop" / "serving" / "1" / "saved_model.pb").is_file()

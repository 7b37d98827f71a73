"""docs/notebooks/: the cells run, and print what is stored with them.

They run here and not in a kernel, which would import TensorFlow and Beam anew for each notebook. With TFX_GNN_STORE=1
the outputs are stored instead of compared.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

NOTEBOOKS = Path(__file__).resolve().parents[3] / "docs" / "notebooks"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the notebooks run, one after the other: the later ones read what the first one wrote."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("notebooks")
        patch.chdir(folder)
        patch.setattr(sys, "path", ["", *sys.path])
        yield folder
    sys.modules.pop("bank_features", None)


def run(cells):
    """What each code cell prints itself; remarks of the library are not part of it."""
    names = {}
    outputs = []
    for number, cell in enumerate(cells):
        printed = []
        names["print"] = lambda *values, printed=printed: printed.append(" ".join(map(str, values)) + "\n")
        exec(compile("".join(cell["source"]), f"<cell {number}>", "exec"), names)  # noqa: S102 - it is a notebook
        outputs.append(printed)
    return outputs


# In the order in which they build on each other.
@pytest.mark.parametrize(
    "name", ["first_model", "graphs_and_batches", "asking_a_model", "serving_by_id", "custom_convolution"]
)
def test_notebook_prints_what_is_stored_in_it(folder, name):
    path = NOTEBOOKS / f"{name}.ipynb"
    notebook = json.loads(path.read_text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]

    with libraries_traced_as_written():
        outputs = run(cells)

    if os.environ.get("TFX_GNN_STORE"):
        for cell, printed in zip(cells, outputs, strict=True):
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": printed}] if printed else []
        path.write_text(json.dumps(notebook, indent=1) + "\n")
    assert outputs == [[line for output in cell["outputs"] for line in output["text"]] for cell in cells]


def test_every_notebook_is_run():
    assert sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")) == [
        "asking_a_model",
        "custom_convolution",
        "first_model",
        "from_data_frames",  # by tests/e2e, since it takes minutes
        "graphs_and_batches",
        "reading_a_run",  # the same
        "serving_by_id",
    ]

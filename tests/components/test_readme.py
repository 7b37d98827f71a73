"""What README shows is what runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_WHAT_CAME_OF_IT = """
graph = next(iter(graphs))
print("examples:", sum(report.num_seeds.values()))
print("components:", int(graph.num_components))
print("labels:", graph.node_sets["_readout"]["section"].shape[0])
"""


def test_the_python_of_the_readme_runs_from_top_to_bottom(tmp_path: Path, python_of_document):
    (tmp_path / "pipelines").symlink_to(ROOT / "pipelines")
    program = python_of_document("README.md") + _WHAT_CAME_OF_IT

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-3:] == ["examples: 3013", "components: 32", "labels: 32"]
    assert list(tmp_path.glob("runs/subgraphs/GraphSchemaGen/schema/*/schema.pbtxt"))

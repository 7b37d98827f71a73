"""A graph neural network on tables of one's own; project.yaml, beside this package, says which, and how."""

import os
from typing import Any


def __getattr__(name: str) -> Any:
    """Gives `my_graph.TASK`, the task of project.yaml, to tests and notebooks."""
    if name == "TASK":
        # Only here: where the package is installed, in a container, neither the file nor the task is needed.
        from tfx_gnn_pipelines.project import read_project

        return read_project(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))).task
    raise AttributeError(name)

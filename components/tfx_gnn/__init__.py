"""Graph neural networks in production on TensorFlow.

`import tfx_gnn as tfgnn` offers the names of TF-GNN's input pipeline and graph operations.
Names are resolved when they are first used: importing this package alone imports nothing heavy.
Models that hold graphs can be loaded once it is: where TensorFlow or Keras was imported before, as in
TF-GNN's guide, types or layers of graphs are registered at once.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

__version__ = "0.2.0"

_SUBPACKAGES = {
    "experimental": "experimental",
    "graph": "graph",
    "keras": "keras",
    "proto": "graph.proto",
    "runner": "runner",
}
_ARTIFACTS = ("ExamplesBlessingArtifact", "GraphSchemaArtifact", "SizeConstraintsArtifact", "SkewReportArtifact")


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        value: Any = importlib.import_module(f"{__name__}.{_SUBPACKAGES[name]}")
    elif name in _ARTIFACTS:
        value = getattr(importlib.import_module(f"{__name__}.components.artifacts"), name)
    else:
        graph = importlib.import_module(f"{__name__}.graph")
        if name not in graph.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # As in TF-GNN, `tf_keras.layers.Input(type_spec=...)` knows graphs once a name was used.
        importlib.import_module(f"{__name__}.keras.keras_tensors")
        value = getattr(graph, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    graph = importlib.import_module(f"{__name__}.graph")
    return sorted([*globals(), *_SUBPACKAGES, *_ARTIFACTS, *graph.__all__])


if "tf_keras" in sys.modules:
    importlib.import_module(f"{__name__}.keras")
elif "tensorflow" in sys.modules:
    for _registering in ("graph_tensor_spec", "sorted_adjacency"):
        importlib.import_module(f"{__name__}.graph.tensor.{_registering}")

"""Graph neural networks in production on TensorFlow.

`import tfx_gnn as tfgnn` offers the names of TF-GNN's input pipeline and graph operations.
Names are resolved on first use: importing this package alone imports nothing heavy.
If TensorFlow or Keras was imported first, as in TF-GNN's guide, this import also registers the type specs
(TensorFlow) or layers (Keras) of graphs, so that saved models with graphs can be loaded.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

__version__ = "0.3.0.dev0"

_SUBPACKAGES = {
    "experimental": "experimental",
    "graph": "graph",
    "keras": "keras",
    "proto": "graph.proto",
    "runner": "runner",
}
_INTERCHANGE = ("from_networkx", "from_pandas", "from_pyg", "to_networkx", "to_pandas", "to_pyg")
_WHOLE_CHAIN = ("TablesRun", "run")
_ARTIFACTS = (
    "ExamplesBlessingArtifact",
    "GraphIndexArtifact",
    "GraphSchemaArtifact",
    "InferenceTableArtifact",
    "SizeConstraintsArtifact",
    "SkewReportArtifact",
)


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        value: Any = importlib.import_module(f"{__name__}.{_SUBPACKAGES[name]}")
    elif name in _INTERCHANGE:
        value = getattr(importlib.import_module(f"{__name__}.interchange"), name)
    elif name in _WHOLE_CHAIN:
        value = getattr(importlib.import_module(f"{__name__}.tables_run"), name)
    elif name in _ARTIFACTS:
        value = getattr(importlib.import_module(f"{__name__}.components.artifacts"), name)
    else:
        graph = importlib.import_module(f"{__name__}.graph")
        if name not in graph.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # As in TF-GNN, `tf_keras.layers.Input(type_spec=...)` accepts graphs once any name has been used.
        importlib.import_module(f"{__name__}.keras.keras_tensors")
        value = getattr(graph, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    graph = importlib.import_module(f"{__name__}.graph")
    return sorted([*globals(), *_SUBPACKAGES, *_INTERCHANGE, *_WHOLE_CHAIN, *_ARTIFACTS, *graph.__all__])


if "tf_keras" in sys.modules:
    importlib.import_module(f"{__name__}.keras")
elif "tensorflow" in sys.modules:
    for _registering in ("graph_tensor_spec", "sorted_adjacency"):
        importlib.import_module(f"{__name__}.graph.tensor.{_registering}")

"""What a graph is: graph tensors, their schema and files, and operations on them.

Names are resolved when they are first used, so that importing one module of this package does
not import all of them.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES_BY_MODULE = {
    "adjacency": ("Adjacency", "HyperAdjacency"),
    "adjacency_spec": ("AdjacencySpec", "HyperAdjacencySpec"),
    "context": ("Context",),
    "edge_set": ("EdgeSet",),
    "example_layout": ("get_io_spec",),
    "example_parsing": ("parse_and_merge", "parse_example", "parse_single_example"),
    "example_writing": ("write_example",),
    "feature_piece_spec": ("ContextSpec", "EdgeSetSpec", "NodeSetSpec"),
    "fields": ("is_dense_tensor", "is_ragged_tensor"),
    "graph_constants": (
        "CONTEXT",
        "DEFAULT_STATE_NAME",
        "EDGES",
        "EdgeSetName",
        "Field",
        "FieldName",
        "FieldOrFields",
        "FieldSpec",
        "Fields",
        "FieldsSpec",
        "HIDDEN_STATE",
        "IncidentNodeOrContextTag",
        "IncidentNodeTag",
        "NODES",
        "NodeSetName",
        "RESERVED_FEATURE_NAME_PATTERN",
        "SIZE_NAME",
        "SOURCE",
        "SOURCE_NAME",
        "SetName",
        "SetType",
        "TARGET",
        "TARGET_NAME",
    ),
    "graph_tensor": ("GraphTensor",),
    "graph_tensor_spec": ("GraphTensorSpec",),
    "graph_values": ("graph_tensor_to_values",),
    "node_set": ("NodeSet",),
    "validation_mode": (
        "disable_graph_tensor_validation",
        "disable_graph_tensor_validation_at_runtime",
        "enable_graph_tensor_validation",
        "enable_graph_tensor_validation_at_runtime",
    ),
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}

__all__ = sorted(_MODULE_BY_NAME)  # noqa: PLE0605 - computed once, from the table above


def __getattr__(name: str) -> Any:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_MODULE_BY_NAME[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_BY_NAME])

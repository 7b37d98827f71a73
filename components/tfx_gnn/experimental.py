"""Names of TF-GNN's `experimental` module, resolved on first use."""

from __future__ import annotations

import importlib
from typing import Any

_MODULE_BY_NAME = {
    "context_readout_into_feature": "ops.readout",
    "segment_random_index_shuffle": "ops.node_order",
}

__all__ = ["context_readout_into_feature", "segment_random_index_shuffle"]  # noqa: F822 - found by `__getattr__`


def __getattr__(name: str) -> Any:
    if name not in _MODULE_BY_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"tfx_gnn.graph.{_MODULE_BY_NAME[name]}"), name)

"""Graphs from and to other libraries: pandas, NetworkX and PyG, each imported only where it is used."""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

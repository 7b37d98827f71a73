"""Samples subgraphs around seeds from tables of a large graph.

Plans need Python only; reading tables and sampling need pyarrow (the extra `beam`).
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

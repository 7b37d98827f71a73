"""Tables of nodes and edges: files read as typed, checked columns.

Needs pyarrow (the extra `beam`).
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

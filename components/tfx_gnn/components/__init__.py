"""The pipeline steps. Each comes as a TFX component, its options, and a function that does the same work on folders.

TFX is imported only when a component is used. Options and functions do not need it.
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

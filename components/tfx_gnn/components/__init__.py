"""The steps of a pipeline: each as a TFX component, its options, and the same step as a function on folders.

TFX is imported where a component is used; options and functions do without it.
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

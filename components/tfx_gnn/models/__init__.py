"""Graph neural networks, the convolutions and layers they are made of, and the tasks they are trained for."""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

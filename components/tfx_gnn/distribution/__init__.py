"""Training on many devices and machines: strategies of tf.distribute, and input sharded among them."""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

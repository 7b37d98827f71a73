"""Graph tensors: values and type specs, schemas, tf.Example encoding, graph operations, and batching.

Names are imported on first use.
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

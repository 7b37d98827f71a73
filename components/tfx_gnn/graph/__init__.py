"""What a graph is: graph tensors, their schema, their tf.Examples, operations on them, and batches of them.

Names are imported when they are first used.
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

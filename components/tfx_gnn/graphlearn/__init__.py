"""GraphLearn's data layer: decoders, feature specs, masks, columns and losses under its names.

Its columns and feature handlers are layers; they are also in `tfx_gnn.keras.feature_encoders`.
"""

from __future__ import annotations

from tfx_gnn.io.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

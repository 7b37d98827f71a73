"""What statistics of the transform count: choices of `GraphTransformOptions.analyze`."""

from __future__ import annotations

from typing import Final

UNIQUE_ITEMS: Final = "unique_items"
TABLES: Final = "tables"
AS_SAMPLED: Final = "as_sampled"

"""What statistics of the transform count."""

from __future__ import annotations

from typing import Final

UNIQUE_ITEMS: Final = "unique_items"
TABLES: Final = "tables"
AS_SAMPLED: Final = "as_sampled"
ANALYZE_MODES = (UNIQUE_ITEMS, TABLES, AS_SAMPLED)
"""Choices of `GraphTransformOptions.analyze`."""

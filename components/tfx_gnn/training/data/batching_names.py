"""Names of the ways in which examples become batches, as options have them."""

from __future__ import annotations

BUDGET_BATCHINGS = ("packed", "fit_or_skip", "tight")
"""Ways of batching that pad to a learned budget."""

EGO = "ego"
"""Batching of sampled trees, whose size the sampling plan determines."""

BALANCED = "balanced"
"""Value of the option `class_sampling`: all classes come equally often."""

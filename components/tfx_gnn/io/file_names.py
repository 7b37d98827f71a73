"""Names of files that mean the same in every folder."""

from __future__ import annotations

from typing import Final

GRAPH_SCHEMA_FILE: Final = "graph_schema.pbtxt"
"""File with the graph schema of the tables or the tf.Examples next to it."""

SAMPLING_PLAN_FILE: Final = "sampling_plan.json"
"""File that says how the tf.Examples next to it, or those of the transform or model, were sampled."""

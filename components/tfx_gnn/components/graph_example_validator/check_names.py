"""Names of checks that plans and options speak of, and the severities of their failure."""

from __future__ import annotations

ERROR, WARNING, OFF = "error", "warning", "off"
SEVERITIES = (ERROR, WARNING, OFF)

NO_EXAMPLES = "no_examples"
SEED_IN_TWO_SPLITS = "seed_in_two_splits"

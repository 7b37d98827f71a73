"""Whether a loss or a metric is better when smaller or when larger, by its name."""

from __future__ import annotations

import re

_BETTER_IF_SMALL = re.compile(r"(loss|mae|mse|rmse|error)$")
_BETTER_IF_LARGE = re.compile(r"(accuracy|f1|precision|recall|auc|mrr|hits_at_\d+|r2)$")


def is_better_if_large(name: str) -> bool | None:
    """Tells the direction of losses and of the tasks' metrics by the end of their names; None for other names.

    Example:
        >>> is_better_if_large("val_accuracy"), is_better_if_large("val_loss"), is_better_if_large("val_lift")
        (True, False, None)
    """
    if _BETTER_IF_SMALL.search(name):
        return False
    return True if _BETTER_IF_LARGE.search(name) else None

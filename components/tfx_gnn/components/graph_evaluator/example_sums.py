"""Sums over examples that an evaluation keeps; sums of parts merge by addition."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleSums(abc.ABC):
    """Sums over examples of one task.

    Attributes:
        num_examples: examples with a label.
        num_without_label: examples without.
    """

    num_examples: int
    num_without_label: int

    @abc.abstractmethod
    def to_json(self) -> list[Any]:
        """Writes the sums as lists of numbers and names."""

    @abc.abstractmethod
    def merged_with(self, other: Any) -> Any:
        """Adds sums of the same class over other examples."""

"""The base class of tasks. Needs no TensorFlow, so that options load fast."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from tfx_gnn.models.tasks.objective import Objective


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelSummary:
    """Labels of one task in one split.

    Attributes:
        num_labels: labels, known or not: one an example, for links one a candidate pair, and one
            for each target of a regression.
        num_counted: those that loss and metrics count: known, and for the softmax over candidates true pairs alone.
        class_counts: for tasks of classes, examples of each class; for links, false and true pairs.
        mean: for regressions, mean of each target over its known labels, 0 where there is none.
        std: for regressions, standard deviation of each target over its known labels, 0 where there is none.
        minimum: for regressions, the least known label of each target; infinity where there is none.
        maximum: for regressions, the greatest; minus infinity where there is none.
    """

    num_labels: int
    num_counted: int
    class_counts: tuple[int, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    minimum: tuple[float, ...] = ()
    maximum: tuple[float, ...] = ()

    @property
    def num_missing(self) -> int:
        """Labels that do not count."""
        return self.num_labels - self.num_counted


READOUT_NODE_SET = "_readout"
"""Node set with one node for each prediction about nodes or pairs of nodes; it carries the labels."""


POOLINGS = ("mean", "sum", "max")
"""How states of nodes become one of their graph."""


Vocabulary = Callable[[str], Sequence[bytes]]
"""From the `vocab_filename` of a vocabulary to its entries by index."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(abc.ABC):
    """What a model is trained to predict: names and numbers, nothing that computes.

    A task travels as JSON; `objective` makes what trainers, exports and evaluators work with.
    """

    reads_context: ClassVar[bool] = False
    """Whether the label is a feature of the context, and not of `_readout`."""

    @abc.abstractmethod
    def objective(
        self,
        vocabulary: Vocabulary | None = None,
        summary: LabelSummary | Mapping[str, LabelSummary] | None = None,
    ) -> Objective:
        """Makes what computes labels, loss, metrics and answers of this task.

        Args:
            vocabulary: gives the entries of a vocabulary of the transform; None where no class has a name.
            summary: what the training split's labels are, for MultiTask by name; needed where the
                task asks for class weights by counts or for standardised labels, and only to train.

        Returns:
            The objective.

        Raises:
            ValueError: if the vocabulary is missing or does not fit the task.
        """


def check_feature_name(field: str, value: object, advice: str) -> None:
    """Checks that a task's field can be the name of a feature or of a vocabulary.

    Args:
        field: name of the field.
        value: its value.
        advice: what to do otherwise, a sentence.

    Raises:
        ValueError: if it is no string, empty, or begins with '#'.
    """
    if not isinstance(value, str) or not value or value.startswith("#"):
        raise ValueError(f"`{field}` must be a name that does not begin with '#'; got {value!r}. {advice}")


def check_choice(field: str, value: object, choices: Sequence[str]) -> None:
    """Checks that a task's field is one of a few words.

    Args:
        field: name of the field.
        value: its value.
        choices: what it may be.

    Raises:
        ValueError: if it is something else.
    """
    if value not in choices:
        raise ValueError(f"`{field}` must be one of {list(choices)}; got {value!r}. Choose one of these.")


def check_pooling(pooling: str) -> None:
    """Checks how states of nodes become one of their graph.

    Args:
        pooling: "mean", "sum", "max", or several of them with "|" between.

    Raises:
        ValueError: if it is anything else.
    """
    parts = pooling.split("|")
    if not set(parts) <= set(POOLINGS) or len(set(parts)) < len(parts):
        raise ValueError(
            f"`pooling` must be one of {list(POOLINGS)}, or several joined by '|'; got {pooling!r}. "
            "Write 'mean|max' for two of them."
        )

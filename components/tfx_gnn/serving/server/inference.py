"""A question to the model and its answer, whatever the protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from tfx_gnn.serving.server.examples_input import INPUTS
from tfx_gnn.serving.server.ids_input import Item
from tfx_gnn.serving.server.refusals import malformed
from tfx_gnn.serving.server.served_version import Outputs, ServedVersion


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputValues:
    """Some values of a request that are of one kind.

    Attributes:
        kind: key of `tfx_gnn.serving.server.examples_input.INPUTS`.
        values: at least one value.
        places: where each is in the request, for messages.
    """

    kind: str
    values: Sequence[Any]
    places: Sequence[str]


class Question(Protocol):
    """A parsed request."""

    @property
    def signature_name(self) -> str:
        """Signature of the model; empty for predictions."""
        ...

    def items(self, version: ServedVersion, max_examples: int) -> list[Item]:
        """Reads what to answer, in order: serialized examples, or the seeds of examples."""
        ...

    def response(self, outputs: Outputs, model_name: str, version: int) -> tuple[bytes, dict[str, str]]:
        """Writes the body of the response, and its headers."""
        ...


def items_of(inputs: Sequence[InputValues], version: ServedVersion, max_examples: int) -> list[Item]:
    """Reads the serialized examples of a request, or the seeds of examples.

    Raises:
        Refusal: if there are none or too many, or a value is not of its kind.
    """
    check_num_examples(sum(len(given.values) for given in inputs), max_examples)
    return [item for given in inputs for item in INPUTS[given.kind](given.values, given.places, version)]


def check_num_examples(count: int, max_examples: int) -> None:
    """Refuses a request without examples, or with too many."""
    if not 1 <= count <= max_examples:
        remedy = "Split it into several requests." if count else "It is empty: ask about at least one."
        raise malformed(f"A request must hold 1 to {max_examples} examples; got {count}. {remedy}")


def check_not_too_many(count: int, max_examples: int) -> None:
    """Refuses a request with too many examples, before each of them takes time."""
    check_num_examples(max(count, 1), max_examples)

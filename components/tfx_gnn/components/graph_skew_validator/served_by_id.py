"""Asks a server about examples by the ids of their seeds, and compares its subgraphs and answers with training's."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.components.graph_skew_validator.comparison import FeatureSkew, OutputComparison
from tfx_gnn.components.graph_skew_validator.examples_by_id import ExampleById
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.request_records import without_labels
from tfx_gnn.serving.server.temporary_server import RefusedRequestError

_MAX_SHOWN = 20
_SHOWN_KEYS = 5
_ABSENT = "no value"
_CPU = "/CPU:0"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedByIdSkew:
    """Differences between examples of the training and what a server samples and answers for the ids of their seeds.

    Attributes:
        objection: why no example can be compared, whatever it holds; empty if some could be.
        num_asked: examples that the server was asked about, by split.
        num_not_comparable: examples that a server would not sample alike by design, by the reason.
        num_refused: examples that the server refused.
        num_other_examples: examples that differ from the sampled ones in a byte, labels aside.
        first_problems: the first examples that were refused or differ, in words.
        outputs: outputs of the exported model for the examples against the server's answers by id. Differences of
            floats are divided by the example's largest value if that is above 1.
        num_other_labels: examples whose most probable class differs.
        only_from_model: names of outputs that the server's answers lack.
        only_from_server: names of outputs that only the server's answers have.
    """

    objection: str = ""
    num_asked: dict[str, int] = dataclasses.field(default_factory=dict)
    num_not_comparable: dict[str, int] = dataclasses.field(default_factory=dict)
    num_refused: int = 0
    num_other_examples: int = 0
    first_problems: tuple[str, ...] = ()
    outputs: tuple[FeatureSkew, ...] = ()
    num_other_labels: int = 0
    only_from_model: tuple[str, ...] = ()
    only_from_server: tuple[str, ...] = ()

    def text(self) -> str:
        """What was compared, in words."""
        num_asked = sum(self.num_asked.values())
        if not num_asked:
            return "by id through a server: no example"
        largest = max((output.largest_difference for output in self.outputs), default=0.0)
        left_out = ", ".join(f"{count} {reason}" for reason, count in self.num_not_comparable.items())
        equal = num_asked - self.num_refused - self.num_other_examples
        return (
            f"by id through a server: {equal} of {num_asked} examples equal to the byte, answers {largest:.2g}"
            f"{f'; not comparable: {left_out}' if left_out else ''}"
        )

    def problems(self, max_output_difference: float) -> list[str]:
        """Lists what withholds the blessing, in words."""
        num_asked = sum(self.num_asked.values())
        if not num_asked:
            counts = ", ".join(f"{count} are {reason}" for reason, count in self.num_not_comparable.items())
            reason = self.objection or counts or "there is none"
            return [f"no example can be compared with what a server samples by id: {reason}"]
        found = []
        if self.num_refused or self.num_other_examples:
            found.append(
                f"by id, a server refuses {self.num_refused} of {num_asked} examples, and samples "
                f"{self.num_other_examples} otherwise than training, first {self.first_problems[0]}"
            )
        for names, side in ((self.only_from_model, "by example"), (self.only_from_server, "by id")):
            if names:
                found.append(f"only {side} a server returns {', '.join(names)}")
        differing = [output for output in self.outputs if not output.is_within(max_output_difference)]
        if differing:
            keys = ", ".join(output.key for output in differing)
            found.append(f"by id, a server returns other {keys}: {differing[0].text()}")
        return found


class AskedServer(Protocol):
    """A server that answers about one instance: `tfx_gnn.serving.server.temporary_server.TemporaryServer`."""

    def ask(self, verb: str, instance: object) -> Any:
        """Returns the answer, as JSON; raises RefusedRequestError."""
        ...


def compare_by_id(
    server: AskedServer,
    examples: Sequence[ExampleById],
    saved_model_dir: str,
    num_not_comparable: Mapping[str, int],
) -> ServedByIdSkew:
    """Asks a server about examples one at a time, and compares what it samples and answers.

    The model is loaded once more, and asked as the server asks it: with TensorFlow's default settings, on the CPU and
    for one example.

    Args:
        server: serves the model with a graph index.
        examples: at least one.
        saved_model_dir: folder that holds `saved_model.pb`.
        num_not_comparable: examples that were left out, by the reason.

    Returns:
        The differences.
    """
    with tf.device(_CPU):
        model = ServingModel(saved_model_dir)
    answers = OutputComparison()
    num_asked: dict[str, int] = {}
    problems: list[str] = []
    num_refused = 0
    for example in examples:
        split = example.pair.file.split
        num_asked[split] = num_asked.get(split, 0) + 1
        try:
            sampled = base64.b64decode(server.ask("sample", example.instance)["b64"])
            answer = server.ask("predict", example.instance)
        except RefusedRequestError as error:
            num_refused += 1
            problems.append(f"{example.place.text()}: {error}")
            continue
        trained, served = without_labels([example.pair.raw, sampled], saved_model_dir)
        if trained != served:
            problems.append(f"{example.place.text()}: {differing_features(trained, served)}")
        with tf.device(_CPU):
            expected = model.outputs_of([example.pair.raw])
        wanted = {name: _comparable(values) for name, values in expected.items()}
        answers.compare(wanted, _arrays(answer, expected), [example.place])
    return ServedByIdSkew(
        num_asked=num_asked,
        num_not_comparable=dict(num_not_comparable),
        num_refused=num_refused,
        num_other_examples=len(problems) - num_refused,
        first_problems=tuple(problems[:_MAX_SHOWN]),
        outputs=answers.results,
        num_other_labels=answers.num_other_labels,
        only_from_model=tuple(sorted(answers.only_in_first)),
        only_from_server=tuple(sorted(answers.only_in_second)),
    )


def differing_features(trained: bytes, served: bytes) -> str:
    """Names the features of two examples that differ, and the first of their values that do."""
    first, second = (dict(tf.train.Example.FromString(record).features.feature) for record in (trained, served))
    none = tf.train.Feature()
    texts: list[str] = []
    for key in sorted(first.keys() | second.keys()):
        one, other = (features.get(key, none) for features in (first, second))
        if one.SerializeToString(deterministic=True) != other.SerializeToString(deterministic=True):
            texts.append(key if texts else f"{key}, {_first_difference(_values(one), _values(other))}")
    more = f", and {len(texts) - _SHOWN_KEYS} more" if len(texts) > _SHOWN_KEYS else ""
    return "; ".join(texts[:_SHOWN_KEYS]) + more


def _values(feature: tf.train.Feature) -> list[Any]:
    kind = feature.WhichOneof("kind")
    return list(getattr(feature, kind).value) if kind else []


def _first_difference(trained: Sequence[Any], served: Sequence[Any]) -> str:
    shorter = min(len(trained), len(served))
    at = next((place for place in range(shorter) if trained[place] != served[place]), shorter)
    one, other = (repr(values[at]) if at < len(values) else _ABSENT for values in (trained, served))
    return f"{one} in training, {other} when served by id (value {at}, of {len(trained)} and {len(served)})"


def _comparable(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Casts an output to one of the types of a comparison: float64, int64 or objects."""
    if values.dtype.kind in "OSU":
        return values.astype(object)
    return values.astype(np.int64 if values.dtype.kind in "iub" else np.float64)


def _arrays(answer: Any, expected: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    """Reads an answer in JSON into arrays, [1, ...], of the types that are expected."""
    # An only output has no name.
    named = answer if isinstance(answer, dict) and "b64" not in answer else {next(iter(expected)): answer}
    found = {}
    for name, value in named.items():
        dtype = expected[name].dtype if name in expected else np.dtype(object)
        found[name] = _comparable(np.array([_from_json(value)], dtype))
    return found


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict):
        return base64.b64decode(value["b64"])
    return value.encode() if isinstance(value, str) else value

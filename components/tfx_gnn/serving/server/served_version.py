"""One loaded version of a model, and its signatures that answer serialized examples."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Union

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.serving import model_interface
from tfx_gnn.serving.model_fingerprint import fingerprint_model
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.serving.refusal_messages import plain_message
from tfx_gnn.serving.server.ids_input import Item, SeedInput, records_of
from tfx_gnn.serving.server.refusals import Refusal, malformed
from tfx_gnn.serving.warmup_requests import read_warmup_requests

Outputs = dict[str, npt.NDArray[Any]]
Answer = Union[Outputs, Refusal]

_WITH_ONE_ROW_PER_EXAMPLE = (model_interface.SERVING_SIGNATURE, model_interface.EMBEDDINGS_SIGNATURE)


class _Sampling:
    """Samples the examples of requests that have seeds."""

    def __init__(self, seeds: SeedInput | None) -> None:
        self._seeds = seeds

    def sample(self, items: Sequence[Item]) -> list[bytes] | Refusal:
        """Samples the examples of one request, which `answer` would do for several together."""
        (found,) = records_of([items], self._seeds)
        return found


class ServedSignature(_Sampling):
    """A signature whose only input is `examples`.

    Attributes:
        name: name of the signature.
        output_specs: type specs of the outputs by name; dimensions that depend on the request are None.
        is_batched: whether requests of several clients may share a call.
    """

    def __init__(self, model: ServingModel, seeds: SeedInput | None = None) -> None:
        super().__init__(seeds)
        self._model = model
        self.name = model.signature
        self.output_specs: dict[str, tf.TensorSpec] = dict(sorted(model.output_specs.items()))
        counts = [name for name in self.output_specs if _last_part(name) == model_interface.NUM_CANDIDATES_OUTPUT]
        padded = [name for name, spec in self.output_specs.items() if _has_open_rows(spec)]
        self._count_of_padded = {name: _count_for(name, counts) for name in padded} if counts else {}
        self.is_batched = self.name in _WITH_ONE_ROW_PER_EXAMPLE and (not padded or bool(counts))

    def answer(self, requests: Sequence[Sequence[Item]]) -> list[Answer]:
        """Answers several requests by one call of the model, or by more if it refuses one of them.

        Args:
            requests: serialized examples of each request, or seeds, around which they are sampled in one call.

        Returns:
            For each request what it would get alone: outputs by name, or why it is refused.
        """
        found = records_of(requests, self._seeds)
        known = [records for records in found if not isinstance(records, Refusal)]
        answers = iter(self._answer(known) if known else ())
        return [records if isinstance(records, Refusal) else next(answers) for records in found]

    def _answer(self, requests: Sequence[Sequence[bytes]]) -> list[Answer]:
        records = [record for request in requests for record in request]
        try:
            outputs = self._model.outputs_of(records)
        except (tf.errors.OpError, UnicodeDecodeError) as error:
            if len(requests) == 1:
                return [self._refusal(error, records)]
            # By halves: one bad request among n costs about 2 log2(n) calls.
            half = len(requests) // 2
            return [*self._answer(requests[:half]), *self._answer(requests[half:])]
        if len(requests) == 1:
            return [outputs]
        answers: list[Answer] = []
        start = 0
        for request in requests:
            answers.append(self._rows(outputs, start, start + len(request)))
            start += len(request)
        return answers

    def _rows(self, outputs: Outputs, start: int, stop: int) -> Outputs:
        """Cuts the rows of one request out, padded as far as its own candidates need."""
        rows = {name: values[start:stop] for name, values in outputs.items()}
        for name, count in self._count_of_padded.items():
            rows[name] = rows[name][:, : int(rows[count].max(initial=0))]
        return rows

    def _refusal(self, error: tf.errors.OpError | UnicodeDecodeError, records: Sequence[bytes]) -> Refusal:
        explained = self._model.explain(error, records)
        if isinstance(explained, tf.errors.InvalidArgumentError):
            return malformed(explained.message)
        return Refusal(
            500,
            "model_error",
            f"The model must answer {len(records)} examples; got {type(explained).__name__}: "
            f"{plain_message(explained.message)}. Send fewer or smaller examples.",
        )


class SampledExamples(_Sampling):
    """The examples themselves that a version would be asked about, in place of its predictions.

    Attributes:
        is_batched: whether requests of several clients may share a call.
    """

    is_batched = True

    def answer(self, requests: Sequence[Sequence[Item]]) -> list[Answer]:
        """Returns the serialized examples of each request, sampled in one call, or why it is refused."""
        return [
            records if isinstance(records, Refusal) else {model_interface.EXAMPLES_INPUT: np.array(records, object)}
            for records in records_of(requests, self._seeds)
        ]


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]


def _has_open_rows(spec: tf.TensorSpec) -> bool:
    return spec.shape.rank is None or None in spec.shape.as_list()[1:]


def _count_for(name: str, counts: Sequence[str]) -> str:
    """Finds the number of candidates of an output: that of its task; ids of candidates are those of all tasks."""
    of_its_task = name[: len(name) - len(_last_part(name))] + model_interface.NUM_CANDIDATES_OUTPUT
    return of_its_task if of_its_task in counts else counts[0]


class ServedVersion:
    """A version that is loaded and has answered its warm-up requests.

    Attributes:
        version: its number.
        identity: changes when the version's files are replaced.
        signatures: those that take serialized examples, by name.
        examples: what answers with the examples themselves.
        seeds: what samples examples around ids; None if it is asked by examples alone.
        graph_schema: schema of the graphs in requests; None if the model was exported without one.
        recorded_example: the first serialized example that was recorded with the model; None if none was.
        roots: what each prediction is about, as in `tfx_gnn.serving.model_interface.ServedTask`.
        graph: weak reference to the TensorFlow graph of its predictions, which takes a full collection to be freed.
    """

    def __init__(
        self, saved_model_dir: str, *, version: int = 1, identity: object = None, seeds: SeedInput | None = None
    ) -> None:
        """Loads the model and sends it the requests that were recorded with it, or one without examples.

        Raises:
            ValueError: if the model has no signature `serving_default` with the input `examples`, a warm-up request is
                for no signature, or a file that describes the model is damaged.
            tf.errors.OpError: if files are missing or damaged, or a warm-up request is refused.
        """
        self.version, self.identity, self.seeds = version, identity, seeds
        self.examples = SampledExamples(seeds)
        self._saved_model_dir = saved_model_dir
        model = ServingModel(saved_model_dir)
        self.graph: weakref.ref[object] = weakref.ref(model.signatures[model_interface.SERVING_SIGNATURE].graph)
        self.signatures = {
            name: ServedSignature(model.with_signature(name), seeds) for name in model.example_signatures
        }
        # All files are read now: the folder may be removed while the version still answers.
        schema_file = os.path.join(saved_model_dir, model_interface.REQUEST_SCHEMA_FILE)
        self.graph_schema = read_schema(schema_file) if tf.io.gfile.exists(schema_file) else None
        served = model_interface.read_served_task(saved_model_dir)
        self.roots: tuple[str, ...] = () if served is None else served.roots
        self.recorded_example: bytes | None = None
        self._warm_up()

    @functools.cached_property
    def fingerprint(self) -> str:
        """Fingerprint of the model, as in its blessing and in embeddings."""
        return fingerprint_model(self._saved_model_dir)

    def signature(self, name: str) -> ServedSignature:
        """Finds a signature; the empty name is that of predictions."""
        name = name or model_interface.SERVING_SIGNATURE
        if name not in self.signatures:
            advice = did_you_mean(
                name,
                self.signatures,
                otherwise="Name a signature that takes serialized examples, or none for predictions.",
            )
            raise malformed(f"`signature_name` must be one of {sorted(self.signatures)}; got {name!r}. {advice}")
        return self.signatures[name]

    def _warm_up(self) -> None:
        requests = list(read_warmup_requests(self._saved_model_dir))
        for number, (name, inputs) in enumerate(requests):
            records = _records_of_warmup(inputs)
            if records is None:
                continue
            name = name or model_interface.SERVING_SIGNATURE
            if name not in self.signatures:
                raise ValueError(
                    f"Warm-up request {number} must be for one of the signatures {sorted(self.signatures)}; got "
                    f"{name!r} in {self._saved_model_dir!r}. Push the model again."
                )
            self._check_warmup(self.signatures[name], records)
            if name == model_interface.SERVING_SIGNATURE and self.recorded_example is None:
                self.recorded_example = records[0]
        asked = [] if self.seeds is None else self.seeds.warmup_items()
        if asked or not requests:
            self._check_warmup(self.signatures[model_interface.SERVING_SIGNATURE], asked)

    def _check_warmup(self, signature: ServedSignature, records: Sequence[Item]) -> None:
        (answer,) = signature.answer([records])
        if isinstance(answer, Refusal):
            raise ValueError(
                f"The model in {self._saved_model_dir!r} must answer its warm-up requests; got a refusal: "
                f"{answer.message} Push the model again."
            )
        if signature.name in _WITH_ONE_ROW_PER_EXAMPLE:
            shapes = {name: value.shape for name, value in answer.items() if value.shape[:1] != (len(records),)}
            if shapes:
                raise ValueError(
                    f"The model in {self._saved_model_dir!r} must return one row per example; got shapes {shapes} for "
                    f"{len(records)} examples. Export the model with GraphTrainer."
                )


def _records_of_warmup(inputs: Mapping[str, Any]) -> list[bytes] | None:
    """Reads the examples of a recorded request; None if it has other inputs."""
    if list(inputs) != [model_interface.EXAMPLES_INPUT]:
        return None
    array: npt.NDArray[np.object_] = tf.make_ndarray(inputs[model_interface.EXAMPLES_INPUT])
    return [bytes(record) for record in array.reshape([-1])]

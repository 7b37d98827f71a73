"""Sends a served model examples that are encoded in odd ways, changed or damaged, and judges each answer.

    python benchmarks/request_mutants.py runs/debian_sections/serving/1 \
        runs/debian_sections/artifacts/SubgraphExampleGen/examples/1/Split-test \
        runs/debian_sections/artifacts/GraphSchemaGen/graph_schema/2/graph_schema.pbtxt --num-mutants 100000

Each mutant is made of a real example: its bytes are written anew by the tests' encoder (packed, unpacked, in pieces,
keys twice, of other types, with false lengths, cut off). What it holds is said by protobuf and by the tests' decoder in
plain Python. If that is a graph of the schema with one root, the answer must be the one to the same graph in plain
encoding; if not, the request must be refused. Four threads ask at the same time. A wrong answer ends the program
with 1.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import itertools
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from google.protobuf.message import DecodeError

import tfx_gnn
from tfx_gnn.serving import SERVING_SIGNATURE, label_keys, read_records, resolve_saved_model, without_labels


def _module(name: str) -> Any:
    """A module beside the tests of tf.Examples."""
    path = Path(__file__).parents[1] / "tests" / "unit" / "graph" / "codec" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


encoder, plain_decoder = _module("example_encoder"), _module("plain_decoder")

_NUM_EXAMPLES = 64
_NUM_THREADS = 4
#: Relative to the largest number of an answer; bytes written otherwise are the same graph.
_TOLERANCE = 1e-5
_UNREADABLE = ("Could not parse example", "Can't parse serialized Example", "must hold tf.Example protos")
_VALUES: dict[str, list[Any]] = {
    "int64_list": [-(2**63), -1, 0, 1, 2, 2**31, 2**40, 2**63 - 1],
    "float_list": [0.0, -1.0, 1e30, float("inf"), 1e-40],
    "bytes_list": [b"", b"\xff\x00", b"x" * 1000],
}
_OTHER_LISTS: list[tuple[str, list[Any]]] = [("bytes_list", [b"x"]), ("float_list", [1.0]), ("int64_list", [1])]


def main(argv: Sequence[str]) -> int:
    """Asks about all mutants, and prints how many were answered and refused."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a push destination, a version or a SavedModel")
    parser.add_argument("examples", help="folder of a split of raw examples")
    parser.add_argument("graph_schema", help="schema of the raw examples")
    parser.add_argument("--num-mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    judge = _Judge(arguments.model, arguments.examples, arguments.graph_schema)
    mutants = judge.mutants(arguments.num_mutants, random.Random(arguments.seed))
    outcomes: Counter[str] = Counter()
    with concurrent.futures.ThreadPoolExecutor(_NUM_THREADS) as pool:
        while part := list(itertools.islice(mutants, 1000)):
            for mutant, outcome in zip(part, pool.map(judge.judge, part), strict=True):
                outcomes[outcome] += 1
                if outcome.startswith("WRONG"):
                    sys.stdout.write(f"{outcome}: {mutant!r}\n")
    sys.stdout.write(f"{outcomes.total()} requests: {dict(sorted(outcomes.items()))}\n")
    return int(any(outcome.startswith("WRONG") for outcome in outcomes))


class _Judge:
    def __init__(self, model: str, examples: str, graph_schema: str) -> None:
        saved_model_dir = resolve_saved_model(model)
        self._model = tf.saved_model.load(saved_model_dir)
        self._ask = self._model.signatures[SERVING_SIGNATURE]
        records = list(itertools.islice(read_records(examples), _NUM_EXAMPLES))
        labels = label_keys(records, saved_model_dir)
        self._records = without_labels(records, saved_model_dir)
        self._spec = _without_labels(
            tfx_gnn.create_graph_spec_from_schema_pb(tfx_gnn.read_schema(graph_schema)), labels
        )
        self._plain_answers: dict[bytes, dict[str, npt.NDArray[Any]]] = {}

    def mutants(self, number: int, rng: random.Random) -> Iterator[bytes]:
        """Draws serialized tf.Examples."""
        drawn = [_features(record) for record in self._records]
        for _ in range(number):
            features = dict(rng.choice(drawn))
            for _ in range(rng.choice([0, 0, 1, 2])):
                _change(features, rng)
            damage = 0.1 if rng.random() < 0.2 else 0.0
            yield encoder.ExampleEncoder(rng, oddity=rng.choice([0.0, 0.02, 0.1]), damage=damage).encode(features)

    def judge(self, mutant: bytes) -> str:
        """Says what became of a mutant; what begins with WRONG must not be."""
        try:
            is_graph = _has_one_root(plain_decoder.PlainDecoder(self._spec, mutant).graph())
        except (plain_decoder.RefusedError, DecodeError):
            is_graph = False
        try:
            found = self._answer(mutant)
        except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError) as error:
            if not is_graph:
                return "refused"
            # TensorFlow's message quotes the bytes, which Python cannot always decode.
            text = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else error.message
            # Fields that protobuf skips, as it does not know them, are an error to TensorFlow.
            return "unreadable" if any(words in text for words in _UNREADABLE) else f"WRONG refusal {text[-300:]}"
        if not is_graph:
            return "WRONG answer to what is no graph"
        plain = tf.train.Example.FromString(mutant).SerializeToString(deterministic=True)
        if plain not in self._plain_answers:
            self._plain_answers[plain] = self._answer(plain)
        expected = self._plain_answers[plain]
        return "answered" if all(_is_close(found[key], expected[key]) for key in expected) else "WRONG answer"

    def _answer(self, record: bytes) -> dict[str, npt.NDArray[Any]]:
        return {key: value.numpy() for key, value in self._ask(examples=tf.constant([record])).items()}


def _has_one_root(graph: dict[str, Any]) -> bool:
    """Whether a model for nodes takes a graph: one item of `_readout`, at one edge of each kind."""
    return all(sizes == [1] for key, sizes in graph.items() if re.fullmatch(r"(nodes|edges)/_readout.*\.#size", key))


def _is_close(found: npt.NDArray[Any], expected: npt.NDArray[Any]) -> bool:
    if found.dtype == object or not np.issubdtype(found.dtype, np.floating):
        return bool(np.array_equal(found, expected))
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-30)
    return np.allclose(found, expected, rtol=0.0, atol=_TOLERANCE * scale, equal_nan=True)


def _features(record: bytes) -> dict[str, tuple[str, list[Any]]]:
    features = tf.train.Example.FromString(record).features.feature
    kinds = {key: feature.WhichOneof("kind") or "int64_list" for key, feature in features.items()}
    return {key: (kind, list(getattr(features[key], kind).value)) for key, kind in kinds.items()}


def _change(features: dict[str, tuple[str, list[Any]]], rng: random.Random) -> None:
    key = rng.choice(sorted(features))
    kind, values = features[key]
    action = rng.randrange(5)
    if action == 0:
        del features[key]
    elif action == 1:
        features[key] = rng.choice(_OTHER_LISTS) if rng.random() < 0.75 else (kind, [])
    elif action == 2:
        features[key] = kind, values[:-1]
    elif action == 3:
        features[key] = kind, values + values[:1] * rng.choice([1, 1000])
    elif values:
        drawn = _VALUES[kind]
        place = rng.randrange(len(values))
        features[key] = kind, [*values[:place], rng.choice(drawn), *values[place + 1 :]]


def _without_labels(spec: tfx_gnn.GraphTensorSpec, labels: Sequence[str]) -> tfx_gnn.GraphTensorSpec:
    """The graphs that requests hold."""

    def kept(features: dict[str, Any], prefix: str) -> dict[str, Any]:
        return {name: field for name, field in features.items() if prefix + name not in labels}

    context, nodes, edges = spec.context_spec, spec.node_sets_spec, spec.edge_sets_spec
    return tfx_gnn.GraphTensorSpec.from_piece_specs(
        tfx_gnn.ContextSpec.from_field_specs(
            features_spec=kept(context.features_spec, "context/"), sizes_spec=context.sizes_spec
        ),
        {
            name: tfx_gnn.NodeSetSpec.from_field_specs(
                features_spec=kept(piece.features_spec, f"nodes/{name}."), sizes_spec=piece.sizes_spec
            )
            for name, piece in nodes.items()
        },
        {
            name: tfx_gnn.EdgeSetSpec.from_field_specs(
                features_spec=kept(piece.features_spec, f"edges/{name}."),
                sizes_spec=piece.sizes_spec,
                adjacency_spec=piece.adjacency_spec,
            )
            for name, piece in edges.items()
        },
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

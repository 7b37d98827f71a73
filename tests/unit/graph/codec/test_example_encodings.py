"""tf.Examples that are written in odd ways, or damaged, hold what protobuf says, or are refused.

They come from `example_encoder`, and what they hold is said by `plain_decoder`.
"""

import importlib.util
import itertools
import math
import os
import random
from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError

from tfx_gnn.graph.batching.size_constraints import SizeConstraints
from tfx_gnn.graph.codec import example_layout
from tfx_gnn.graph.codec.example_parsing import parse_and_merge, parse_example, parse_merge_and_pad
from tfx_gnn.graph.codec.flat_tensors import graph_to_flat_tensors
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec


def _module(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


encoder, plain = _module("example_encoder"), _module("plain_decoder")

#: Over all specs; the whole campaign is TFX_GNN_FUZZ=100000.
NUM_MUTANTS = int(os.environ.get("TFX_GNN_FUZZ", "210"))
#: What TensorFlow says of bytes that it cannot read.
UNREADABLE = (
    "Could not parse example",
    "Can't parse serialized Example",
    "Unsupported datatype",
    "Unable to parse binary protobuf",
    "must hold tf.Example protos",
    "must_hold_tf.Example_protos",
)
#: What else refusals say.
REFUSALS = ("`serialized` must hold", "ParseExampleV2", "Could not pad")
INTEGERS = (-(2**63), -(2**31) - 1, -129, -1, 0, 1, 2, 127, 128, 255, 256, 2**31, 2**32, 2**40, 2**63 - 1)
#: No subnormal numbers: TensorFlow's casts take them for zero.
FLOATS = (0.0, -0.0, 1.0, -2.5, 65504.0, 65520.0, 1e30, -1e30, 3.4e38, float("inf"), 2.0**-126)
TARGET = 48


def _set(features, num_components=1, dtype=tf.int32):
    return {"features_spec": features, "sizes_spec": tf.TensorSpec([num_components], dtype)}


def _edges(source, target, features=None, num_components=1, count=None):
    return EdgeSetSpec.from_field_specs(
        **_set(features or {}, num_components),
        adjacency_spec=AdjacencySpec.from_incident_node_sets(source, target, tf.TensorSpec([count], tf.int32)),
    )


def _graph(context, node_sets, edge_sets, num_components=1):
    return GraphTensorSpec.from_piece_specs(
        ContextSpec.from_field_specs(**_set(context, num_components)),
        {name: NodeSetSpec.from_field_specs(**_set(features, num_components)) for name, features in node_sets.items()},
        edge_sets,
    )


SPECS = {
    "fixed sizes": _graph(
        {"y": tf.TensorSpec([1, 4]), "label": tf.TensorSpec([1], tf.int64)},
        {"a": {"x": tf.TensorSpec([3, 2]), "id": tf.TensorSpec([3], tf.string)}},
        {"e": _edges("a", "a", {"w": tf.TensorSpec([2])}, count=2)},
    ),
    "ragged": _graph(
        {"y": tf.TensorSpec([1])},
        {
            "a": {
                "x": tf.TensorSpec([None, 2]),
                "r": tf.RaggedTensorSpec([None, None, 2]),
                "s": tf.RaggedTensorSpec([None, None], tf.string),
            }
        },
        {"e": _edges("a", "a", {"n": tf.RaggedTensorSpec([None, None], tf.int64)})},
    ),
    "without features": _graph({}, {"a": {}, "b": {}}, {"e": _edges("a", "b"), "f": _edges("b", "b")}),
    "two components": _graph(
        {"y": tf.TensorSpec([2, 3])},
        {"a": {"x": tf.TensorSpec([None])}, "b": {}},
        {"e": _edges("a", "b", num_components=2)},
        num_components=2,
    ),
    "any number of components": _graph(
        {"y": tf.TensorSpec([None, 2])},
        {"a": {"x": tf.TensorSpec([None])}},
        {"e": _edges("a", "a", {"w": tf.TensorSpec([None])}, num_components=None)},
        num_components=None,
    ),
    "several sets": _graph(
        {"y": tf.TensorSpec([1, 2]), "name": tf.TensorSpec([1], tf.string)},
        {"a": {"x": tf.TensorSpec([None, 3])}, "b": {"n": tf.TensorSpec([None], tf.int64)}, "c": {}},
        {"e": _edges("a", "b", {"w": tf.TensorSpec([None])}), "f": _edges("b", "c"), "g": _edges("a", "a")},
    ),
    "narrow dtypes": _graph(
        {"i32": tf.TensorSpec([1], tf.int32), "f16": tf.TensorSpec([1, 2], tf.float16)},
        {
            "a": {
                "i32": tf.TensorSpec([None, 2], tf.int32),
                "i8": tf.RaggedTensorSpec([None, None], tf.int8),
                "u8": tf.TensorSpec([None], tf.uint8),
                "u32": tf.TensorSpec([None], tf.uint32),
                "u64": tf.TensorSpec([None], tf.uint64),
                "bool": tf.TensorSpec([None], tf.bool),
                "f16": tf.TensorSpec([None], tf.float16),
                "f64": tf.TensorSpec([None], tf.float64),
            }
        },
        {"e": _edges("a", "a")},
    ),
}
KINDS = {tf.string: "bytes_list", tf.float32: "float_list", tf.int64: "int64_list"}


def draw_features(spec, rng):
    """Draws a graph; returns kind and values by key."""
    num_components = rng.randint(0, 3) if spec.total_num_components is None else spec.total_num_components
    features, num_items = {}, {"": num_components}

    def add(key, dtype, count, choose=None):
        stored = example_layout.stored_dtype(dtype, key)
        if choose is None:
            choose = {
                tf.string: lambda: rng.choice([b"", b"a", b"\xff\x00"]),
                tf.float32: lambda: rng.choice([0.0, 1.0, -2.5, 0.5]),
                tf.int64: lambda: rng.choice([0, 1, 127]),
            }[stored]
        features[key] = (KINDS[stored], [choose() for _ in range(count)])

    for layout in example_layout.piece_keys(spec, None):
        piece = example_layout.piece_spec(spec, layout)
        if layout.size_key:
            indices = piece.adjacency_spec[0] if layout.index_keys else None
            known = [field.shape[0] for field in [*piece.features_spec.values(), *([indices] if indices else [])]]
            fixed = next((count for count in known if count is not None), None)
            ends = [num_items[piece.adjacency_spec.node_set_name(tag)] for tag in layout.index_keys]
            most = 0 if ends and not all(ends) else 3
            add(layout.size_key, tf.int64, num_components, lambda most=most: rng.randint(0, most))
            if fixed is not None:
                features[layout.size_key] = ("int64_list", [fixed])
            num_items[layout.set_name] = sum(features[layout.size_key][1])
        for tag, key in layout.index_keys.items():
            num_nodes = num_items[piece.adjacency_spec.node_set_name(tag)]
            add(key, tf.int64, num_items[layout.set_name], lambda num_nodes=num_nodes: rng.randrange(num_nodes))
        for name, key in layout.features.items():
            count = num_items[layout.set_name]
            field = piece[name]
            for dimension in range(1, field.shape.rank):
                if field.shape[dimension] is None:
                    lengths_key = example_layout.row_lengths_key(key, dimension)
                    add(lengths_key, tf.int64, count, lambda: rng.randint(0, 2))
                    count = sum(features[lengths_key][1])
                else:
                    count *= field.shape[dimension]
            add(key, field.dtype, count)
    return features


def mutate(features, rng):
    """Changes what an example holds, mostly so that it is no graph of its spec any more."""
    key = rng.choice(sorted(features))
    kind, values = features[key]
    action = rng.randrange(7)
    if action == 0:
        del features[key]
    elif action == 1:
        features[key] = rng.choice([("bytes_list", [b"x"]), ("float_list", [1.0]), ("int64_list", [1]), (kind, [])])
    elif action == 2:
        features[key] = kind, values + (values or [0]) * 1000 if kind != "bytes_list" else values * 1000
    elif action == 3 and values:
        features[key] = kind, values[:-1]
    elif values and kind != "bytes_list":
        changed = list(values)
        changed[rng.randrange(len(values))] = rng.choice(INTEGERS if kind == "int64_list" else FLOATS)
        features[key] = kind, changed


def draw_mutant(spec, rng):
    features = draw_features(spec, rng)
    if rng.random() < 0.3:
        mutate(features, rng)
    damage = 0.15 if rng.random() < 0.2 else 0.0
    return encoder.ExampleEncoder(rng, oddity=rng.choice([0.0, 0.1, 0.4]), damage=damage).encode(features)


def decode(spec, batch):
    """Returns the graphs of a batch; None where it must be refused."""
    graphs, totals = [], Counter()
    try:
        for serialized in batch:
            decoder = plain.PlainDecoder(spec, serialized)
            graphs.append(decoder.graph())
            for key, (total, limit) in decoder.totals.items():
                totals[key] += total
                plain.refuse_unless(totals[key] <= limit)
    except (plain.RefusedError, DecodeError):
        return None
    return graphs


def merge(spec, graphs):
    result = {key: [value for graph in graphs for value in graph[key]] for key in graphs[0]}
    for name, edge_set in spec.edge_sets_spec.items():
        for tag, end in enumerate(("#source", "#target")):
            sizes = f"nodes/{edge_set.adjacency_spec.node_set_name(tag)}.#size"
            starts = itertools.accumulate((sum(graph[sizes]) for graph in graphs), initial=0)
            key = f"edges/{name}.{end}"
            result[key] = [start + index for start, graph in zip(starts, graphs, strict=False) for index in graph[key]]
    return result


def fields_of(graph):
    """Returns the fields of a graph by the keys of `PlainDecoder.graph()`."""
    found = {f"context/{name}": value for name, value in graph.context.features.items()}
    for kind, sets in (("nodes", graph.node_sets), ("edges", graph.edge_sets)):
        for set_name, piece in sets.items():
            found[f"{kind}/{set_name}.#size"] = piece.sizes
            found.update({f"{kind}/{set_name}.{name}": value for name, value in piece.features.items()})
            if kind == "edges":
                found[f"{kind}/{set_name}.#source"] = piece.adjacency.source
                found[f"{kind}/{set_name}.#target"] = piece.adjacency.target
    return found


def as_lists(value):
    if isinstance(value, tf.Tensor) and value.dtype == tf.float16:
        value = tf.cast(value, tf.float32)
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def message_of(error):
    # A function quotes the bytes in TensorFlow's message, and Python cannot always decode them.
    return error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else error.message


def attempt(function, *args):
    """Returns the result of a call and what it says if it refuses."""
    try:
        return function(*args), ""
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError) as error:
        message = message_of(error)
        if not any(words in message for words in (*REFUSALS, *UNREADABLE)):
            raise
        return None, message


class SavedParser(tf.Module):
    """A model that answers with the graph that it was asked with."""

    def __init__(self, spec):
        super().__init__()
        self.serve = tf.function(
            lambda examples: graph_to_flat_tensors(parse_and_merge(spec, examples)),
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )


class Campaign:
    """All ways to parse examples of a spec."""

    def __init__(self, spec, folder):
        self.spec = spec

        def traced(function):
            return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)

        self._parse = traced(lambda batch: fields_of(parse_example(spec, batch)))
        self._merge = traced(lambda batch: fields_of(parse_and_merge(spec, batch)))
        self._flat = tf.function(lambda batch: graph_to_flat_tensors(parse_and_merge(spec, batch)), autograph=False)
        budget = SizeConstraints(
            2 + 2 * (spec.total_num_components or 4),
            dict.fromkeys(spec.node_sets_spec, TARGET),
            dict.fromkeys(spec.edge_sets_spec, TARGET),
        )
        self._pad = traced(lambda batch: fields_of(parse_merge_and_pad(spec, batch, budget)[0]))
        module = SavedParser(spec)
        tf.saved_model.save(module, str(folder), signatures=module.serve)
        self._saved = tf.saved_model.load(str(folder))

    def check(self, batch):
        """Asks all about a batch; returns what became of it."""
        graphs = decode(self.spec, batch)
        expected = graphs and merge(self.spec, graphs)
        serialized = tf.constant(batch)
        outcomes = {
            self._compare(*attempt(self._parse, serialized), graphs and _transposed(graphs)),
            self._compare(*attempt(self._merge, serialized), expected),
            self._compare_padded(*attempt(self._pad, serialized), expected),
            self._compare_served(serialized, expected),
        } - {None}
        assert len(outcomes) == 1, outcomes
        return outcomes.pop()

    def _compare(self, found, message, expected):
        if expected is None:
            assert found is None, "an answer for what is no graph"
            assert message
            return "refused"
        if found is None:
            # Fields that protobuf skips, as it does not know them, are an error to TensorFlow.
            assert any(words in message for words in UNREADABLE), message
            return "unreadable"
        assert repr({key: as_lists(found[key]) for key in expected}) == repr(expected)
        return "read"

    def _compare_padded(self, found, message, expected):
        if expected is None:
            return self._compare(found, message, expected)
        if found is None:
            # Nodes without features can be too many for the budget: nothing stored is as long.
            is_large = max(sum(value) for key, value in expected.items() if "#size" in key) >= TARGET
            return None if is_large else self._compare(found, message, expected)
        found = {key: value[: len(expected[key])] for key, value in found.items()}
        return self._compare(found, message, expected)

    def _compare_served(self, serialized, expected):
        found, message = attempt(lambda: self._saved.signatures["serving_default"](examples=serialized))
        if expected is None or found is None:
            return self._compare(found, message, expected)
        flat = self._flat(serialized)
        assert repr({key: as_lists(found[key]) for key in flat}) == repr(
            {key: as_lists(value) for key, value in flat.items()}
        )
        return "read"


def _transposed(graphs):
    return {key: [graph[key] for graph in graphs] for key in graphs[0]}


@pytest.mark.parametrize("name", SPECS)
def test_odd_and_damaged_examples_hold_what_protobuf_says_or_are_refused(name, tmp_path):
    spec, rng = SPECS[name], random.Random(name)
    campaign = Campaign(spec, tmp_path)
    outcomes = Counter()
    num_mutants = math.ceil(NUM_MUTANTS / len(SPECS))

    for number in range(num_mutants):
        batch = [encoder.ExampleEncoder(rng, oddity=0).encode(draw_features(spec, rng)), draw_mutant(spec, rng)]
        try:
            outcomes[campaign.check(batch)] += 1
        except (AssertionError, tf.errors.OpError) as error:
            raise AssertionError(f"mutant {number} of spec '{name}': {batch}") from error

    print(f"{num_mutants} encoded tf.Examples with {name}: {dict(outcomes)}")  # noqa: T201 - with -s, the campaign tells its figures
    assert outcomes["read"] > num_mutants // 4
    assert outcomes["refused"]

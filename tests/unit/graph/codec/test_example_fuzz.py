"""Mutated tf.Examples parse into the graph that they hold, or are refused by a clear error.

What they hold is said by a slow decoder in plain Python, which reads the proto value by value.
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
from tfx_gnn.graph.codec.example_parsing import (
    parse_and_merge,
    parse_example,
    parse_merge_and_pad,
    parse_single_example,
)
from tfx_gnn.graph.tensor.adjacency import AdjacencySpec
from tfx_gnn.graph.tensor.graph_tensor_spec import GraphTensorSpec
from tfx_gnn.graph.tensor.piece_specs import ContextSpec, EdgeSetSpec, NodeSetSpec
from tfx_gnn.graph.tensor.run_time_checks import assert_constraints

_SPEC = importlib.util.spec_from_file_location("plain_decoder", Path(__file__).with_name("plain_decoder.py"))
plain = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(plain)

#: Over all specs; the whole campaign is TFX_GNN_FUZZ=20000.
NUM_MUTANTS = int(os.environ.get("TFX_GNN_FUZZ", "300"))

#: What TensorFlow says of bytes that are no tf.Example to it.
NO_PROTO = (
    "Could not parse example",
    "Unsupported datatype",
    "Unable to parse binary protobuf",
    "must hold tf.Example protos",
    "must_hold_tf.Example_protos",
)
#: What is said of others by the parser, by TensorFlow's, and by padding.
REFUSALS = ("`serialized` must hold", "ParseExampleV2", "Could not pad")
INT32_MAX = 2**31 - 1
NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 5, INT32_MAX, 2**31, 2**32, 2**32 + 1, 2**40, 2**62, 2**63 - 1)
GARBAGE = (b"\xff\xfe\xfd", b"no proto", b"\x0a", b"\x0a\xff\xff\xff\xff\x7f", b"\x80" * 12, bytes(range(256)), b"")


def graph_spec(num_components, indices_dtype):
    sizes = tf.TensorSpec([num_components], indices_dtype)
    return GraphTensorSpec.from_piece_specs(
        ContextSpec.from_field_specs(features_spec={"y": tf.TensorSpec([num_components], tf.int64)}, sizes_spec=sizes),
        {
            "a": NodeSetSpec.from_field_specs(
                features_spec={
                    "x": tf.TensorSpec([None, 2]),
                    "s": tf.TensorSpec([None], tf.string),
                    "r": tf.RaggedTensorSpec([None, None, 2, None], tf.int64),
                    "b": tf.TensorSpec([None], tf.bool),
                },
                sizes_spec=sizes,
            ),
            "b": NodeSetSpec.from_field_specs(sizes_spec=sizes),
        },
        {
            "e": EdgeSetSpec.from_field_specs(
                features_spec={"w": tf.RaggedTensorSpec([None, None, 1], tf.string)},
                sizes_spec=sizes,
                adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "b", tf.TensorSpec([None], indices_dtype)),
            )
        },
    )


SPECS = {
    "one component": graph_spec(1, tf.int32),
    "two components": graph_spec(2, tf.int64),
    "any number of components": graph_spec(None, tf.int32),
}


def valid_example(rng, num_components):
    if num_components is None:
        num_components = rng.randint(0, 3)
    sizes_a, sizes_b = ([rng.randint(0, 2) for _ in range(num_components)] for _ in "ab")
    sizes_e = [rng.randint(0, 3) if a and b else 0 for a, b in zip(sizes_a, sizes_b, strict=True)]
    num_a, num_b, num_edges = sum(sizes_a), sum(sizes_b), sum(sizes_e)
    rows = [rng.randint(0, 2) for _ in range(num_a)]
    cells = [rng.randint(0, 2) for _ in range(2 * sum(rows))]
    words = [rng.randint(0, 2) for _ in range(num_edges)]
    proto = tf.train.Example()
    feature = proto.features.feature
    feature["context/y"].int64_list.value.extend(range(num_components))
    feature["nodes/a.#size"].int64_list.value.extend(sizes_a)
    feature["nodes/a.x"].float_list.value.extend(float(i) for i in range(2 * num_a))
    feature["nodes/a.s"].bytes_list.value.extend(b"s%d" % i for i in range(num_a))
    feature["nodes/a.r"].int64_list.value.extend(range(sum(cells)))
    feature["nodes/a.r.d1"].int64_list.value.extend(rows)
    feature["nodes/a.r.d3"].int64_list.value.extend(cells)
    feature["nodes/a.b"].int64_list.value.extend(rng.choice([0, 1, -3]) for _ in range(num_a))
    feature["nodes/b.#size"].int64_list.value.extend(sizes_b)
    feature["edges/e.#size"].int64_list.value.extend(sizes_e)
    feature["edges/e.#source"].int64_list.value.extend(rng.randrange(num_a) for _ in range(num_edges))
    feature["edges/e.#target"].int64_list.value.extend(rng.randrange(num_b) for _ in range(num_edges))
    feature["edges/e.w"].bytes_list.value.extend(b"w%d" % i for i in range(sum(words)))
    feature["edges/e.w.d1"].int64_list.value.extend(words)
    return proto


def mutate_values(proto, rng):
    features = proto.features.feature
    key = rng.choice(sorted(features))
    feature = features[key]
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value if kind else []
    action = rng.randrange(9)
    if action == 0:
        del features[key]
    elif action == 1:
        feature.Clear()
    elif action == 2:
        feature.int64_list.value.append(rng.choice(NUMBERS))
    elif action == 3:
        other = tf.train.Feature()
        getattr(other, rng.choice(["float_list", "bytes_list", "int64_list"])).value.extend([])
        other.float_list.SetInParent() if rng.random() < 0.5 else other.bytes_list.value.append(b"\xff")
        feature.CopyFrom(other)
    elif action == 4 and len(values) > 1:
        first, second = rng.sample(range(len(values)), 2)
        values[first], values[second] = values[second], values[first]
    elif action == 5:
        feature.CopyFrom(features[rng.choice(sorted(features))])
    elif action in (6, 7) and values and kind == "int64_list":
        values[rng.randrange(len(values))] = rng.choice(NUMBERS)
    elif values:
        del values[rng.randrange(len(values))]


def mutant(rng, num_components):
    if rng.random() < 0.03:
        return rng.choice(GARBAGE)
    proto = valid_example(rng, num_components)
    for _ in range(rng.randint(0, 2)):
        mutate_values(proto, rng)
    serialized = proto.SerializeToString()
    if rng.random() < 0.05:
        # One proto after the other is their union; later values win.
        serialized += valid_example(rng, num_components).SerializeToString()
    damaged = bytearray(serialized)
    if damaged and rng.random() < 0.15:
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    if rng.random() < 0.05:
        del damaged[rng.randrange(len(damaged) + 1) :]
    return bytes(damaged)


def decode_batch(spec, batch):
    """Returns the graphs of a batch; None where one must be refused, NotImplemented where it is unknown."""
    graphs, totals = [], Counter()
    try:
        for serialized in batch:
            decoder = plain.PlainDecoder(spec, serialized)
            graphs.append(decoder.graph())
            for key, (total, limit) in decoder.totals.items():
                totals[key] += total
                plain.refuse_unless(totals[key] <= limit)
    except plain.RefusedError:
        return None
    except (DecodeError, SystemError):
        # TensorFlow reads over some damage that protobuf does not, and never looks at some of it.
        return NotImplemented
    return graphs


def merged(graphs):
    result = {key: [value for graph in graphs for value in graph[key]] for key in graphs[0]}
    for end, node_set in (("#source", "a"), ("#target", "b")):
        starts = itertools.accumulate((sum(graph[f"nodes/{node_set}.#size"]) for graph in graphs), initial=0)
        result[f"edges/e.{end}"] = [
            start + index for start, graph in zip(starts, graphs, strict=False) for index in graph[f"edges/e.{end}"]
        ]
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
    if not isinstance(value, tf.RaggedTensor):
        return value.numpy().tolist()
    # `to_list` takes most of the time of a campaign.
    rows = value.flat_values.numpy().tolist()
    for splits in reversed(value.nested_row_splits):
        rows = [rows[start:end] for start, end in itertools.pairwise(splits.numpy().tolist())]
    return rows


def message_of(error):
    # A function quotes the bytes in TensorFlow's message, and Python cannot always decode them.
    return error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else error.message


def attempt(function, *args):
    """Returns the result of a call and its error, one that the parser raises on purpose or TensorFlow's parser."""
    try:
        return function(*args), None
    except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError) as error:
        # A message of `assert_constraints` would mean that the parser let something pass.
        if not any(words in message_of(error) for words in (*REFUSALS, *NO_PROTO)):
            raise
        return None, error


def compare(found, error, expected, where):
    if expected is NotImplemented:
        return "damaged"
    if expected is None:
        assert error is not None, f"{where} passed for a graph"
        return "refused"
    if error is not None and any(words in message_of(error) for words in NO_PROTO):
        # TensorFlow does not read some unknown fields that protobuf skips.
        return "damaged"
    assert error is None, f"{where} was refused: {error}"
    assert {key: as_lists(value) for key, value in found.items()} == expected, where
    return "parsed"


def transposed(graphs):
    return {key: [graph[key] for graph in graphs] for key in graphs[0]}


def only(graphs):
    return graphs[0]


@pytest.mark.parametrize("name", SPECS)
def test_mutants_hold_what_a_plain_decoder_says(name):
    spec = SPECS[name]
    rng = random.Random(name)

    def checked(graph):
        assert_constraints(graph)
        return fields_of(graph)

    def traced(function):
        return tf.function(function, input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)

    parse_batch = traced(lambda batch: checked(parse_example(spec, batch)))
    parse_merged = traced(lambda batch: checked(parse_and_merge(spec, batch)))
    parse_one = tf.function(
        lambda one: checked(parse_single_example(spec, one)),
        input_signature=[tf.TensorSpec([], tf.string)],
        autograph=False,
    )

    def parse_batch_eagerly(batch):
        return fields_of(parse_example(spec, batch))

    def parse_merged_eagerly(batch):
        return fields_of(parse_and_merge(spec, batch))

    num_components = spec.total_num_components
    num_mutants = math.ceil(NUM_MUTANTS / len(SPECS))
    batches = [
        [valid_example(rng, num_components).SerializeToString(), mutant(rng, num_components)]
        for _ in range(num_mutants)
    ]
    outcomes = Counter()
    for number, batch in enumerate(batches):
        where = f"mutant {number} {batch[1]!r}"
        graphs, last = decode_batch(spec, batch), decode_batch(spec, batch[1:])
        calls = [(parse_batch, batch, transposed), (parse_merged, batch, merged), (parse_one, batch[1], only)]
        if number % 20 == 0:
            calls += [(parse_batch_eagerly, batch, transposed), (parse_merged_eagerly, batch, merged)]
        for parse, serialized, combine in calls:
            expected = last if combine is only else graphs
            if expected not in (None, NotImplemented):
                expected = combine(expected)
            outcome = compare(*attempt(parse, tf.constant(serialized)), expected, where)
        outcomes[outcome] += 1
    print(f"{num_mutants} tf.Examples with {name}: {dict(outcomes)}")  # noqa: T201 - with -s, the campaign tells its figures
    assert set(outcomes) == {"damaged", "parsed", "refused"}


def test_a_dataset_goes_on_after_each_mutant_that_it_refuses():
    spec = SPECS["two components"]
    rng = random.Random(5)
    batches = [[mutant(rng, 2), valid_example(rng, 2).SerializeToString()] for _ in range(NUM_MUTANTS // 4)]
    dataset = tf.data.Dataset.from_tensor_slices(list(itertools.chain(*batches))).batch(2)
    iterator = iter(dataset.map(lambda batch: fields_of(parse_and_merge(spec, batch)), num_parallel_calls=2))
    outcomes = Counter()

    for number, batch in enumerate(batches):
        graphs = decode_batch(spec, batch)
        expected = graphs if graphs in (None, NotImplemented) else merged(graphs)
        outcomes[compare(*attempt(next, iterator), expected, f"mutant {number} {batch[0]!r}")] += 1

    assert next(iterator, None) is None
    print(f"{len(batches)} batches of a dataset: {dict(outcomes)}")  # noqa: T201 - see above
    assert set(outcomes) == {"damaged", "parsed", "refused"}


def test_mutants_that_are_padded_hold_what_a_plain_decoder_says():
    spec = SPECS["one component"]
    target = 64
    budget = SizeConstraints(3, {"a": target, "b": target}, {"e": target})
    rng = random.Random(6)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def parse_padded(batch):
        graph, mask = parse_merge_and_pad(spec, batch, budget)
        assert_constraints(graph)
        return fields_of(graph) | {"mask": mask}

    num_batches = NUM_MUTANTS // 4
    outcomes = Counter()
    for number in range(num_batches):
        batch = [valid_example(rng, 1).SerializeToString(), mutant(rng, 1)]
        graphs = decode_batch(spec, batch)
        expected = graphs if graphs in (None, NotImplemented) else merged(graphs)
        # Latent nodes alone can be too many: nothing stored is as long as the budget.
        if isinstance(expected, dict) and sum(expected["nodes/b.#size"]) >= target:
            expected = None
        found, error = attempt(parse_padded, tf.constant(batch))
        if found is not None and isinstance(expected, dict):
            assert as_lists(found.pop("mask")) == [True, True, False]
            for end, node_set in (("#source", "a"), ("#target", "b")):
                padding = as_lists(found[f"edges/e.{end}"])[len(expected[f"edges/e.{end}"]) :]
                assert min(padding) >= sum(expected[f"nodes/{node_set}.#size"]), f"mutant {number}"
            found = {key: value[: len(expected[key])] for key, value in found.items()}
        outcomes[compare(found, error, expected, f"mutant {number} {batch[1]!r}")] += 1

    print(f"{num_batches} padded batches: {dict(outcomes)}")  # noqa: T201 - see above
    assert set(outcomes) == {"damaged", "parsed", "refused"}

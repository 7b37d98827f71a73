"""Mutated tf.Examples parse into a graph that fits together, or are refused by a clear error."""

import os
import random

import pytest
import tensorflow as tf
from google.protobuf.message import DecodeError

from tfx_gnn.graph.adjacency_spec import AdjacencySpec
from tfx_gnn.graph.example_parsing import parse_and_merge, parse_example
from tfx_gnn.graph.feature_piece_spec import ContextSpec, EdgeSetSpec, NodeSetSpec
from tfx_gnn.graph.graph_assertions import assert_constraints
from tfx_gnn.graph.graph_tensor_spec import GraphTensorSpec

#: The nightly run sets more.
NUM_MUTANTS = int(os.environ.get("TFX_GNN_FUZZ", "600"))

SIZE = tf.TensorSpec([1], tf.int32)
SPEC = GraphTensorSpec.from_piece_specs(
    ContextSpec.from_field_specs(features_spec={"y": tf.TensorSpec([1], tf.int64)}),
    {
        "a": NodeSetSpec.from_field_specs(
            features_spec={
                "x": tf.TensorSpec([None, 2]),
                "s": tf.TensorSpec([None], tf.string),
                "r": tf.RaggedTensorSpec([None, None, 2, None], tf.int64),
            },
            sizes_spec=SIZE,
        ),
        "b": NodeSetSpec.from_field_specs(sizes_spec=SIZE),
    },
    {
        "e": EdgeSetSpec.from_field_specs(
            features_spec={"w": tf.TensorSpec([None])},
            sizes_spec=SIZE,
            adjacency_spec=AdjacencySpec.from_incident_node_sets("a", "b"),
        )
    },
)


def valid_example(rng):
    num_a, num_b, num_edges = rng.randint(0, 3), rng.randint(1, 3), rng.randint(0, 4)
    if num_a == 0:
        num_edges = 0
    rows = [rng.randint(0, 2) for _ in range(num_a)]
    cells = [rng.randint(0, 2) for _ in range(2 * sum(rows))]
    proto = tf.train.Example()
    feature = proto.features.feature
    feature["context/y"].int64_list.value.append(1)
    feature["nodes/a.#size"].int64_list.value.append(num_a)
    feature["nodes/a.x"].float_list.value.extend([0.5] * 2 * num_a)
    feature["nodes/a.s"].bytes_list.value.extend([b"s"] * num_a)
    feature["nodes/a.r"].int64_list.value.extend([7] * sum(cells))
    feature["nodes/a.r.d1"].int64_list.value.extend(rows)
    feature["nodes/a.r.d3"].int64_list.value.extend(cells)
    feature["nodes/b.#size"].int64_list.value.append(num_b)
    feature["edges/e.#size"].int64_list.value.append(num_edges)
    feature["edges/e.#source"].int64_list.value.extend(rng.randrange(num_a) for _ in range(num_edges))
    feature["edges/e.#target"].int64_list.value.extend(rng.randrange(num_b) for _ in range(num_edges))
    feature["edges/e.w"].float_list.value.extend([1.0] * num_edges)
    return proto


def _another_kind(rng):
    feature = tf.train.Feature()
    if rng.random() < 0.5:
        feature.float_list.value.append(1.0)
    else:
        feature.bytes_list.value.append(b"1")
    return feature


def mutate(proto, rng):
    for _ in range(rng.randint(1, 3)):
        key = rng.choice(sorted(proto.features.feature))
        feature = proto.features.feature[key]
        kind = feature.WhichOneof("kind")
        values = getattr(feature, kind).value if kind else []
        action = rng.randrange(6)
        if action == 0:
            del proto.features.feature[key]
        elif action == 1:
            feature.Clear()
        elif action == 2:
            feature.int64_list.value.append(rng.choice([-1, 0, 1, 2, 3, 2**31, 2**63 - 1, -(2**63)]))
        elif action == 3:
            feature.CopyFrom(_another_kind(rng))
        elif action == 4 and values and kind == "int64_list":
            values[rng.randrange(len(values))] = rng.choice([-1, 0, 1, 2, 5, 2**32, 2**32 + 1, 2**62])
        elif values:
            del values[rng.randrange(len(values))]
    serialized = bytearray(proto.SerializeToString())
    if rng.random() < 0.2 and serialized:
        serialized[rng.randrange(len(serialized))] = rng.randrange(256)
    return bytes(serialized[: rng.randrange(len(serialized) + 1)] if rng.random() < 0.1 else serialized)


def stored_size(serialized):
    try:
        proto = tf.train.Example.FromString(serialized)
    except DecodeError:
        # TensorFlow reads over some damage that protobuf does not.
        return None
    return sum(proto.features.feature["nodes/a.#size"].int64_list.value)


@pytest.mark.parametrize("parse", [parse_example, parse_and_merge])
def test_no_mutant_passes_for_a_graph_that_it_is_not(parse):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def parse_and_check(serialized):
        graph = parse(SPEC, serialized)
        assert_constraints(graph)
        graph = graph.merge_batch_to_components()
        return graph.node_sets["a"].sizes, tf.shape(graph.node_sets["a"]["x"]), graph.node_sets["a"]["r"].row_lengths()

    rng = random.Random(8)
    num_parsed = 0
    for _ in range(NUM_MUTANTS):
        batch = [valid_example(rng).SerializeToString(), mutate(valid_example(rng), rng)]
        error = None
        try:
            sizes, shape, rows = parse_and_check(tf.constant(batch))
        except tf.errors.InvalidArgumentError as raised:
            error = raised.message
        except UnicodeDecodeError:
            # TensorFlow quotes the garbage in its message, which Python cannot always decode.
            error = "ParseExampleV2"
        if error is not None:
            # A message of `assert_constraints` would mean that the parser let something pass.
            assert any(
                words in error for words in ("`serialized` must hold", "ParseExampleV2", "Could not parse example")
            )
            continue
        num_parsed += 1
        assert shape.numpy().tolist() == [sum(sizes.numpy()), 2]
        assert len(rows.numpy()) == sum(sizes.numpy())
        expected = [stored_size(example) for example in batch]
        assert expected[1] is None or sizes.numpy().tolist() == expected
    # Some mutants are harmless, such as a feature that nothing reads.
    assert 0 < num_parsed < NUM_MUTANTS

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tfx_gnn.components.graph_evaluator.example_identity import ExampleIdentity
from tfx_gnn.graph.schema.schema_io import parse_schema

ITEMS = """
node_sets { key: "item" value { features { key: "#id" value { dtype: DT_STRING } } } }
node_sets { key: "_readout" value {
  features { key: "label" value { dtype: DT_STRING } } features { key: "time" value { dtype: DT_INT64 } } } }
"""
OF_NODES = ITEMS + 'edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }'
LABEL = "nodes/_readout.label"


def _example(**features):
    example = tf.train.Example()
    for key, values in features.items():
        if isinstance(values[0], bytes):
            example.features.feature[key].bytes_list.value.extend(values)
        else:
            example.features.feature[key].int64_list.value.extend(values)
    return example.SerializeToString()


def _node(*, ids=(b"x", b"seed"), root=1, label=b"red", time=7, **more):
    return _example(
        **{
            "nodes/item.#id": list(ids),
            "edges/_readout/seed.#source": [root],
            LABEL: [label],
            "nodes/_readout.time": [time],
            **more,
        }
    )


def _identify(identity, *records):
    examples = [tf.train.Example.FromString(record).features.feature for record in records]
    return identity.identify(records, examples).tolist()


def test_a_seed_is_the_same_whatever_is_around_it_and_whatever_its_label():
    identity = ExampleIdentity.of(parse_schema(OF_NODES), {LABEL})

    first, fewer, relabelled, later, another = _identify(
        identity,
        _node(),
        _node(ids=(b"seed",), root=0),
        _node(label=b"blue"),
        _node(time=8),
        _node(root=0),
    )

    assert identity.kind == "seed"
    assert first == fewer == relabelled
    assert len({first, later, another}) == 3


def test_edges_are_told_apart_by_their_ends():
    schema = parse_schema(
        ITEMS
        + """node_sets { key: "_shadow/buys" value {} }
        edge_sets { key: "buys" value { source: "item" target: "item" } }
        edge_sets { key: "_readout/seed" value { source: "_shadow/buys" target: "_readout" } }"""
    )
    identity = ExampleIdentity.of(schema, {LABEL})
    ends = {"edges/buys.#source": [1, 0], "edges/buys.#target": [0, 1]}
    swapped = {"edges/buys.#source": [1, 1], "edges/buys.#target": [0, 0]}

    first, same, other = _identify(
        identity, _node(**ends), _node(ids=(b"seed", b"x"), **swapped, root=1), _node(**swapped)
    )

    assert identity.kind == "seed"
    # From x to seed; in the second example these are at 1 and 0.
    assert first == same
    assert other != first


def test_graphs_have_their_own_id_and_anything_else_its_bytes():
    graphs = ExampleIdentity.of(parse_schema('context { features { key: "#id" value { dtype: DT_STRING } } }'), ())
    without_ids = ExampleIdentity.of(parse_schema('node_sets { key: "item" value {} }'), ())
    records = [_example(**{"context/#id": [b"g"], "context/x": [i]}) for i in range(2)]

    assert graphs.kind == "graph"
    assert len(set(_identify(graphs, *records))) == 1
    assert without_ids.kind == ExampleIdentity.of(None, ()).kind == "bytes"
    assert len(set(_identify(without_ids, *records))) == 2


def test_an_example_that_lacks_its_ids_is_identified_by_its_bytes():
    identity = ExampleIdentity.of(parse_schema(OF_NODES), {LABEL})

    hashes = np.asarray(_identify(identity, _node(root=9), _node(root=9, label=b"blue")), np.uint64)

    assert len(set(hashes.tolist())) == 2

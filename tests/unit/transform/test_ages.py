"""Times as ages: values by hand, what lies after the seed, and where an age is refused."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format

from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.transform.feature_preparations import Age, Drop
from tfx_gnn.transform.graph_view import graph_view_from_ragged
from tfx_gnn.transform.ready_preprocessing import plan_features, ready_preprocessing_fn

SCHEMA = """
node_sets { key: "order" value { features { key: "at" value { dtype: DT_INT64 } } } }
node_sets { key: "user" value { features { key: "joined" value { dtype: DT_INT64 } }
                                features { key: "name" value { dtype: DT_STRING } } } }
node_sets { key: "_readout" value { } }
edge_sets { key: "buys" value { source: "user" target: "order"
                                features { key: "at" value { dtype: DT_INT64 } } } }
edge_sets { key: "_readout/seed" value { source: "order" target: "_readout" } }
"""
LAYOUT = graph_layout(text_format.Parse(SCHEMA, GraphSchema()))
AGE = Age(seed_time="at")
NOON = int(dt.datetime(2026, 1, 4, 12, tzinfo=dt.timezone.utc).timestamp())
DAY = 86_400
# Two graphs: the seed of the first is its second order, and that of the second its only one.
TENSORS = {
    "nodes/order.#size": [[2], [1]],
    "nodes/order.at": [[NOON - 9 * DAY, NOON], [NOON + 7 * DAY]],
    "nodes/user.#size": [[2], [0]],
    "nodes/user.joined": [[NOON - DAY // 4, NOON + 1], []],
    "nodes/user.name": [["a", "b"], []],
    "nodes/_readout.#size": [[1], [1]],
    "edges/buys.#size": [[1], [0]],
    "edges/buys.#source": [[0], []],
    "edges/buys.#target": [[1], []],
    "edges/buys.at": [[NOON], []],
    "edges/_readout/seed.#size": [[1], [1]],
    "edges/_readout/seed.#source": [[1], [0]],
    "edges/_readout/seed.#target": [[0], [0]],
}


def prepared(tensors):
    ragged = {
        key: tf.ragged.constant(value, tf.string if key.endswith("name") else tf.int64, ragged_rank=1)
        for key, value in tensors.items()
    }
    features = {
        "nodes/order": {"at": AGE},
        "nodes/user": {"joined": AGE, "name": Drop()},
        "edges/buys": {"at": AGE},
    }
    return ready_preprocessing_fn(features, LAYOUT)(graph_view_from_ragged(ragged, LAYOUT))


def test_ages_are_relative_to_a_time_in_the_context():
    layout = graph_layout(
        text_format.Parse(SCHEMA + 'context { features { key: "time" value { dtype: DT_INT64 } } }', GraphSchema())
    )
    tensors = TENSORS | {"context/time": [[NOON + DAY], [NOON]]}
    ragged = {
        key: tf.ragged.constant(value, tf.string if key.endswith("name") else tf.int64, ragged_rank=1)
        for key, value in tensors.items()
    }
    features = {"context": {"time": Drop()}, "nodes/order": {"at": Age(seed_time="time")}}
    features |= {"nodes/user": {"joined": Drop(), "name": Drop()}, "edges/buys": {"at": Drop()}}

    graph = ready_preprocessing_fn(features, layout)(graph_view_from_ragged(ragged, layout))

    np.testing.assert_allclose(
        graph.node_sets["order"]["at"],
        [
            encoded(days=10, time=NOON - 9 * DAY),
            encoded(days=1, time=NOON),
            [1.0, *[0.0] * 6],
        ],
        atol=1e-5,
    )
    assert list(graph.context) == []


def test_a_time_of_two_places_is_refused():
    both = graph_layout(
        text_format.Parse(SCHEMA + 'context { features { key: "at" value { dtype: DT_INT64 } } }', GraphSchema())
    )

    with pytest.raises(ValueError, match=r"got 'at' for 'nodes/order.at', which both have. Rename one"):
        plan_features({"nodes/order": {"at": AGE}}, both)


def encoded(*, days: float, time: int) -> list[float]:
    turns = [time % length / length for length in (DAY, 7 * DAY)]
    logs = [math.log1p(days) / 4, math.log1p(days * 1440) / 8]
    return [0.0, *logs, *(f(2 * math.pi * turn) for turn in turns for f in (math.sin, math.cos))]


def test_ages_are_relative_to_the_seed_of_each_graph():
    graph = prepared(TENSORS)

    np.testing.assert_allclose(
        graph.node_sets["order"]["at"],
        [
            encoded(days=9, time=NOON - 9 * DAY),
            encoded(days=0, time=NOON),
            encoded(days=0, time=NOON + 7 * DAY),
        ],
        atol=1e-5,
    )
    np.testing.assert_allclose(graph.edge_sets["buys"]["at"], [encoded(days=0, time=NOON)], atol=1e-5)


def test_nothing_is_told_of_times_after_the_seed():
    joined = prepared(TENSORS).node_sets["user"]["joined"].numpy()

    np.testing.assert_allclose(joined[0], encoded(days=0.25, time=NOON - DAY // 4), atol=1e-5)
    np.testing.assert_array_equal(joined[1], [1.0, *[0.0] * 6])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"nodes/user": {"joined": Age(seed_time="joined")}}, r"integer feature of 'order', the seeds, .*\['at'\]"),
        ({"nodes/user": {"name": AGE}}, "got 'age' for 'nodes/user.name', which is string"),
    ],
)
def test_ages_need_the_time_of_the_seed_and_integers(features, message):
    with pytest.raises(ValueError, match=message):
        plan_features(features, LAYOUT)


def test_ages_are_refused_where_subgraphs_have_no_seed_node():
    layout = graph_layout(text_format.Parse(SCHEMA.replace("_readout/seed", "_readout/source"), GraphSchema()))

    with pytest.raises(ValueError, match="`age` must be of subgraphs around one seed node each"):
        plan_features({"nodes/order": {"at": AGE}}, layout)

    in_context = 'context { features { key: "now" value { dtype: DT_INT64 } } }'
    with_time = graph_layout(
        text_format.Parse(SCHEMA.replace("_readout/seed", "_readout/source") + in_context, GraphSchema())
    )
    # The seed is a pair: its time is that of the graph.
    plan_features({"nodes/order": {"at": Age(seed_time="now")}}, with_time)


def test_a_day_has_units():
    with pytest.raises(ValueError, match="`units_per_day` must be at least 1; got 0"):
        Age(seed_time="at", units_per_day=0)

"""Statistics of GraphTransform that a reader can work out, next to the tables that they are taken of.

Five users, four items, what the users buy and whom they know, sampled into five
subgraphs: each shows its seed, ann, and all that the two buy; that of ann shows
everything. So ann counts five times where subgraphs are counted, and once here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.transform.graph_view import GraphView

SCHEMA = """
context { features { key: "day" value { dtype: DT_INT64 } }
          features { key: "sky" value { dtype: DT_STRING } } }
node_sets { key: "user" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "age" value { dtype: DT_FLOAT } }
    features { key: "point" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
    features { key: "city" value { dtype: DT_STRING } }
    features { key: "words" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_INT64 } }
    features { key: "price" value { dtype: DT_FLOAT } }
    features { key: "kind" value { dtype: DT_STRING } }
    features { key: "stock" value { dtype: DT_INT64 } } } }
node_sets { key: "_readout" value {
    features { key: "color" value { dtype: DT_STRING } }
    features { key: "score" value { dtype: DT_FLOAT } } } }
edge_sets { key: "buys" value { source: "user" target: "item"
    features { key: "#id" value { dtype: DT_INT64 } }
    features { key: "count" value { dtype: DT_INT64 } } } }
edge_sets { key: "knows" value { source: "user" target: "user"
    features { key: "#id" value { dtype: DT_INT64 } }
    features { key: "years" value { dtype: DT_FLOAT } } } }
edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }
"""

USERS: dict[str, dict[str, Any]] = {
    "ann": {"age": 10.0, "point": [0.0, 1.0], "city": "oslo", "words": ["red", "hat"]},
    "bob": {"age": 20.0, "point": [0.0, 3.0], "city": "oslo", "words": ["red", "red", "cap"]},
    "cid": {"age": 30.0, "point": [6.0, 1.0], "city": "rome", "words": []},
    "dan": {"age": 40.0, "point": [6.0, 3.0], "city": "rome", "words": ["hat"]},
    "eve": {"age": 50.0, "point": [3.0, 2.0], "city": "kyiv", "words": ["red"]},
}
ITEMS: dict[int, dict[str, Any]] = {
    1: {"price": 1.0, "kind": "toy", "stock": 0},
    2: {"price": 3.0, "kind": "toy", "stock": 5},
    3: {"price": 5.0, "kind": "oslo", "stock": 5},
    4: {"price": 7.0, "kind": "toy", "stock": 10},
}
BUYS = [("ann", 1, 2), ("ann", 2, 4), ("bob", 1, 2), ("cid", 3, 6), ("dan", 4, 8), ("eve", 4, 2)]
KNOWS = [("ann", "bob", 1.0), ("ann", "cid", 2.0), ("ann", "dan", 3.0), ("ann", "eve", 6.0)]
READOUTS = {"ann": ("red", 1.0), "bob": ("red", 2.0), "cid": ("blue", 3.0), "dan": ("red", 4.0), "eve": ("blue", 5.0)}
CONTEXTS = {"ann": (1, "sun"), "bob": (1, "sun"), "cid": (2, "fog"), "dan": (2, "sun"), "eve": (4, "rain")}


def _subgraph(seed: str) -> dict[str, list[Any]]:
    users = [seed, *(name for name in USERS if name != seed and "ann" in (name, seed))]
    buys = [number for number, (user, _, _) in enumerate(BUYS) if user in users]
    items = sorted({BUYS[number][1] for number in buys}, reverse=True)
    knows = [number for number, (_, known, _) in enumerate(KNOWS) if known in users]
    color, score = READOUTS[seed]
    day, sky = CONTEXTS[seed]
    return {
        "context/day": [day],
        "context/sky": [sky],
        "nodes/user.#size": [len(users)],
        "nodes/user.#id": users,
        "nodes/user.age": [USERS[name]["age"] for name in users],
        "nodes/user.point": [number for name in users for number in USERS[name]["point"]],
        "nodes/user.city": [USERS[name]["city"] for name in users],
        "nodes/user.words": [word for name in users for word in USERS[name]["words"]],
        "nodes/user.words.d1": [len(USERS[name]["words"]) for name in users],
        "nodes/item.#size": [len(items)],
        "nodes/item.#id": items,
        "nodes/item.price": [ITEMS[item]["price"] for item in items],
        "nodes/item.kind": [ITEMS[item]["kind"] for item in items],
        "nodes/item.stock": [ITEMS[item]["stock"] for item in items],
        "nodes/_readout.#size": [1],
        "nodes/_readout.color": [color],
        "nodes/_readout.score": [score],
        "edges/buys.#size": [len(buys)],
        "edges/buys.#id": buys,
        "edges/buys.#source": [users.index(BUYS[number][0]) for number in buys],
        "edges/buys.#target": [items.index(BUYS[number][1]) for number in buys],
        "edges/buys.count": [BUYS[number][2] for number in buys],
        "edges/knows.#size": [len(knows)],
        "edges/knows.#id": knows,
        "edges/knows.#source": [users.index("ann")] * len(knows),
        "edges/knows.#target": [users.index(KNOWS[number][1]) for number in knows],
        "edges/knows.years": [KNOWS[number][2] for number in knows],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }


class _Case(NamedTuple):
    prefix: str
    expected: Any
    make: Callable[[GraphView], Any]


CASES: dict[str, _Case] = {}


def feature(prefix: str, expected: list[Any]) -> Callable[..., Any]:
    """A new feature of a set, with its values in the order of the tables above."""

    def register(make: Callable[[GraphView], Any]) -> Callable[[GraphView], Any]:
        CASES[make.__name__] = _Case(prefix, expected, make)
        return make

    return register


def statistic(expected: Any) -> Callable[..., Any]:
    """A statistic on its own; every graph's context gets it."""

    def register(make: Callable[[GraphView], Any]) -> Callable[[GraphView], Any]:
        def everywhere(graph: GraphView) -> tf.RaggedTensor:
            values = tf.reshape(make(graph), [-1])
            values = values if values.dtype == tf.string else tf.cast(values, tf.float32)
            num_graphs = tf.size(graph.context["day"], tf.int64)
            splits = tf.range(num_graphs + 1) * tf.size(values, tf.int64)
            return tf.RaggedTensor.from_row_splits(tf.tile(values, [num_graphs]), splits, validate=False)

        CASES[make.__name__] = _Case("context", [np.ravel(expected).tolist()] * len(USERS), everywhere)
        return make

    return register


def preprocessing_fn(graph: GraphView) -> GraphView:
    """All the cases at once."""
    made: dict[str, dict[str, Any]] = {}
    for name, case in CASES.items():
        made.setdefault(case.prefix, {})[name] = case.make(graph)
    nodes, edges = (
        {
            name: {**({"#id": sets[name]["#id"]} if "#id" in sets[name] else {}), **made.get(f"{kind}/{name}", {})}
            for name in sets
        }
        for kind, sets in (("nodes", graph.node_sets), ("edges", graph.edge_sets))
    )
    return graph.replace_features(context=made["context"], node_sets=nodes, edge_sets=edges)


# Age is 10, 20, 30, 40 and 50.


@statistic(30.0)
def mean_age(graph: GraphView) -> Any:
    """150 / 5; over the subgraphs it would be (5 * 10 + 2 * 140) / 13 = 25.4."""
    return tft.mean(graph.node_sets["user"]["age"])


@statistic(200.0)
def variance_of_age(graph: GraphView) -> Any:
    """(400 + 100 + 0 + 100 + 400) / 5."""
    return tft.var(graph.node_sets["user"]["age"])


@statistic([10.0, 50.0, 150.0, 5.0])
def bounds_sum_and_number_of_ages(graph: GraphView) -> Any:
    """Of five users."""
    age = graph.node_sets["user"]["age"]
    return tf.stack([tft.min(age), tft.max(age), tft.sum(age), tf.cast(tft.size(age), tf.float32)])


@feature("nodes/user", [-math.sqrt(2), -math.sqrt(0.5), 0.0, math.sqrt(0.5), math.sqrt(2)])
def z_score_of_age(graph: GraphView) -> Any:
    """(10 - 30) / sqrt(200) = -sqrt(400 / 200), (20 - 30) / sqrt(200) = -sqrt(100 / 200), and so on."""
    return tft.scale_to_z_score(graph.node_sets["user"]["age"])


@feature("nodes/user", [-1.0, -0.5, 0.0, 0.5, 1.0])
def age_from_minus_one_to_one(graph: GraphView) -> Any:
    """10 is -1, 50 is 1."""
    return tft.scale_by_min_max(graph.node_sets["user"]["age"], output_min=-1.0, output_max=1.0)


@feature("nodes/user", [0, 0, 1, 1, 1])
def age_in_two_buckets(graph: GraphView) -> Any:
    """The median 30 parts them, and begins the second."""
    return tft.bucketize(graph.node_sets["user"]["age"], num_buckets=2)


@statistic([20.0, 30.0, 40.0])
def quartiles_of_age(graph: GraphView) -> Any:
    """Of 5 values in ascending order those with 1, 2 and 3 below them: 5 / 4, 5 / 2 and 15 / 4 without fraction."""
    return tft.quantiles(graph.node_sets["user"]["age"], num_buckets=4, epsilon=0.001)


@feature("nodes/user", [0, 1, 1, 1, 2])
def age_in_buckets_of_mine(graph: GraphView) -> Any:
    """Below 20; from 20 to below 50; from 50."""
    return tft.apply_buckets(graph.node_sets["user"]["age"], [[20.0, 50.0]])


@statistic([2.0, 2.0, 1.0])
def histogram_of_age(graph: GraphView) -> Any:
    """10 and 20 in [0, 25), 30 and 40 in [25, 45), 50 in [45, 60)."""
    return tft.histogram(graph.node_sets["user"]["age"], boundaries=[0.0, 25.0, 45.0, 60.0])[0]


# The first number of `point` is 0, 0, 6, 6, 3: mean 3, variance 36 / 5. The second is 1, 3, 1, 3, 2: mean 2,
# variance 4 / 5. Their products of differences, 3, -3, -3, 3 and 0, cancel.


@feature(
    "nodes/user", [[x / math.sqrt(7.2), y / math.sqrt(0.8)] for x, y in [(-3, -1), (-3, 1), (3, -1), (3, 1), (0, 0)]]
)
def z_score_of_each_dimension(graph: GraphView) -> Any:
    """Dimension by dimension."""
    return tft.scale_to_z_score(graph.node_sets["user"]["point"], elementwise=True)


@feature("nodes/user", [[(x - 2.5) / math.sqrt(4.25) for x in user["point"]] for user in USERS.values()])
def z_score_of_all_dimensions_together(graph: GraphView) -> Any:
    """Ten numbers: sum 15 + 10, sum of squares 81 + 24; mean 2.5, variance 105 / 10 - 6.25."""
    return tft.scale_to_z_score(graph.node_sets["user"]["point"])


@feature("nodes/user", [[0, 0], [0, 1], [1, 0], [1, 1], [0.5, 0.5]])
def each_dimension_from_zero_to_one(graph: GraphView) -> Any:
    """0 to 6 and 1 to 3."""
    return tft.scale_to_0_1(graph.node_sets["user"]["point"], elementwise=True)


@statistic([[3.0, 2.0], [6.0, 3.0]])
def means_and_maxima_by_dimension(graph: GraphView) -> Any:
    """Two dimensions, two numbers."""
    point = graph.node_sets["user"]["point"]
    return tf.stack([tft.mean(point, reduce_instance_dims=False), tft.max(point, reduce_instance_dims=False)])


@statistic([[7.2, 0.0], [0.0, 0.8]])
def covariance_of_dimensions(graph: GraphView) -> Any:
    """Divided by 5, not by 4."""
    return tft.covariance(graph.node_sets["user"]["point"], tf.float32)


@feature("nodes/user", [[0.0], [0.0], [6.0], [6.0], [3.0]])
def first_principal_component(graph: GraphView) -> Any:
    """The axis with the variance 7.2; its direction is free, its length is 1."""
    point = graph.node_sets["user"]["point"]
    return tf.abs(tf.matmul(point, tft.pca(point, output_dim=1, dtype=tf.float32)))


# City: oslo and rome twice, kyiv once. Of equally frequent words the greater one comes first.


@feature("nodes/user", [1, 1, 0, 0, 2])
def city_by_frequency(graph: GraphView) -> Any:
    """Rome, oslo, kyiv; over the subgraphs oslo would lead."""
    return tft.compute_and_apply_vocabulary(graph.node_sets["user"]["city"], vocab_filename="city")


@feature("nodes/user", [1, 1, 0, 0, 2])
def two_cities_and_the_rest(graph: GraphView) -> Any:
    """Kyiv falls into the one bucket behind the two."""
    return tft.compute_and_apply_vocabulary(graph.node_sets["user"]["city"], top_k=2, num_oov_buckets=1)


@feature("nodes/user", [1, 1, 0, 0, 7])
def frequent_cities(graph: GraphView) -> Any:
    """Kyiv is not there twice."""
    return tft.compute_and_apply_vocabulary(graph.node_sets["user"]["city"], frequency_threshold=2, default_value=7)


@feature("nodes/user", [4, 4, 2, 2, 3])
def cities_by_weight_behind_reserved_words(graph: GraphView) -> Any:
    """Ages add up to 30 in oslo, 70 in rome and 50 in kyiv; positions 0 and 1 are reserved."""
    user = graph.node_sets["user"]
    return tft.compute_and_apply_vocabulary(user["city"], weights=user["age"], reserved_tokens=["[PAD]", "[MASK]"])


@statistic(["kyiv", "oslo", "rome"])
def distinct_cities(graph: GraphView) -> Any:
    """In alphabetical order."""
    return tft.count_per_key(graph.node_sets["user"]["city"])[0]


@statistic([1.0, 2.0, 2.0])
def users_by_city(graph: GraphView) -> Any:
    """In the order of `distinct_cities`."""
    return tft.count_per_key(graph.node_sets["user"]["city"])[1]


@feature("nodes/user", [-1.0, 1.0, -1.0, 1.0, 0.0])
def age_scaled_within_city(graph: GraphView) -> Any:
    """Oslo: mean 15, deviation 5; rome: mean 35, deviation 5; kyiv: nothing but 50."""
    user = graph.node_sets["user"]
    return tft.scale_to_z_score_per_key(user["age"], key=user["city"])


@feature("nodes/user", [0.0, 4.0, 0.0, 4.0, 4.0])
def age_from_zero_to_four_within_city(graph: GraphView) -> Any:
    """The younger and the older of oslo and of rome. Kyiv has one age, so its part of 4 is 1 / (1 + exp(-50))."""
    user = graph.node_sets["user"]
    return tft.scale_by_min_max_per_key(user["age"], key=user["city"], output_min=0.0, output_max=4.0)


# Words: red, hat; red, red, cap; none; hat; red. So red 4 times by 3 of 5 users, hat twice by 2, cap once by 1.


@feature("nodes/user", [[0, 1], [0, 0, 2], [], [1], [0]])
def words_by_frequency(graph: GraphView) -> Any:
    """Red, hat, cap."""
    return tft.compute_and_apply_vocabulary(graph.node_sets["user"]["words"], vocab_filename="words")


_IDF = [1 + math.log(6 / 4), 1 + math.log(6 / 3), 1 + math.log(6 / 2)]  # (5 users + 1) / (users with the word + 1)


@feature("nodes/user", [[_IDF[0] / 2, _IDF[1] / 2], [_IDF[0] * 2 / 3, _IDF[2] / 3], [], [_IDF[1]], [_IDF[0]]])
def tf_idf_of_words(graph: GraphView) -> Any:
    """Share of the word among the user's own, times its rarity; repetitions become one."""
    words = tft.compute_and_apply_vocabulary(graph.node_sets["user"]["words"])
    return tft.tfidf(words.to_sparse(), vocab_size=3)[1]


@statistic([1, 2, 4, 1, 1, 1])
def words_and_pairs_of_words(graph: GraphView) -> Any:
    """Cap, hat, red, red cap, red hat, red red."""
    words = tft.ngrams(graph.node_sets["user"]["words"].to_sparse(), ngram_range=(1, 2), separator=" ")
    return tft.count_per_key(words)[1]


@feature("nodes/user", [["red", "hat"], ["red", "cap"], [], ["hat"], ["red"]])
def bags_of_words(graph: GraphView) -> Any:
    """Each word once a user."""
    words = graph.node_sets["user"]["words"]
    return tft.bag_of_words(words.to_sparse(), ngram_range=(1, 1), separator=" ")


@statistic(1.4)
def mean_number_of_words(graph: GraphView) -> Any:
    """2 + 3 + 0 + 1 + 1 words of 5 users."""
    return tft.mean(tft.word_count(graph.node_sets["user"]["words"]))


# Price is 1, 3, 5, 7; stock 0, 5, 5, 10; kind toy, toy, oslo, toy.


@feature("nodes/item", [0.0, 1 / 3, 2 / 3, 1.0])
def price_from_zero_to_one(graph: GraphView) -> Any:
    """1 to 7."""
    return tft.scale_to_0_1(graph.node_sets["item"]["price"])


@feature("nodes/item", [0.0, 0.5, 0.5, 1.0])
def whole_numbers_from_zero_to_one(graph: GraphView) -> Any:
    """0 to 10, int64 in, float out."""
    return tft.scale_to_0_1(graph.node_sets["item"]["stock"])


@statistic([20, 0, 10])
def sum_and_bounds_of_whole_numbers(graph: GraphView) -> Any:
    """0 + 5 + 5 + 10."""
    stock = graph.node_sets["item"]["stock"]
    return tf.stack([tft.sum(stock), tft.min(stock), tft.max(stock)])


@statistic([1, 1, 2])
def histogram_of_classes(graph: GraphView) -> Any:
    """0 once, 10 once, 5 twice: classes are in alphabetical order."""
    return tft.histogram(graph.node_sets["item"]["stock"], categorical=True)[0]


@feature("nodes/item", [1, 1, 0, 1])
def same_bucket_for_same_word(graph: GraphView) -> Any:
    """Equal words share a bucket; which one is not said."""
    buckets = tft.hash_strings(graph.node_sets["item"]["kind"], 1000)
    return tf.cast(buckets == tf.strings.to_hash_bucket_fast("toy", 1000), tf.int64)


# Two sets at once: among cities and kinds are toy 3 times, oslo 2 + 1 times, rome twice, kyiv once.


@feature("nodes/user", [1, 1, 2, 2, 3])
def city_in_a_vocabulary_of_two_sets(graph: GraphView) -> Any:
    """Toy 0, oslo 1, rome 2, kyiv 3; the other set would be looked up in the same file."""
    city, kind = graph.node_sets["user"]["city"], graph.node_sets["item"]["kind"]
    return tft.apply_vocabulary(city, tft.vocabulary(tf.concat([city, kind], axis=0), vocab_filename="shared"))


@statistic(166 / 9)
def mean_over_two_sets(graph: GraphView) -> Any:
    """150 of five users and 16 of four items."""
    return tft.mean(tf.concat([graph.node_sets["user"]["age"], graph.node_sets["item"]["price"]], axis=0))


# Chains and casts.


@feature("nodes/user", [(bucket - 0.6) / math.sqrt(0.24) for bucket in (0, 0, 1, 1, 1)])
def z_score_of_buckets(graph: GraphView) -> Any:
    """Buckets 0, 0, 1, 1, 1: mean 0.6, variance 0.6 * 0.4."""
    return tft.scale_to_z_score(tft.bucketize(graph.node_sets["user"]["age"], num_buckets=2))


@feature("nodes/item", [0.0, 0.5, 0.5, 1.0])
def share_of_the_largest(graph: GraphView) -> Any:
    """A cast before the statistic, and one after it."""
    stock = tf.cast(graph.node_sets["item"]["stock"], tf.float64)
    return tf.cast(stock / tft.max(stock), tf.float32)


# Edges: counts 2, 4, 2, 6, 8, 2; years 1, 2, 3, 6.


@statistic([4.0, 24.0, 16 / 3])
def mean_sum_and_variance_of_edges(graph: GraphView) -> Any:
    """(4 + 0 + 4 + 4 + 16 + 4) / 6; what ann buys is in every subgraph, and counts once."""
    count = tf.cast(graph.edge_sets["buys"]["count"], tf.float32)
    return tf.stack([tft.mean(count), tft.sum(count), tft.var(count)])


@feature("edges/buys", [0, 3, 0, 2, 1, 0])
def counts_in_a_vocabulary_of_numbers(graph: GraphView) -> Any:
    """2 is the most frequent; then 8, 6, 4."""
    return tft.compute_and_apply_vocabulary(graph.edge_sets["buys"]["count"])


@feature("edges/knows", [year / math.sqrt(3.5) for year in (-2, -1, 0, 3)])
def z_score_of_edges(graph: GraphView) -> Any:
    """Mean 3, variance (4 + 1 + 0 + 9) / 4."""
    return tft.scale_to_z_score(graph.edge_sets["knows"]["years"])


# Readouts and contexts: one in each of five examples.


@feature("nodes/_readout", [0, 0, 1, 0, 1])
def label(graph: GraphView) -> Any:
    """Red three times, blue twice."""
    return tft.compute_and_apply_vocabulary(graph.node_sets["_readout"]["color"], vocab_filename="color")


@feature("nodes/_readout", [-2.0, -1.0, 0.0, 1.0, 2.0])
def score_from_its_mean(graph: GraphView) -> Any:
    """1 to 5."""
    score = graph.node_sets["_readout"]["score"]
    return score - tft.mean(score)


@feature("context", [-1.0, -1.0, 0.0, 0.0, 2.0])
def day_from_its_mean(graph: GraphView) -> Any:
    """Days 1, 1, 2, 2, 4; equal contexts of two examples are two."""
    day = tf.cast(graph.context["day"], tf.float32)
    return day - tft.mean(day)


@feature("context", [0, 0, 2, 0, 1])
def sky(graph: GraphView) -> Any:
    """Sun 3, then rain and fog, the greater word first."""
    return tft.compute_and_apply_vocabulary(graph.context["sky"])


# Several sets: statistics of items alone, used along edges.


@feature("nodes/user", [-2.0, -3.0, 1.0, 3.0, 3.0])
def price_of_what_is_bought_from_the_mean(graph: GraphView) -> Any:
    """Ann buys for (1 + 3) / 2 on average, the others buy one item; the mean of items is 4."""
    item, buys = graph.node_sets["item"], graph.edge_sets["buys"]
    centred = tf.gather(item["price"] - tft.mean(item["price"]), buys.adjacency.target)
    return tf.math.unsorted_segment_mean(centred, buys.adjacency.source, graph.node_sets["user"].total_size)


@feature("nodes/user", [2, 1, 1, 1, 1])
def number_of_items_bought(graph: GraphView) -> Any:
    """Edges by source."""
    buys = graph.edge_sets["buys"]
    ones = tf.ones_like(buys.adjacency.source)
    return tf.math.unsorted_segment_sum(ones, buys.adjacency.source, graph.node_sets["user"].total_size)


# A statistic of one's own.


class _Median(beam.PTransform):
    def expand(self, input_or_inputs: Any) -> Any:
        """Batches of values to the one in the middle."""
        return (
            input_or_inputs
            | beam.FlatMap(lambda batch: batch[0].tolist())
            | beam.combiners.ToList()
            | beam.Map(lambda values: np.float32(np.median(values)))
        )


@statistic(2.5)
def median_by_a_transform_of_mine(graph: GraphView) -> Any:
    """Years 1, 2, 3 and 6."""
    years = graph.edge_sets["knows"]["years"]
    return tft.experimental.ptransform_analyzer([years], _Median(), [tf.float32], [[]])[0]


def statistics_as_sampled(graph: GraphView) -> GraphView:
    """What takes subgraphs as they are: occurrences, and values of two sets side by side."""
    ages = graph.node_sets["user"]["age"]
    day, score = tf.cast(graph.context["day"], tf.float32), graph.node_sets["_readout"]["score"]
    covariance = tft.mean(day * score) - tft.mean(day) * tft.mean(score)
    return graph.replace_features(
        context={"mean_age": tft.mean(ages) + 0 * day, "day_beside_score": covariance + 0 * day},
        node_sets={"user": {"words": tft.compute_and_apply_vocabulary(graph.node_sets["user"]["words"])}},
    )


@pytest.fixture(scope="module")
def transform(write_examples, read_examples, tmp_path_factory):
    """Transforms the examples, which come from two files, and gives them in the order of the users."""

    def run(function: str, **options: Any) -> list[dict[str, list[Any]]]:
        folder = tmp_path_factory.mktemp("by_hand")
        names = list(USERS)
        shards = [[_subgraph(name) for name in names[:2]], [_subgraph(name) for name in names[2:]]]
        examples_dir = write_examples(str(folder / "examples"), {"train": shards}, SCHEMA)
        transform_graphs(
            examples_dir=examples_dir,
            graph_schema_dir=examples_dir,
            transform_graph_dir=str(folder / "transform_graph"),
            transformed_examples_dir=str(folder / "transformed"),
            transformed_graph_schema_dir=str(folder / "schema"),
            options=GraphTransformOptions(preprocessing_fn=f"{__name__}:{function}", **options),
        )
        return read_examples(str(folder / "transformed"), "train")

    return run


@pytest.fixture(scope="module")
def transformed(transform):
    return transform("preprocessing_fn")


def _rows(content: dict[str, list[Any]], prefix: str, name: str) -> list[list[Any]]:
    """The values of each item."""
    key = f"{prefix}/{name}" if prefix == "context" else f"{prefix}.{name}"
    num_items = 1 if prefix == "context" else content[f"{prefix}.#size"][0]
    values = [value.decode() if isinstance(value, bytes) else value for value in content[key]]
    width = len(values) // num_items if num_items else 0
    splits = np.cumsum([0, *content.get(f"{key}.d1", [width] * num_items)])
    return [values[begin:end] for begin, end in itertools.pairwise(splits)]


@pytest.mark.parametrize("name", CASES)
def test_every_statistic_is_what_a_reader_works_out(transformed, name):
    prefix, expected, _ = CASES[name]
    tables = {"nodes/user": [user.encode() for user in USERS], "nodes/item": list(ITEMS)}
    ids = tables.get(prefix, list(range(len(expected))))

    found: dict[Any, list[list[Any]]] = {item_id: [] for item_id in ids}
    for number, content in enumerate(transformed):
        item_ids = content.get(f"{prefix}.#id", [number])
        for item_id, row in zip(item_ids, _rows(content, prefix, name), strict=True):
            found[item_id].append(row)

    for item_id, value in zip(ids, expected, strict=True):
        row = np.ravel(value).tolist()
        assert found[item_id]
        for shown in found[item_id]:
            if row and not isinstance(row[0], str):
                np.testing.assert_allclose(shown, row, rtol=1e-6, atol=1e-6)
            else:
                assert shown == row


def test_ann_is_in_every_subgraph(transformed):
    users = [user for content in transformed for user in content["nodes/user.#id"]]

    assert len(users) == 13
    assert users.count(b"ann") == 5


def test_subgraphs_may_be_taken_as_they_are(transform):
    content = transform("statistics_as_sampled", analyze="as_sampled")[0]

    # Ann's 10 in five subgraphs, the other 140 in two each: 330 / 13.
    np.testing.assert_allclose(content["context/mean_age"], [330 / 13], rtol=1e-6)
    # Days 1, 1, 2, 2, 4 with scores 1 to 5: (1 + 2 + 6 + 8 + 20) / 5 - 2 * 3.
    np.testing.assert_allclose(content["context/day_beside_score"], [1.4], rtol=1e-5)
    # Hat 5 + 2 times, red 5 + 2 * 2 + 2 times, cap twice.
    assert content["nodes/user.words"][:2] == [0, 1]

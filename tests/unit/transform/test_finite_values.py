from __future__ import annotations

import logging
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.records.examples_folder import RecordFile
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.transform.finite_values import (
    BatchPlaces,
    NumberCounts,
    NumberPlace,
    check_finite,
    merge_counts,
)

NAN, INF = float("nan"), float("inf")
SCHEMA = """
node_sets { key: "item" value {
    features { key: "#id" value { dtype: DT_STRING } }
    features { key: "price" value { dtype: DT_FLOAT } }
    features { key: "weight" value { dtype: DT_FLOAT } } } }
node_sets { key: "_readout" value { features { key: "label" value { dtype: DT_FLOAT } } } }
"""


def example(ids, prices, weights=None):
    """Items, and a label that is missing."""
    return {
        "nodes/item.#size": [len(ids)],
        "nodes/item.#id": ids,
        "nodes/item.price": prices,
        "nodes/item.weight": weights or [1.0] * len(ids),
        "nodes/_readout.#size": [1],
        "nodes/_readout.label": [NAN],
    }


def logarithm(graph):
    """No statistics."""
    item = graph.node_sets["item"]
    logarithms = {"log": tf.math.log(item["price"]), "weight": item["weight"]}
    return graph.replace_features(node_sets={"item": logarithms})


def z_score(graph):
    """One value that is none spoils mean and variance of all."""
    item = graph.node_sets["item"]
    scores = {"score": tft.scale_to_z_score(tf.math.log(item["price"]) * item["weight"]), "weight": item["weight"]}
    return graph.replace_features(node_sets={"item": scores})


@pytest.fixture
def transform(write_examples, tmp_path):
    """Runs GraphTransform on two files of training and one of validation."""

    def run(train, preprocessing_fn, *, schema=SCHEMA, shared=None, out="", **options):
        first, last = ({**example(name, [number]), **(shared or {})} for name, number in ((["a"], 1.0), (["v"], 2.0)))
        splits = {"train": [[first], train], "val": [[last]]}
        examples_dir = write_examples(str(tmp_path / f"examples{out}"), splits, schema)
        transform_graphs(
            examples_dir=examples_dir,
            graph_schema_dir=examples_dir,
            transform_graph_dir=str(tmp_path / f"transform_graph{out}"),
            transformed_examples_dir=str(tmp_path / f"transformed{out}"),
            transformed_graph_schema_dir=str(tmp_path / f"schema{out}"),
            options=GraphTransformOptions(preprocessing_fn=f"{__name__}:{preprocessing_fn}", **options),
        )

    return run


def test_logarithm_of_zero_is_refused_where_it_is(transform, tmp_path):
    with pytest.raises(ValueError, match="must give finite numbers") as error:
        transform([example(["b"], [5.0]), example(["c", "d", "e"], [3.0, 0.0, -1.0])], "logarithm")

    message = str(error.value)
    assert "'nodes/item.log' with 1 NaN, 1 -inf of 6 values, first -inf in record 1 of " in message
    assert "(split 'train'), item 'd', made of 'nodes/item.price', whose lowest value is -1.0 in record 1 of" in message
    assert "item 'e'" in message
    assert "weight" not in message
    assert "tf.maximum(x, 0.0)" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["examples"]


def test_statistic_that_is_none_tells_what_it_was_taken_of(transform):
    with pytest.raises(ValueError, match="must give finite numbers") as error:
        transform([example(["b", "c"], [3.0, 4.0], [1.0, NAN])], "z_score", nonfinite_features=("nodes/item.weight",))

    # tf.Transform passes over NaN in means: one item is none, and the raw feature with it is named.
    assert re.search(
        r"'nodes/item.score' with 1 NaN of 4 values, first nan in record 0 .*item 'c', made of "
        r"'nodes/item.weight' with 1 NaN of 4 values",
        str(error.value),
    )


def test_all_values_of_a_spoilt_statistic_are_said_to_be_so():
    place = NumberPlace(split="train", shard=0, record=3, text="nan in record 3")
    lowest = NumberPlace(value=0.0, split="train", shard=0, record=5, text="0.0 in record 5")
    counts = NumberCounts(num_values=9, num_nan=9, first=(place,))

    with pytest.raises(
        ValueError, match=r"such as a mean, may itself be NaN, made of 'price', whose lowest value is 0\.0 in record 5"
    ):
        check_finite(
            {"score": counts},
            {"price": NumberCounts(num_values=9, lowest=(lowest,)), "weight": NumberCounts(num_values=9)},
            allowed=(),
            made_of=lambda _: ("price", "weight", "nodes/item.#size"),
        )


def test_feature_that_is_allowed_passes_and_is_logged(transform, caplog, read_examples, tmp_path):
    with caplog.at_level(logging.WARNING):
        transform([example(["b"], [0.0])], "logarithm", nonfinite_features=("nodes/item.log",))

    assert "'nodes/item.log' has values that are not finite: 1 -inf of 3 values" in caplog.text
    transformed = read_examples(str(tmp_path / "transformed"), "train")
    assert [content["nodes/item.log"] for content in transformed] == [[0.0], [-INF]]


def test_features_that_may_be_none_are_known_before_any_example_is_read(transform, tmp_path):
    with pytest.raises(
        ValueError,
        match=r"`nonfinite_features` must be .* got \['nodes/item.#id', 'nodes/item.lgo'\]. Known are .*'nodes",
    ):
        # Nothing that could be parsed.
        transform([{}], "logarithm", nonfinite_features=("nodes/item.lgo", "nodes/item.#id"))


def test_label_of_a_graph_may_be_missing(transform):
    marked = 'context { features { key: "fee" value { dtype: DT_FLOAT } } metadata { extra {%s} } }'
    train = [{**example(["a"], [1.0]), "context/fee": [NAN]}]

    transform(
        train, "logarithm", schema=SCHEMA + marked % 'key: "label_feature" value: "fee"', shared={"context/fee": [1.0]}
    )
    with pytest.raises(ValueError, match="must give finite numbers; got 'context/fee' with 1 NaN of 3 values"):
        transform(train, "logarithm", schema=SCHEMA + marked % 'key: "x"', shared={"context/fee": [1.0]}, out="2")


def test_many_features_are_not_all_described():
    place = NumberPlace(split="train", shard=0, record=3, text="nan in record 3")
    counts = NumberCounts(num_values=9, num_nan=2, first=(place,))

    with pytest.raises(ValueError, match=r"'f4' with 2 NaN of 9 values, first nan in record 3; and 2 features more\."):
        check_finite({f"f{i}": counts for i in range(7)}, {}, allowed=(), made_of=lambda _: ())


def test_places_are_found_through_ragged_rows_and_counts_add_up(make_record):
    from google.protobuf import text_format

    from tfx_gnn.graph.proto import graph_schema_pb2

    layout = graph_layout(text_format.Parse(SCHEMA, graph_schema_pb2.GraphSchema()))
    records = [make_record(example(ids, [1.0] * len(ids))) for ids in (["a"], ["b", "c"])]
    places = BatchPlaces(
        file=RecordFile(path="/data/f.gz", split="train", shard=2, num_shards=3),
        first_record=10,
        records=records,
        one_set=layout.set_by_prefix["nodes/item"],
        item_splits=np.array([0, 1, 3]),
    )

    # Item "a" has a row of two pairs, "b" none, "c" one.
    counts = places.count(np.array([[1.0, 2.0], [3.0, 4.0], [-5.0, INF]]), [np.array([0, 2, 2, 3])], finds_lowest=True)

    (first,), (lowest,) = counts.first, counts.lowest
    assert (first.record, first.shard, first.text) == (11, 2, "inf in record 11 of f.gz (split 'train'), item 'c'")
    assert (lowest.value, lowest.record) == (-5.0, 11)
    earlier = NumberCounts(num_values=1, num_nan=1, first=(NumberPlace(split="train", shard=0, record=90, text=""),))
    merged = merge_counts([{"x": counts}, {"x": earlier}])["x"]
    assert (merged.num_values, merged.num_nan, merged.num_infinite, merged.num_nonfinite) == (7, 1, 1, 2)
    assert merged.first == earlier.first
    assert merged.lowest == counts.lowest

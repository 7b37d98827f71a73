"""Declared features: what is refused before any data is read, and every kind once on data, with values by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format

from tfx_gnn.components.graph_transform.options import GraphTransformOptions
from tfx_gnn.components.graph_transform.stage import transform_graphs
from tfx_gnn.graph.proto.graph_schema_pb2 import GraphSchema
from tfx_gnn.graph.reserved_names import default_vocabulary_name
from tfx_gnn.graph.schema.feature_defaults import feature_defaults
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.io.options_json import from_json, to_json
from tfx_gnn.records.graph_layout import graph_layout
from tfx_gnn.transform.feature_preparations import (
    Bucketize,
    Drop,
    Features,
    Hash,
    Keep,
    Log1pZScore,
    MinMax,
    Number,
    Text,
    Vocabulary,
    ZScore,
)
from tfx_gnn.transform.ready_preprocessing import plan_features

SCHEMA = """
context { features { key: "day" value { dtype: DT_INT64 } } }
node_sets { key: "user" value {
  features { key: "#id" value { dtype: DT_STRING } }
  features { key: "age" value { dtype: DT_INT64 } }
  features { key: "city" value { dtype: DT_STRING } }
  features { key: "code" value { dtype: DT_INT64 } }
  features { key: "level" value { dtype: DT_INT64 } }
  features { key: "note" value { dtype: DT_STRING } }
  features { key: "point" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "spent" value { dtype: DT_FLOAT } }
  features { key: "structure_label" value { dtype: DT_INT64 } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
  features { key: "visits" value { dtype: DT_INT64 } } } }
node_sets { key: "shop" value {
  features { key: "about" value { dtype: DT_STRING } }
  features { key: "area" value { dtype: DT_FLOAT } }
  features { key: "floors" value { dtype: DT_INT64 } }
  features { key: "nowhere" value { dtype: DT_INT64 } }
  features { key: "open" value { dtype: DT_INT64 } }
  features { key: "place" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "sales" value { dtype: DT_FLOAT } }
  metadata { cardinality: 4 extra { key: "default.floors" value: "-1073741824" } } } }
node_sets { key: "_readout" value { features { key: "color" value { dtype: DT_STRING } } } }
edge_sets { key: "knows" value { source: "user" target: "user" features { key: "years" value { dtype: DT_FLOAT } } } }
edge_sets { key: "_readout/seed" value { source: "user" target: "_readout" } }
"""
LAYOUT = graph_layout(text_format.Parse(SCHEMA, GraphSchema()))


def declared(text):
    return from_json(text, Features, name="features")


def test_the_name_of_a_kind_stands_for_one_without_fields():
    features = declared('{"nodes/user": {"age": "z_score", "city": {"kind": "vocabulary", "top_k": 5}}}')

    assert features == {"nodes/user": {"age": ZScore(), "city": Vocabulary(top_k=5)}}
    assert declared(to_json(features)) == features


def test_what_is_not_declared_gets_a_default_by_type():
    plan = plan_features({"nodes/user": {"note": Drop()}}, LAYOUT)

    assert plan == {
        "context": {"day": ZScore()},
        "nodes/user": {
            "#id": Keep(),
            "age": ZScore(),
            "city": Vocabulary(),
            "code": ZScore(),
            "level": ZScore(),
            "note": Drop(),
            "point": ZScore(),
            "spent": ZScore(),
            "structure_label": Keep(),
            "tags": Vocabulary(),
            "visits": ZScore(),
        },
        "nodes/shop": {"about": Vocabulary()}
        | {name: ZScore() for name in ("area", "floors", "nowhere", "open", "place", "sales")},
        "nodes/_readout": {"color": Keep()},
        "edges/knows": {"years": ZScore()},
        "edges/_readout/seed": {},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"nodes/user": {"age": "z-score"}}', r"`nodes/user.age.kind` must be one of .*; got 'z-score' in `features`"),
        ('{"nodes/user": {"age": "z-score"}}', r"Did you mean 'z_score'\?"),
        ('{"nodes/user": {"age": "bucketize"}}', r"`nodes/user.age.num_buckets` must be given for a Bucketize"),
        ('{"nodes/user": {"age": {"kind": "bucketize", "num_buckets": 1}}}', "`num_buckets` must be at least 2; got 1"),
        ('{"nodes/user": {"age": {"kind": "hash", "num_buckets": 1}}}', "`num_buckets` must be at least 2; got 1"),
        ('{"nodes/user": {"age": {"kind": "keep", "num_categories": 1}}}', "must be at least 2, or 0; got 1"),
        (
            '{"nodes/user": {"city": {"kind": "keep", "num_categories": 3}}}',
            "`num_categories` must be given for integers alone; got 3 for 'nodes/user.city', which is string",
        ),
        ('{"nodes/user": {"city": {"kind": "vocabulary", "top_k": -1}}}', "`top_k` must be at least 0; got -1"),
        (
            '{"nodes/usr": {}}',
            r"sets among \['context', 'edges/knows', 'nodes/shop', 'nodes/user'\]; got 'nodes/usr'. Did you mean",
        ),
        (
            '{"nodes/user": {"agee": "drop"}}',
            r"columns of 'nodes/user' among \['age', .*; got 'agee'. Did you mean 'age",
        ),
        (
            '{"nodes/user": {"city": "z_score"}}',
            r"types of columns; got 'z_score' for 'nodes/user.city', which is string",
        ),
        (
            '{"nodes/user": {"own": {"kind": "vocabulary", "column": "#idd"}}}',
            r"columns of 'nodes/user' among \['#id', .*; got '#idd'. Did you mean '#id'",
        ),
        (
            '{"nodes/user": {"age": {"kind": "z_score", "column": "visits"}}}',
            "`column` must go with a feature that has another name than all columns, .*; got 'age' in 'nodes/user'",
        ),
        ('{"nodes/user": {"tags": "text"}}', "got 'text' for 'nodes/user.tags', whose items have the shape"),
        ('{"edges/knows": {"years": "vocabulary"}}', "got 'vocabulary' for 'edges/knows.years', which is float32"),
        (
            '{"nodes/shop": {"floors": {"kind": "z_score", "missing_value": -0.5}}}',
            r"`missing_value` must be an integer for 'nodes/shop.floors', whose values are; got -0.5",
        ),
        (
            '{"nodes/shop": {"floors": {"kind": "number", "missing_value": 1e20}}}',
            r"`missing_value` must be an integer for 'nodes/shop.floors', whose values are; got 1e\+20",
        ),
        (
            '{"nodes/user": {"point": {"kind": "bucketize", "num_buckets": 2}}}',
            r"shapes of columns; got 'bucketize' for 'nodes/user.point', whose items have the shape \[2\]",
        ),
    ],
)
def test_wrong_declaration_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        plan_features(declared(text), LAYOUT)


def test_lists_of_floats_have_no_default():
    schema = text_format.Parse(SCHEMA, GraphSchema())
    schema.node_sets["user"].features["spent"].shape.dim.add(size=-1)

    with pytest.raises(ValueError, match=r"lists of numbers of different lengths; got none for 'nodes/user.spent'"):
        plan_features({}, graph_layout(schema))


def test_declarations_beside_a_function_are_refused():
    with pytest.raises(ValueError, match=r"`features` must be left out beside a `preprocessing_fn`.* got both"):
        GraphTransformOptions(preprocessing_fn="a.b:c", features={"nodes/user": {"age": Drop()}})


def test_vocabularies_have_names_that_tensorflow_takes_and_that_differ():
    names = [default_vocabulary_name(f"nodes.user.{one}") for one in ("city", "größe m", "gr__e_m")]

    assert names == ["nodes.user.city", "nodes.user.gr__e_m_83cffb71", "nodes.user.gr__e_m"]


def example():
    values = {
        "context/day": [3],
        "nodes/user.#size": [4],
        "nodes/user.#id": [b"a", b"b", b"c", b"d"],
        "nodes/user.age": [10, 20, 30, 40],
        "nodes/user.city": [b"oslo", b"oslo", b"rome", b"bern"],
        "nodes/user.code": [7, 7, 7, 5],
        "nodes/user.level": [0, 1, 1, 0],
        "nodes/user.note": [b"x", b"y", b"z", b"z"],
        "nodes/user.point": [0.0, 1.0, 0.0, 3.0, 6.0, 1.0, 6.0, 3.0],
        "nodes/user.spent": [0.0, 0.0, math.e**2 - 1, 1 - math.e**2],
        "nodes/user.structure_label": [0, 1, 2, 2],
        "nodes/user.tags": [b"red", b"hat", b"red"],
        "nodes/user.tags.d1": [2, 0, 1, 0],
        "nodes/user.visits": [2, 4, 6, 10],
        "nodes/shop.#size": [4],
        "nodes/shop.about": [b"Old books", b"", b"Books, maps, books", b"old BOOKS"],
        "nodes/shop.area": [-8.0, 1.0, 2.0, 5.0],
        # The next larger integer than the missing one is equal to it as a float.
        "nodes/shop.floors": [-(2**30), 1, 3, 1 - 2**30],
        "nodes/shop.nowhere": [-1, -1, -1, -1],
        "nodes/shop.open": [1, -1, 0, 1],
        "nodes/shop.place": [-1.0, 4.0, -1.0, -1.0, 3.0, 4.0, 5.0, 10.0],
        "nodes/shop.sales": [-64.0, -64.0, 0.0, math.e**2 - 1],
        "nodes/_readout.#size": [1],
        "nodes/_readout.color": [b"blue"],
        "edges/knows.#size": [2],
        "edges/knows.#source": [0, 1],
        "edges/knows.#target": [1, 2],
        "edges/knows.years": [1.0, 3.0],
        "edges/_readout/seed.#size": [1],
        "edges/_readout/seed.#source": [0],
        "edges/_readout/seed.#target": [0],
    }
    features = tf.train.Features()
    for key, value in values.items():
        if isinstance(value[0], bytes):
            features.feature[key].bytes_list.value.extend(value)
        elif isinstance(value[0], float):
            features.feature[key].float_list.value.extend(value)
        else:
            features.feature[key].int64_list.value.extend(value)
    return tf.train.Example(features=features).SerializeToString()


@pytest.fixture(scope="module")
def transformed(tmp_path_factory):
    """A folder with the transform and what it made of the example."""
    folder = tmp_path_factory.mktemp("ready")
    (folder / "examples" / "Split-train").mkdir(parents=True)
    with tf.io.TFRecordWriter(str(folder / "examples/Split-train/data-00000-of-00001.gz"), "GZIP") as writer:
        writer.write(example())
    (folder / "examples" / "graph_schema.pbtxt").write_text(SCHEMA)
    features = {
        "context": {"day": Number()},
        "nodes/user": {
            "age": MinMax(),
            "city": Vocabulary(top_k=1, num_oov_buckets=1),
            "code": Vocabulary(num_oov_buckets=0),
            "level": Keep(num_categories=3),
            "note": Hash(num_buckets=10),
            "own": Vocabulary(column="#id", num_oov_buckets=0),
            "spent": Log1pZScore(),
            "visits": Bucketize(num_buckets=2),
        },
        "nodes/shop": {
            "about": Text(frequency_threshold=2, max_words=2),
            "area": MinMax(missing_value=-8),
            "floors": ZScore(missing_value=-(2**30)),
            "nowhere": ZScore(missing_value=-1),
            "open": Number(missing_value=-1),
            "place": ZScore(missing_value=-1),
            "sales": Log1pZScore(missing_value=-64),
        },
        "nodes/_readout": {"color": Vocabulary(name="colors", num_oov_buckets=0)},
    }
    transform_graphs(
        examples_dir=str(folder / "examples"),
        graph_schema_dir=str(folder / "examples"),
        transform_graph_dir=str(folder / "transform"),
        transformed_examples_dir=str(folder / "transformed"),
        transformed_graph_schema_dir=str(folder / "schema"),
        options=GraphTransformOptions(features=features, analyze="as_sampled"),
    )
    return folder


def test_every_kind_gives_the_values_of_its_description(transformed):
    (record,) = tf.data.TFRecordDataset([str(path) for path in (transformed / "transformed").rglob("*.gz")], "GZIP")
    found = tf.train.Example.FromString(record.numpy()).features.feature

    def values(key):
        one = found[key]
        return list(one.float_list.value or one.int64_list.value or one.bytes_list.value)

    assert values("context/day") == [3.0]
    assert values("nodes/user.age") == pytest.approx([0.0, 1 / 3, 2 / 3, 1.0])
    # One value is in the vocabulary; the others share the category after it.
    assert values("nodes/user.city") == [0, 0, 1, 1]
    assert values("nodes/user.code") == [0, 0, 0, 1]
    assert values("nodes/user.level") == [0, 1, 1, 0]
    assert values("nodes/user.note") == tf.strings.to_hash_bucket_fast(["x", "y", "z", "z"], 10).numpy().tolist()
    assert np.reshape(values("nodes/user.point"), [4, 2]).tolist() == [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    # The logarithms 0, 0, 2 and -2 have the mean 0 and the variance 2.
    assert values("nodes/user.spent") == pytest.approx([0.0, 0.0, math.sqrt(2), -math.sqrt(2)], abs=1e-6)
    # "books" occurs three times, "old" and "old books" twice, and "maps" once.
    assert values("nodes/shop.about.d1") == [3, 0, 1, 3]
    about = values("nodes/shop.about")
    assert about[1] == about[3] == about[5] == 0
    assert {*about[:3]} == {0, 1, 2}
    assert about[4:] == about[:3]
    assert values("nodes/user.structure_label") == [0, 1, 2, 2]
    assert values("nodes/user.tags") == [0, 1, 0]
    assert values("nodes/user.visits") == [0, 0, 1, 1]
    assert values("nodes/_readout.color") == [0]
    assert values("edges/knows.years") == [-1.0, 1.0]
    # The id stays what it is, and is a feature beside it.
    assert values("nodes/user.#id") == [b"a", b"b", b"c", b"d"]
    assert sorted(values("nodes/user.own")) == [0, 1, 2, 3]


def test_what_stands_for_no_value_is_marked_and_no_part_of_statistics(transformed):
    (record,) = tf.data.TFRecordDataset([str(path) for path in (transformed / "transformed").rglob("*.gz")], "GZIP")
    found = tf.train.Example.FromString(record.numpy()).features.feature

    def rows(name):
        return np.reshape(found[f"nodes/shop.{name}"].float_list.value, [4, -1])

    np.testing.assert_allclose(rows("area"), [[0, 1], [0, 0], [1 / 4, 0], [1, 0]])
    assert rows("floors")[:, 1].tolist() == [1, 0, 0, 0]
    np.testing.assert_allclose(rows("floors")[1:, 0], [math.sqrt(0.5), math.sqrt(0.5), -math.sqrt(2)], rtol=1e-6)
    assert rows("nowhere").tolist() == [[0, 1]] * 4
    assert rows("open").tolist() == [[1, 0], [0, 1], [0, 0], [1, 0]]
    # Vectors are missing as a whole: -1 in one place is a number.
    np.testing.assert_allclose(rows("place")[1], [0, 0, 1])
    assert rows("place")[:, 2].tolist() == [0, 1, 0, 0]
    np.testing.assert_allclose(rows("place")[[0, 2, 3], 0].mean(), 0, atol=1e-6)
    # The logarithms 0 and 2 have the mean 1 and the variance 1.
    np.testing.assert_allclose(rows("sales"), [[0, 1], [0, 1], [-1, 0], [1, 0]], atol=1e-6)


def test_what_stands_for_no_value_is_none_of_what_the_transform_made(transformed):
    schema = read_schema(str(transformed / "schema" / "graph_schema.pbtxt"))

    assert schema.node_sets["shop"].metadata.cardinality == 4
    assert feature_defaults(schema.node_sets["shop"]) == {}


def test_missing_values_are_finite():
    with pytest.raises(ValueError, match="`missing_value` must be a finite number; got nan"):
        ZScore(missing_value=math.nan)


def test_networks_know_the_number_of_categories(transformed):
    domains = tft.TFTransformOutput(str(transformed / "transform")).transformed_domains()

    categories = {key: domain.max + 1 for key, domain in domains.items() if getattr(domain, "is_categorical", False)}
    assert categories == {
        "nodes/shop.about": 3,
        "nodes/user.city": 2,
        "nodes/user.code": 2,
        "nodes/user.level": 3,
        "nodes/user.note": 10,
        "nodes/user.own": 4,
        "nodes/user.tags": 3,
        "nodes/user.visits": 2,
        "nodes/_readout.color": 1,
    }

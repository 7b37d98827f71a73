import types

import pytest
from google.protobuf import text_format

from tfx_gnn.graph.proto import graph_schema_pb2
from tfx_gnn.graph.schema.schema_spec import create_graph_spec_from_schema_pb
from tfx_gnn.keras.feature_encoders.category_values import category_count
from tfx_gnn.keras.feature_encoders.encoder_options import EmbeddingOptions, FeatureEncoderOptions
from tfx_gnn.keras.feature_encoders.prepare_features import plan_encodings

SCHEMA = """
context { features { key: "year" value { dtype: DT_INT64 } } }
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_FLOAT } }
  features { key: "city" value { dtype: DT_INT64 } }
  features { key: "home" value { dtype: DT_INT64 } }
  features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } } } }
node_sets { key: "item" value {
  features { key: "pair" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "is_new" value { dtype: DT_BOOL } } } }
node_sets { key: "_readout" value { features { key: "label" value { dtype: DT_STRING } } } }
edge_sets { key: "buys" value { source: "user" target: "item"
  features { key: "count" value { dtype: DT_INT64 } } } }
"""


class Transform:
    """What a plan asks a `tft.TFTransformOutput`."""

    def transformed_domains(self):
        return {"nodes/user.city": types.SimpleNamespace(is_categorical=True, min=-1, max=6)}

    def vocabulary_size_by_name(self, vocab_filename):
        sizes = {"home": 5, "city": 99, "tag": 20}
        if vocab_filename not in sizes:
            raise ValueError("does not exist")
        return sizes[vocab_filename]


def make_spec(more=""):
    return create_graph_spec_from_schema_pb(text_format.Parse(SCHEMA + more, graph_schema_pb2.GraphSchema()))


TAGS = EmbeddingOptions(vocabulary="tag", units=3, oov_rows=2)


def test_numbers_of_categories_come_from_tf_transform():
    plan = plan_encodings(make_spec(), FeatureEncoderOptions(embeddings={"user.tags": TAGS}, units=8), Transform())

    # Indices that tf.Transform knows, a vocabulary of the feature's name, one that is named; each and the unknown.
    assert plan.tables == {"nodes/user.city": (8, 8), "nodes/user.home": (6, 8), "nodes/user.tags": (22, 3)}
    # Strings are hashed, whatever vocabulary is named.
    assert plan.vocabularies == {"nodes/user.home": "home", "nodes/user.tags": ""}
    assert {place: (one.numeric, [e.feature for e in one.embedded]) for place, one in plan.sets.items()} == {
        "nodes/item": (("is_new", "pair"), []),
        "nodes/user": (("age",), ["city", "home", "tags"]),
    }


def test_the_options_of_a_plan_make_it_again_without_tf_transform():
    options = FeatureEncoderOptions(embeddings={"user.tags": TAGS}, encode_edges=True, numeric=["edges/buys.count"])
    plan = plan_encodings(make_spec(), options, Transform())

    assert plan_encodings(make_spec(), plan.options) == plan
    assert plan.sets["edges/buys"].numeric == ("count",)


def test_features_with_one_shared_name_have_one_table():
    shared = EmbeddingOptions(shared_name="place", units=4)
    options = FeatureEncoderOptions(
        embeddings={"user.city": shared, "user.home": EmbeddingOptions(shared_name="place", units=4, rows=50)},
        ignored=("user.tags",),
    )

    plan = plan_encodings(make_spec(), options)

    assert plan.tables == {"shared/place": (51, 4)}
    assert {one.table for one in plan.sets["nodes/user"].embedded} == {"shared/place"}


def test_every_feature_without_an_encoding_is_named():
    with pytest.raises(ValueError, match="`options` must say how each feature is encoded") as error:
        plan_encodings(
            make_spec(),
            FeatureEncoderOptions(
                embeddings={
                    "user.cty": EmbeddingOptions(rows=3),
                    "user.age": EmbeddingOptions(rows=3),
                    "user.home": EmbeddingOptions(rows=3, shared_name="a"),
                    "edges/buys.count": EmbeddingOptions(rows=4, shared_name="a"),
                },
                encode_edges=True,
                encode_context=True,
                numeric=["user.tags"],
            ),
        )

    for problem in (
        "'nodes/user.cty' is not an encoded feature",
        "'nodes/user.age' is a float, which cannot be a category",
        "'nodes/user.city' has no known number of categories",
        "'nodes/user.tags' is a string, which cannot be a number",
        "'context/year' has no known number of categories",
        "'shared/a' is a table with different (rows, oov_rows, units): [(3, 1, 16), (4, 1, 16)]",
    ):
        assert problem in str(error.value)


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        ("dtype: DT_FLOAT shape { dim { size: -1 } }", "'nodes/more.x' is ragged"),
        (
            "dtype: DT_FLOAT shape { dim { size: 2 } dim { size: 3 } }",
            r"'nodes/more.x' has shape \(None, 2, 3\): numbers",
        ),
        (
            "dtype: DT_INT64 shape { dim { size: 2 } dim { size: 3 } }",
            r"'nodes/more.x' has shape \(None, 2, 3\): categ",
        ),
        ("dtype: DT_STRING", "'nodes/more.x' is a string, but has no number of `rows`"),
    ],
)
def test_shapes_without_an_encoding_are_named(feature, message):
    spec = make_spec(f'node_sets {{ key: "more" value {{ features {{ key: "x" value {{ {feature} }} }} }} }}')

    with pytest.raises(ValueError, match=message):
        plan_encodings(spec, FeatureEncoderOptions(embeddings={"user.tags": TAGS}), Transform())


def test_a_vocabulary_that_is_named_must_be_there():
    with pytest.raises(ValueError, match="`vocabulary` must name one that `preprocessing_fn` makes; got 'gone'"):
        category_count(Transform(), "nodes/user.city", "gone")
    assert category_count(None, "nodes/user.city") == 0
    assert category_count(Transform(), "context/home") == 5

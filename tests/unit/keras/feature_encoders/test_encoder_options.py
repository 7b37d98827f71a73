import pytest

from tfx_gnn.io.options_json import from_json, to_json
from tfx_gnn.keras.feature_encoders.encoder_options import EmbeddingOptions, FeatureEncoderOptions

OPTIONS = FeatureEncoderOptions(
    embeddings={
        "user.city": EmbeddingOptions(rows=10, units=4, shared_name="city", combiner="sum", max_values=3),
        "edges/buys.kind": EmbeddingOptions(rows=5, oov_rows=0, hashed=True),
    },
    numeric=("user.age",),
    dropout_rate=0.5,
    encode_edges=True,
)


def test_options_are_json_and_back():
    assert from_json(to_json(OPTIONS), FeatureEncoderOptions) == OPTIONS
    assert FeatureEncoderOptions.from_plain({"units": 8, "numeric": ["user.age"]}).numeric == ("user.age",)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EmbeddingOptions(rows=-1), "`rows` must be at least 0; got -1"),
        (lambda: EmbeddingOptions(combiner="max"), "`combiner` must be one of"),
        (lambda: EmbeddingOptions(hashed=True), "`rows` must be at least 1 if `hashed` is set"),
        (lambda: FeatureEncoderOptions(units=0), "`units` must be at least 1"),
        (lambda: FeatureEncoderOptions(input_dropout_rate=-0.1), "`input_dropout_rate` must be in .*; got -0.1"),
        (lambda: FeatureEncoderOptions(dropout_rate=1.0), r"`dropout_rate` must be in \[0, 1\); got 1.0"),
        (
            lambda: FeatureEncoderOptions(numeric="user.age"),
            "`numeric` must be a list of names; got the string 'user.age'",
        ),
        (
            lambda: FeatureEncoderOptions(numeric=["user.age"], ignored=["nodes/user.age"]),
            r"must name a feature once; got \['nodes/user.age'\]",
        ),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn.graph.proto.graph_schema_pb2 import NodeSet
from tfx_gnn.graphlearn import Decoder
from tfx_gnn.graphlearn.queries.attributes import TypeAttributes, decoder_of, scalar_features

ALL_ROWS = np.arange(2)


def _attributes(columns: dict[str, pa.Array], decoder: Decoder | None = None) -> TypeAttributes:
    columns = scalar_features("nodes/n", columns)
    return TypeAttributes("nodes/n", columns, 2, decoder or decoder_of(NodeSet(), columns))


def test_values_of_a_vector_stay_in_order_where_it_is_wider_than_ten():
    vectors = np.arange(24, dtype=np.float32).reshape(2, 12)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 12)

    attributes = _attributes({"x": column, "a": pa.array([7.0, 8.0]), "y": pa.array([-1.0, -2.0])})

    expected = [[7.0, *range(12), -1.0], [8.0, *range(12, 24), -2.0]]
    assert attributes.attributes("float", ALL_ROWS).tolist() == expected


def test_a_feature_named_like_a_value_of_a_vector_is_refused():
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0]), 2)

    with pytest.raises(ValueError, match=r"'x' of 'nodes/n', of 2 values, and a feature x\.0"):
        scalar_features("nodes/n", {"x": vectors, "x.0": pa.array([9.0, 9.0])})


def test_truth_values_are_integers():
    attributes = _attributes({"is_new": pa.array([True, False])})

    assert attributes.attributes("int", ALL_ROWS).tolist() == [[1], [0]]
    assert attributes.attributes("string", ALL_ROWS) is None


@pytest.mark.parametrize("name", ["x", "label", "timestamp"])
def test_unsigned_integers_beyond_int64_are_refused(name):
    with pytest.raises(
        ValueError, match=rf"`{name}` must be an int64 in queries; got 9223372036854775808 in 'nodes/n'"
    ):
        _attributes({name: pa.array([1, 2**63], pa.uint64())})


def test_unsigned_timestamps_keep_all_digits():
    attributes = _attributes({"timestamp": pa.array([2**53 + 1, 1], pa.uint64())})

    assert attributes.timestamps(np.array([0, -1])).tolist() == [2**53 + 1, -1]


@pytest.mark.parametrize(
    ("column", "decoder", "kind"),
    [
        (pa.array([0.5, 1.5]), Decoder(attr_types=["int"], attr_names=["x"]), "int"),
        (pa.array([0.5, 1.5]), Decoder(attr_types=["string"], attr_names=["x"]), "string"),
        (pa.array(["1", "2"], pa.large_string()), Decoder(attr_types=["float"], attr_names=["x"]), "float"),
    ],
)
def test_a_decoder_of_another_type_than_the_column_is_refused(column, decoder, kind):
    with pytest.raises(ValueError, match=f"`decoders` must give 'x' of 'nodes/n' the type of its column, .*'{kind}'"):
        _attributes({"x": column}, decoder)


def test_a_float_timestamp_is_no_timestamp():
    columns = {"timestamp": pa.array([1.5, 2.5])}

    with pytest.raises(ValueError, match="'timestamp' of 'nodes/n' the type of its column, double; got 'int'"):
        _attributes(columns, Decoder(timestamped=True))
    assert _attributes(columns).attributes("float", ALL_ROWS).tolist() == [[1.5], [2.5]]

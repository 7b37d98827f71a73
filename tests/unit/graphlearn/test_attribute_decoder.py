"""What GraphLearn's data sources are made of."""

import pytest

from tfx_gnn.graphlearn.attribute_decoder import DEFAULT_NEIGHBOR_ID, Decoder, EncodingError
from tfx_gnn.graphlearn.feature_spec import (
    DenseSpec,
    DynamicMultivalSpec,
    DynamicSparseSpec,
    FeatureSpec,
    MultivalSpec,
    SparseSpec,
)
from tfx_gnn.tables.packed_column import PackedPart

# The user of the seed: '28:0:0.2:Hangzhou:1,5,12:1000008'.
USER_TYPES = [("int", 100), ("int", 50), "float", ("string", 1000), ("string", None, True), "int"]
USER_DIMS = [12, 12, None, 8, 6, 4]


def test_columns_stand_in_one_order():
    plain = Decoder()
    full = Decoder(weighted=True, labeled=True, timestamped=True, attr_types=["int"])

    assert plain.column_names("node") == ("id",)
    assert plain.column_names("edge") == ("src_id", "dst_id")
    assert full.column_names("node") == ("id", "weight", "label", "timestamp", "attributes")
    assert full.column_names("edge") == ("src_id", "dst_id", "weight", "label", "timestamp", "attributes")
    assert (plain.attributed, full.attributed) == (False, True)


def test_attributes_say_how_a_cell_is_split():
    column = Decoder(attr_types=USER_TYPES, attr_names=list("abcdef"), attr_delimiter="|").packed_column("x")

    assert (column.name, column.delimiter) == ("x", "|")
    assert column.parts == (
        PackedPart(name="a"),
        PackedPart(name="b"),
        PackedPart(name="c"),
        PackedPart(name="d", num_buckets=1000),
        PackedPart(name="e", value_delimiter=","),
        PackedPart(name="f"),
    )


@pytest.mark.parametrize(
    ("attr_types", "message"),
    [
        ([("int", 10, True)], r"'string' where there are several values; got \('int', 10, True\) for 'attribute_0'"),
        ([("float", None, True)], "'string' where there are several values"),
        (["int", "bool"], "one of .*; got 'bool' for 'attribute_1'"),
        ([()], r"one of .*; got \(\)"),
        ([("string", 1, True, 4)], "one of .*; got"),
        ([("string", 0)], r"a bucket size of at least 1, .*; got \('string', 0\)"),
        ([("float", 5)], r"for no float; got \('float', 5\)"),
        ("int", "must be a list; got the text 'int'"),
    ],
)
def test_types_of_no_meaning_are_refused(attr_types, message):
    with pytest.raises(ValueError, match=message):
        Decoder(attr_types=attr_types)


def test_attributes_are_counted_by_the_type_in_which_they_are_stored():
    decoder = Decoder(attr_types=["int", ("string", 10), "string", ("string", 10, True), "float"])

    assert (decoder.int_attr_num, decoder.float_attr_num, decoder.string_attr_num) == (2, 1, 2)


def test_the_format_has_a_number():
    assert Decoder(weighted=True, labeled=True, attr_types=["int"]).data_format == 22
    assert [Decoder(**{name: True}).data_format for name in ("weighted", "labeled", "timestamped")] == [2, 4, 8]
    assert Decoder().data_format == 0


@pytest.mark.parametrize(
    ("attr_type", "dim", "kind", "expected"),
    [
        ("string", 8, "string_specs", DynamicSparseSpec(dimension=8, need_hash=False)),
        (("string", 10), 8, "int_specs", SparseSpec(bucket_size=10, dimension=8, need_hash=False)),
        (("string", 10, True), 8, "string_specs", MultivalSpec(bucket_size=10, dimension=8, delimiter=",")),
        (("string", None, True), 8, "string_specs", DynamicMultivalSpec(dimension=8, delimiter=",")),
        ("int", None, "int_specs", DenseSpec()),
        ("int", 0, "int_specs", DenseSpec()),
        ("float", None, "float_specs", DenseSpec()),
        ("float", 0, "float_specs", DenseSpec()),
        ("int", 8, "int_specs", DynamicSparseSpec(dimension=8, need_hash=True)),
        (("int", 10), 8, "int_specs", SparseSpec(bucket_size=10, dimension=8, need_hash=True)),
    ],
)
def test_each_type_and_dimension_has_its_encoding(attr_type, dim, kind, expected):
    spec = Decoder(attr_types=[attr_type], attr_dims=[dim]).feature_spec

    found = {name: getattr(spec, name) for name in ("int_specs", "float_specs", "string_specs")}
    assert found == {**dict.fromkeys(found, ()), kind: (expected,)}


@pytest.mark.parametrize(
    ("attr_types", "attr_dims", "dimension"),
    [
        (["float"] * 20, [], 20),
        (["float", "int", "int"], [], 3),
        (["float", "int", ("int", 1000)], [None, None, 16], 18),
        ([("string", 500), ("string", 800), ("int", 1000)], [8, 12, 16], 36),
        ([("string", 500), ("string", 800, True)], [8, 12], 20),
        (USER_TYPES, USER_DIMS, 43),
    ],
)
def test_encodings_side_by_side_have_the_width_of_the_seed(attr_types, attr_dims, dimension):
    decoder = Decoder(attr_types=attr_types, attr_dims=attr_dims)

    assert decoder.feature_spec.dimension == dimension
    assert decoder.feature_spec is decoder.feature_spec


@pytest.mark.parametrize(
    ("attr_type", "dim", "message"),
    [
        ("string", None, "must give a dimension .*; got none for 'attribute_0'"),
        (("int", 10), None, "must give a dimension"),
        (("string", 10, True), 0, "must give a dimension"),
        ("float", 8, "must be None or 0 for a float, .*; got 8"),
    ],
)
def test_what_cannot_be_encoded_is_refused_once_an_encoding_is_asked_for(attr_type, dim, message):
    decoder = Decoder(attr_types=[attr_type], attr_dims=[dim])

    with pytest.raises(AssertionError, match=message):
        _ = decoder.feature_spec
    with pytest.raises(EncodingError):
        _ = decoder.feature_spec


def test_dimensions_and_names_are_one_an_attribute():
    with pytest.raises(ValueError, match="`attr_dims` must have one item an attribute; got 1 for 2 `attr_types`"):
        Decoder(attr_types=["int", "int"], attr_dims=[8])
    with pytest.raises(ValueError, match="`attr_names` must have one item an attribute; got 3 for 2 `attr_types`"):
        Decoder(attr_types=["int", "int"], attr_names=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"each once; got \['a', 'a'\]"):
        Decoder(attr_types=["int", "int"], attr_names=["a", "a"])


def test_encodings_can_be_appended_by_hand():
    spec = FeatureSpec(7, weighted=True)
    spec.append_dense(is_float=False)
    spec.append_dense()
    spec.append_sparse(5, 3, need_hash=True)
    spec.append_sparse(None, 2, need_hash=True)
    spec.append_sparse(None, 2)
    spec.append_multival(4, 6, ",")
    spec.append_multival(None, 1, "|")

    assert spec.dimension == 16
    assert spec.int_specs == (
        DenseSpec(),
        SparseSpec(bucket_size=5, dimension=3, need_hash=True),
        DynamicSparseSpec(dimension=2, need_hash=True),
    )
    assert spec.float_specs == (DenseSpec(),)
    assert spec.string_specs == (
        DynamicSparseSpec(dimension=2, need_hash=False),
        MultivalSpec(bucket_size=4, dimension=6, delimiter=","),
        DynamicMultivalSpec(dimension=1, delimiter="|"),
    )
    with pytest.raises(ValueError, match="`feature_num` must be the number of attributes; got 7, and one more"):
        spec.append_dense()
    with pytest.raises(ValueError, match="`dimension` must be at least 1; got 0"):
        FeatureSpec(1).append_sparse(5, 0)


def test_a_row_that_is_not_there_has_values_all_the_same():
    decoder = Decoder(
        weighted=True,
        labeled=True,
        timestamped=True,
        attr_types=["int", "float", "string", ("string", 9)],
        attr_names=list("ifsh"),
    )

    assert decoder.missing_values == {
        "weight": 0.0, "label": -1, "timestamp": -1, "i": 0, "f": 0.0, "s": "", "h": 0
    }  # fmt: skip
    assert Decoder().missing_values == {}
    assert DEFAULT_NEIGHBOR_ID == 0

import pyarrow as pa
import pytest

from tfx_gnn.graph.schema.schema_io import parse_schema, write_schema
from tfx_gnn.graphlearn.attribute_decoder import (
    DecodedEdges,
    DecodedNodes,
    Decoder,
    EncodingError,
    decoded_schema,
)
from tfx_gnn.graphlearn.feature_spec import (
    DenseSpec,
    DynamicMultivalSpec,
    DynamicSparseSpec,
    FeatureSpec,
    MultivalSpec,
    SparseSpec,
)
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.packed_column import PackedPart, hash_buckets
from tfx_gnn.tables.row_rules import RowRules

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
        ([("float", 5)], r"none for a float; got \('float', 5\)"),
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


USERS = """id:int64\tlabel:int32\tfeature:string
7\t1\t28:0:0.2:Hangzhou:1,5,12:1000008
3\t0\t31:1:1.5:Bern::5
"""
BUYS = """src_id:int64\tdst_id:string\tweight:float\ttimestamp:int64
7\tpen\t0.5\t100
3\tink\t2\t50
7\tink\t1\t70
"""
ITEMS = "id:string\npen\nink\n"
USER = Decoder(
    labeled=True,
    attr_types=["int", "int", "float", ("string", 1000), ("string", None, True), "int"],
    attr_names=["age", "gender", "score", "city", "tags", "account"],
)
NODES = {"user": DecodedNodes(filename="users", decoder=USER), "item": DecodedNodes(filename="items")}
EDGES = {
    "buys": DecodedEdges(
        filename="buys.txt",
        source="user",
        target="item",
        decoder=Decoder(weighted=True, timestamped=True),
        is_directed=False,
    )
}


@pytest.fixture
def folder(tmp_path):
    for name, text in (("users", USERS), ("items", ITEMS), ("buys.txt", BUYS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def _read(folder, **options):
    write_schema(decoded_schema(str(folder), nodes=NODES, edges=EDGES), str(folder / "graph_schema.pbtxt"))
    return read_tables(str(folder), **options)


def test_files_of_graphlearn_are_read_as_tables(folder):
    tables = _read(folder)

    users, buys, reverse = (
        tables.node_tables["user"],
        tables.edge_tables["buys"],
        tables.edge_tables["buys_reverse"],
    )
    assert users.ids.to_pylist() == [3, 7]
    city = hash_buckets(pa.array(["Bern", "Hangzhou"]), 1000).tolist()
    assert {name: values.to_pylist() for name, values in users.features.items()} == {
        "label": [0, 1],
        "age": [31, 28],
        "gender": [1, 0],
        "score": [1.5, pytest.approx(0.2)],
        "city": city,
        "tags": [[], ["1", "5", "12"]],
        "account": [5, 1000008],
    }
    assert tables.node_tables["item"].ids.to_pylist() == ["ink", "pen"]
    assert (buys.sources.tolist(), buys.targets.tolist()) == ([1, 0, 1], [1, 0, 0])
    assert (reverse.sources.tolist(), reverse.targets.tolist()) == ([1, 0, 0], [1, 0, 1])
    assert (reverse.source_set, reverse.target_set) == ("item", "user")
    assert buys.features["weight"].to_pylist() == [0.5, 2.0, 1.0]
    assert reverse.features["timestamp"].to_pylist() == [100, 50, 70]


def test_the_schema_says_all_of_it(folder):
    schema = decoded_schema(str(folder), nodes=NODES, edges=EDGES)

    assert (
        schema.node_sets["user"]
        == parse_schema("""node_sets { key: "user" value {
      features { key: "#id" value { dtype: DT_INT64 } }
      features { key: "label" value { dtype: DT_INT32 source: "label:int32" } }
      features { key: "age" value { dtype: DT_INT64 } }
      features { key: "gender" value { dtype: DT_INT64 } }
      features { key: "score" value { dtype: DT_FLOAT } }
      features { key: "city" value { dtype: DT_INT64 } }
      features { key: "tags" value { dtype: DT_STRING shape { dim { size: -1 } } } }
      features { key: "account" value { dtype: DT_INT64 } }
      metadata { filename: "users"
        extra { key: "decoder.feature:string" value: "{age}:{gender}:{score}:{city#1000}:{tags[,]}:{account}" }
        extra { key: "delimiter" value: "tab" }
        extra { key: "format" value: "csv" }
        extra { key: "id_column" value: "id:int64" } } } }""").node_sets["user"]
    )


@pytest.mark.parametrize(
    ("cell", "rule", "message"),
    [
        (
            "28:0:0.2",
            "decoder",
            "`feature:string` must have 6 parts between ':'; got 3 in '28:0:0.2' in .*users, line 2",
        ),
        ("x:0:0.2:a:b:1", "type", "`feature:string:age` must be of type int64; got 'x' in .*users, line 2"),
        ("1::0.2:a:b:1", "missing", "`feature:string:gender` must have a value in every record"),
        ("1:0:nan:a:b:1", "finite", r"`feature:string:score` must be a finite number \(float\); got 'nan'"),
        ("", "missing", "`feature:string` must have a value"),
    ],
)
def test_a_cell_that_cannot_be_decoded_is_a_problem_of_its_row(folder, cell, rule, message):
    (folder / "users").write_text(USERS.replace("28:0:0.2:Hangzhou:1,5,12:1000008", cell))

    with pytest.raises(ValueError, match=message):
        _read(folder)
    tables = read_tables(str(folder), rules=RowRules(invalid_rows="drop", dangling_edges="drop", max_dropped_share=1.0))

    assert tables.node_tables["user"].ids.to_pylist() == [3]
    assert dict(tables.reports["nodes/user"].dropped) == {rule: 1}


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ({"n": DecodedNodes(filename="none")}, {}, "`filename` must name a file that exists; got '.*none'"),
        (
            {"n": DecodedNodes(filename="users")},
            {},
            r"`decoder` must describe every column, here \['id'\]; got the header \['id:int64', 'label:int32', 'fea",
        ),
        (
            {"n": DecodedNodes(filename="users", decoder=Decoder(weighted=True, attr_types=["int"]))},
            {},
            "`weight` must have a header 'name:type' of type double or float; got 'label:int32' in .*users",
        ),
        (
            {"n": DecodedNodes(filename="plain")},
            {},
            "`id` must have a header 'name:type' of type int or int64 or string; got 'id' in",
        ),
        (
            {"item": DecodedNodes(filename="items")},
            {"e": DecodedEdges(filename="buys.txt", source="item", target="x")},
            r"`edges` must join node sets of `nodes`, \['item'\]; got 'x' in 'e'",
        ),
        (
            {
                "n": DecodedNodes(
                    filename="users", decoder=Decoder(labeled=True, attr_types=["int"], attr_names=["label"])
                )
            },
            {},
            "`attr_names` must differ from the other columns; got 'label' for users",
        ),
        (
            {
                "n": DecodedNodes(
                    filename="users", decoder=Decoder(labeled=True, attr_types=["int"], attr_names=["a#b"])
                )
            },
            {},
            r"`decoder` must name parts as in|`attr_names` must have none of",
        ),
    ],
)
def test_files_and_decoders_that_do_not_fit_are_refused(folder, nodes, edges, message):
    (folder / "plain").write_text("id\n1\n")

    with pytest.raises(ValueError, match=message):
        decoded_schema(str(folder), nodes=nodes, edges=edges)


def test_a_decoder_takes_its_arguments_by_position():
    decoder = Decoder(True, False, True, ["int", "float"], "#", [4, None])  # noqa: FBT003 - GraphLearn's signature.

    assert decoder == Decoder(
        weighted=True, timestamped=True, attr_types=["int", "float"], attr_delimiter="#", attr_dims=[4, None]
    )
    assert decoder.data_format == 26
    with pytest.raises(TypeError, match=r"`weighted` must be True or False; got \['int'\]. By position"):
        Decoder(["int"])

"""GraphLearn's files read as tables."""

import pyarrow as pa
import pytest

from tfx_gnn.graph.schema.schema_io import parse_schema, write_schema
from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.decoded_schema import DecodedEdges, DecodedNodes, decoded_schema
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.packed_column import hash_buckets
from tfx_gnn.tables.row_rules import RowRules

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

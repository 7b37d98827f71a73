import gzip
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.graph_tables import EdgeTable, check_tables, list_table_files, read_tables, read_tables_schema
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.schema_layouts import layouts_of


def test_tables_are_read_in_the_order_of_ids(shop_dir):
    tables = read_tables(shop_dir)

    users, items = tables.node_tables["user"], tables.node_tables["item"]
    assert users.ids.to_pylist() == ["ann", "bob", "cid", "dan"]
    assert users.num_nodes == 4
    assert {name: column.to_pylist() for name, column in users.features.items()} == {
        "age": [20, 30, 40, 50],
        "color": ["blue", "red", "blue", "red"],
    }
    assert items.ids.to_pylist() == [7, 12]
    assert {name: column.to_pylist() for name, column in items.features.items()} == {"price": [0.25, 1.5]}


def test_edges_keep_the_order_of_the_file_and_point_to_rows(shop_dir):
    tables = read_tables(shop_dir)

    knows, buys = tables.edge_tables["knows"], tables.edge_tables["buys"]
    assert (knows.source_set, knows.target_set, knows.num_edges) == ("user", "user", 4)
    assert list(zip(knows.sources.tolist(), knows.targets.tolist(), strict=True)) == [(0, 1), (0, 0), (1, 2), (0, 1)]
    assert list(zip(buys.sources.tolist(), buys.targets.tolist(), strict=True)) == [(0, 0), (1, 0), (2, 1), (1, 1)]
    assert buys.features["count"].to_pylist() == [1, 2, 3, 4]


def test_only_what_is_asked_for_is_read(shop_dir):
    (Path(shop_dir) / "knows.csv").write_text("broken")

    tables = read_tables(shop_dir, node_sets=["item", "user"], edge_sets=["buys"], extra_columns={"user": ["part"]})

    assert list(tables.edge_tables) == ["buys"]
    assert tables.node_tables["user"].extra_columns["part"].to_pylist() == ["train", "train", "val", "test"]
    assert "part" not in tables.node_tables["user"].features


def test_a_feature_may_name_its_column(shop_dir):
    path = Path(shop_dir) / "graph_schema.pbtxt"
    path.write_text(path.read_text().replace('key: "age" value { dtype', 'key: "years" value { source: "age" dtype'))

    tables = read_tables(shop_dir)

    assert tables.node_tables["user"].features["years"].to_pylist() == [20, 30, 40, 50]


def test_a_declared_default_stands_for_empty_cells(shop_dir):
    path = Path(shop_dir) / "graph_schema.pbtxt"
    default = 'filename: "users.csv" extra { key: "default.age" value: "-1" }'
    path.write_text(path.read_text().replace('filename: "users.csv"', default))
    users = Path(shop_dir) / "users.csv"
    users.write_text(users.read_text().replace("ann,20", "ann,"))

    assert read_tables(shop_dir).node_tables["user"].features["age"].to_pylist() == [-1, 30, 40, 50]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "users.csv",
            "dan,50",
            "bob,50",
            r"`id` must be different in every record; got 'bob' again in .*users.csv, line 4",
        ),
        ("items.csv", "12,", "7,", r"`number` must be different in every record; got 7 again in .*items.csv, line 3"),
        ("users.csv", "ann,20", "ann,young", r"`age` must be of type int64; got 'young' in .*users.csv, line 3"),
        (
            "users.csv",
            "ann,20",
            "ann,",
            r"`age` must have a value in every record; got an empty cell in .*users.csv, line 3",
        ),
        (
            "users.csv",
            "ann,20",
            ",20",
            r"`id` must have a value in every record; got an empty cell in .*users.csv, line 3",
        ),
        ("users.csv", "age", "years", r"`age` must be one column of the table; got none among .* in .*users.csv"),
        ("items.csv", "12,", "twelve,", r"`number` must be of type int64; got 'twelve' in .*items.csv, line 2"),
        (
            "knows.csv",
            "bob,cid\nann,bob",
            "bob,eve\nann,zoe",
            r"`target` must name a node of 'user' \(.*users.csv\); got 'eve' in .*knows.csv, line 4. .* one of 2",
        ),
        ("buys.csv", "cid,12", "zoe,12", r"`user` must name a node of 'user' .* got 'zoe' in .*buys.csv, line 4"),
        ("buys.csv", "cid,12", "cid,13", r"`item` must name a node of 'item' .* got 13 in .*buys.csv, line 4"),
        ("buys.csv", "item", "thing", r"`item` must be one column of the table; got none"),
    ],
)
def test_bad_rows_are_refused(shop_dir, file, old, new, message):
    path = Path(shop_dir) / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(ValueError, match=message):
        read_tables(shop_dir)


def _empty(shop_dir, *files):
    for file in files:
        path = Path(shop_dir) / file
        path.write_text(path.read_text().partition("\n")[0] + "\n")


def test_an_empty_edge_table_is_a_table(shop_dir):
    _empty(shop_dir, "knows.csv")

    tables = read_tables(shop_dir)

    knows = tables.edge_tables["knows"]
    assert (knows.num_edges, len(knows.sources), len(knows.rows)) == (0, 0, 0)
    assert (tables.reports["edges/knows"].rows_read, tables.reports["edges/knows"].rows_used) == (0, 0)


def test_an_empty_node_table_is_refused_where_edges_refer_to_it(shop_dir):
    _empty(shop_dir, "users.csv")

    with pytest.raises(ValueError, match=r"users\.csv` must hold at least one record; got a header line only"):
        read_tables(shop_dir)


def test_an_empty_node_table_is_a_table_where_nothing_refers_to_it(shop_dir):
    _empty(shop_dir, "users.csv", "knows.csv", "buys.csv")

    tables = read_tables(shop_dir)

    assert tables.node_tables["user"].num_nodes == 0
    assert tables.node_tables["item"].num_nodes > 0
    assert {edges.num_edges for edges in tables.edge_tables.values()} == {0}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "buys.csv",
            "sells.csv",
            "`metadata.filename` must name a file that exists.* got 'sells.csv' for edge set 'buys' in .*schema.pbtxt",
        ),
        ("users.csv", "users.xlsx", "`metadata.filename` must name a table .* got 'users.xlsx' for node set 'user'"),
        ("users.csv", "users.parquet", "`metadata.filename` must name a file that exists.* got 'users.parquet'"),
        ('filename: "users.csv"', "", "`metadata.filename` must name a table .* got '' for node set 'user'"),
        (
            'node_sets { key: "user"',
            'context { features { key: "year" value { dtype: DT_INT64 } } } node_sets { key: "user"',
            "`metadata.filename` must name a table .* got '' for context in .*schema.pbtxt",
        ),
        ('target: "item"', 'target: "shop"', "must hold a valid graph_schema.pbtxt; .* in .*schema.pbtxt.*'shop'"),
        ("DT_FLOAT", "DT_COMPLEX64", "got a mistake in .*schema.pbtxt.*feature 'price': DT_COMPLEX64"),
        ("DT_FLOAT", "DT_FLOTA", "got a mistake in .*schema.pbtxt.* 8:.*DT_FLOTA"),
        ("node_sets {", "node_sets [", "got a mistake in .*schema.pbtxt.* 2:13 .*Expected"),
    ],
)
def test_a_schema_that_tables_cannot_fill_is_refused(shop_dir, old, new, message):
    path = Path(shop_dir) / "graph_schema.pbtxt"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(ValueError, match=message):
        read_tables_schema(shop_dir)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "dtype: DT_FLOAT",
            "dtype: DT_FLOAT shape { dim { size: 3 } }",
            r"`shape` must be that of a scalar for a CSV column; got \[3\] for feature 'price' of node set 'item'",
        ),
        (
            'key: "#id" value { dtype: DT_INT64',
            'key: "#id" value { dtype: DT_INT32',
            "`#id` must be DT_STRING or DT_INT64; got int32 in node set 'item'",
        ),
        (
            'key: "count"',
            'key: "#id"',
            "`#id` must not be declared for an edge table; got it in edge set 'buys'",
        ),
        (
            'filename: "users.csv"',
            'filename: "users.csv" extra { key: "default.size" value: "0" }',
            r"`metadata.extra` must give defaults to declared features; got 'default.size' in node set 'user'",
        ),
    ],
)
def test_a_declaration_that_is_not_supported_is_refused(shop_dir, old, new, message):
    path = Path(shop_dir) / "graph_schema.pbtxt"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))

    with pytest.raises(ValueError, match=message):
        read_tables(shop_dir)


def test_a_folder_without_a_schema_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`tables_dir` must hold a graph_schema.pbtxt; got none in"):
        read_tables_schema(str(tmp_path))


@pytest.mark.parametrize("text", ["", 'context { features { key: "c" value { dtype: DT_FLOAT } } }'])
@pytest.mark.parametrize("read", [read_tables_schema, check_tables], ids=["sampling", "check"])
def test_a_schema_without_a_node_set_is_refused(tmp_path, read, text):
    (tmp_path / "graph_schema.pbtxt").write_text(text)

    with pytest.raises(
        ValueError,
        match=r"^`tables_dir` must hold a graph_schema.pbtxt that declares a node set; got none in .*/graph_",
    ):
        read(str(tmp_path))


def _edit(shop_dir, name, old, new):
    path = Path(shop_dir) / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def test_every_row_is_reported(shop_dir):
    reports = read_tables(shop_dir).reports

    assert {label: (report.rows_read, report.rows_used) for label, report in reports.items()} == {
        "nodes/item": (2, 2),
        "nodes/user": (4, 4),
        "edges/buys": (4, 4),
        "edges/knows": (4, 4),
    }
    assert (reports["edges/knows"].duplicate_edges, reports["edges/knows"].self_loops) == (1, 1)
    assert (reports["edges/buys"].duplicate_edges, reports["edges/buys"].self_loops) == (0, 0)


def test_edges_know_their_rows_in_the_file_even_where_others_were_dropped(shop_dir):
    _edit(shop_dir, "buys.csv", "bob,7,2", "zoe,7,2")
    rules = RowRules(dangling_edges="drop", max_dropped_share=0.3)

    edge_tables = read_tables(shop_dir, rules=rules).edge_tables

    whole, dropped = edge_tables["knows"], edge_tables["buys"]
    assert whole.rows.tolist() == [0, 1, 2, 3]
    assert dropped.rows.tolist() == [0, 2, 3]
    assert dropped.features["count"].to_pylist() == [1, 3, 4]
    assert list(zip(dropped.sources.tolist(), dropped.targets.tolist(), strict=True)) == [(0, 0), (2, 1), (1, 1)]


def test_tables_made_by_hand_number_their_edges():
    edges = EdgeTable(
        path="x", source_set="a", target_set="a", sources=np.array([5, 6]), targets=np.array([6, 5]), features={}
    )

    assert edges.rows.tolist() == [0, 1]


def test_edges_at_different_times_are_different(shop_dir):
    (Path(shop_dir) / "buys.csv").write_text("user,item,count\nann,7,1\nann,7,2\nann,7,1\n")
    rules = RowRules(duplicate_edges="keep_first")

    by_ends = read_tables(shop_dir, rules=rules).edge_tables["buys"]
    by_time = read_tables(shop_dir, rules=rules, edge_times={"buys": "count"})

    assert by_ends.rows.tolist() == [0]
    assert by_time.edge_tables["buys"].rows.tolist() == [0, 1]
    assert by_time.problems[0].value == "('ann', 7, 1) again"


def test_the_first_of_equal_nodes_is_kept(shop_dir):
    _edit(shop_dir, "users.csv", "dan,50,red", "bob,50,red")

    tables = read_tables(shop_dir, rules=RowRules(duplicate_nodes="keep_first"))

    users = tables.node_tables["user"]
    assert users.ids.to_pylist() == ["ann", "bob", "cid"]
    assert users.features["age"].to_pylist() == [20, 30, 40]


def test_tf_gnns_names_of_columns_are_known(shop_dir):
    _edit(shop_dir, "users.csv", "id,", "#id,")
    _edit(shop_dir, "knows.csv", "source,target", "#source,#target")

    tables = read_tables(shop_dir)

    assert tables.node_tables["user"].num_nodes == 4
    assert tables.edge_tables["knows"].num_edges == 4


def test_shards_are_one_table(shop_dir):
    folder = Path(shop_dir)
    lines = (folder / "knows.csv").read_text().splitlines()
    (folder / "knows-00000-of-00002.csv").write_text("\n".join(lines[:2]))
    (folder / "knows-00001-of-00002.csv.gz").write_bytes(gzip.compress("\n".join([lines[0], *lines[2:]]).encode()))
    (folder / "knows-00001-of-00002.csv.gz").rename(folder / "knows-00001-of-00002.csv")
    _edit(shop_dir, "graph_schema.pbtxt", '"knows.csv"', '"knows@2.csv"')

    knows = read_tables(shop_dir).edge_tables["knows"]

    assert knows.path == str(folder / "knows@2.csv")
    assert knows.rows.tolist() == [0, 1, 2, 3]
    assert list(zip(knows.sources.tolist(), knows.targets.tolist(), strict=True)) == [(0, 1), (0, 0), (1, 2), (0, 1)]
    assert [path.removeprefix(f"{folder}/") for path in list_table_files(shop_dir)] == [
        "buys.csv",
        "graph_schema.pbtxt",
        "items.csv",
        "knows-00000-of-00002.csv",
        "knows-00001-of-00002.csv",
        "users.csv",
    ]


def test_the_context_has_one_row_or_graph_ids(shop_dir):
    context = 'context { features { key: "year" value { dtype: DT_INT64 } } metadata { filename: "shop.csv" } }'
    _edit(shop_dir, "graph_schema.pbtxt", 'node_sets { key: "user"', f'{context} node_sets {{ key: "user"')
    (Path(shop_dir) / "shop.csv").write_text("graph_id,year\nb,2024\n")

    one = read_tables(shop_dir).context_table
    (Path(shop_dir) / "shop.csv").write_text("graph_id,year\nb,2024\na,2023\n")
    many = read_tables(shop_dir, extra_columns={"context": ["graph_id"]})

    assert (one.num_rows, one.features["year"].to_pylist(), one.extra_columns) == (1, [2024], {})
    assert many.context_table.extra_columns["graph_id"].to_pylist() == ["b", "a"]
    assert many.context_table.features["year"].to_pylist() == [2024, 2023]
    assert many.reports["context"].rows_used == 2


def test_extra_columns_of_edges_are_read(shop_dir):
    tables = read_tables(shop_dir, extra_columns={"buys": ["count"], "nodes/user": ["part"]})

    assert tables.edge_tables["buys"].extra_columns["count"].to_pylist() == ["1", "2", "3", "4"]
    assert tables.node_tables["user"].extra_columns["part"].to_pylist() == ["train", "train", "val", "test"]


def test_a_packed_column_is_split_by_its_declared_decoder(shop_dir):
    _edit(
        shop_dir,
        "graph_schema.pbtxt",
        'filename: "users.csv"',
        'filename: "users.csv" extra { key: "decoder.all" value: "{age}|{color[,]}" }',
    )
    _edit(
        shop_dir,
        "graph_schema.pbtxt",
        'key: "color" value { dtype: DT_STRING',
        'key: "color" value { dtype: DT_STRING shape { dim { size: -1 } }',
    )
    (Path(shop_dir) / "users.csv").write_text('id,all\nbob,30|red\nann,20|\ndan,50|\ncid,"40|red,blue"\n')

    users = read_tables(shop_dir).node_tables["user"]

    assert users.features["age"].to_pylist() == [20, 30, 40, 50]
    assert users.features["color"].to_pylist() == [[], ["red"], ["red", "blue"], []]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ('key: "decoder.all" value: "{size}"', r"`decoder.all` must make declared features.* got 'size' in node set"),
        ('key: "format" value: "xml"', r"`metadata.extra` must give a format of files; got 'xml' for node set 'user'"),
        ('key: "format" value: "bigquery"', r"must give a format of files; got 'bigquery' for node set 'user'"),
        ('key: "delimiter" value: "::"', r"must give one ASCII character as delimiter .* got '::' for node set 'user'"),
        ('key: "default.age" value: "?"', r"must give a default that can be of type int64; got '\?' for feature 'age'"),
    ],
)
def test_what_extra_entries_declare_is_checked(shop_dir, extra, message):
    _edit(shop_dir, "graph_schema.pbtxt", 'filename: "users.csv"', f'filename: "users.csv" extra {{ {extra} }}')

    with pytest.raises(ValueError, match=message):
        read_tables_schema(shop_dir)


@pytest.mark.parametrize("shape", ["dim { size: 2 } dim { size: -1 }", "dim { size: -1 } dim { size: 2 }"])
def test_ragged_inner_dimensions_are_refused(shop_dir, shape):
    _edit(shop_dir, "graph_schema.pbtxt", "dtype: DT_FLOAT", f"dtype: DT_FLOAT shape {{ {shape} }}")

    with pytest.raises(ValueError, match=r"`shape` must be fixed, or \[-1\] alone; got .* for feature 'price' of node"):
        read_tables(shop_dir)


def test_the_id_may_name_its_column_as_its_source(shop_dir):
    _edit(shop_dir, "graph_schema.pbtxt", ' extra { key: "id_column" value: "number" }', "")
    _edit(
        shop_dir,
        "graph_schema.pbtxt",
        'dtype: DT_INT64 } }\n  features { key: "price"',
        'dtype: DT_INT64 source: "number" } }\n  features { key: "price"',
    )

    assert read_tables(shop_dir).node_tables["item"].ids.to_pylist() == [7, 12]


def test_layouts_travel_to_workers(shop_dir):
    declared = 'filename: "users.csv" extra { key: "decoder.part" value: "{age}:{color}" }'
    _edit(shop_dir, "graph_schema.pbtxt", 'filename: "users.csv"', declared)
    layouts = layouts_of(read_tables_schema(shop_dir), shop_dir)

    copies = pickle.loads(pickle.dumps(layouts))

    assert copies == layouts
    assert [layout.label for layout in copies.all] == ["nodes/item", "nodes/user", "edges/buys", "edges/knows"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"node_sets": ["nobody"]}, "`node_sets` must name tables of the graph schema; got 'nobody'"),
        ({"edge_sets": ["sells"]}, "`edge_sets` must name tables of the graph schema; got 'sells'"),
        ({"extra_columns": {"users": ["part"]}}, "`extra_columns` must name tables of the graph schema; got 'users'"),
        ({"decoders": {"edges/user": {}}}, "`decoders` must name tables of the graph schema; got 'edges/user'"),
        ({"edge_times": {"buys": "time"}}, "`edge_times` must name an integer feature .* got 'time' of 'buys'"),
        ({"edge_times": {"sells": "count"}}, "`edge_times` must name an integer feature .* got 'count' of 'sells'"),
    ],
)
def test_names_that_the_schema_does_not_know_are_refused(shop_dir, options, message):
    with pytest.raises(ValueError, match=message):
        read_tables(shop_dir, **options)


def test_edge_sets_may_read_a_table_the_other_way_round_and_readouts_have_none(shop_dir):
    """TF-GNN's key "edge_type", and its description of the readout of pairs."""
    with Path(shop_dir, "graph_schema.pbtxt").open("a") as file:
        file.write("""
            edge_sets { key: "bought" value { source: "item" target: "user"
              metadata { filename: "buys.csv"
                extra { key: "edge_type" value: "reversed" }
                extra { key: "source_column" value: "user" } extra { key: "target_column" value: "item" } } } }
            node_sets { key: "_readout" value { } }
            edge_sets { key: "_readout/source" value { source: "user" target: "_readout" } }
        """)

    tables = read_tables(shop_dir)

    buys, bought = tables.edge_tables["buys"], tables.edge_tables["bought"]
    assert (bought.sources.tolist(), bought.targets.tolist()) == (buys.targets.tolist(), buys.sources.tolist())
    assert sorted(tables.edge_tables) == ["bought", "buys", "knows"]
    assert sorted(tables.node_tables) == ["item", "user"]


SCHEMA = """
node_sets {{ key: "user" value {{ features {{ key: "age" value {{ dtype: DT_INT64 }} }} {id}
  metadata {{ filename: "{users}" }} }} }}
edge_sets {{ key: "knows" value {{ source: "user" target: "user" metadata {{ filename: "knows.csv" }} }} }}
"""


def _check(tmp_path, users, knows, *, filename="users.csv", id_feature=""):
    (tmp_path / "graph_schema.pbtxt").write_text(SCHEMA.format(users=filename, id=id_feature))
    if isinstance(users, str):
        (tmp_path / filename).write_text(users)
    else:
        pq.write_table(pa.table(users), tmp_path / filename)
    (tmp_path / "knows.csv").write_text("source,target\n" + knows)
    return check_tables(str(tmp_path))


def _places(found):
    return [(problem.table, problem.row, problem.rule) for problem in found.problems]


@pytest.mark.parametrize(
    ("users", "filename"),
    [
        ("id,age\nann,30\nbob,old\ncid,\nbob,20\n", "users.csv"),
        ({"id": ["ann", "bob", "cid", "bob"], "age": ["30", "old", None, "20"]}, "users.parquet"),
    ],
)
def test_edges_of_a_node_whose_row_is_bad_are_not_problems_too(tmp_path, users, filename):
    found = _check(tmp_path, users, "ann,bob\nbob,ann\ncid,cid\nann,cid\nann,eve\n", filename=filename)

    first = 2 if filename == "users.csv" else 0
    assert _places(found) == [
        ("nodes/user", first + 1, "type"),
        ("nodes/user", first + 2, "missing"),
        ("edges/knows", 6, "dangling_target"),
    ]
    edges = found.reports["edges/knows"]
    assert (edges.rows_read, edges.rows_used, edges.self_loops, edges.duplicate_edges) == (5, 4, 1, 0)
    assert found.reports["nodes/user"].rows_used == 2


def test_integer_ids_of_bad_rows_are_known(tmp_path):
    found = _check(
        tmp_path,
        "id,age\n1,30\n2,old\nx,20\n",
        "1,2\n2,1\n1,3\n",
        id_feature='features { key: "#id" value { dtype: 9 } }',
    )

    assert _places(found) == [
        ("nodes/user", 3, "type"),
        ("nodes/user", 4, "type"),
        ("edges/knows", 4, "dangling_target"),
    ]


def test_edges_of_a_row_without_a_readable_id_are_problems(tmp_path):
    found = _check(tmp_path, "id,age\nann,30\nbob\n", "ann,bob\nann,ann\n")

    assert _places(found) == [("nodes/user", 3, "cells"), ("edges/knows", 2, "dangling_target")]

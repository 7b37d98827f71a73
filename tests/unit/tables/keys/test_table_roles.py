from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.column_values import read_column_values
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.schema_inference import undeclared_layout
from tfx_gnn.tables.table_access import TableAccess


def roles_of(folder, **files):
    """Node sets with their columns of ids, and edge sets with their two columns and node sets."""
    for name, lines in files.items():
        (folder / f"{name}.csv").write_text("\n".join([*lines, ""]))
    found = find_keys(find_tables(str(folder), TableAccess()), str(folder)).roles(str(folder))
    return dict(found.id_columns), {
        name: (role.source_column, role.source, role.target_column, role.target) for name, role in found.edges.items()
    }


def columns_of(folder, filename):
    return read_column_values(undeclared_layout("node", "it", str(folder), filename, TableAccess()))


def test_values_are_counted_as_texts_and_lists_have_none(tmp_path):
    columns = {"id": pa.array([7, 8, 7]), "tags": [["a"], [], ["b"]], "size": pa.array([0.5, None, 0.5])}
    pq.write_table(pa.table(columns), tmp_path / "it.parquet")

    found = columns_of(tmp_path, "it.parquet")

    assert dict(zip(found["id"].values.to_pylist(), found["id"].counts.to_pylist(), strict=True)) == {"7": 2, "8": 1}
    assert (found["tags"].num_distinct, found["tags"].is_key, found["tags"].mean()) == (0, False, 0.0)
    assert (found["size"].num_filled, found["size"].num_rows, found["size"].mean()) == (2, 3, 0.5)


def test_times_are_counted_as_seconds_and_ids_as_keys(tmp_path):
    (tmp_path / "it.csv").write_text('\ufeffid,name\na,"x, y"\nb,\n', encoding="utf-8")
    pq.write_table(pa.table({"at": pa.array([5_000], pa.timestamp("ms"))}), tmp_path / "times.parquet")

    assert columns_of(tmp_path, "times.parquet")["at"].values.to_pylist() == ["5"]
    assert columns_of(tmp_path, "it.csv")["id"].is_key
    assert columns_of(tmp_path, "it.csv")["name"].values.to_pylist() == ["x, y"]


def test_text_of_another_encoding_is_refused(tmp_path):
    (tmp_path / "it.csv").write_bytes("id,name\na,größe\n".encode("latin-1"))

    with pytest.raises(ValueError, match=r"`.*it\.csv, column 'name'` must be UTF-8 text; got other bytes\. Save"):
        columns_of(tmp_path, "it.csv")


def test_columns_id_source_and_target_decide(tmp_path):
    nodes, edges = roles_of(tmp_path, users=["id,age", "1,30", "2,40"], follows=["target,source", "1,2", "2,1"])

    assert nodes == {"users": "id"}
    assert edges == {"follows": ("source", "users", "target", "users")}


def test_columns_named_after_the_tables_decide(tmp_path):
    """Small integers are ids of both tables by chance, and `qty` holds ids of neither by meaning."""
    nodes, edges = roles_of(
        tmp_path,
        customers_2024=["city,customer_id", "Bonn,1", "Bonn,2", "Rome,3"],
        products=["productId,price", "1,2.5", "2,3.5"],
        purchases=["qty,buyer_customer,product", "1,1,2", "2,2,2", "1,3,1"],
    )

    assert nodes == {"customers_2024": "customer_id", "products": "productId"}
    assert edges == {"purchases": ("buyer_customer", "customers_2024", "product", "products")}


def test_values_decide_where_names_do_not(tmp_path):
    nodes, edges = roles_of(
        tmp_path,
        people=["nick,age", "ann,30", "bob,40", "cid,50"],
        calls=["caller,callee,minutes", "ann,bob,3", "bob,ann,3", "ann,cid,9"],
    )

    assert nodes == {"people": "nick"}
    assert edges == {"calls": ("caller", "people", "callee", "people")}


def test_a_tenth_of_dangling_rows_does_not_hide_the_edges(tmp_path):
    links = [f"p{i % 3},p{(i + 1) % 3}" for i in range(19)]

    _, edges = roles_of(tmp_path, pages=["id", "p0", "p1", "p2"], links=["from,to", *links, "p1,gone"])

    assert edges == {"links": ("from", "pages", "to", "pages")}


def test_foreign_keys_of_node_tables_are_edge_sets(tmp_path):
    tables = {
        "users": ["id,age", "1,30", "2,40"],
        "orders": ["order_id,user_id,qty,country", "1,1,2,DE", "2,2,1,FR", "3,1,2,DE"],
        "countries": ["country,size", "DE,80", "FR,70"],
    }

    nodes, edges = roles_of(tmp_path, **tables)

    assert nodes == {"countries": "country", "orders": "order_id", "users": "id"}
    assert edges == {
        "orders_user_id": ("order_id", "orders", "user_id", "users"),
        "orders_country": ("order_id", "orders", "country", "countries"),
    }
    found = find_keys(find_tables(str(tmp_path), TableAccess()), str(tmp_path)).roles(str(tmp_path))
    schema = found.infer_schema(str(tmp_path), TableAccess())
    assert sorted(schema.node_sets["orders"].features) == ["#id", "qty"]
    assert not schema.edge_sets["orders_user_id"].features
    assert schema.edge_sets["orders_user_id"].metadata.filename == "orders.csv"


def test_kind_in_file_names_is_left_out_and_shards_are_one_table(tmp_path):
    (tmp_path / "nodes-00000-of-00002.csv").write_text("id\na\n")
    (tmp_path / "nodes-00001-of-00002.csv").write_text("id\nb\n")

    nodes, edges = roles_of(tmp_path, **{"edge_my links": ["src_id,dst_id", "a,b", "b,a"]})

    assert nodes == {"nodes": "id"}
    assert edges == {"my_links": ("src_id", "nodes", "dst_id", "nodes")}


def test_unclear_table_gets_the_command_that_can_say_what_it_is(tmp_path):
    rule = (
        r"`tables_dir` must show which tables hold nodes, .*; got rates\.csv, where ids of nodes are in who "
        r"\(of users\) and not in score; the ids known are users such as 'u1'\. Rename .*: tfx-gnn tables infer-schema "
        r"--tables-dir .* --node users=users\.csv --edge rates=SET,SET,rates\.csv --source-column rates=COLUMN"
    )

    with pytest.raises(ValueError, match=rule):
        roles_of(tmp_path, users=["id", "u1", "u2"], rates=["who,score", "u1,3", "u1,3"])


@pytest.mark.parametrize(
    ("files", "rule"),
    [
        ({"notes.txt": ""}, r"`tables_dir` must hold tables as \.csv, \.tsv or \.parquet files; got \['notes.txt'\]"),
        (
            {"a.csv": "id\n1\n", "a.tsv": "id\n1\n"},
            r"`tables_dir` must hold tables of different names; got 'a.csv' and",
        ),
        ({"a.csv": "id;name\n1;x\n"}, r"`a\.csv` must have commas between its cells, .*; got ';' in its first line"),
        (
            {"a.tfrecord": ""},
            r"`tables_dir` must hold a graph schema where tables are TFRecord files; got 'a\.tfrecord'",
        ),
    ],
)
def test_folder_that_cannot_be_read_is_refused(tmp_path, files, rule):
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(ValueError, match=rule):
        find_tables(str(tmp_path), TableAccess())


def test_file_in_place_of_a_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"`tables_dir` must be a folder; got '.*gone', which is not one"):
        find_tables(str(tmp_path / "gone"), TableAccess())

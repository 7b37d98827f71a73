"""Bad tables: each is refused with file, row and rule, or its rows are dropped, counted and reported.

The kinds, each a case below:

| what is wrong                                         | rows can be dropped under |
|-------------------------------------------------------|---------------------------|
| a file that is absent, empty, or a header line alone  | - |
| a column that is absent, or there twice               | - |
| a column of a type that cannot become the declared    | - |
| a quote that is never closed                          | - |
| UTF-16 instead of UTF-8                               | - |
| a gzip file that is cut off, or damaged               | - |
| a Parquet file that is cut off, or is something else  | - |
| a shard that is missing, shards of two numberings     | - |
| no context row, two context rows                      | - |
| a record with too few cells, with too many            | cells |
| a cell that is not UTF-8, text or Parquet             | encoding |
| no value: feature, id, end of an edge, part of a list | missing |
| text, fraction or overflow where an integer is due    | type |
| what is neither true nor false                        | type |
| an integer that float32 cannot hold, half a second    | type |
| NaN, infinity, a number beyond float32                | finite |
| a list of the wrong length                            | shape |
| a packed cell with too few parts, with a wrong part   | decoder, type |
| an id, or the end of an edge, that is the empty text  | empty_id |
| a node id that comes again                            | duplicate_node |
| an edge that comes again                              | duplicate_edge |
| an edge from, and one to, a node that is not there    | dangling_source, dangling_target |
"""

import dataclasses
import datetime as dt
import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.row_rules import RowRules, dead_letters_file, write_dead_letters

USERS = "id,age,color,part\nbob,30,red,train\nann,20,blue,train\ndan,50,red,test\ncid,40,blue,val\n"
CUT_GZIP = gzip.compress(USERS.encode() * 1000)[:-200]
DAMAGED_GZIP = gzip.compress(USERS.encode())[:-8] + b"damaged!"
DROPPING = RowRules(
    invalid_rows="drop",
    duplicate_nodes="keep_first",
    dangling_edges="drop",
    max_dropped_share=0.6,
)


def _parquet(**columns) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table(columns), path, row_group_size=2)


def _cut_parquet(path: Path) -> None:
    _parquet(id=["bob", "ann"])(path)
    path.write_bytes(path.read_bytes()[:-20])


SECONDS = [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=i) for i in range(4)]
HALF_A_SECOND = [second + dt.timedelta(milliseconds=500 * (i == 2)) for i, second in enumerate(SECONDS)]
IDS = ["bob", "ann", "dan", "cid"]
COLORS = ["red", "blue", "red", "blue"]
LATIN_1 = pa.array([b"bob", b"ann", b"d\xe9n", b"cid"]).view(pa.string())  # declared as text, which is UTF-8


@dataclasses.dataclass(frozen=True, kw_only=True)
class BadTable:
    """A shop of which one table is bad.

    `edits` are replacements of text in files, `files` whole contents or what writes them; `message` is
    part of the error. `table` loses `rows` rows under `rule`, if they can be dropped.
    """

    name: str
    message: str
    edits: tuple[tuple[str, str, str], ...] = ()
    files: Mapping[str, str | bytes | Callable[[Path], None]] = dataclasses.field(default_factory=dict)
    table: str = ""
    rule: str = ""
    rows: int = 1


def _schema(old: str, new: str) -> tuple[str, str, str]:
    return ("graph_schema.pbtxt", old, new)


USERS_FILE = 'filename: "users.csv"'
PARQUET = _schema("users.csv", "users.parquet")
FLOAT_AGE = _schema('key: "age" value { dtype: DT_INT64', 'key: "age" value { dtype: DT_FLOAT')
PAIR_AGE = _schema('key: "age" value { dtype: DT_INT64', 'key: "age" value { shape { dim { size: 2 } } dtype: DT_INT64')
PACKED = _schema(USERS_FILE, USERS_FILE + ' extra { key: "decoder.part" value: "{age}:{color}" }')
CONTEXT = _schema(
    'node_sets { key: "user"',
    'context { features { key: "year" value { dtype: DT_INT64 } } metadata { filename: "shop.csv" } } '
    'node_sets { key: "user"',
)

BAD_FILES = [
    BadTable(
        name="absent file",
        edits=(_schema("users.csv", "nobody.csv"),),
        message="must name a file that exists, .* got 'nobody.csv' for node set 'user'",
    ),
    BadTable(
        name="empty file",
        files={"users.csv": ""},
        message=r"users.csv` must start with a header line; got an empty file",
    ),
    BadTable(
        name="header line alone",
        files={"users.csv": "id,age,color,part\n"},
        message=r"users.csv` must hold at least one record; got a header line only",
    ),
    BadTable(
        name="absent column",
        edits=(("users.csv", "age", "years"),),
        message=r"`age` must be one column of the table; got none among \['id', 'years', .* in .*users.csv",
    ),
    BadTable(
        name="absent column of Parquet",
        edits=(PARQUET,),
        files={"users.parquet": _parquet(id=IDS, color=COLORS)},
        message=r"`age` must be one column of the table; got none among \['id', 'color'\] in .*users.parquet",
    ),
    BadTable(
        name="column twice",
        edits=(("users.csv", "part", "age"),),
        message="`age` must be one column of the table; got 2 of that name among .* in .*users.csv",
    ),
    BadTable(
        name="column of a type that cannot be converted",
        edits=(PARQUET,),
        files={"users.parquet": _parquet(id=IDS, color=COLORS, age=[{"years": 1}] * 4)},
        message="`age` must hold values of type int64; got a column of type struct<years: int64> in .*users.parquet",
    ),
    BadTable(
        name="column of numbers where text is declared",
        edits=(PARQUET,),
        files={"users.parquet": _parquet(id=IDS, age=[1, 2, 3, 4], color=[0.1, 0.2, 0.3, 0.4])},
        message="`color` must hold values of type large_string; got a column of type double in .*users.parquet",
    ),
    BadTable(
        name="quote never closed",
        edits=(("users.csv", "dan,50,red", 'dan,50,"red'),),
        message=r"users.csv` must close every quote; got one that is open at the end .* begins in line 4",
    ),
    BadTable(
        name="UTF-16",
        files={"users.csv": USERS.encode("utf-16")},
        message="must be a UTF-8 CSV file; got byte 0xff in .*users.csv, line 1",
    ),
    BadTable(
        name="gzip cut off",
        files={"users.csv": CUT_GZIP},
        message="users.csv` must be a whole gzip file; got Compressed file ended",
    ),
    BadTable(
        name="gzip damaged",
        files={"users.csv": DAMAGED_GZIP},
        message="users.csv` must be a whole gzip file; got CRC check failed",
    ),
    BadTable(
        name="Parquet cut off",
        edits=(PARQUET,),
        files={"users.parquet": _cut_parquet},
        message="users.parquet` must be a whole Parquet file; got ",
    ),
    BadTable(
        name="CSV called Parquet",
        edits=(PARQUET,),
        files={"users.parquet": USERS},
        message="users.parquet` must be a whole Parquet file; got a file that does not begin as one",
    ),
    BadTable(
        name="missing shard",
        edits=(_schema("users.csv", "users@3.csv"),),
        files={"users-00000-of-00003.csv": USERS, "users-00002-of-00003.csv": USERS},
        message=r"must name every shard once; got 2 of 3 files for .*users@3.csv', without \[1\]",
    ),
    BadTable(
        name="shards of two numberings",
        edits=(_schema(USERS_FILE, 'filename: "users-*" extra { key: "format" value: "csv" }'),),
        files={"users-00000-of-00001": USERS, "users-00000-of-00002": USERS},
        message=r"must name shards of one number; got shards of \[1, 2\] for .*users-\*",
    ),
    BadTable(
        name="no context row",
        edits=(CONTEXT,),
        files={"shop.csv": "year\n"},
        message="shop.csv` must hold at least one record",
    ),
    BadTable(
        name="two context rows",
        edits=(CONTEXT,),
        files={"shop.csv": "year\n2024\n2025\n"},
        message="`context` must have exactly one row, for the whole graph; got 2 in .*shop.csv",
    ),
]

BAD_ROWS = [
    BadTable(
        name="too few cells",
        edits=(("users.csv", "dan,50,red,test", "dan,50"),),
        message="must have 4 cells in every record; got 2 cells in .*users.csv, line 4",
        table="nodes/user",
        rule="cells",
    ),
    BadTable(
        name="too many cells",
        edits=(("knows.csv", "bob,cid", "bob,cid,dan"),),
        message="`edges/knows` must have 2 cells in every record; got 3 cells in .*knows.csv, line 4",
        table="edges/knows",
        rule="cells",
    ),
    BadTable(
        name="text that is not UTF-8",
        files={"users.csv": USERS.encode().replace(b"dan,50,red", b"dan,50,r\xe9d")},
        message="`color` must be UTF-8 text; got byte 0xe9 in .*users.csv, line 4",
        table="nodes/user",
        rule="encoding",
    ),
    BadTable(
        name="Parquet text that is not UTF-8",
        edits=(PARQUET,),
        files={"users.parquet": _parquet(id=IDS, age=[1, 2, 3, 4], color=[b"r", b"b", b"\xff", b"b"])},
        message="`color` must be UTF-8 text; got byte 0xff in .*users.parquet, row 2",
        table="nodes/user",
        rule="encoding",
    ),
    BadTable(
        name="end of an edge that is not UTF-8 in Parquet",
        edits=(_schema("knows.csv", "knows.parquet"),),
        files={"knows.parquet": _parquet(source=LATIN_1, target=IDS)},
        message="`source` must be UTF-8 text; got byte 0xe9 in .*knows.parquet, row 2",
        table="edges/knows",
        rule="encoding",
    ),
    BadTable(
        name="feature without value",
        edits=(("users.csv", "dan,50", "dan,"),),
        message="`age` must have a value in every record; got an empty cell in .*users.csv, line 4",
        table="nodes/user",
        rule="missing",
    ),
    BadTable(
        name="Parquet null",
        edits=(PARQUET,),
        files={"users.parquet": _parquet(id=IDS, age=[1, 2, None, 4], color=COLORS)},
        message="`age` must have a value in every record; got no value in .*users.parquet, row 2",
        table="nodes/user",
        rule="missing",
    ),
    BadTable(
        name="node without id",
        edits=(("users.csv", "dan,50", ",50"),),
        message="`id` must have a value in every record; got an empty cell in .*users.csv, line 4",
        table="nodes/user",
        rule="missing",
    ),
    BadTable(
        name="edge without target",
        edits=(("knows.csv", "bob,cid", "bob,"),),
        message="`target` must have a value in every record; got an empty cell in .*knows.csv, line 4",
        table="edges/knows",
        rule="missing",
    ),
    BadTable(
        name="null in a list",
        edits=(PARQUET, PAIR_AGE),
        files={"users.parquet": _parquet(id=IDS, age=[[1, 2], [3, 4], [5, None], [6, 7]], color=COLORS)},
        message="`age` must have a value in every record; got null among the values in .*users.parquet, row 2",
        table="nodes/user",
        rule="missing",
    ),
    BadTable(
        name="text for an integer",
        edits=(("users.csv", "dan,50", "dan,fifty"),),
        message="`age` must be of type int64; got 'fifty' in .*users.csv, line 4",
        table="nodes/user",
        rule="type",
    ),
    BadTable(
        name="text for an integer id",
        edits=(("items.csv", "12,", "twelve,"), ("buys.csv", "bob,12", "bob,7")),
        message="`number` must be of type int64; got 'twelve' in .*items.csv, line 2",
        table="nodes/item",
        rule="type",
    ),
    BadTable(
        name="fraction for an integer",
        edits=(("users.csv", "dan,50", "dan,50.5"),),
        message="`age` must be of type int64; got '50.5' in .*users.csv, line 4",
        table="nodes/user",
        rule="type",
    ),
    BadTable(
        name="Parquet fraction for an integer",
        edits=(PARQUET,),
        files={"users.parquet": _parquet(id=IDS, age=[1.0, 2.0, 2.5, 3.0], color=COLORS)},
        message="`age` must be of type int64 without loss; got 2.5 in .*users.parquet, row 2",
        table="nodes/user",
        rule="type",
    ),
    BadTable(
        name="overflow",
        edits=(("buys.csv", "cid,12,3", "cid,12,2147483648"),),
        message="`count` must be of type int32; got '2147483648' in .*buys.csv, line 4",
        table="edges/buys",
        rule="type",
    ),
    BadTable(
        name="Parquet overflow",
        edits=(_schema("buys.csv", "buys.parquet"),),
        files={
            "buys.parquet": _parquet(
                user=["ann", "bob", "cid", "bob"], item=[7, 7, 12, 12], count=[1, 2**31 - 1, 2**31, 4]
            )
        },
        message="`count` must be of type int32 without loss; got 2147483648 in .*buys.parquet, row 2",
        table="edges/buys",
        rule="type",
    ),
    BadTable(
        name="neither true nor false",
        edits=(
            _schema('key: "age" value { dtype: DT_INT64', 'key: "age" value { dtype: DT_BOOL'),
            ("users.csv", ",30,", ",true,"),
            ("users.csv", ",20,", ",0,"),
            ("users.csv", ",40,", ",False,"),
        ),
        message="`age` must be of type bool; got '50' in .*users.csv, line 4",
        table="nodes/user",
        rule="type",
    ),
    BadTable(
        name="integer that float32 cannot hold",
        edits=(PARQUET, FLOAT_AGE),
        files={"users.parquet": _parquet(id=IDS, age=[1, 2, 2**24 + 1, 4], color=COLORS)},
        message="`age` must be of type float without loss; got 16777217 in .*users.parquet, row 2",
        table="nodes/user",
        rule="type",
    ),
    BadTable(
        name="half a second",
        edits=(PARQUET,),
        files={"users.parquet": _parquet(id=IDS, age=HALF_A_SECOND, color=COLORS)},
        message="`age` must be a whole number of seconds; got datetime.datetime.* in .*users.parquet, row 2",
        table="nodes/user",
        rule="type",
    ),
    BadTable(
        name="NaN",
        edits=(FLOAT_AGE, ("users.csv", "dan,50", "dan,nan")),
        message=r"`age` must be a finite number \(float\); got 'nan' in .*users.csv, line 4",
        table="nodes/user",
        rule="finite",
    ),
    BadTable(
        name="Parquet infinity",
        edits=(PARQUET, FLOAT_AGE),
        files={"users.parquet": _parquet(id=IDS, age=[1.0, 2.0, float("-inf"), 4.0], color=COLORS)},
        message=r"`age` must be a finite number \(float\); got -inf in .*users.parquet, row 2",
        table="nodes/user",
        rule="finite",
    ),
    BadTable(
        name="number beyond float32",
        edits=(FLOAT_AGE, ("users.csv", "dan,50", "dan,1e39")),
        message=r"`age` must be a finite number \(float\); got '1e39' in .*users.csv, line 4",
        table="nodes/user",
        rule="finite",
    ),
    BadTable(
        name="text for a float",
        edits=(("items.csv", "12,1.5", "12,dear"), ("buys.csv", "bob,12", "bob,7")),
        message=r"`price` must be a finite number \(float\); got 'dear' in .*items.csv, line 2",
        table="nodes/item",
        rule="finite",
    ),
    BadTable(
        name="list of the wrong length",
        edits=(PARQUET, PAIR_AGE),
        files={"users.parquet": _parquet(id=IDS, age=[[1, 2], [3, 4], [5], [6, 7]], color=COLORS)},
        message=r"`age` must have the shape \[2\]; got 1 values where the shape has 2 in .*users.parquet, row 2",
        table="nodes/user",
        rule="shape",
    ),
    BadTable(
        name="packed cell with too few parts",
        edits=(PACKED,),
        files={"users.csv": "id,part\nbob,30:red\nann,20:blue\ndan,50\ncid,40:blue\n"},
        message=r"`part` must have 2 parts between ':'; got 1 in '50' in .*users.csv, line 4",
        table="nodes/user",
        rule="decoder",
    ),
    BadTable(
        name="packed cell with a wrong part",
        edits=(PACKED,),
        files={"users.csv": "id,part\nbob,30:red\nann,20:blue\ndan,old:red\ncid,40:blue\n"},
        message=r"`part:age` must be of type int64; got 'old' in .*users.csv, line 4",
        table="nodes/user",
        rule="type",
    ),
    BadTable(
        name="empty text as id",
        edits=(("users.csv", "dan,50", '"",50'),),
        message="`id` must be an id; got the empty text in .*users.csv, line 4",
        table="nodes/user",
        rule="empty_id",
    ),
    BadTable(
        name="empty text as source",
        edits=(("knows.csv", "bob,cid", '"",cid'),),
        message="`source` must be an id; got the empty text in .*knows.csv, line 4",
        table="edges/knows",
        rule="empty_id",
    ),
    BadTable(
        name="node id again",
        edits=(("users.csv", "dan,50", "bob,50"),),
        message="`id` must be different in every record; got 'bob' again in .*users.csv, line 4",
        table="nodes/user",
        rule="duplicate_node",
    ),
    BadTable(
        name="integer node id again",
        edits=(("items.csv", "7,0.25", "7,0.25\n12,9"),),
        message="`number` must be different in every record; got 12 again in .*items.csv, line 4",
        table="nodes/item",
        rule="duplicate_node",
    ),
    BadTable(
        name="edge from nowhere",
        edits=(("buys.csv", "cid,12", "eve,12"),),
        message=r"`user` must name a node of 'user' \(.*users.csv\); got 'eve' in .*buys.csv, line 4",
        table="edges/buys",
        rule="dangling_source",
    ),
    BadTable(
        name="edges to nowhere",
        edits=(("knows.csv", "bob,cid\nann,bob", "bob,eve\nann,zoe"),),
        message=r"`target` must name a node of 'user' .* got 'eve' in .*knows.csv, line 4. .* It is one of 2 such rows",
        table="edges/knows",
        rule="dangling_target",
        rows=2,
    ),
]


def _write(shop_dir: str, bad: BadTable) -> None:
    for name, old, new in bad.edits:
        path = Path(shop_dir) / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))
    for name, content in bad.files.items():
        path = Path(shop_dir) / name
        if callable(content):
            content(path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())


def _id(bad: BadTable) -> str:
    return bad.name


def test_there_are_at_least_30_kinds():
    assert len({bad.name for bad in BAD_FILES + BAD_ROWS}) == len(BAD_FILES + BAD_ROWS) >= 30


@pytest.mark.parametrize("bad", BAD_FILES + BAD_ROWS, ids=_id)
def test_a_bad_table_is_refused_with_file_row_and_rule(shop_dir, bad):
    _write(shop_dir, bad)

    with pytest.raises(ValueError, match=bad.message):
        read_tables(shop_dir)


@pytest.mark.parametrize("bad", BAD_FILES, ids=_id)
def test_a_bad_file_is_refused_whatever_the_rules(shop_dir, bad):
    _write(shop_dir, bad)

    with pytest.raises(ValueError, match=bad.message):
        read_tables(shop_dir, rules=DROPPING)


@pytest.mark.parametrize("bad", BAD_ROWS, ids=_id)
def test_bad_rows_are_dropped_counted_and_in_the_dead_letters(shop_dir, tmp_path, bad):
    _write(shop_dir, bad)

    tables = read_tables(shop_dir, rules=DROPPING)
    write_dead_letters(str(tmp_path / "letters"), tables.problems)

    report = tables.reports[bad.table]
    assert report.dropped == {bad.rule: bad.rows}
    assert report.rows_read == report.rows_used + bad.rows
    lines = (tmp_path / "letters" / dead_letters_file(bad.table)).read_text().splitlines()
    letters = [json.loads(line) for line in lines]
    assert [letter["rule"] for letter in letters] == [bad.rule] * bad.rows
    place = f"{letters[0]['file']}, {letters[0]['row_word']} {letters[0]['row']}"
    assert f" in {place}. " in letters[0]["message"]
    assert len(tables.problems) == sum(sum(report.dropped.values()) for report in tables.reports.values())
    kept = {**tables.node_tables, **tables.edge_tables}[bad.table.partition("/")[2]]
    assert report.rows_used == (kept.num_nodes if bad.table.startswith("nodes") else kept.num_edges)


def test_an_edge_that_comes_again_is_counted_refused_or_dropped(shop_dir, tmp_path):
    kept = read_tables(shop_dir)
    dropped = read_tables(shop_dir, rules=RowRules(duplicate_edges="keep_first"))

    assert kept.reports["edges/knows"].duplicate_edges == 1
    assert (kept.reports["edges/knows"].rows_used, kept.problems) == (4, ())
    assert dropped.reports["edges/knows"].duplicate_edges == 1
    assert dropped.reports["edges/knows"].dropped == {"duplicate_edge": 1}
    assert dropped.edge_tables["knows"].rows.tolist() == [0, 1, 2]
    assert [problem.row for problem in dropped.problems] == [5]
    with pytest.raises(
        ValueError, match=r"`edges/knows` must name every edge once; got \('ann', 'bob'\) again in .*knows.csv, line 5"
    ):
        read_tables(shop_dir, rules=RowRules(duplicate_edges="refuse"))


def test_more_dropped_rows_than_allowed_are_refused_with_their_counts(shop_dir):
    path = Path(shop_dir) / "users.csv"
    path.write_text(path.read_text().replace("dan,50", "dan,old"))

    with pytest.raises(
        ValueError,
        match=r"`max_dropped_share` must cover .* got 0.2 for 1 of 4 rows of nodes/user: \{'type': 1\}",
    ):
        read_tables(shop_dir, rules=RowRules(invalid_rows="drop", max_dropped_share=0.2))


def test_a_table_of_which_nothing_is_left_is_refused(shop_dir):
    path = Path(shop_dir) / "users.csv"
    path.write_text("id,age,color,part\nann,young,red,x\nbob,old,red,x\n")

    with pytest.raises(ValueError, match=r"`nodes/user` must have at least one usable row; got none, after 2"):
        read_tables(shop_dir, rules=RowRules(invalid_rows="drop", max_dropped_share=1.0))


def test_a_row_with_many_mistakes_is_counted_once(shop_dir):
    path = Path(shop_dir) / "users.csv"
    path.write_text(path.read_text().replace("dan,50,red", '"",old,'))

    tables = read_tables(shop_dir, rules=DROPPING)

    assert tables.reports["nodes/user"].dropped == {"empty_id": 1}
    assert len(tables.problems) == 1

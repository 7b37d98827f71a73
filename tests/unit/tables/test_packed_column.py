import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.packed_column import PackedColumn, PackedPart, hash_buckets, parse_packed_column
from tfx_gnn.tables.row_rules import RowRules

USER = parse_packed_column("attributes", "{age}:{gender}:{score}:{city}:{tags[,]}:{user}")
SEEDS_USER = "28:0:0.2:Hangzhou:1,5,12:1000008"


def _texts(*texts):
    return pa.array(texts, pa.large_string())


def _decode(column, *texts):
    columns, problems = column.decode(_texts(*texts))
    return {name: array.to_pylist() for name, array in columns.items()}, problems


def test_the_cell_of_the_seed_is_split():
    assert USER.feature_names == ("age", "gender", "score", "city", "tags", "user")
    assert _decode(USER, SEEDS_USER) == (
        {
            "age": ["28"],
            "gender": ["0"],
            "score": ["0.2"],
            "city": ["Hangzhou"],
            "tags": [["1", "5", "12"]],
            "user": ["1000008"],
        },
        (),
    )


def test_an_empty_part_is_null_and_an_empty_list_has_no_values():
    column = parse_packed_column("x", "{a}|{b[,]}|{c#7}")

    assert _decode(column, "||", "1|,|", "2|3|4") == (
        {"a": [None, "1", "2"], "b": [[], ["", ""], ["3"]], "c": [None, None, hash_buckets(_texts("4"), 7)[0]]},
        (),
    )


def test_a_cell_of_another_number_of_parts_is_a_problem_and_null():
    columns, problems = _decode(USER, "1:2", SEEDS_USER, SEEDS_USER + ":x", "")

    assert columns["age"] == [None, "28", None, None]
    assert columns["tags"] == [None, ["1", "5", "12"], None, None]
    assert [(problem.row, problem.rule, problem.column, problem.value) for problem in problems] == [
        (0, "decoder", "attributes", "2 in '1:2'"),
        (2, "decoder", "attributes", f"7 in '{SEEDS_USER}:x'"),
        (3, "decoder", "attributes", "1 in ''"),
    ]
    assert problems[0].requirement == "have 6 parts between ':'"
    assert problems[0].advice.startswith("Write {age}:{gender}:{score}:{city}:{tags[,]}:{user}, or")


def test_texts_are_hashed_as_a_model_hashes_them():
    words = ["Hangzhou", "Bern", "", "Zürich", "Hangzhou"]

    buckets = hash_buckets(_texts(*words), 1000)

    assert buckets.tolist() == tf.strings.to_hash_bucket_fast(words, 1000).numpy().tolist()
    assert hash_buckets(_texts(), 10).tolist() == []
    assert _decode(parse_packed_column("x", "{a#1000}:{b[,]#1000}"), "Bern:Bern,Hangzhou") == (
        {"a": [buckets[1]], "b": [[buckets[1], buckets[0]]]},
        (),
    )


def test_a_part_without_a_name_is_passed_over():
    assert _decode(parse_packed_column("x", "{}:{b}:{}"), "1:2:3") == ({"b": ["2"]}, ())


def test_a_column_may_be_one_list():
    column = parse_packed_column("x", "{tags[,]}")

    assert column.delimiter == ""
    assert _decode(column, "a:b,c", "") == ({"tags": [["a:b", "c"], []]}, ())


def test_no_cells_give_empty_columns():
    columns, problems = USER.decode(_texts())

    assert {name: (len(array), array.type) for name, array in columns.items()} == {
        name: (0, pa.large_list(pa.large_string()) if name == "tags" else pa.large_string())
        for name in USER.feature_names
    }
    assert problems == ()


def test_slices_of_longer_arrays_are_decoded_alone():
    columns, problems = USER.decode(_texts("bad", SEEDS_USER, "7:::::", "worse").slice(1, 2))

    assert columns["age"].to_pylist() == ["28", "7"]
    assert columns["tags"].to_pylist() == [["1", "5", "12"], []]
    assert problems == ()


_WORD = st.text(st.characters(blacklist_characters=":,\0", blacklist_categories=("Cs",)), max_size=4)


@given(st.lists(st.tuples(_WORD, st.lists(_WORD, max_size=3), _WORD) | st.text("a:", max_size=4), max_size=8))
def test_cells_are_split_like_texts(rows):
    column = parse_packed_column("x", "{a}:{b[,]}:{c}")
    cells = [row if isinstance(row, str) else ":".join((row[0], ",".join(row[1]), row[2])) for row in rows]

    columns, problems = _decode(column, *cells)

    parts = [cell.split(":") for cell in cells]
    assert [problem.row for problem in problems] == [i for i, part in enumerate(parts) if len(part) != 3]
    fine = [part if len(part) == 3 else None for part in parts]
    assert columns["a"] == [None if part is None else part[0] or None for part in fine]
    assert columns["b"] == [None if part is None else part[1].split(",") if part[1] else [] for part in fine]
    assert columns["c"] == [None if part is None else part[2] or None for part in fine]


@pytest.mark.parametrize("template", ["{a}", "{a}:{b}", "{a[,]#5}||{}||{c#1}", "{x y}\t{z[;;]}"])
def test_templates_are_written_as_they_are_read(template):
    assert parse_packed_column("x", template).template == template


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("a:b", "must be names in braces with one and the same delimiter between them; got 'a:b' for column 'x' of y"),
        ("", "must be names in braces"),
        ("{a}:{b},{c}", "one and the same delimiter"),
        ("x{a}:{b}", "must be names in braces"),
        ("{a[}:{b}", r"must name parts as in .*; got '\{a\[\}' for column 'x' of y"),
        ("{a#x}", "must name parts as in"),
        ("{a}:{a}", r"each once; got \['a', 'a'\] for column 'x'"),
        ("{}:{}", r"at least one name, .*; got \[\]"),
        ("{a}{b}", "`delimiter` must be given for 2 parts"),
        ("{a}:{b[:]}", "`value_delimiter` must not hold the delimiter of the parts, ':'; got ':' for part 'b'"),
        ("{a#0}", "`num_buckets` must be at least 1; got 0 for part 'a'"),
    ],
)
def test_templates_of_no_meaning_are_refused(template, message):
    with pytest.raises(ValueError, match=message):
        parse_packed_column("x", template, "y")


def test_a_column_pickles():
    import pickle

    column = PackedColumn(name="x", parts=(PackedPart(name="a"),), delimiter="")

    assert pickle.loads(pickle.dumps(column)) == column


SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT32 } }
  features { key: "is_new" value { dtype: DT_BOOL } }
  features { key: "tags" value { dtype: DT_INT64 shape { dim { size: -1 } } } }
  features { key: "box" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
  features { key: "city" value { dtype: DT_INT64 } }
  metadata { filename: "users.csv"
    extra { key: "decoder.packed" value: "{age}:{is_new}:{tags[,]}:{box[;]}:{city#10}" }
    extra { key: "default.age" value: "-1" } } } }
"""


def _read_users(tmp_path, *cells, **options):
    (tmp_path / "graph_schema.pbtxt").write_text(SCHEMA)
    (tmp_path / "users.csv").write_text("id,packed\n" + "".join(f'{i},"{cell}"\n' for i, cell in enumerate(cells)))
    return read_tables(str(tmp_path), **options)


def test_parts_have_the_types_and_shapes_that_the_schema_declares(tmp_path):
    users = _read_users(tmp_path, "5:true:1,2:0.5;1:Bern", ":false::2;3:Basel").node_tables["user"]

    assert {name: (values.type, values.to_pylist()) for name, values in users.features.items()} == {
        "age": (pa.int32(), [5, -1]),
        "is_new": (pa.bool_(), [True, False]),
        "tags": (pa.large_list(pa.int64()), [[1, 2], []]),
        "box": (pa.list_(pa.float32(), 2), [[0.5, 1.0], [2.0, 3.0]]),
        "city": (pa.int64(), hash_buckets(_texts("Bern", "Basel"), 10).tolist()),
    }


@pytest.mark.parametrize(
    ("cell", "rule", "message"),
    [
        ("1:true:1,x:0;1:a", "type", "`packed:tags` must be of type int64; got 'x' in .*users.csv, line 3"),
        ("1:true:1:0;1;2:a", "shape", r"`packed:box` must have the shape \[2\]; got 3 values .*users.csv, line 3"),
        ("1:maybe:1:0;1:a", "type", "`packed:is_new` must be of type bool; got 'maybe' in .*users.csv, line 3"),
        ("1:true:1:0;1", "decoder", "`packed` must have 5 parts between ':'; got 4 in .*users.csv, line 3"),
        ("1:true:1:0;1:", "missing", "`packed:city` must have a value in every record; got .* in .*users.csv, line 3"),
    ],
)
def test_what_does_not_fit_names_row_and_part(tmp_path, cell, rule, message):
    good = "1:true:1:0;1:a"

    with pytest.raises(ValueError, match=message):
        _read_users(tmp_path, good, cell)
    tables = _read_users(tmp_path, good, cell, rules=RowRules(invalid_rows="drop", max_dropped_share=0.5))

    assert tables.node_tables["user"].ids.to_pylist() == ["0"]
    assert dict(tables.reports["nodes/user"].dropped) == {rule: 1}

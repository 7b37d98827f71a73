"""What rows without a value stand for in tables that nobody prepared, and how features tell it."""

from __future__ import annotations

import datetime as dt
import math
import random

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from tensorflow.core.framework import types_pb2

from tfx_gnn.graph.schema.schema_io import write_schema
from tfx_gnn.tables.schema_layouts import layouts_of
from tfx_gnn.tables.table_access import TableAccess
from tfx_gnn_pipelines.proposals.proposal import propose_project

NUM_ROWS = 600


def column(value, *, num_missing):
    """`value` of the number of each row, and nothing in the first rows."""
    return [None if i < num_missing else value(i) for i in range(NUM_ROWS)]


def propose(folder, *, as_csv=False, prepared_dir="", **columns):
    """Proposes a project for one table of users, and checks that its schema declares defaults that their types hold."""
    folder.mkdir(exist_ok=True)
    draw = random.Random(1)
    plans = [draw.choice(["free", "pro"]) for _ in range(NUM_ROWS)]
    table = pa.table({"id": [f"u{i}" for i in range(NUM_ROWS)], "plan": plans, **columns})
    if as_csv:
        pacsv.write_csv(table, folder / "users.csv")
    else:
        pq.write_table(table, folder / "users.parquet")
    proposal = propose_project(str(folder), label="users.plan", prepared_dir=prepared_dir)
    write_schema(proposal.schema, f"{proposal.tables_dir}/graph_schema.pbtxt")
    layouts_of(proposal.schema, proposal.tables_dir, access=TableAccess())
    return proposal


def told(proposal, name):
    """Kind, options, default and description of a column of users."""
    declared = proposal.schema.node_sets["users"]
    preparation = proposal.features["nodes/users"][name]
    defaults = {one.key: one.value for one in declared.metadata.extra}
    options = dict(preparation.options)
    return preparation.kind, options, defaults[f"default.{name}"], declared.features[name].description


@pytest.mark.parametrize(
    ("value", "num_missing", "kind", "stand_in"),
    [
        (lambda i: i % 50, 20, "z_score", -(2**16)),
        (lambda i: i % 50 / 7, 6, "z_score", -(2**13)),
        (lambda i: 10.5 ** (i % 9 + 1), 300, "log1p_z_score", -(2**41)),
        (lambda _: 3, 300, "z_score", -(2**12)),
    ],
)
def test_a_number_that_no_row_has_marks_those_without_one(tmp_path, value, num_missing, kind, stand_in):
    proposal = propose(tmp_path, as_csv=num_missing == 6, size=column(value, num_missing=num_missing))

    assert told(proposal, "size") == (
        kind,
        {"missing_value": stand_in},
        str(stand_in),
        f"Rows without a value: {num_missing} of 600; they stand for {stand_in}, which the feature marks.",
    )


def test_infinity_decides_nothing(tmp_path):
    sizes = column(lambda i: math.inf if i % 100 == 30 else -math.inf if i == 31 else i % 50 / 7, num_missing=6)

    proposal = propose(tmp_path / "many", size=sizes)
    few = propose(tmp_path / "few", size=[None, math.inf, *(40 + i % 2 / 2 for i in range(598))])

    described = (
        "Rows without a value: 6 of 600; they stand for -8192, which the feature marks. Values that are not finite "
        "32-bit floats, which are refused: 7. Correct or empty them."
    )
    assert told(proposal, "size") == ("z_score", {"missing_value": -8192}, "-8192", described)
    assert told(few, "size")[:3] == ("z_score", {}, "40.25")


def test_a_few_rows_without_a_number_stand_for_the_mean(tmp_path):
    proposal = propose(tmp_path, size=column(lambda i: 40 + i % 2, num_missing=4))

    assert told(proposal, "size")[:3] == ("z_score", {}, "40")


def test_small_integers_are_declared_wide_enough(tmp_path):
    proposal = propose(tmp_path, size=pa.array(column(lambda i: i % 99, num_missing=30), pa.int8()))

    assert told(proposal, "size")[1] == {"missing_value": -(2**17)}
    assert proposal.schema.node_sets["users"].features["size"].dtype == types_pb2.DT_INT64


def test_numbers_as_large_as_their_type_have_no_mark_beside_them(tmp_path):
    proposal = propose(tmp_path, size=pa.array(column(lambda i: (i % 7 - 3) << 61, num_missing=30), pa.int64()))

    assert told(proposal, "size")[1] == {}
    assert "they stand for the mean" in told(proposal, "size")[3]


def test_codes_and_texts_without_a_value_are_words_of_their_own(tmp_path):
    proposal = propose(
        tmp_path,
        zip_code=column(lambda i: 10_000 + i % 30, num_missing=2),
        town=column(lambda i: f"t{i % 5}", num_missing=2),
    )

    assert told(proposal, "zip_code")[:3] == ("vocabulary", {}, str(-(2**24)))
    assert told(proposal, "town")[:3] == ("vocabulary", {}, "<no value>")


def test_truth_values_have_a_third_one(tmp_path):
    values = column(lambda i: i % 3 == 0, num_missing=30)

    assert told(propose(tmp_path / "parquet", is_open=values), "is_open")[:3] == ("number", {"missing_value": -1}, "-1")
    # In CSV files they are texts, which no integer spells.
    assert told(propose(tmp_path / "csv", as_csv=True, is_open=values), "is_open")[:3] == (
        "vocabulary",
        {},
        "<no value>",
    )


@pytest.mark.parametrize(
    ("dtype", "value", "default", "options"),
    [
        (pa.list_(pa.float32()), lambda i: [0.5, i / 7], str(-(2**60)), {"missing_value": -(2**60)}),
        (pa.list_(pa.int64()), lambda i: [1, i], "0", {}),
        (pa.list_(pa.int64()), lambda i: [1] * (i % 3), "", {}),
    ],
)
def test_lists_have_defaults_of_their_type_and_only_empty_rows_are_counted(tmp_path, dtype, value, default, options):
    proposal = propose(tmp_path, tags=pa.array(column(value, num_missing=30), dtype))

    assert told(proposal, "tags")[1:3] == (options, default)
    assert told(proposal, "tags")[3].startswith("Rows without a value: 30 of 600; they stand for a")


def test_times_that_are_not_there_yet_are_later_than_all_seeds(tmp_path):
    def day(number):
        return dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(days=number)

    proposal = propose(
        tmp_path / "raw",
        prepared_dir=str(tmp_path / "prepared"),
        joined=column(day, num_missing=0),
        left=column(lambda i: day(i + 9), num_missing=300),
    )

    assert told(proposal, "left") == (
        "age",
        {"seed_time": "joined"},
        "253402300799",
        "Rows without a value: 300 of 600; they stand for a time after all seeds.",
    )


def test_a_missing_text_that_is_read_by_its_words_has_none(tmp_path):
    proposal = propose(tmp_path, note=column(lambda i: f"order {i} of {i % 7} shoes", num_missing=30))

    assert told(proposal, "note")[:3] == ("text", {}, "")
    assert (
        "nodes/users.note is read by its words and their pairs: most rows have a text of their own, of 5.0 words on"
        in ("\n".join(proposal.remarks()))
    )


def test_a_label_without_a_value_stands_for_nothing(tmp_path):
    (tmp_path / "raw").mkdir()
    table = pa.table({"id": [f"u{i}" for i in range(NUM_ROWS)], "size": column(lambda i: i % 30, num_missing=9)})
    pq.write_table(table, tmp_path / "raw" / "users.parquet")

    proposal = propose_project(str(tmp_path / "raw"), label="users.size", prepared_dir=str(tmp_path / "tables"))

    described = proposal.schema.node_sets["users"].features["size"].description
    assert described == "Rows without a value: 9 of 600; they are not predicted."


@pytest.mark.parametrize("as_csv", [True, False])
def test_integers_that_are_floats_for_their_gaps_are_integers(tmp_path, as_csv):
    (tmp_path / "raw").mkdir()
    columns = {
        "id": [f"u{i}" for i in range(NUM_ROWS)],
        "noshow": column(lambda i: float(i % 3 == 0), num_missing=9),
        "zip_code": column(lambda i: 10_000.0 + i % 7, num_missing=7),
        "size": column(lambda i: i % 7 + 0.5, num_missing=7),
        "weight": column(lambda i: float(i % 11), num_missing=0),
    }
    if as_csv:
        rows = zip(*columns.values(), strict=True)
        lines = [",".join(columns), *(",".join("" if one is None else str(one) for one in row) for row in rows)]
        (tmp_path / "raw" / "users.csv").write_text("\n".join([*lines, ""]))
    else:
        pq.write_table(pa.table(columns), tmp_path / "raw" / "users.parquet")

    proposal = propose_project(str(tmp_path / "raw"), label="users.noshow", prepared_dir=str(tmp_path / "tables"))

    kinds = {name: one.kind for name, one in proposal.features["nodes/users"].items()}
    assert proposal.label.kind == "node_classification"
    assert kinds == {"zip_code": "vocabulary", "size": "z_score", "weight": "z_score"}
    assert any(one.startswith("users.noshow, users.zip_code: all numbers are whole") for one in proposal.keys)

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
import pytest
from tests.unit.prediction_tasks.conftest import day

from tfx_gnn.prediction_tasks import Anchors, PredictionTask, make_seed_table

ANCHORS = Anchors(validation_from=str(day(20)), test_from=str(day(30)))
ROWS = {
    "entity": ["ann", "ann", "bob", "cy", "bob"],
    "time": [day(5), day(12), day(20), day(25), day(31)],
    "label": [1, 0, 1, 0, 1],
}


def _make(folder, **fields):
    fields = {"for_each": "users", "anchors": ANCHORS, **fields}
    report = make_seed_table(PredictionTask(**fields), str(folder), f"{folder}/seeds.parquet", folder=str(folder))
    return report, pq.read_table(f"{folder}/seeds.parquet").to_pylist()


def test_a_query_sees_all_tables_with_their_keys(shop):
    report, rows = _make(
        shop,
        sql="""
        SELECT user_id AS entity, placed_at AS time, avg(coalesce(quantity, 0)) AS label  -- of the items of an order
        FROM orders LEFT JOIN items ON items.order_id = orders.id
        WHERE user_id IS NOT NULL GROUP BY ALL;
        """.strip().rstrip(";"),
    )

    assert [(row["id"], row["label"], row["split"]) for row in rows] == [
        ("ann", 1.5, "train"), ("ann", 0.0, "train"), ("ann", 3.0, "val"), ("bob", 0.0, "val"), ("bob", 4.0, "test")
    ]  # fmt: skip
    assert report.description.label_kind == "number"
    assert any("take" in remark and "`anchors.horizon`" in remark for remark in report.remarks)


def test_a_query_reads_no_other_files(shop, tmp_path):
    secret = tmp_path.parent / f"{tmp_path.name}.csv"
    secret.write_text("entity,time,label\nann,2026-01-01,1\n")

    with pytest.raises(ValueError, match="file system operations are disabled"):
        _make(shop, sql=f"SELECT * FROM read_csv('{secret}')")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_of_a_file_are_seeds(shop, tmp_path, suffix):
    table = pa.table({"who": ROWS["entity"], "when": ROWS["time"], "won": ROWS["label"]})
    (pc_csv.write_csv if suffix == "csv" else pq.write_table)(table, tmp_path / f"rows.{suffix}")

    report, rows = _make(shop, table=f"rows.{suffix}", columns={"entity": "who", "time": "when", "label": "won"})

    # The labels are 0 and 1, so they are those of a condition.
    assert (report.description.label_kind, [row["split"] for row in rows]) == (
        "truth", ["train", "train", "val", "val", "test"]
    )  # fmt: skip
    assert any("without a zone" in remark for remark in report.remarks)


def test_rows_whose_labels_reach_into_the_next_split_are_left_out(shop, tmp_path):
    pq.write_table(pa.table(ROWS), tmp_path / "rows.parquet")
    anchors = Anchors(validation_from=str(day(20)), test_from=str(day(30)), horizon="8 days")

    report, rows = _make(shop, table="rows.parquet", anchors=anchors)

    # Day 12 + 8 is day 20, which is not later; day 25 + 8 is later than day 30.
    assert [(row["id"], row["time"]) for row in rows] == [
        ("ann", day(5)), ("ann", day(12)), ("bob", day(20)), ("bob", day(31))
    ]  # fmt: skip
    assert report.splits[1].dropped == {"between_splits": 1}


def test_a_file_for_each_split_needs_no_anchors(shop, tmp_path):
    times = [dt.datetime(2026, 2, 1 + number, tzinfo=dt.timezone.utc) for number in range(6)]
    for number, split in enumerate(("train", "val", "test")):
        part = {"date": times[2 * number :][:2], "user": ["ann", "bob"], "target": ["yes", "no"]}
        pq.write_table(pa.table(part), tmp_path / f"{split}.parquet")

    report, rows = _make(
        shop,
        anchors=None,
        split_tables={split: f"{split}.parquet" for split in ("train", "val", "test")},
        columns={"entity": "user", "time": "date", "label": "target"},
    )

    assert [(row["id"], row["split"], row["label"]) for row in rows][:3] == [
        ("ann", "train", "yes"), ("bob", "train", "no"), ("ann", "val", "yes")
    ]  # fmt: skip
    assert list(report.description.until) == ["train", "val", "test"]
    assert not any("zone" in remark for remark in report.remarks)


def test_a_column_of_splits_decides_and_may_mix_times(shop, tmp_path):
    pq.write_table(pa.table({**ROWS, "part": ["train", "test", "val", "train", "train"]}), tmp_path / "rows.parquet")

    report, rows = _make(shop, anchors=None, table="rows.parquet", columns={"split": "part"})

    assert [row["split"] for row in rows] == ["train", "test", "val", "train", "train"]
    assert report.description.until == {}


def test_unknown_entities_are_refused_or_dropped_and_counted(shop, tmp_path):
    rows = {
        name: [*values, *more] for (name, values), more in zip(ROWS.items(), (["zoe"], [day(31)], [0]), strict=True)
    }
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")

    with pytest.raises(
        ValueError, match="`table` must have rows of entities that are in users; got 1 of others, such as 'zoe'"
    ):
        _make(shop, table="rows.parquet")
    report, kept = _make(shop, table="rows.parquet", unknown_entities="drop")

    assert len(kept) == 5
    assert report.splits[-1].dropped == {"unknown_entity": 1}


def test_entities_are_seeds_only_from_their_own_time_on(shop, tmp_path):
    pq.write_table(pa.table({**ROWS, "entity": ["ann", "bob", "bob", "cy", "bob"]}), tmp_path / "rows.parquet")

    report, _ = _make(shop, table="rows.parquet")

    assert report.splits[0].dropped == {"not_there_yet": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": None}, r"must have rows with the columns \['entity', 'time', 'label'\]; got .* without \['label'\]"),
        ({"time": [1, 2, 3, 4, 5]}, "column 'time', must hold dates or time stamps; got BIGINT. Convert it"),
        ({"time": [None, *ROWS["time"][1:]]}, "whose times are whole seconds.*got 1 without a time"),
        ({"time": [day(5.000001), *ROWS["time"][1:]]}, "and 1 with fractions"),
        (
            {"time": [day(12), *ROWS["time"][1:]]},
            "must have each pair .* once; got 'ann' at 2026-01-13 00:00:00 2 times",
        ),
        ({"label": ["1", "yes", "no", "2", "no"]}, "must hold labels of one type; got 2 numbers and 3 texts"),
        ({"label": [1.0, float("nan"), 2.0, 3.0, 4.0]}, "must give finite labels; got 1"),
        ({"label": [[1], [2], [3], [4], [5]]}, "must hold truth values, numbers or texts; got"),
        (
            {"time": [day(1), day(2), day(3), day(4), day(5)]},
            r"must leave every split a seed; got none in \['val', 'test'\]",
        ),
    ],
)
def test_rows_that_break_a_rule_are_refused(shop, tmp_path, changes, message):
    rows = {name: values for name, values in {**ROWS, **changes}.items() if values is not None}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")

    with pytest.raises(ValueError, match=message):
        _make(shop, table="rows.parquet")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"table": "rows.txt"}, "`table` must name a file; got .*rows.txt', which is not there"),
        ({"table": "graph_schema.pbtxt"}, "must name a file of the format .parquet or .csv"),
        ({"sql": "SELECT entity FROM nowhere"}, "`sql` must be one query that DuckDB can answer; got .*nowhere"),
        ({"sql": "SELECT 1; DROP VIEW orders"}, "`sql` must be one query that DuckDB can answer"),
    ],
)
def test_files_and_queries_that_cannot_be_read_are_refused(shop, fields, message):
    with pytest.raises(ValueError, match=message):
        _make(shop, **fields)


def test_a_query_that_cannot_be_answered_is_the_query_and_not_the_tables(shop):
    with pytest.raises(ValueError, match=r"^`sql` must be one query that DuckDB can answer; got .*\"nope\" not found"):
        _make(shop, sql="SELECT nope FROM orders")
    with pytest.raises(
        ValueError, match=r"none in .* dropped by reason {}. Move the anchors, or correct the rows of `sql`"
    ):
        _make(shop, sql="SELECT 'ann' AS entity, TIMESTAMP '2026-01-01' AS time, 1 AS label WHERE FALSE")


def test_times_of_a_file_of_which_some_have_no_zone_are_refused(shop, tmp_path):
    times = [f"2026-01-{number:02d} 10:00:00" for number in (5, 20, 31)]
    rows = [f"ann,{time}{zone},1" for time, zone in zip(times, ("Z", "+02", ""), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["entity,time,label", *rows]))

    with pytest.raises(
        ValueError, match=r"column 'time', must have a zone in all rows or in none; got 1 without one in"
    ):
        _make(shop, table="rows.csv")

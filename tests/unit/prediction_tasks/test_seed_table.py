from __future__ import annotations

import datetime as dt
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.prediction_tasks.conftest import SCHEMA, SHOP, day, write_tables

from tfx_gnn.prediction_tasks import Anchors, PredictionTask, Recommended, make_seed_table, read_seed_table_description

ANCHORS = Anchors(
    every="10 days",
    validation_from=str(day(20)),
    test_from=str(day(30)),
    train_from=str(day(0)),
    complete_until=str(day(50)),
)


def _make(folder, predict, **fields):
    fields = {"for_each": "users", "anchors": ANCHORS, **fields}
    report = make_seed_table(PredictionTask(predict=predict, **fields), folder, f"{folder}/seeds.parquet")
    return report, pq.read_table(f"{folder}/seeds.parquet").to_pylist()


def _labels(rows):
    return {(row["id"], row["time"].day if row["time"].month == 1 else 31): row["label"] for row in rows}


def test_a_condition_gives_ones_and_zeros_by_entity_anchor_and_split(shop):
    report, rows = _make(shop, "count(orders, 0 to 10 days) > 0")

    # Windows end at their last day: order o2 of day 10 is in that of day 0.
    assert rows == [
        {"id": "ann", "label": 1, "split": "train", "time": day(0)},
        {"id": "ann", "label": 1, "split": "train", "time": day(10)},
        {"id": "cy", "label": 0, "split": "train", "time": day(10)},
        {"id": "ann", "label": 0, "split": "val", "time": day(20)},
        {"id": "bob", "label": 1, "split": "val", "time": day(20)},
        {"id": "cy", "label": 0, "split": "val", "time": day(20)},
        {"id": "ann", "label": 0, "split": "test", "time": day(30)},
        {"id": "bob", "label": 1, "split": "test", "time": day(30)},
        {"id": "cy", "label": 0, "split": "test", "time": day(30)},
        {"id": "ann", "label": 0, "split": "test", "time": day(40)},
        {"id": "bob", "label": 0, "split": "test", "time": day(40)},
        {"id": "cy", "label": 0, "split": "test", "time": day(40)},
    ]
    assert [(one.split, one.num_candidates, one.num_seeds, dict(one.dropped)) for one in report.splits] == [
        ("train", 6, 3, {"not_there_yet": 3}), ("val", 3, 3, {}), ("test", 6, 6, {})
    ]  # fmt: skip
    assert report.splits[1].mean_label == pytest.approx(1 / 3)
    assert [(one.time, one.num_seeds) for one in report.anchors][:2] == [(str(day(0)), 1), (str(day(10)), 2)]
    assert report.incomplete_anchors == (str(day(50)),)
    assert any("windows end after the data: 1, 2026-02-20" in remark for remark in report.remarks)


@pytest.mark.parametrize(
    ("predict", "label"),
    [
        ("sum(orders.amount, 0 to 10 days)", {"ann": 0, "bob": 7, "cy": 0}),
        ("count(orders.amount where status = 'paid', 0 to 10 days)", {"ann": 0, "bob": 0, "cy": 0}),
        ("last(orders.status, 0 to 10 days)", {"bob": "open"}),
        ("max(orders.amount, 0 to 10 days) is null", {"ann": 1, "bob": 0, "cy": 1}),
        ("count(orders where user_id = 'ann', 0 to 10 days) + 0", None),
        ("sum(items.quantity, 0 to 10 days)", {"ann": 3, "bob": 0, "cy": 0}),
        ("count_distinct(items.product_id by order_id.user_id, 0 to 10 days)", {"ann": 1, "bob": 0, "cy": 0}),
        ("min(ratings.stars, 0 to 10 days)", {"ann": 3}),
        ("count(ratings where product = 'q' and rated_at > '2026-01-21', 0 to 10 days)", {"ann": 1, "bob": 0, "cy": 0}),
        ("count(orders, 0 to 10 days) > 0 and country is null", {"ann": 0, "bob": 1, "cy": 0}),
        ("count(orders, 0 to 10 days) >= count(ratings, 0 to 10 days)", {"ann": 0, "bob": 1, "cy": 1}),
        ("not users.country in ('DE', 'FR')", None),
    ],
)
def test_labels_of_the_validation_anchor(shop, predict, label):
    if label is None:
        with pytest.raises(ValueError, match=r"got '\+ 0'|`anchors` must"):
            _make(shop, predict)
        return

    _, rows = _make(shop, predict)

    assert {row["id"]: row["label"] for row in rows if row["split"] == "val"} == label


def test_entities_are_chosen_by_their_past_and_their_own_columns(shop):
    report, rows = _make(
        shop, "count(orders, 0 to 10 days) > 0", where="count(orders, -10 to 0 days) > 0 or country = 'FR'"
    )

    assert [(row["id"], row["time"]) for row in rows] == [
        ("ann", day(10)), ("cy", day(10)), ("ann", day(20)), ("cy", day(20)),
        ("bob", day(30)), ("cy", day(30)), ("bob", day(40)), ("cy", day(40)),
    ]  # fmt: skip
    assert [split.dropped["where"] for split in report.splits] == [1, 1, 2]


def test_the_same_seeds_leave_their_file_as_it_is_and_have_statistics_beside_it(shop, tmp_path):
    report, _ = _make(shop, "sum(orders.amount, 0 to 10 days)")
    os.utime(f"{shop}/seeds.parquet", (1, 1))

    again, _ = _make(shop, "sum(orders.amount, 0 to 10 days)")
    assert os.path.getmtime(f"{shop}/seeds.parquet") == 1
    _make(shop, "sum(orders.amount, 0 to 9 days)")

    assert again == report
    assert os.path.getmtime(f"{shop}/seeds.parquet") > 1
    statistics = json.loads((tmp_path / "seeds.json").read_text())
    assert statistics["splits"][0]["split"] == "train"
    assert sorted(name for name in os.listdir(shop) if name.startswith(".")) == []


def test_a_seed_table_says_what_it_is(shop):
    report, _ = _make(shop, "sum(orders.amount, 0 to 10 days)")

    found = read_seed_table_description(f"{shop}/seeds.parquet")

    assert found == report.description
    assert (found.label, found.label_kind, found.split, found.time) == ("label", "number", "split", "time")
    # Items of products have no time of their own, nor has any node set that is not listed.
    assert found.times == {
        "users": "signed_up", "orders": "placed_at", "items": "added_at", "orders_user_id": "placed_at",
        "items_order_id": "added_at", "ratings": "rated_at",
    }  # fmt: skip
    since_1970 = [int((day(number) - day(0)).total_seconds()) + 1_767_225_600 for number in (20, 30)]
    assert found.until == {"train": since_1970[0], "val": since_1970[1], "test": None}
    assert read_seed_table_description(f"{shop}/users.parquet") is None
    assert read_seed_table_description(f"{shop}/nothing.parquet") is None


def test_a_column_of_the_entity_is_a_label_as_of_its_own_time(tmp_path):
    users = {
        "user_id": [f"u{i}" for i in range(60)],
        "country": ["DE", None, "FR"] * 20,
        "signed_up": [day(i) for i in range(60)],
    }
    folder = write_tables(tmp_path, {**SHOP, "users": users})

    report, rows = _make(folder, "country", anchors=Anchors(validation_from=str(day(40)), test_from=str(day(50))))
    found, by_time = _make(folder, "country", anchors=None)
    hashed, by_hash = _make(folder, "country", anchors=None, times={"users": ""})

    assert [split.num_seeds for split in report.splits] == [27, 6, 7]
    assert [split.dropped for split in report.splits] == [{"no_label": 13}, {"no_label": 4}, {"no_label": 3}]
    assert rows[0] == {"id": "u0", "label": "DE", "split": "train", "time": day(0)}
    assert report.description.label_columns == ("country",)
    assert [(row["split"], row["time"]) for row in by_time] == [
        ("train" if number < 48 else "val" if number < 54 else "test", day(number))
        for number in range(60)
        if number % 3 != 1
    ]
    assert found.remarks[0].startswith(f"Entities are split by their times: validation from {day(48)}, test from")
    assert {row["split"] for row in by_hash} == {"train", "val", "test"}
    assert len(by_hash) == 40
    assert hashed.description.until == {}


def test_names_of_columns_are_other_ones_than_those_of_the_entities(shop, tmp_path):
    users = {
        "user_id": ["ann", "bob", "cy"],
        "label": [1, 2, 3],
        "time": [day(0)] * 3,
        "country": ["a"] * 3,
        "signed_up": [day(0)] * 3,
    }
    write_tables(tmp_path, {"users": users})

    report, rows = _make(shop, "count(orders, 0 to 10 days) > 0", times={"users": "time"})

    assert set(rows[0]) == {"id", "task_label", "split", "task_time"}
    assert report.description.label == "task_label"


def test_integer_ids_stay_integers(tmp_path):
    schema = """
    node_sets { key: "users" value {
      features { key: "#id" value { dtype: DT_INT64 } } metadata { filename: "users.csv" } } }
    node_sets { key: "visits" value {
      features { key: "at" value { dtype: DT_INT64 } } metadata { filename: "visits.csv" } } }
    edge_sets { key: "visits_user" value { source: "visits" target: "users" metadata { filename: "visits_user.csv" } } }
    """
    (tmp_path / "graph_schema.pbtxt").write_text(schema)
    (tmp_path / "users.csv").write_text("id\n1\n22\n")
    seconds = [1_767_225_600 + 86_400 * number for number in range(40)]
    (tmp_path / "visits.csv").write_text("id,at\n" + "".join(f"v{i},{at}\n" for i, at in enumerate(seconds)))
    (tmp_path / "visits_user.csv").write_text("source,target\n" + "".join(f"v{i},22\n" for i in range(40)))

    _, rows = _make(str(tmp_path), "count(visits, 0 to 5 days)")

    assert pq.read_schema(tmp_path / "seeds.parquet").field("id").type == pa.int64()
    assert {row["id"]: row["label"] for row in rows if row["split"] == "val"} == {1: 0.0, 22: 5.0}


@pytest.mark.parametrize(
    ("predict", "fields", "message"),
    [
        (
            "count(ordrs, 0 to 10 days)",
            {},
            r"at character 7, must name a table among .*got 'ordrs'. Did you mean 'orders'\?",
        ),
        (
            "sum(orders.amout, 0 to 10 days)",
            {},
            r"at character 12, must name a column of orders.*Did you mean 'amount'\?",
        ),
        (
            "avg(orders.status, 0 to 10 days)",
            {},
            "at character 12, must be a column of numbers for avg; got orders.status, a text",
        ),
        ("count(orders, 0 to 10 days) > 'a'", {}, "must compare values of one kind; got a number beside a text"),
        (
            "country > 3 and count(orders, 0 to 10 days) > 1",
            {},
            "at character 1, must compare .* a text or an id beside a number",
        ),
        ("count(orders, 0 to 10 days) and country is null", {}, "beside and, must have a condition; got a number"),
        ("count(orders where amount, 0 to 10 days)", {}, "must have a condition; got a number. Compare it"),
        ("count(orders where count(items, 0 to 1 day) > 0, 0 to 10 days)", {}, "no aggregation within another"),
        ("count(orders, 0 to 10 days) > 0 and orders.amount > 1", {}, "must name a column of users; got orders.amount"),
        ("count(products, 0 to 10 days)", {}, "whose rows lead to one of users.*foreign keys none"),
        (
            "count(items_product_id, 0 to 10 days)",
            {"for_each": "products"},
            "must aggregate a table whose rows have times",
        ),
        ("count(orders by custmer, 0 to 10 days)", {}, r"must name after by a way .*\['user_id'\]; got 'custmer'"),
        ("last(orders.placed_at, 0 to 10 days)", {}, "`predict` must be a number, a text or a condition"),
        ("count(orders, 0 to 10 days)", {"for_each": "ratings"}, "`for_each` must name a node set; got 'ratings'"),
        ("count(orders, 0 to 10 days)", {"for_each": "user"}, r"`for_each` must name a table.*Did you mean 'users'\?"),
        ("count(orders, 0 to 10 days)", {"where": "country"}, "`where` must have a condition; got a text"),
        ("count(orders, 0 to 10 days)", {"where": "country = 'IT'"}, "must leave every split a seed; .*'where': 12"),
        ("count(orders, 0 to 10 days)", {"times": {"orders": "status"}}, "`times` must name a column of dates"),
        ("count(orders, 0 to 10 days)", {"times": {"order": "placed_at"}}, r"Did you mean 'orders'\?"),
        ("user_id", {"for_each": "orders", "anchors": None}, "foreign keys .*'user_id'"),
        ("country", {}, "`anchors` must have `validation_from` and `test_from` alone where `predict` has no window"),
    ],
)
def test_what_does_not_fit_the_tables_is_refused(shop, predict, fields, message):
    with pytest.raises(ValueError, match=message):
        _make(shop, predict, **fields)


def test_two_ways_to_the_entity_are_an_error_that_shows_how_to_choose(shop, tmp_path):
    schema = (
        (tmp_path / "graph_schema.pbtxt").read_text()
        + """
    edge_sets { key: "orders_payer_id" value {
      source: "orders" target: "users" metadata { filename: "payers.parquet" } } }
    """
    )
    write_tables(tmp_path, {"payers": {"source": ["o1", "o4"], "target": ["bob", "ann"]}}, schema)

    with pytest.raises(ValueError, match=r"in one way; got 2: payer_id, user_id. .*count\(orders by payer_id"):
        _make(shop, "count(orders, 0 to 10 days)")
    with pytest.raises(ValueError, match=r"Choose one, as in sum\(orders.amount by payer_id, \.\.\.\)"):
        _make(shop, "sum(orders.amount, 0 to 10 days)")
    _, rows = _make(shop, "count(orders by payer_id, 0 to 10 days)")

    assert {row["id"]: row["label"] for row in rows if row["split"] == "val"} == {"ann": 1, "bob": 0, "cy": 0}


def test_of_several_columns_of_times_the_first_is_that_of_the_rows_and_said(shop, tmp_path):
    # The last order is not packed yet, and fractions of a second do not count.
    packed_at = [day(5), day(10), *[day(40)] * 3, None]
    placed_at = [day(5) + dt.timedelta(milliseconds=400), *SHOP["orders"]["placed_at"][1:]]
    write_tables(tmp_path, {"orders": {**SHOP["orders"], "placed_at": placed_at, "packed_at": packed_at}})

    report, rows = _make(shop, "count(orders, 0 to 10 days)")
    _, of_named = _make(shop, "count(orders, 0 to 10 days)", times={"orders": "placed_at"})

    assert report.description.times["orders"] == "placed_at"
    assert report.remarks[0].startswith("orders.placed_at is the time of its rows: it is not after packed_at in 99% of")
    assert rows == of_named


@pytest.mark.parametrize(
    "packed_at",
    [
        pytest.param([day(0), *[day(60)] * 5], id="one of six is before"),
        pytest.param([None, *map(day, range(5))], id="the earlier one is not known everywhere"),
    ],
)
def test_several_columns_of_times_of_which_none_is_first_are_asked_about(shop, tmp_path, packed_at):
    write_tables(tmp_path, {"orders": {**SHOP["orders"], "packed_at": packed_at}})

    with pytest.raises(ValueError, match=r"`times` must say which column of orders .*placed_at, packed_at, none of wh"):
        _make(shop, "count(orders, 0 to 10 days)")
    _, rows = _make(shop, "count(orders, 0 to 10 days)", times={"orders": "placed_at"})

    assert len(rows) == 12


def test_a_second_column_of_one_time_tells_nothing(shop, tmp_path):
    write_tables(tmp_path, {"orders": {**SHOP["orders"], "packed_at": [day(40)] * 6}})

    report, _ = _make(shop, "count(orders, 0 to 10 days)")

    assert report.description.times["orders"] == "placed_at"


def test_rows_without_times_are_as_of_the_rows_that_they_are_parts_of(tmp_path):
    folder = _without_times(tmp_path, "added_at")

    _, rows = _make(folder, "count(items, 0 to 10 days)")

    # Items are as of their orders, of days 5, 20 and 35.
    assert {(row["id"], row["time"]): row["label"] for row in rows if row["label"]} == {
        ("ann", day(0)): 2, ("ann", day(10)): 1, ("bob", day(30)): 1
    }  # fmt: skip


@pytest.mark.parametrize("predict", ["count(items, 0 to 10 days)", "distinct(items.product_id, 0 to 10 days)"])
def test_rows_of_which_nothing_tells_the_times_are_refused(tmp_path, predict):
    folder = _without_times(tmp_path, "added_at", "placed_at")

    with pytest.raises(ValueError, match=r"must aggregate a table whose rows have times, .*; got items without"):
        _make(folder, predict)


def _without_times(folder, *names):
    schema = SCHEMA
    for name in names:
        schema = schema.replace(f'features {{ key: "{name}" value {{ dtype: DT_INT64 }} }}', "")
    tables = {
        table: {name: values for name, values in columns.items() if name not in names}
        for table, columns in SHOP.items()
    }
    return write_tables(folder, tables, schema)


def test_labels_that_are_no_numbers_are_refused(shop, tmp_path):
    orders = {**SHOP["orders"], "amount": [10.0, 20.0, 5.0, float("nan"), None, 40.0]}
    write_tables(tmp_path, {"orders": orders})

    with pytest.raises(ValueError, match="must give finite labels; got 1 that are NaN or infinite"):
        _make(shop, "sum(orders.amount, 0 to 10 days)")


def test_a_table_without_rows_is_refused(shop, tmp_path):
    orders = {name: pa.array(values).slice(0, 0) for name, values in SHOP["orders"].items()}
    write_tables(tmp_path, {"orders": orders})

    with pytest.raises(
        ValueError, match="`predict` must aggregate tables with rows that have times; got none in orders"
    ):
        _make(shop, "count(orders, 0 to 10 days)")


def test_tables_elsewhere_and_in_other_formats_are_refused(shop, tmp_path):
    task = PredictionTask(for_each="users", predict="count(orders, 0 to 10 days)", anchors=ANCHORS)

    with pytest.raises(ValueError, match="`tables_dir` must be a local folder; got 'gs://shop'"):
        make_seed_table(task, "gs://shop", "")
    (tmp_path / "orders.parquet").write_bytes(b"PAR1 no, not at all")
    with pytest.raises(ValueError, match=r"orders\.parquet"):
        make_seed_table(task, shop, "")


def test_what_is_recommended_gives_a_seed_for_each_different_node(tmp_path):
    # Ann rates q twice within a window and r, which is not there; p came about later than the first anchor.
    ratings = {
        "user": ["ann", "ann", "ann", "ann", "ann", "bob", "ann"],
        "product": ["p", "q", "q", "r", "q", "p", None],
        "stars": [5, 3, 4, 1, 1, 1, 2],
        "rated_at": [day(2), day(11), day(12), day(13), day(25), day(31), day(14)],
    }
    products = {"id": ["p", "q"], "listed_on": [day(1), day(0)]}
    key = 'key: "products" value {'
    schema = SCHEMA.replace(key, key + ' features { key: "listed_on" value { dtype: DT_INT64 } }')
    folder = write_tables(tmp_path, {**SHOP, "ratings": ratings, "products": products}, schema)

    report, rows = _make(folder, "distinct(ratings.product, 0 to 10 days) top 3")

    assert rows == [
        {"source": "ann", "target": "q", "split": "train", "time": day(10)},
        {"source": "ann", "target": "q", "split": "val", "time": day(20)},
        {"source": "bob", "target": "p", "split": "test", "time": day(30)},
    ]
    train = report.splits[0]
    assert dict(train.dropped) == {"no_label": 1, "not_there_yet": 3, "target_not_there_yet": 1, "unknown_target": 1}
    description = read_seed_table_description(f"{folder}/seeds.parquet")
    assert description == report.description
    assert description.recommended == Recommended(node_set="products", edge_set="ratings", end="target", top=3)
    assert (description.label, description.entity_end) == ("", "source")
    assert any("where any is right, 1.00 of 2 are on average" in remark for remark in report.remarks)


def test_recommended_sources_of_edges(shop):
    _, rows = _make(shop, "distinct(ratings.user, 0 to 10 days)", for_each="products")

    assert [(row["source"], row["target"], row["split"]) for row in rows] == [
        ("ann", "p", "train"), ("ann", "q", "val"), ("bob", "p", "test")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        ("distinct(ratings.stars, 0 to 9 days)", "at character 18, must be a foreign key of ratings, .*got 'stars'"),
        ("distinct(ratings.user, 0 to 9 days)", "must be another foreign key than the one that leads to users"),
        ("distinct(items.product_id, 0 to 9 days)", "must have one, 'users_items_product_id', with .* got none"),
    ],
)
def test_mistakes_in_what_is_recommended_are_named(shop, predict, message):
    with pytest.raises(ValueError, match=message):
        _make(shop, predict)

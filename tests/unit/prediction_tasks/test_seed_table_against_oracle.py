"""Labels and seeds of random databases are those that plain Python finds, row by row."""

from __future__ import annotations

import dataclasses
import datetime as dt
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.prediction_tasks.conftest import START, TEXT, TIME, day, write_tables

from tfx_gnn.prediction_tasks import Anchors, PredictionTask, make_seed_table

HOUR = dt.timedelta(hours=1)
SECOND = dt.timedelta(seconds=1)
ANCHORS = Anchors(every="1 day", validation_from=str(day(6)), test_from=str(day(9)))
# What plain Python makes of the values of some rows, in the order of their times.
ORACLES = {
    "count": len,
    "count_distinct": lambda values: len(set(values)),
    "sum": sum,
    "avg": lambda values: sum(values) / len(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "first": lambda values: values[0] if values else None,
    "last": lambda values: values[-1] if values else None,
}
# Function, column, start and end of the window in hours, whether of paid orders only.
CASES = [
    ("count", "", 0, 48, False),
    ("count", "amount", 0, 24, True),
    ("sum", "amount", 12, 48, False),
    ("avg", "amount", 0, 24, False),
    ("min", "amount", 0, 36, False),
    ("max", "amount", 0, 24, True),
    ("count_distinct", "status", 0, 72, False),
    ("first", "amount", 0, 48, False),
    ("last", "amount", 6, 48, True),
]


@dataclasses.dataclass
class Shop:
    """Users with the time of their row; orders as (user, time, amount, status); items as (order, time)."""

    users: dict
    orders: list
    items: list


def _random_shop(seed):
    choose = random.Random(seed)

    # Many times are at a bound of some window, or a second beside it.
    def time(last=14):
        return START + choose.randrange(4 * last) * 6 * HOUR + choose.choice([-1, 0, 1]) * SECOND

    users = {f"u{number}": choose.choice([START, time(10)]) for number in range(8)}
    orders = [
        (
            choose.choice([*users, None, "gone"]),
            time(),
            choose.choice([None, 1.0, 2.5, -3.0, float(number)]),
            choose.choice(["paid", "open", None]),
        )
        for number in range(120)
    ]
    return Shop(users, orders, [(choose.randrange(len(orders)), time()) for _ in range(150)])


def _write(folder, shop):
    ids = [f"o{number}" for number in range(len(shop.orders))]
    known = [(order, user) for order, (user, *_) in zip(ids, shop.orders, strict=True) if user]
    items = [f"i{number}" for number in range(len(shop.items))]
    times = [time for _, time in shop.items]
    return write_tables(
        folder,
        {
            "users": {
                "user_id": list(shop.users),
                "country": pa.nulls(len(shop.users), TEXT),
                "signed_up": list(shop.users.values()),
            },
            "orders": {
                "id": ids,
                "amount": [amount for _, _, amount, _ in shop.orders],
                "status": [status for *_, status in shop.orders],
                "placed_at": [time for _, time, _, _ in shop.orders],
            },
            "items": {"id": items, "quantity": [1] * len(items), "added_at": times},
            "products": {"id": ["p"]},
            "orders_user_id": {
                "source": [order for order, _ in known],
                "target": [user for _, user in known],
                "placed_at": [START] * len(known),
            },
            "items_order_id": {"source": items, "target": [ids[order] for order, _ in shop.items], "added_at": times},
            "items_product_id": {"source": pa.array([], TEXT), "target": pa.array([], TEXT)},
            "ratings": {
                "user": pa.array([], TEXT),
                "product": pa.array([], TEXT),
                "stars": pa.array([], pa.int64()),
                "rated_at": pa.array([], TIME),
            },
        },
    )


def _in_window(time, anchor, start, end):
    return anchor + start * HOUR < time <= anchor + end * HOUR


def _label(shop, case, user, anchor):
    function, column, start, end, only_paid = case
    rows = [
        (time, {"": True, "amount": amount, "status": status}[column])
        for one, time, amount, status in shop.orders
        if one == user and _in_window(time, anchor, start, end) and (status == "paid" or not only_paid)
    ]
    return ORACLES[function]([value for _, value in sorted(row for row in rows if row[1] is not None)])


def _seeds_and_counts(shop, label_of, anchors):
    """Seeds by user and time; and how many candidates are no seeds, by the reason."""
    seeds, dropped = {}, {"not_there_yet": 0, "where": 0, "no_label": 0}
    for anchor in anchors:
        for user, since in shop.users.items():
            recent = [one for one, time, *_ in shop.orders if one == user and _in_window(time, anchor, -24, 0)]
            label = label_of(user, anchor)
            if since > anchor:
                dropped["not_there_yet"] += 1
            elif not recent:
                dropped["where"] += 1
            elif label is None:
                dropped["no_label"] += 1
            else:
                seeds[user, anchor] = label
    return seeds, {reason: number for reason, number in dropped.items() if number}


def _made(folder, predict):
    task = PredictionTask(for_each="users", predict=predict, where="count(orders, -24 to 0 hours) > 0", anchors=ANCHORS)
    report = make_seed_table(task, folder, f"{folder}/seeds.parquet")
    rows = pq.read_table(f"{folder}/seeds.parquet").to_pylist()
    dropped = {}
    for split in report.splits:
        for reason, number in split.dropped.items():
            dropped[reason] = dropped.get(reason, 0) + number
    return report, {(row["id"], row["time"]): row["label"] for row in rows}, dropped


@pytest.mark.parametrize("seed", range(2))
def test_aggregates_over_windows_equal_those_of_plain_python(tmp_path, seed):
    shop = _random_shop(seed)
    folder = _write(tmp_path, shop)
    last = max(time for _, time, *_ in shop.orders)

    for case in CASES:
        function, column, start, end, only_paid = case
        what = f"orders{f'.{column}' if column else ''}{' where status = $$paid$$' if only_paid else ''}"
        report, seeds, dropped = _made(folder, f"{function}({what}, {start} to {end} hours)".replace("$$", "'"))

        anchors = [dt.datetime.fromisoformat(anchor.time) for anchor in report.anchors]
        expected, expected_dropped = _seeds_and_counts(
            shop, lambda user, anchor, case=case: _label(shop, case, user, anchor), anchors
        )
        assert anchors == sorted(anchors)
        assert anchors[-1] + end * HOUR <= last
        assert seeds == pytest.approx(expected), case
        assert dropped == expected_dropped, case


@pytest.mark.parametrize("seed", [5, 6])
def test_rows_two_foreign_keys_away_belong_to_their_entity(tmp_path, seed):
    shop = _random_shop(seed)

    report, seeds, dropped = _made(_write(tmp_path, shop), "count(items, 12 to 48 hours) > 2")

    def label(user, anchor):
        mine = [time for order, time in shop.items if shop.orders[order][0] == user]
        return int(sum(_in_window(time, anchor, 12, 48) for time in mine) > 2)

    anchors = [dt.datetime.fromisoformat(anchor.time) for anchor in report.anchors]
    assert (seeds, dropped) == _seeds_and_counts(shop, label, anchors)
    assert set(seeds.values()) == {0, 1}

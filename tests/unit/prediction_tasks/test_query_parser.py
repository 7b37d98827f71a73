from __future__ import annotations

import pytest

from tfx_gnn.prediction_tasks.query_parser import parse_predicted, parse_query
from tfx_gnn.prediction_tasks.query_syntax import (
    Aggregate,
    Column,
    Comparison,
    Constant,
    Distinct,
    Junction,
    Membership,
    Negation,
    NullTest,
    Window,
    aggregates_of,
    columns_of,
)


def test_an_aggregate_has_a_table_a_column_a_way_a_condition_and_a_window():
    found = parse_query("sum(orders.\"the amount\" by order_id.user_id where status = 'it''s', -2 to 0 weeks)", "where")

    assert found == Aggregate(
        function="sum",
        table="orders",
        column="the amount",
        by=("order_id", "user_id"),
        where=Comparison(
            left=Column(table="", name="status", position=50),
            operator="=",
            right=Constant(value="it's", position=59),
            position=50,
        ),
        window=Window(start=-1_209_600, end=0),
        position=4,
        column_position=11,
    )


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("0 to 30 days", Window(start=0, end=2_592_000)),
        ("1 hour to 2 days", Window(start=3_600, end=172_800)),
        ("-90 TO -1 Minutes", Window(start=-5_400, end=-60)),
        ("-1 day to 0 seconds", Window(start=-86_400, end=0)),
    ],
)
def test_a_window_has_two_bounds_and_the_last_unit_is_that_of_both(text, window):
    (found,) = aggregates_of(parse_query(f"count(orders.*, {text}) > 0", "predict"))

    assert (found.column, found.window) == ("", window)


def test_or_binds_weaker_than_and_and_not_binds_strongest():
    found = parse_query("a > 1 or not b = TRUE and (c is not null or users.d not in ('x', 2.5))", "where")

    assert isinstance(found, Junction)
    assert found.operator == "or"
    _, both = found.operands
    assert isinstance(both, Junction)
    assert both.operator == "and"
    negated, inner = both.operands
    assert isinstance(negated, Negation)
    assert isinstance(inner, Junction)
    is_there, member = inner.operands
    assert isinstance(is_there, NullTest)
    assert not is_there.is_null
    assert isinstance(member, Membership)
    assert ([option.value for option in member.options], member.is_in) == (["x", 2.5], False)
    assert [(column.table, column.name) for column in columns_of(found)] == [
        ("", "a"), ("", "b"), ("", "c"), ("users", "d")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`predict`, at character 1, must have a value; got the end"),
        ("cuont(orders, 0 to 1 day)", r"at character 1, .*got 'cuont'. Did you mean 'count'\?"),
        ("count(orders, 0 to 1 day) >", "at character 28, must have a value; got the end"),
        ("count(orders 0 to 1 day)", "at character 14, must have a comma and a window after what count takes; got '0'"),
        ("count(orders)", r"at character 13, must have a comma and a window after what count takes; got '\)'"),
        ("count(orders, 0 until 1 day)", "at character 17, .*one of the units .*got 'until'"),
        ("count(orders, 0 to 1)", "at character 21, must have a unit after a window"),
        ("count(orders, 0 to 1.5 days)", "at character 20, must have a whole number as the bound"),
        ("count(orders, 0 to 99999999999 days)", "at character 20, must have a whole number as the bound"),
        ("count(orders, 0 to 3 months)", "at character 22, must have a unit of fixed length; got 'months'"),
        (
            "count(orders, 3 to 3 days)",
            "at character 15, must have a window that starts before it ends; got '3 to 3 days'",
        ),
        ("count(orders, 0 to 3 days", r"at character 26, must have '\)' after a window; got the end"),
        ("sum(orders, 0 to 3 days)", "at character 11, must have a column in sum"),
        ("distinct(orders.item, 0 to 3 days)", "at character 1, must aggregate to one value; got 'distinct', .* alone"),
        ("count(orders where a, 0 to 3 days) 5", "at character 36, must end, or go on with and"),
        ("a is 3", "at character 6, must have null after is"),
        ("a not 3", "at character 7, must have in after not"),
        ("a in (b)", "at character 7, must be a number or 'text' in a list"),
        ("a = 'open", "at character 5, must have names, numbers, 'texts' and operators; got \"'open\""),
        ("a = b;", "at character 6, .*got ';'"),
        ("where = 3", "at character 1, must have a value; got 'where'"),
        ("(" * 60 + "a" + ")" * 60, "at most 50 parentheses"),
    ],
)
def test_an_error_has_the_place_and_a_remedy(text, message):
    with pytest.raises(ValueError, match=message):
        parse_query(text, "predict")


def test_what_is_recommended_stands_alone():
    found = parse_predicted("LIST_DISTINCT(items.product_id by order_id where paid, 0 to 3 days) top 5")

    assert isinstance(found, Distinct)
    assert (found.aggregate.table, found.aggregate.column, found.aggregate.by) == ("items", "product_id", ("order_id",))
    assert (found.aggregate.function, found.top) == ("distinct", 5)
    assert list(aggregates_of(found)) == [found.aggregate]
    assert list(columns_of(found)) == []
    assert parse_predicted("distinct(a.b, 0 to 3 days)").top == 10
    # A column may have the name.
    assert isinstance(parse_predicted("distinct = 3"), Comparison)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("distinct(orders, 0 to 3 days)", "at character 10, must have a foreign key in distinct"),
        ("distinct(a.b, 0 to 3 days) top 0", "at character 32, must have a number from 1 to 9999 after top; got '0'"),
        ("distinct(a.b, 0 to 3 days) top", "must have a number .*; got the end"),
        ("distinct(a.b, 0 to 3 days) > 3", "at character 28, must end after distinct, .* Compare count_distinct"),
        ("distinct(a.b)", "must have a comma and a window after what distinct takes"),
    ],
)
def test_mistakes_in_what_is_recommended_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        parse_predicted(text)

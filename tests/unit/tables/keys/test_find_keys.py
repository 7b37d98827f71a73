"""Keys of databases that nobody prepared: what is found, by which evidence, and what is asked."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as pc_csv
import pytest

from tfx_gnn.tables.keys.database import Database, joined_key
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.table_access import TableAccess


@pytest.fixture
def keys_of(tmp_path):
    """Writes tables as CSV files and finds their keys."""

    def find(label: str = ".", **tables) -> Database:
        for name, columns in tables.items():
            pc_csv.write_csv(pa.table(columns), tmp_path / f"{name}.csv")
        access = TableAccess()
        of_label, _, column = label.partition(".")
        return find_keys(find_tables(str(tmp_path), access), str(tmp_path), label=(of_label, column), access=access)

    return find


def told(database):
    return {(f"{key.table}.{'+'.join(key.columns)}", key.node_set) for key in database.foreign_keys}


NUMBERS = range(60)
FLIGHTS = {
    "hour": [f"2013-01-{1 + i % 20:02d} 05:00:00" for i in NUMBERS],
    "tail": [None if i % 10 == 0 else "gone" if i % 10 == 1 else f"N{i % 4}" for i in NUMBERS],
    "origin": [("EWR", "JFK")[i % 2] for i in NUMBERS],
    "late": [i % 3 == 0 for i in NUMBERS],
}
PLANES = {"tail": [f"N{i}" for i in range(4)], "seats": [100, 120, 120, 100]}
AIRPORTS = {"faa": ["EWR", "JFK", "LGA"], "alt": [18, 13, 22]}
WEATHER = {
    "origin": [place for place in ("EWR", "JFK") for _ in range(20)],
    "hour": [f"2013-01-{1 + i % 20:02d} 05:00:00" for i in range(40)],
    "temp": [i / 4 for i in range(40)],
}


def test_rows_without_ids_nulls_and_unknown_values_do_not_hide_a_foreign_key(keys_of):
    database = keys_of("flights.late", flights=FLIGHTS, planes=PLANES, airports=AIRPORTS, weather=WEATHER)

    assert database.keys == {
        "airports": ("faa",),
        "planes": ("tail",),
        "flights": (),
        "weather": ("origin", "hour"),
    }
    assert told(database) == {
        ("flights.origin", "airports"),
        ("flights.tail", "planes"),
        ("flights.origin+hour", "weather"),
        ("weather.origin", "airports"),
    }
    assert not database.is_tidy
    said = list(database.describe())
    assert "flights has no column of ids: a row's id is its number in the table, from 0." in said
    assert (
        "flights.tail names planes in 80.0% of its rows; 6 rows are empty and have no edge; 6 name nothing that is "
        "there (named after it)." in said
    )


def test_ids_that_no_table_has_are_entities_and_ratings_join_them_to_movies(keys_of):
    database = keys_of(
        movies={"movieId": list(NUMBERS), "title": [f"film {i}" for i in NUMBERS]},
        ratings={
            "userId": [i % 12 for i in range(240)],
            "movieId": [i % 60 for i in range(240)],
            "rating": [i % 5 for i in range(240)],
        },
    )

    assert database.keys == {"movies": ("movieId",)}
    assert database.entities == {"user": (("ratings", "userId"),)}
    ratings = database.edges["ratings"]
    assert {ratings.source_column: ratings.source, ratings.target_column: ratings.target} == {
        "userId": "user",
        "movieId": "movies",
    }


def test_table_of_the_label_holds_nodes_whatever_it_refers_to(keys_of):
    database = keys_of(
        "ratings.rating",
        movies={"movieId": list(NUMBERS), "title": [f"film {i}" for i in NUMBERS]},
        ratings={
            "userId": [i % 12 for i in range(240)],
            "movieId": [i % 60 for i in range(240)],
            "rating": [i % 5 for i in range(240)],
        },
    )

    assert database.keys == {"movies": ("movieId",), "ratings": ()}
    assert told(database) == {("ratings.movieId", "movies"), ("ratings.userId", "user")}
    assert not database.edges


def test_payroll_with_keys_of_several_columns(keys_of):
    employees = [10000 + i for i in NUMBERS]
    database = keys_of(
        employees={"emp_no": employees, "gender": ["M", "F"] * 30},
        departments={"dept_no": ["d1", "d2", "d3"], "dept_name": ["Sales", "Tools", "Staff"]},
        dept_emp={
            "emp_no": employees + employees[:5],
            "dept_no": [f"d{1 + i % 3}" for i in NUMBERS] + ["d2"] * 5,
            "from_date": ["1990-01-01"] * 65,
        },
        salaries={
            "emp_no": employees * 2,
            "salary": [40000 + 10 * i for i in range(120)],
            "from_date": ["1990-01-01"] * 60 + ["1991-01-01"] * 60,
        },
    )

    assert database.keys == {"departments": ("dept_no",), "employees": ("emp_no",), "salaries": ()}
    assert list(database.edges) == ["dept_emp"]
    assert ("salaries.emp_no", "employees") in told(database)


def test_small_integers_are_asked_about_and_roles_in_the_table_itself_are_found(keys_of):
    database = keys_of(
        employees={"EmployeeId": list(range(1, 9)), "ReportsTo": [None, 1, 2, 2, 2, 1, 6, 6], "City": ["Calgary"] * 8},
        customers={
            "CustomerId": list(range(1, 61)),
            "SupportRepId": [3 + i % 3 for i in NUMBERS],
            "Fax": [None] * 60,
        },
        invoices={"InvoiceId": list(range(1, 101)), "CustomerId": [1 + i % 60 for i in range(100)]},
    )

    assert told(database) == {("invoices.CustomerId", "customers"), ("employees.ReportsTo", "employees")}
    (question,) = database.questions
    assert question.startswith("Does customers.SupportRepId name employees or invoices or customers?")


def test_integers_that_pandas_wrote_as_floats_are_keys_and_its_row_numbers_are_none(keys_of):
    database = keys_of(
        shops={"Unnamed: 0": [0, 1, 2], "shop_id": [7, 8, 9], "size": [1.5, 2.5, 3.5]},
        sales={
            "Unnamed: 0": list(NUMBERS),
            "sale_id": [100 + i for i in NUMBERS],
            "shop_id": ["" if i % 6 == 0 else f"{7 + i % 3}.0" for i in NUMBERS],
        },
    )

    assert database.keys == {"sales": ("sale_id",), "shops": ("shop_id",)}
    (key,) = database.foreign_keys
    assert (key.columns, key.node_set, key.num_null, key.num_known) == (("shop_id",), "shops", 10, 50)
    assert sorted(database.left_out) == ["sales", "shops"]


def test_tables_with_ids_and_whole_foreign_keys_are_read_where_they_are(keys_of):
    database = keys_of(
        users={"id": [f"u{i}" for i in NUMBERS], "age": list(NUMBERS)},
        items={"id": [f"p{i}" for i in NUMBERS], "price": list(NUMBERS)},
        buys={"user": [f"u{i % 60}" for i in range(90)], "item": [f"p{i % 60}" for i in range(90)]},
    )

    assert database.is_tidy
    assert told(database) == {("buys.user", "users"), ("buys.item", "items")}


def test_joined_keys_differ_where_values_do():
    keys = joined_key([pa.array(["a|b", "a", None], pa.large_string()), pa.array(["c", "b|c", "d"], pa.large_string())])

    assert keys.to_pylist() == ["a\\|b|c", "a|b\\|c", None]


def test_repeated_ids_stay_ids_so_that_reading_them_is_refused(keys_of):
    database = keys_of(users={"id": ["u1", "u1", "u2"], "age": [1, 2, 3]})

    assert database.keys == {"users": ("id",)}


def test_names_of_tables_come_before_names_of_keys_and_a_key_may_name_a_table(keys_of):
    database = keys_of(
        users={"user_id": list(NUMBERS), "age": list(NUMBERS)},
        profiles={"user_id": list(NUMBERS), "color": ["red", "blue"] * 30},
        orders={"order_id": list(range(100, 190)), "user_id": [i % 60 for i in range(90)]},
    )

    assert told(database) == {("orders.user_id", "users"), ("profiles.user_id", "users")}


def test_index_without_a_name_and_times_are_no_keys(keys_of):
    database = keys_of(
        "prices.price",
        prices={
            "": list(NUMBERS),
            "day": [f"2026-0{1 + i // 28}-{1 + i % 28:02d}" for i in NUMBERS],
            "price": [i * 7 % 13 for i in NUMBERS],
        },
    )

    assert database.keys == {"prices": ()}
    assert list(database.left_out["prices"]) == [""]


def test_edges_whose_ends_are_not_clear_are_left_to_the_error(keys_of):
    database = keys_of(
        nodes={"id": [f"n{i}" for i in NUMBERS]},
        edges={"source": [f"n{i % 60}" for i in range(90)], "target": [f"n{i}" for i in range(90)]},
    )

    assert database.unclear == ("edges",)


def test_who_assigned_a_ticket_is_no_ticket(keys_of):
    database = keys_of(
        users={"id": list(range(1, 6)), "name": list("abcde")},
        tickets={"id": list(range(1, 101)), "assigned_to": [1 + i % 5 for i in range(100)]},
    )

    assert told(database) == set()


def test_two_columns_of_keys_join_their_tables_though_each_key_occurs_once(keys_of):
    database = keys_of(
        film={"film_id": list(NUMBERS), "title": [f"film {i}" for i in NUMBERS]},
        category={"category_id": [1, 2, 3], "name": ["a", "b", "c"]},
        film_category={"film_id": list(NUMBERS), "category_id": [1 + i % 3 for i in NUMBERS]},
        inventory={"inventory_id": list(range(200, 290)), "film_id": [i % 60 for i in range(90)]},
    )

    assert database.keys == {"film": ("film_id",), "category": ("category_id",), "inventory": ("inventory_id",)}
    assert list(database.edges) == ["film_category"]
    assert ("inventory.film_id", "film") in told(database)


@pytest.mark.parametrize("column", ["SK_ID_CURR", "Agent ID", "agentId", "agent"])
def test_ids_without_a_table_are_told_by_the_words_of_their_column(keys_of, column):
    database = keys_of("calls.long", calls={column: [i % 25 for i in range(100)], "long": [i % 3 for i in range(100)]})

    assert bool(database.entities) == (column != "agent")


def test_few_values_without_a_table_are_a_category(keys_of):
    database = keys_of(
        "calls.long", calls={"status_id": [i % 4 for i in range(100)], "long": [i % 3 for i in range(100)]}
    )

    assert not database.entities


def test_longest_name_of_a_table_wins(keys_of):
    persons = {"id": list(range(1, 31)), "born": [1950 + i for i in range(30)]}
    database = keys_of(
        person=persons,
        sales_person=persons,
        orders={"id": list(range(100, 160)), "sales_person_id": [1 + i % 30 for i in NUMBERS]},
    )

    assert ("orders.sales_person_id", "sales_person") in told(database)


def test_other_rows_of_the_table_itself_are_asked_about(keys_of):
    numbers = list(range(1, 61))

    (question,) = keys_of(posts={"PostId": numbers, "AcceptedAnswerId": numbers[::-1]}).questions

    assert question.startswith("Does posts.AcceptedAnswerId name posts? Its values would fit by chance too")

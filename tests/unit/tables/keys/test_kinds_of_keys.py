"""Kinds of keys that databases have: which column is the key of a table, and what refers to it by which name."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.keys.database import Database
from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.prepared_tables import write_prepared_tables
from tfx_gnn.tables.table_access import TableAccess


@pytest.fixture
def keys_of(tmp_path):
    """Writes tables as Parquet files and finds their keys."""

    def find(label: str = ".", **tables) -> Database:
        for name, columns in tables.items():
            pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        of_label, _, column = label.partition(".")
        return find_keys(find_tables(str(tmp_path), TableAccess()), str(tmp_path), label=(of_label, column))

    return find


def told(database):
    return {f"{key.table}.{'+'.join(key.columns)}": key.node_set for key in database.foreign_keys}


NUMBERS = range(60)
TEXTS = [f"text {i}" for i in NUMBERS]


def test_texts_and_amounts_that_never_repeat_are_no_keys(keys_of):
    database = keys_of(
        songs={"title": TEXTS, "seconds": [200 + i for i in NUMBERS]},
        salaries={"salary": [40_000 + 17 * i for i in NUMBERS], "year": [2000 + i % 9 for i in NUMBERS]},
    )

    assert database.keys == {"songs": (), "salaries": ()}


def test_a_column_to_which_others_refer_is_the_key_rather_than_a_number_of_rows(keys_of):
    """A hospital's tables number their rows, and refer to each other by other columns."""
    patients = [30_000 + 7 * i for i in NUMBERS]
    database = keys_of(
        patients={"ROW_ID": list(NUMBERS), "SUBJECT_ID": patients, "GENDER": ["M", "F"] * 30},
        items={"ROW_ID": list(NUMBERS), "ITEMID": [50_000 + i for i in NUMBERS], "LABEL": TEXTS},
        events={
            "ROW_ID": list(range(100, 400)),
            "SUBJECT_ID": [patients[i % 60] for i in range(300)],
            "ITEMID": [50_000 + i % 60 for i in range(300)],
        },
    )

    assert database.keys == {"patients": ("SUBJECT_ID",), "items": ("ITEMID",), "events": ("ROW_ID",)}
    assert told(database) == {"events.SUBJECT_ID": "patients", "events.ITEMID": "items"}


def test_of_tables_with_one_key_the_one_that_bears_its_name_or_has_most_rows_is_referred_to(keys_of):
    titles = [f"tt{i:04d}" for i in NUMBERS]
    database = keys_of(
        film={"film_id": list(NUMBERS), "title": TEXTS},
        film_text={"film_id": list(NUMBERS), "description": TEXTS},
        inventory={"inventory_id": list(range(200, 290)), "film_id": [i % 60 for i in range(90)]},
        title_basics={"tconst": titles, "year": [1990 + i % 20 for i in NUMBERS]},
        title_ratings={"tconst": titles[:40], "votes": [i % 7 for i in range(40)]},
        title_principals={"tconst": titles * 3, "job": ["actor"] * 180},
    )

    assert told(database) == {
        "film_text.film_id": "film",
        "inventory.film_id": "film",
        "title_ratings.tconst": "title_basics",
        "title_principals.tconst": "title_basics",
    }


def test_columns_with_the_prefix_of_their_table_refer_by_the_rest_of_their_name(keys_of):
    database = keys_of(
        customer={"c_custkey": list(range(1, 61)), "c_name": TEXTS, "c_nationkey": [i % 25 for i in NUMBERS]},
        nation={"n_nationkey": list(range(25)), "n_name": TEXTS[:25], "n_comment": TEXTS[:25]},
        orders={
            "o_orderkey": [4 * i for i in range(90)],
            "o_custkey": [1 + i % 60 for i in range(90)],
            "o_x": [1] * 90,
        },
    )

    assert told(database) == {"customer.c_nationkey": "nation", "orders.o_custkey": "customer"}


def test_numbers_named_as_things_that_a_table_holds_are_counts_or_asked_about(keys_of):
    database = keys_of(
        votes={"Id": list(range(1, 91)), "kind": ["up", "down"] * 45},
        ratings={"Id": list(range(1, 91)), "kind": ["a", "b"] * 45},
        users={
            "Id": list(range(1, 61)),
            "DownVotes": [i % 9 + 1 for i in NUMBERS],
            "rating": [i % 5 + 1 for i in NUMBERS],
        },
    )

    assert told(database) == {}
    (question,) = database.questions
    assert question.startswith("Does users.rating name ratings?")


def test_numbers_of_the_same_name_that_are_small_do_not_refer(keys_of):
    database = keys_of(
        players={"rank": list(range(1, 61)), "born": [1990 + i % 9 for i in NUMBERS]},
        pages={"page_id": list(range(500, 590)), "rank": [1 + i % 60 for i in range(90)]},
        items={"item_id": list(range(700, 760)), "player_id": [1 + i % 60 for i in NUMBERS]},
    )

    assert database.keys == {"players": (), "pages": ("page_id",), "items": ("item_id",)}
    assert "pages.rank" not in told(database)


def test_years_are_no_entities_and_a_column_named_after_a_table_is_of_no_other(keys_of):
    years = [1990 + i % 30 for i in range(300)]
    teams = [("BOS", "NYA", "CHN")[i % 3] for i in range(300)]
    database = keys_of(
        teams={"yearID": [y for y in range(1990, 2020) for _ in range(3)], "teamID": ["BOS", "NYA", "CHN"] * 30},
        franchises={"franchID": ["BOS", "NYA", "CHN"], "active": ["Y", "Y", "N"]},
        batting={"yearID": years, "teamID": teams, "hits": list(range(300))},
    )

    assert not database.entities
    assert told(database) == {"batting.yearID+teamID": "teams"}


def test_an_id_of_which_a_table_has_several_rows_is_an_entity(keys_of):
    shapes = [f"s{i}" for i in range(25)]
    database = keys_of(
        trips={"trip_id": [f"t{i}" for i in NUMBERS], "shape_id": [shapes[i % 25] for i in NUMBERS]},
        shapes={"shape_id": shapes * 4, "latitude": [i / 7 for i in range(100)]},
    )

    assert told(database) == {"trips.shape_id": "shape", "shapes.shape_id": "shape"}


def test_a_prefix_that_all_tables_share_does_not_hide_their_names(keys_of):
    database = keys_of(
        wp_users={"ID": list(range(1, 31)), "login": TEXTS[:30]},
        wp_posts={"ID": list(range(1, 61)), "status": ["draft", "public"] * 30},
        wp_comments={"comment_ID": list(range(1, 91)), "comment_post_ID": [1 + i % 60 for i in range(90)]},
    )

    assert told(database) == {"wp_comments.comment_post_ID": "wp_posts"}


def test_a_table_of_days_is_named_by_the_days_of_others_which_stay_times(keys_of, tmp_path):
    days = [f"2026-01-{1 + i:02d}" for i in range(20)]
    database = keys_of(
        "sales.big",
        calendar={"day": days, "is_holiday": [i % 7 == 0 for i in range(20)]},
        sales={"sale_id": list(range(300, 400)), "day": [days[i % 20] for i in range(100)], "big": [True, False] * 50},
    )
    (tmp_path / "tables").mkdir()
    prepared = write_prepared_tables(database, str(tmp_path), str(tmp_path / "tables"))

    assert told(database) == {"sales.day": "calendar"}
    assert prepared.node_times == {"sales": "day"}


def test_two_spellings_of_one_key_are_shown(keys_of):
    database = keys_of(
        stores={"store_id": [str(i) for i in range(1, 61)], "size": [i / 2 for i in NUMBERS]},
        sales={"sale_id": list(range(300, 390)), "store_id": [f"{1 + i % 60:03d}" for i in range(90)]},
    )

    (question,) = database.questions
    assert question == (
        "sales.store_id has '001' where stores.store_id has '1': so 100.0% of its rows have no edge. Spell both alike, "
        "if they are the same."
    )


def test_key_of_four_columns(keys_of):
    keys = [(i % 3, i // 3 % 3, i // 9 % 3, i // 27) for i in range(81)]
    columns = {name: [key[at] for key in keys] for at, name in enumerate(("plant", "line", "shift", "slot"))}
    database = keys_of(
        plans={**columns, "goal": [i / 8 for i in range(81)]},
        results={**{name: values * 2 for name, values in columns.items()}, "made": [i / 9 for i in range(162)]},
    )

    assert database.keys == {"plans": ("plant", "line", "shift", "slot"), "results": ()}
    assert told(database) == {"results.plant+line+shift+slot": "plans"}


AIRPORTS = {
    "airport_id": list(range(1, 61)),
    "iata": [None if i % 10 == 0 else f"A{i:02d}" for i in NUMBERS],
    "height": [i / 3 for i in NUMBERS],
}
FLIGHTS = {
    "flight_id": list(range(300, 390)),
    "source_iata": [f"A{1 + i % 9:02d}" if i % 30 else None if i else "1" for i in range(90)],
    "is_late": [i % 3 == 0 for i in range(90)],
}


def test_another_column_than_the_key_may_be_referred_to_and_its_edges_lead_to_the_key(keys_of, tmp_path):
    database = keys_of("flights.is_late", airports=AIRPORTS, flights=FLIGHTS)
    (tmp_path / "tables").mkdir()
    write_prepared_tables(database, str(tmp_path), str(tmp_path / "tables"))

    (key,) = database.foreign_keys
    assert (key.node_set, key.target_column, key.num_null, key.num_known) == ("airports", "iata", 2, 87)
    assert key.describe().startswith("flights.source_iata names airports by iata in 96.7% of its rows;")
    edges = pq.read_table(tmp_path / "tables" / "flights_source_iata.parquet").to_pydict()
    assert dict(zip(edges["source"], edges["target"], strict=True))["301"] == "3"
    # '1' is a key of an airport, but not in the column that is referred to.
    assert edges["target"][0] == "iata=1"


@pytest.mark.parametrize(
    ("last", "said"),
    [(7, "has only 59 different values in 60 rows, such as '7' in several"), (None, "has only 59 different values")],
)
def test_a_key_that_one_row_spoils_is_shown(keys_of, last, said):
    database = keys_of(
        users={"user_id": [*range(100, 151), *range(8), last], "age": [i % 9 for i in range(60)]},
        orders={"order_id": list(range(500, 620)), "user_id": [100 + i % 50 for i in range(120)]},
    )

    (question,) = database.questions
    assert question.startswith(f"users.user_id is named as the key of users, but {said}")
    assert question.endswith("nothing refers to users by it. Correct these rows if it should be the key.")


def test_a_label_that_is_the_key_of_its_table_is_refused(keys_of):
    users = {"user_id": list(range(60)), "age": [i % 9 for i in range(60)]}

    with pytest.raises(ValueError, match=r"`label` must be a column with values .*; got 'users.user_id', whose"):
        keys_of("users.user_id", users=users)


def test_of_two_columns_that_could_be_the_key_the_other_one_is_asked_about(keys_of):
    users = {"user_id": [100 + i for i in NUMBERS], "user_key": [500 + i for i in NUMBERS], "size": TEXTS}
    database = keys_of(users=users)
    (question,) = database.questions
    decided = keys_of(
        users=users, orders={"order_id": [f"o{i}" for i in range(120)], "user_key": [*range(500, 560)] * 2}
    )

    assert database.keys == {"users": ("user_id",)}
    assert question.startswith("users has two columns that could be its key, user_id and user_key: the first is taken.")
    assert question.endswith("give --primary-key users=user_key.")
    assert (decided.keys["users"], decided.questions) == (("user_key",), ())


def test_a_column_that_is_named_after_a_table_without_its_ids_is_not_taken_for_ids_of_its_own_table(keys_of):
    orders = {"id": list(range(120)), "product_id": [i % 40 for i in range(120)]}
    database = keys_of(orders=orders, products={"id": pa.array([], pa.int64()), "price": pa.array([], pa.float64())})

    (question,) = database.questions
    assert question.startswith("orders.product_id is named after products, but its values are no ids of products")
    assert "give --primary-key products=COLUMN" in question

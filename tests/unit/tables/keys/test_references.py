"""What columns refer to, where the values or the names alone would mislead."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.keys.find_keys import find_keys
from tfx_gnn.tables.keys.given_keys import read_given_keys
from tfx_gnn.tables.keys.table_roles import find_tables
from tfx_gnn.tables.table_access import TableAccess


@pytest.fixture
def keys_of(tmp_path):
    """Writes tables as Parquet files and finds their keys; declared keys are metadata by table."""

    def find(*, declared=None, **given):
        def read(**tables):
            for name, columns in tables.items():
                table = pa.table(columns).replace_schema_metadata((declared or {}).get(name))
                pq.write_table(table, tmp_path / f"{name}.parquet")
            found = read_given_keys(**given).declare(find_tables(str(tmp_path), TableAccess()))
            return find_keys(found, str(tmp_path))

        return read

    return find


def told(database):
    return {
        f"{key.table}.{'+'.join(key.columns)}": f"{key.node_set}.{key.target_column}" for key in database.foreign_keys
    }


NUMBERS = list(range(1, 61))
NAMES = [f"name {i}" for i in NUMBERS]


@pytest.mark.parametrize("has_own_key", [True, False])
def test_ids_after_which_no_table_is_named_may_be_those_of_what_has_no_table(keys_of, has_own_key):
    plays = {"play_id": list(range(300)), "track_id": [1 + i % 40 for i in range(300)]}
    database = keys_of()(
        listeners={"listener_id": NUMBERS, "name": NAMES},
        plays={name: plays[name] for name in plays if has_own_key or name != "play_id"},
    )

    (question,) = database.questions
    assert question.startswith("Does plays.track_id name listeners")
    assert question.endswith(
        "so it is no edge set. If it does, give --foreign-key plays.track_id=listeners. If it holds ids of track, "
        "which no table is named after, give --foreign-key plays.track_id=track."
    )


def test_ids_of_several_tables_are_those_of_none(keys_of):
    database = keys_of()(
        products={"id": NUMBERS, "name": NAMES},
        orders={"id": NUMBERS, "name": NAMES},
        comments={
            "id": list(range(300)),
            "commentable_type": ["Product", "Shop::Order", "Other"] * 100,
            "commentable_id": [1 + i % 60 for i in range(300)],
        },
    )

    (question,) = database.questions
    assert question.startswith(
        "comments.commentable_id names rows of the table that comments.commentable_type says, such as products where "
        "it is 'Product', orders where it is 'Shop::Order': it is no edge set."
    )
    assert told(database) == {}


def test_a_type_that_names_no_table_says_nothing_of_ids(keys_of):
    database = keys_of()(
        users={"id": [f"u{i}" for i in NUMBERS], "name": NAMES},
        visits={"user_id": [f"u{1 + i % 60}" for i in range(300)], "user_type": ["new", "old"] * 150},
    )

    assert told(database) == {"visits.user_id": "users."}


def test_texts_that_are_keys_but_for_blanks_and_case_are_asked_about(keys_of):
    database = keys_of()(
        staff={"badge": [f"e{i:04}" for i in NUMBERS], "name": NAMES, "staff_id": NUMBERS},
        employees={"emp_id": [f"e{i:04}" for i in NUMBERS]},
        events={"who": [f"E{1 + i % 60:04} " for i in range(300)], "what": ["in", "out"] * 150},
    )

    assert [one for one in database.questions if one.startswith("events.who has 'E0001 ' where employees.emp_id has")]
    assert not [one for one in database.questions if "events.what" in one]


def test_a_column_that_others_name_instead_of_the_given_key_is_no_question(keys_of):
    database = keys_of(primary_keys=["users=code"])(
        users={"id": NUMBERS, "code": [f"c{i}" for i in NUMBERS]},
        orders={"id": list(range(300)), "user_id": [1 + i % 60 for i in range(300)]},
    )

    assert told(database) == {"orders.user_id": "users.id"}
    assert database.questions == ()


@pytest.mark.parametrize("is_given", [True, False])
def test_a_foreign_key_names_the_declared_key_where_another_one_is_given(keys_of, is_given):
    declared = {"users": {"pkey_col": '"number"'}, "orders": {"fkey_col_to_pkey_table": '{"buyer": "users"}'}}
    given = {"foreign_keys": ["orders.buyer=users"]} if is_given else {}
    first = "id" if is_given else "number"
    declared = {} if is_given else declared

    database = keys_of(declared=declared, primary_keys=["users=code"], **given)(
        users={first: NUMBERS, "code": [f"c{i}" for i in NUMBERS]},
        orders={"id": list(range(300)), "buyer": [1 + i % 60 for i in range(300)]},
    )

    assert told(database) == {"orders.buyer": f"users.{first}"}
    assert database.foreign_keys[0].share == 1

"""What the words of names tell."""

from __future__ import annotations

import pytest

from tfx_gnn.tables.table_names import (
    entity_name,
    names_time,
    says_count,
    says_id,
    says_key,
    short_prefix,
    words_of,
    words_of_tables,
)


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("movies", "movieId"),
        ("categories", "category_id"),
        ("addresses", "ADDRESS_ID"),
        ("statuses", "statusId"),
        ("houses", "house_key"),
        ("people", "person_id"),
        ("boxes", "boxid"),
        ("teams", "team1_id"),
    ],
)
def test_a_word_and_its_plural_have_one_stem(table, column):
    assert words_of(table) == words_of(column)


@pytest.mark.parametrize(("name", "is_key"), [("ITEMID", True), ("custkey", True), ("paid", False), ("monkey", False)])
def test_keys_in_one_word_are_told_from_words_that_end_alike(name, is_key):
    assert says_key(name) == is_key


def test_numbers_of_things_and_periods_are_no_ids():
    assert [says_count(name) for name in ("DownVotes", "num_user", "store", "status", "votes_id")] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert (says_id("yearID"), says_id("userID"), names_time("CreatedAt")) == (False, True, True)


def test_what_groups_tables_or_columns_is_left_out():
    assert words_of_tables(["auth_users", "auth_groups", "blog_posts", "blog_tags"]) == {
        "auth_users": ["user"],
        "auth_groups": ["group"],
        "blog_posts": ["post"],
        "blog_tags": ["tag"],
    }
    assert words_of_tables(["orders", "order_items", "order_notes"])["order_items"] == ["order", "item"]
    assert words_of_tables(["sales_person", "sales_order", "person"])["sales_person"] == ["sale", "person"]
    assert words_of_tables(["customers_dataset"]) == {"customers_dataset": ["customer"]}
    assert short_prefix(["c_name", "c_custkey", "c_phone"]) == "c"
    assert short_prefix(["product_id", "product_name", "product_size"]) == ""


def test_entities_are_named_as_they_are_spelled():
    assert (entity_name("movieId"), entity_name("SK_ID_CURR"), entity_name("id")) == ("movie", "sk_curr", "id")

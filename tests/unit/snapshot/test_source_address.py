"""Addresses of sources: what they mean, and that no password is shown."""

from __future__ import annotations

import sqlite3

import pytest

from tfx_gnn.snapshot.source_address import check_shows_no_secret, parse_address


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ann:secret@host:5432/shop", "postgresql://ann@host:5432/shop"),
        ("postgres://ann:s%40cret@host/shop", "postgres://ann@host/shop"),
        ("postgresql://ann:se:cret@host/shop", "postgresql://ann@host/shop"),
        ("postgresql:///shop?host=/run/pg&user=ann&password=secret", "postgresql:///shop?host=/run/pg&user=ann"),
        ("postgresql://host/shop?sslpassword=secret&options=-c%20x", "postgresql://host/shop"),
        ("postgresql://host/shop", "postgresql://host/shop"),
        ("snowflake://ann:secret@account/shop/public?warehouse=w", "snowflake://ann@account/shop/public?warehouse=w"),
    ],
)
def test_an_address_is_shown_without_secrets(text, shown):
    address = parse_address(text)

    assert address.shown == shown
    assert "secret" not in repr(address)


def test_a_drivers_message_is_shown_without_secrets_in_any_spelling():
    address = parse_address("postgresql://ann:s%40cret@host/shop?token=hush")

    message = 'bad URI "postgresql://ann:s%40cret@host/shop",\n password s@cret, token hush, also x://joe:pass@h'

    assert (
        address.hide_secrets(message)
        == 'bad URI "postgresql://ann:***@host/shop", password ***, token ***, also x://joe:***@h'
    )


@pytest.mark.parametrize("password", ["sec/ret", "sec?ret", "sec#ret", "12/34", "sec@ret"])
def test_a_password_that_breaks_the_url_is_refused_and_not_shown(password):
    with pytest.raises(ValueError, match="with special characters escaped, as in %23 for # and %40 for @") as caught:
        parse_address(f"postgresql://ann:{password}@host/shop")

    assert password not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "ann:hush@host/shop",
        "//ann:hush@host/shop",
        "postgresql:/ann:hu@sh@host/shop",
        "host=h user=ann password=hush",
        "shop.db?token=hush&a=b",
        "postgresql://ann:hush@[::1/shop",
    ],
)
def test_what_is_no_address_is_shown_without_what_may_be_a_password(text):
    with pytest.raises((ValueError, FileNotFoundError), match="`source` must be") as caught:
        parse_address(text)

    assert "sh@" not in str(caught.value)
    assert "hush" not in f"{caught.value}{caught.value.__cause__}{caught.value.__context__}"


def test_where_addresses_are_stored_a_password_is_refused():
    check_shows_no_secret("postgresql://ann@host/shop")
    check_shows_no_secret("postgresql://host/shop?sslmode=require&connect_timeout=1")
    check_shows_no_secret("sqlite:///not_here.db")

    with pytest.raises(
        ValueError, match="must hold no password where it is stored; got one for postgresql://ann@host/"
    ):
        check_shows_no_secret("postgresql://ann:secret@host/shop")


@pytest.mark.parametrize("scheme", ["", "sqlite:///"])
def test_a_file_is_known_by_its_content(tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("shop.data") as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()

    address = parse_address(f"{scheme}shop.data")

    assert (address.kind, address.text, address.shown) == ("sqlite", "shop.data", "shop.data")
    assert parse_address(f"sqlite:///{tmp_path}/shop.data").text == str(tmp_path / "shop.data")
    assert parse_address(str(tmp_path)).kind == "folder"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("mysql://ann:secret@host/shop", ValueError, "must begin with one of postgresql://.*; got 'mysql' before"),
        ("sqlite://shop.db", ValueError, "must name a file after three slashes, as in sqlite:///shop.db"),
        ("gone.db", FileNotFoundError, "got 'gone.db', which does not exist"),
        ("", FileNotFoundError, "got '', which does not exist"),
        ("duckdb:///other", ValueError, "must be a DuckDB file; got 'other', which is none"),
        ("other", ValueError, "must be a SQLite file, a DuckDB file or a folder; got 'other', which is none"),
        ("sqlite:///folder", ValueError, "must be a SQLite file; got 'folder', which is a folder"),
    ],
)
def test_what_is_no_source_is_refused(tmp_path, monkeypatch, text, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").write_text("id\n1\n")
    (tmp_path / "folder").mkdir()

    with pytest.raises(error, match=message) as caught:
        parse_address(text)

    assert "secret" not in str(caught.value)


def test_a_path_from_the_root_with_three_slashes_is_pointed_at(tmp_path):
    file = tmp_path / "shop.db"
    file.write_bytes(b"SQLite format 3\0")

    with pytest.raises(FileNotFoundError, match=f"There is {file}: a path from the root has four slashes"):
        parse_address(f"sqlite://{file}")

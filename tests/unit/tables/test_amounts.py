"""Amounts that are written for people: which are read as numbers, and which are asked about."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.tables.amounts import ask_about_amounts, describe_amounts, read_amounts, take_amounts
from tfx_gnn.tables.column_values import ColumnValues
from tfx_gnn_pipelines.proposals.proposal import propose_project


def column(*texts):
    return ColumnValues(
        values=pa.array(texts, pa.large_string()),
        counts=pa.array([1] * len(texts), pa.int64()),
        num_rows=len(texts),
        num_filled=len(texts),
    )


@pytest.mark.parametrize(
    ("texts", "numbers"),
    [
        (["€1,234.00", "€5.10", "0"], ["1234.00", "5.10", "0"]),
        (["1.234,50", "12,00"], ["1234.50", "12.00"]),
        (["12%", "7 %", "-3%"], ["12", "7", "-3"]),
        (["1\u202f234,50 EUR", "3,00 EUR"], ["1234.50", "3.00"]),
        (["CHF 1'234.50", "CHF -12"], ["1234.50", "-12"]),
        (["(1,234.00)", "5.00"], ["-1234.00", "5.00"]),
        (["1.234,50-", "\u22123,00"], ["-1234.50", "-3.00"]),
        (["-$5", "$-6", "$.50"], ["-5", "-6", "0.50"]),
    ],
)
def test_amounts_that_can_be_read_in_one_way_are_numbers(texts, numbers):
    found = take_amounts({"price": column(*texts)})["price"]

    assert found.values.to_pylist() == numbers
    assert found.amounts is not None
    assert read_amounts(pa.array([None, *texts]), found.amounts, "it").to_pylist() == [None, *numbers]
    assert list(ask_about_amounts("it", {"price": found})) == []


@pytest.mark.parametrize(
    "texts",
    [
        ["1.2.3", "1.10.0"],
        ["10.0.0.1", "10.100.200.111"],
        ["31.12.2025", "1.1.2025"],
        ["007", "1,5"],
        ["030 123 456", "555 123 456"],
        ["€", "$"],
        ["1.5", "2"],
        ["red", "1,5"],
        ["2026-01-01", "2026-01-02"],
    ],
)
def test_names_and_plain_numbers_are_no_amounts(texts):
    columns = {"it": column(*texts)}

    assert take_amounts(columns) == columns
    assert list(ask_about_amounts("t", columns)) == []


def test_columns_that_are_named_as_codes_stay_texts():
    columns = {name: column("1,50", "2,50") for name in ("item_no", "zip_code", "amount")}

    assert [name for name, one in take_amounts(columns).items() if one.amounts] == ["amount"]


@pytest.mark.parametrize(
    ("texts", "doubt"),
    [
        (["1,234", "5"], r"such as '1,234', which may be 1234 or 1\.234, .* Spell them as 1234 or 1\.234,"),
        (["$5", "€6"], r"has amounts in \$, €\. Give all in one unit"),
        (["12%", "0.5"], "has amounts with and without %"),
        (["1,234.50", "1.234,50"], "two decimal marks, such as '1,234.50' and '1.234,50'"),
        ([*(f"{one} kr" for one in range(20)), "ask"], "1 row with another value, .* --missing-value 't.price=ask'"),
    ],
)
def test_amounts_in_doubt_are_asked_about(texts, doubt):
    columns = {"price": column(*texts)}

    (question,) = ask_about_amounts("t", take_amounts(columns))

    assert re.search(doubt, question), question
    assert question.endswith("until then it is read as a text.")


def test_another_column_of_the_table_decides_what_a_mark_is():
    columns = {"weight": column("1,234", "5"), "price": column("1.234,50", "1,00"), "share": column("5%", "6%")}

    taken = take_amounts(columns)

    assert taken["weight"].values.to_pylist() == ["1.234", "5"]
    assert list(describe_amounts("t", taken)) == [
        "t.weight, t.price are read as numbers: all texts are amounts with a decimal comma, '1,234' is 1.234.",
        "t.share is read as numbers: all texts are amounts in %, '5%' is 5.",
    ]


def test_what_is_written_otherwise_in_rows_that_were_not_looked_at_is_refused():
    amounts = take_amounts({"price": column("1,50", "2,25")})["price"].amounts

    with pytest.raises(ValueError, match=r"`items.csv, column 'price'` must hold amounts .* got '1\.50'"):
        read_amounts(pa.array([b"1,50", b"1.50"], pa.large_binary()), amounts, "items.csv, column 'price'")


@pytest.mark.parametrize("is_parquet", [False, True])
def test_a_project_has_amounts_as_numbers(tmp_path, is_parquet):
    raw = tmp_path / "raw"
    raw.mkdir()
    rows = [
        (f"i{number}", f"{number}.{100 + number},50 €" if number else "-", "ab"[number % 2]) for number in range(20)
    ]
    if is_parquet:
        names = ("item", "price", "kind")
        pq.write_table(
            pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), raw / "items.parquet"
        )
    else:
        lines = ["item,price,kind", *(f'{item},"{price}",{kind}' for item, price, kind in rows)]
        (raw / "items.csv").write_text("\n".join([*lines, ""]))

    proposal = propose_project(str(raw), label="items.kind", prepared_dir=str(tmp_path / "tables"))

    prices = pq.read_table(tmp_path / "tables" / "items.parquet")["price"].to_pylist()
    assert prices[:3] == [None, 1101.5, 2102.5]
    assert proposal.features["nodes/items"]["price"].kind == "z_score"
    assert "items.price is read as numbers: all texts are amounts in € with a decimal comma" in "\n".join(proposal.keys)

"""Numbers that are written for people: with a currency or a percent sign, thousands in groups, or a decimal comma."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from tfx_gnn.tables.column_values import AmountFormat, ColumnValues
from tfx_gnn.tables.table_names import says_code, says_key

_UNIT = (
    r"(?P<unit>(?:US|A|C|HK|NZ|R|S)?\$|[€£¥₹₩₽₺₫฿₴₪]|kr\.?|zł|Kč|Ft|%|‰|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|INR|"
    r"JPY|KRW|MXN|NOK|NZD|PLN|RUB|SEK|SGD|TRY|USD|ZAR)"
)
_BEFORE, _AFTER = rf"^(?P<sign>-?) ?{_UNIT} ?", rf" ?{_UNIT}$"
_SIGNS = (
    ("[\u00a0\u2007\u2009\u202f]", " "),
    ("\u2212", "-"),
    ("\u2019", "'"),
    (r"^\s+|\s+$", ""),
    # As accountants and SAP write what is below zero.
    (r"^\((.*[0-9].*)\)$", r"-\1"),
    (r"^([^-].*[0-9].*)-$", r"-\1"),
    (r"^- ", "-"),
)
_GROUPS = {".": ",", ",": r"\."}
"""By decimal mark, what parts the thousands besides blanks and apostrophes."""
_MOST_APART = 0.1
"""Share of the rows up to which values that are no amounts are worth a question."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Parts:
    """Amounts, each as its number and its unit; both large_string arrays of one length."""

    numbers: pa.Array
    units: pa.Array


def take_amounts(columns: Mapping[str, ColumnValues]) -> dict[str, ColumnValues]:
    """Reads amounts as numbers, in the columns of a table in which all values are such in one way alone.

    Where a decimal mark could also part thousands in all rows, as in "1,234", other columns of the table decide if they
    are of one mind; otherwise the column stays as it is, see `ask_about_amounts`. So does one that is
    named as keys or codes are.
    """
    found = {name: _formats(name, column) for name, column in columns.items()}
    known = {formats[0].decimal for formats in found.values() if len(formats) == 1 and formats[0].decimal}
    taken = dict(columns)
    for name, formats in found.items():
        chosen = [one for one in formats if len(formats) == 1 or known == {one.decimal}]
        if chosen:
            taken[name] = _read(columns[name], chosen[0])
    return taken


def are_amounts(column: ColumnValues) -> bool:
    """Whether all values are amounts, in one way or several."""
    return bool(_formats("", column))


def ask_about_amounts(table: str, columns: Mapping[str, ColumnValues]) -> Iterator[str]:
    """Asks about amounts that are not read as numbers, and says what would let them be."""
    for name, column in columns.items():
        doubt = "" if column.amounts is not None or not _may_hold(name, column) else _doubt(f"{table}.{name}", column)
        if doubt:
            yield f"{table}.{name} has amounts {doubt}, and run this again; until then it is read as a text."


def describe_amounts(table: str, columns: Mapping[str, ColumnValues]) -> Iterator[str]:
    """Says which columns hold amounts that are read as numbers, and how; those that are written alike together."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, column in columns.items():
        if column.amounts is not None:
            alike.setdefault((column.amounts.unit, column.amounts.decimal), []).append(name)
    for (unit, decimal), names in alike.items():
        mark = {",": " with a decimal comma", ".": " with a decimal point"}.get(decimal, "")
        found = columns[names[0]].amounts
        assert found is not None
        yield (
            f"{', '.join(f'{table}.{name}' for name in names)} {'is' if len(names) == 1 else 'are'} read as numbers: "
            f"all texts are amounts{f' in {unit}' if unit else ''}{mark}, {found.example!r} is {found.number}."
        )


def _doubt(place: str, column: ColumnValues) -> str:
    """Says why amounts are not read as numbers; "" if there are none, or hardly any."""
    formats = _formats("", column)
    if formats:
        texts = column.values
        differs = pc.not_equal(*(_plain(_parts(texts).numbers, one.decimal).cast(pa.float64()) for one in formats))
        text = texts[pc.index(differs, value=True).as_py()]
        few, many = (
            _plain(_parts(texts.filter(pc.equal(texts, text))).numbers, mark)[0].as_py() for mark in (".", ",")
        )
        return (
            f"such as {text.as_py()!r}, which may be {few} or {many}, and no value tells which. Spell them "
            f"as {few} or {many}"
        )
    parts = _parts(column.values)
    is_amount = pc.or_(*(_matches(parts.numbers, mark) for mark in (".", ",")))
    num_others = column.num_counted - int(pc.sum(column.counts.filter(is_amount)).as_py() or 0)
    amounts = column.values.filter(is_amount)
    units = sorted({*parts.units.filter(is_amount).to_pylist()} - {""})
    is_plain = bool(pc.all(pc.match_substring_regex(amounts, "^-?[0-9]*$")).as_py())
    if is_plain or num_others > _MOST_APART * column.num_counted:
        return ""
    if num_others:
        other = column.values.filter(pc.invert(is_amount))[0].as_py()
        rows = "1 row with another value" if num_others == 1 else f"{num_others:,} rows with other values"
        return (
            f"such as {amounts[0].as_py()!r}, and {rows}, such as {other!r}. Spell these as amounts, or, if they stand "
            f"for none, give --missing-value '{place}={other}'"
        )
    if not _have_one_unit(parts):
        what = f"in {', '.join(units)}" if len(units) > 1 else f"with and without {units[0]}"
        return f"{what}. Give all in one unit, or the unit in a column of its own"
    marks = [amounts.filter(pc.invert(_matches(parts.numbers, mark))) for mark in (".", ",")]
    if not all(map(len, marks)):
        return ""
    return f"with two decimal marks, such as {marks[1][0].as_py()!r} and {marks[0][0].as_py()!r}. Spell all alike"


def read_amounts(array: pa.Array, amounts: AmountFormat, place: str) -> pa.Array:
    """Spells amounts as plain numbers, large_string of the shape of `array`.

    Args:
        array: texts, or the cells of a CSV file; nulls stay.
        amounts: how they are written.
        place: where they are, for messages.

    Raises:
        ValueError: if one is written otherwise, in rows that were not looked at before.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    texts = array.cast(pa.large_string())
    parts = _parts(texts)
    is_wrong = pc.invert(pc.fill_null(_matches(parts.numbers, amounts.decimal or "."), fill_value=True))
    if pc.any(is_wrong).as_py():
        raise ValueError(
            f"`{place}` must hold amounts that are written as {amounts.example!r} is; got "
            f"{texts.filter(is_wrong)[0].as_py()!r}. Spell it so, or, if it stands for no value, give --missing-value "
            "with it."
        )
    return _plain(parts.numbers, amounts.decimal or ".")


def _may_hold(name: str, column: ColumnValues) -> bool:
    is_number = column.is_time or column.numbers() is not None
    return column.num_distinct > 0 and not is_number and not (name and (says_code(name) or says_key(name)))


def _formats(name: str, column: ColumnValues) -> list[AmountFormat]:
    """Lists in which ways all values of a column can be read that are no plain numbers; one for each decimal mark."""
    if not _may_hold(name, column):
        return []
    parts = _parts(column.values)
    marks = [mark for mark in (".", ",") if pc.all(_matches(parts.numbers, mark)).as_py()]
    if not marks or not _have_one_unit(parts) or _may_be_names(parts):
        return []
    plain = [_plain(parts.numbers, mark) for mark in marks]
    if len(plain) > 1 and plain[0].equals(plain[1]):
        marks, plain = [""], plain[:1]
    unit = max(pc.unique(parts.units).to_pylist())
    # The longest text that is no plain number shows most of how all are written.
    lengths = pc.if_else(pc.equal(column.values, plain[0]), 0, pc.utf8_length(column.values))
    shown = pc.index(lengths, pc.max(lengths)).as_py()
    return [
        AmountFormat(decimal=mark, unit=unit, example=column.values[shown].as_py(), number=texts[shown].as_py())
        for mark, texts in zip(marks, plain, strict=True)
    ]


def _read(column: ColumnValues, amounts: AmountFormat) -> ColumnValues:
    plain = _plain(_parts(column.values).numbers, amounts.decimal or ".")
    table = pa.table({"values": plain, "counts": column.counts}).group_by("values").aggregate([("counts", "sum")])
    return dataclasses.replace(
        column,
        values=table["values"].combine_chunks(),
        counts=table["counts_sum"].combine_chunks(),
        amounts=amounts,
    )


def _parts(texts: pa.Array) -> _Parts:
    for pattern, replacement in _SIGNS:
        texts = pc.replace_substring_regex(texts, pattern, replacement)
    units = pa.array([""] * len(texts), texts.type)
    for pattern, place in ((_BEFORE, 1), (_AFTER, 0)):
        found = pc.struct_field(pc.extract_regex(texts, pattern), [place])
        units = pc.if_else(pc.equal(units, ""), pc.fill_null(found, ""), units)
    numbers = pc.replace_substring_regex(texts, re.sub(r"\?P<\w+>", "", _BEFORE), r"\1")
    return _Parts(numbers=pc.replace_substring_regex(numbers, re.sub(r"\?P<\w+>", "", _AFTER), ""), units=units)


def _matches(numbers: pa.Array, mark: str) -> pa.Array:
    # "007" is a name, and 1.234.56 a version.
    whole = "|".join(rf"[1-9][0-9]{{0,2}}(?:{one}[0-9]{{3}})+" for one in (_GROUPS[mark], "'", " "))
    fraction = rf"{re.escape(mark)}[0-9]+"
    return pc.match_substring_regex(numbers, rf"^-?(?:(?:0|[1-9][0-9]*|{whole})(?:{fraction})?|{fraction})$")


def _plain(numbers: pa.Array, mark: str) -> pa.Array:
    ungrouped = pc.replace_substring_regex(numbers, rf"[{_GROUPS[mark]}' ]", "")
    pointed = pc.replace_substring_regex(ungrouped.cast(pa.large_string()), re.escape(mark), ".")
    return pc.replace_substring_regex(pointed, r"^(-?)\.", r"\10.")


def _have_one_unit(parts: _Parts) -> bool:
    """Whether all have the same unit; nothing is the same in any."""
    units = {*pc.unique(parts.units).to_pylist()}
    without = parts.numbers.filter(pc.equal(parts.units, ""))
    return len(units) == 1 or (len(units - {""}) == 1 and not {*pc.unique(without).to_pylist()} - {"0"})


def _may_be_names(parts: _Parts) -> bool:
    """Whether blanks within digits may part something else than thousands, as in telephone numbers."""
    has_unit = bool(pc.any(pc.not_equal(parts.units, "")).as_py())
    has_blank = bool(pc.any(pc.match_substring_regex(parts.numbers, r"[0-9] [0-9]")).as_py())
    has_fractions = bool(pc.all(pc.match_substring_regex(parts.numbers, r"[.,][0-9]+$")).as_py())
    return has_blank and not has_unit and not has_fractions

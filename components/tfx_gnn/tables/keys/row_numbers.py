"""Finds the columns that pandas writes for the number of a row."""

from __future__ import annotations

import re

import pyarrow.compute as pc

from tfx_gnn.tables.keys.table_roles import FoundTable

_PANDAS_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
_PLAIN_NAMES_OF_INDEX = ("index", "level_0")
"""Names of pandas' index that others give to columns, too."""


def row_numbers(table: FoundTable) -> list[str]:
    """Lists the columns that pandas writes for the number of a row, which has gaps where rows were left out."""
    found = []
    for name, column in table.columns.items():
        if not (_PANDAS_INDEX.fullmatch(name) or name in _PLAIN_NAMES_OF_INDEX) or not column.is_key:
            continue
        numbers = column.numbers()
        if numbers is None or pc.min(numbers).as_py() < 0 or not pc.all(pc.equal(numbers, pc.floor(numbers))).as_py():
            continue
        is_whole = pc.min(numbers).as_py() == 0 and pc.max(numbers).as_py() == column.num_rows - 1
        if is_whole or name not in _PLAIN_NAMES_OF_INDEX:
            found.append(name)
    return found

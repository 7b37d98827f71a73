"""Python blocks of pages: each can be pasted alone, or its title says what it continues."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "templates" / "starter" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CONTINUES, FRAGMENT = "continues the blocks above", "part of your pipeline"
BLOCKS = [
    pytest.param(page, number, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, _ in enumerate(re.findall("^```python", page.read_text(), re.MULTILINE))
]


def blocks_of(page):
    """Title and code of each block."""
    return re.findall(r'^```python(?: title="([^"\n]*)")?\n(.*?)^```$', page.read_text(), re.DOTALL | re.MULTILINE)


def names_of(code):
    """The names that a block makes, and those that it takes from elsewhere."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    imports = [alias for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names]
    made = {
        *(node.id for node in names if isinstance(node.ctx, ast.Store)),
        *((alias.asname or alias.name).partition(".")[0] for alias in imports),
        *(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)),
        *(node.arg for node in nodes if isinstance(node, ast.arg)),
    }
    read = {node.id for node in names if isinstance(node.ctx, ast.Load)}
    return made, read - made - set(dir(builtins))


@pytest.mark.parametrize(("page", "number"), BLOCKS)
def test_a_block_needs_what_its_title_says(page, number):
    blocks = blocks_of(page)
    title, code = blocks[number]
    above = set().union(*(names_of(other)[0] for _, other in blocks[:number]))

    _, needed = names_of(code)

    assert title == ("" if not needed else CONTINUES if needed <= above else FRAGMENT)


def test_blocks_are_counted(record_property):
    titles = [title for page in PAGES for title, _ in blocks_of(page)]
    counts = {title: titles.count(title) for title in ("", CONTINUES, FRAGMENT)}

    record_property("blocks", counts)

    assert sum(counts.values()) == len(titles) == len(BLOCKS)
    # A page of many blocks is one program, whose test runs it from top to bottom.
    assert counts[FRAGMENT] <= 7

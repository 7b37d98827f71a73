"""Every page is found from docs/index.md within two clicks, by the links in the text, as in the navigation."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
INDEX = ROOT / "docs" / "index.md"
OUTSIDE = ("README.md", "benchmarks/README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = {
    *(ROOT / name for name in (*OUTSIDE, "templates/starter/README.md")),
    *(path for kind in ("*.md", "*.ipynb") for path in (ROOT / "docs").rglob(kind)),
}
KINDS = ["Tutorials", "How-to guides", "Reference", "Explanation"]


def linked_from(page):
    targets = re.findall(r"\]\(([^)#\s:]+)[^)\s]*\)", page.read_text())
    return {Path(os.path.normpath(page.parent / target)) for target in targets} & PAGES


def test_every_page_is_two_clicks_or_less_from_the_index():
    near = linked_from(INDEX)

    reached = {INDEX, *near}.union(*(linked_from(page) for page in near if page.suffix == ".md"))

    assert sorted(str(page.relative_to(ROOT)) for page in PAGES - reached) == []
    assert len(PAGES) > 50


def test_the_index_and_the_navigation_have_the_four_kinds_in_the_same_order():
    navigation = re.findall(r"^  - ([\w -]+):$", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2], re.MULTILINE)
    headings = re.findall(r"^### ([\w -]+):", INDEX.read_text(), re.MULTILINE)

    assert [name for name in navigation if name in KINDS] == headings == KINDS


def test_the_index_groups_how_to_guides_as_the_navigation_does():
    text = (ROOT / "mkdocs.yml").read_text()
    (guides,) = re.findall(r"^  - How-to guides:\n((?:      .*\n)+)", text, re.MULTILINE)
    parts = re.split(r"^      - (.*):\n", guides, flags=re.MULTILINE)[1:]
    by_group = {
        name.lower(): re.findall(r": (\S+\.md)$", pages, re.MULTILINE)
        for name, pages in zip(parts[::2], parts[1::2], strict=True)
    }

    rows = re.findall(r"^\| \*\*(.*)\*\* \| (.*) \|$", INDEX.read_text(), re.MULTILINE)

    assert {name: re.findall(r"\(([\w/]+\.md)\)", cell) for name, cell in rows} == by_group
    assert max(map(len, by_group.values())) <= 8

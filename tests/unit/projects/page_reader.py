"""Reads what a report shows, as a browser would."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"br", "meta", "wbr"}


class PageReader(HTMLParser):
    """What a page holds.

    Attributes:
        ids: of its elements.
        links: where it leads to or what it takes from elsewhere.
        tags: names of its elements.
        tables: texts of the cells of each table, by row.
        text: all that is read.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids, self.links, self.tags, self.tables, self.text = [], [], set(), [], ""
        self._open = []
        self.feed(page)
        self.close()
        self.tables = [[[" ".join(cell.split()) for cell in row] for row in table] for table in self.tables]
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name in ("href", "src", "xlink:href", "action", "data")]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "br":
            self.handle_data(" ")
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td"):
            self.tables[-1][-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self._open[-1] == tag, f"</{tag}> in {self._open}"
        self._open.pop()

    def handle_data(self, data):
        if "style" in self._open:
            return
        self.text += data
        if {"th", "td"} & set(self._open):
            self.tables[-1][-1][-1] += data

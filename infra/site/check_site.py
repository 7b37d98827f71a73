"""Checks a built site from outside: every link leads to a page and an anchor, and nothing is loaded from elsewhere.

    python infra/site/check_site.py build/site

The strict build looks at links in Markdown; this looks at the pages that came of it, the reference and the search
index included. Links that a reader follows to other sites are not requested. Every page is at most two clicks from the
first one, and words that readers search for find the page that answers them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes by which a browser loads something without being asked.
_LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
_LOADED_LINKS = {"stylesheet", "icon", "preconnect", "dns-prefetch", "preload", "modulepreload"}
_MOST_CLICKS = 2
_SEARCHES = {
    "pandas": "how_to/other_libraries.html",
    "jupyter": "notebooks/first_model.html",
    "custom layer": "how_to/own_convolution.html",
    "GPU": "how_to/gpu.html",
    "TPU": "how_to/tpu.html",
}
"""Page that a search must find, by what is typed."""
_CSS_ADDRESS = re.compile(r"(?:@import\s+|url\()[\"']?((?:https?:)?//[^\"')\s]+)")


class _Page(HTMLParser):
    """What a page defines and refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in _LOADED and _LOADED[tag] in values:
            self.loaded.append(values[_LOADED[tag]])
        if tag == "link" and _LOADED_LINKS & set(values.get("rel", "").split()):
            self.loaded.append(values["href"])


def faults(site: Path, searches: Mapping[str, str]) -> list[str]:
    """Lists what is wrong with the site, in the order of its files.

    Args:
        site: folder of the built site.
        searches: path of the page that a search must find, by what is typed.
    """
    pages = {path: _Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    if not pages:
        return [f"{site}: no page is here. Build the site first."]
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name}: loads {address} from elsewhere" for address in page.loaded if _is_elsewhere(address)]
        # The error page is shown at any address, so its links are absolute.
        if path.name == "404.html":
            continue
        for link in {*page.links, *page.loaded}:
            found += [f"{name}: {fault}" for fault in _faults_of_link(link, path, pages)]
    for path in sorted(site.rglob("*.css")):
        found += [f"{path.relative_to(site)}: loads {address}" for address in _CSS_ADDRESS.findall(path.read_text())]
    documents = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    for document in documents:
        found += [f"search: {fault}" for fault in _faults_of_link(document["location"], site / "index.html", pages)]
    found += [
        f"search: {typed!r} does not find {page}"
        for typed, page in searches.items()
        if page not in _found_pages(typed, documents)
    ]
    return found + [
        f"{path.relative_to(site)}: more than {_MOST_CLICKS} clicks from index.html"
        for path in _far_pages(site / "index.html", pages)
    ]


def _found_pages(typed: str, documents: list[dict[str, str]]) -> set[str]:
    """The pages with a section that has all words, or words that begin with them, as the site's search finds them."""
    found = set()
    for document in documents:
        words = re.findall(r"\w+", f"{document['title']} {document['text']}".lower())
        if all(any(word.startswith(wanted) for word in words) for wanted in typed.lower().split()):
            found.add(document["location"].partition("#")[0])
    return found


def _far_pages(start: Path, pages: dict[Path, _Page]) -> list[Path]:
    reached = {start}
    for _ in range(_MOST_CLICKS):
        reached |= {
            (path.parent / unquote(urlsplit(link).path)).resolve()
            for path in reached & pages.keys()
            for link in pages[path].links
            if not _is_elsewhere(link)
        }
    return [path for path in pages if path not in reached and path.name != "404.html"]


def _is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https")


def _faults_of_link(link: str, path: Path, pages: dict[Path, _Page]) -> list[str]:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return []
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return [f"link to {link!r}, which does not exist"]
    anchor = unquote(parts.fragment)
    # `#__...` are the theme's own switches.
    if anchor and target in pages and anchor not in pages[target].anchors and not anchor.startswith("__"):
        return [f"link to {link!r}, where {target.name} has no such anchor"]
    return []


if __name__ == "__main__":
    found_faults = faults(Path(sys.argv[1]).resolve(), _SEARCHES)
    sys.stdout.write("".join(f"{fault}\n" for fault in found_faults))
    sys.exit(1 if found_faults else 0)

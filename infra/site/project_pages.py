"""MkDocs hook: pages of the project that lie outside of docs/, and links as they read in the repository.

README.md and its like are written for whoever browses the repository, so links are relative to the file that they
stand in and may lead to source files. On the site, a link to a page leads to that page, and one to a source file
becomes its path in the repository. A link to nothing is a warning, so it fails the strict build.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import log as _log

# Path in the repository to path among the pages.
PAGES = {
    "README.md": "project/readme.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "templates/starter/README.md": "project/starter.md",
}
_SOURCES = {page: source for source, page in PAGES.items()}
_FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`*\s*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Rebuilds when these files change, too, where pages are served while they are written."""
    config.watch.extend(str(_root(config) / source) for source in PAGES)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(_root(config) / source).read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes each link of the page lead to where it leads in the repository."""
    source = _SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if page.is_homepage:
        # The list of pages beside it would have one entry.
        page.meta["hide"] = ["navigation"]

    def on_the_site(link: re.Match[str]) -> str:
        target, anchor = link["target"], link["anchor"] or ""
        if not target or ":" in target:
            return link[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        uri = PAGES.get(there, there.removeprefix("docs/") if there.startswith("docs/") else None)
        if uri is not None and uri.endswith(".ipynb"):
            uri = f"{uri.removesuffix('.ipynb')}.md"
        if uri is not None and files.get_file_from_path(uri) is not None:
            return f"[{link['text']}]({posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or '.')}{anchor})"
        if not (_root(config) / there).exists():
            _log.warning(f"{source}: the link to {target!r} leads nowhere.")
        return link["text"] if link["text"].startswith("`") else f"{link['text']} (`{there}`)"

    return _outside_of_code(markdown, on_the_site)


def _outside_of_code(markdown: str, replace: Any) -> str:
    parts, end = [], 0
    for block in _FENCED.finditer(markdown):
        parts += [_LINK.sub(replace, markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, _LINK.sub(replace, markdown[end:])])


def _root(config: MkDocsConfig) -> Path:
    return Path(os.path.dirname(config.config_file_path))

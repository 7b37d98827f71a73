"""MkDocs hook: the reference, made of the code when the site is built.

Nothing of it is committed, so it cannot become stale: public names come from the faces of the packages, the commands
from the command line's own objects, the options of the steps from their dataclasses. TensorFlow is never imported.
"""

from __future__ import annotations

import functools
from pathlib import Path

import api_reference
import command_reference
import options_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_SECTION = "Reference"


@functools.cache
def _pages(root: Path) -> dict[str, str]:
    """Path among the pages to text, in the order of the navigation."""
    package = api_reference.load(root)
    pages = {
        "reference/commands.md": command_reference.page(),
        "reference/options.md": options_reference.page(package),
        **api_reference.pages(package),
    }
    return {"reference/index.md": api_reference.index(pages), **pages}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the pages to the section of the navigation, whose first page is the index."""
    root = Path(config.config_file_path).parent
    for entry in config.nav or []:
        if _SECTION in entry:
            index, *made = _pages(root)
            entry[_SECTION] = [index, *entry[_SECTION], *made]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    for uri, text in _pages(Path(config.config_file_path).parent).items():
        files.append(File.generated(config, uri, content=text))
    return files

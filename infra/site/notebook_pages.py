"""MkDocs hook: a page for each notebook of docs/notebooks, with the outputs that are stored in it.

tests/unit/guide/test_notebooks.py runs the notebooks and holds these outputs to what they print.
"""

from __future__ import annotations

import json
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the pages; the notebooks themselves are there to be downloaded."""
    for path in sorted(Path(config.docs_dir).glob("notebooks/*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=_page(path)))
    return files


def _page(path: Path) -> str:
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        printed = "".join("".join(output["text"]) for output in cell["outputs"])
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    # After the title, since a page begins with it.
    parts[0] += f'\n\n<a href="{path.name}" download>Download the notebook</a> to run it in Jupyter.'
    return "\n\n".join(parts) + "\n"

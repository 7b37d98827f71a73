"""docs/coming_from_pyg.md: what it shows is what runs."""

from __future__ import annotations

import re
import runpy

from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

DOCUMENT = "docs/coming_from_pyg.md"


def test_the_snippets_print_what_the_comments_below_them_say(python_of_document, tmp_path, monkeypatch):
    program = tmp_path / "coming_from_pyg.py"
    program.write_text(python_of_document(DOCUMENT))
    printed = []
    monkeypatch.chdir(tmp_path)
    # As when Python is started there: the document writes a module of its own.
    monkeypatch.syspath_prepend(str(tmp_path))

    with libraries_traced_as_written():
        runpy.run_path(str(program), init_globals={"print": lambda *values: printed.append(" ".join(map(str, values)))})

    said = re.findall(r"^# (.*)$", python_of_document(DOCUMENT), re.MULTILINE)
    assert len(said) == 11
    assert printed == said

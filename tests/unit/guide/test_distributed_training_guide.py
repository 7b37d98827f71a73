"""docs/distributed_training.md: what it shows is what runs, on one device."""

from __future__ import annotations

import re
import runpy

from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

DOCUMENT = "docs/distributed_training.md"


def test_the_snippets_print_what_the_comments_below_them_say(python_of_document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TF_CONFIG", raising=False)
    program = tmp_path / "distributed_training.py"
    program.write_text(python_of_document(DOCUMENT))
    printed: list[str] = []

    with libraries_traced_as_written():
        runpy.run_path(str(program), init_globals={"print": lambda *values: printed.append(" ".join(map(str, values)))})

    said = re.findall(r"^# (.*)$", python_of_document(DOCUMENT), re.MULTILINE)
    assert len(said) >= 12
    assert printed == said

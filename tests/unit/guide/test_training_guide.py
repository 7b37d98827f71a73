"""docs/training.md: what it shows is what runs."""

from __future__ import annotations

import re
import runpy

import pytest

from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written

DOCUMENT = "docs/training.md"


@pytest.fixture(scope="module")
def after_the_snippets(python_of_document, tmp_path_factory):
    """The names that the document's program leaves, and what it printed."""
    folder = tmp_path_factory.mktemp("guide")
    program = folder / "training.py"
    program.write_text(python_of_document(DOCUMENT))
    with pytest.MonkeyPatch.context() as patch, libraries_traced_as_written():
        printed = []
        patch.chdir(folder)
        # As when Python is started there: the document may write modules of its own.
        patch.syspath_prepend(str(folder))
        names = runpy.run_path(
            str(program), init_globals={"print": lambda *values: printed.append(" ".join(map(str, values)))}
        )
        yield names, printed


def test_the_snippets_print_what_the_comments_below_them_say(after_the_snippets, python_of_document):
    _, printed = after_the_snippets

    said = re.findall(r"^print\(.*\n# (.*)$", python_of_document(DOCUMENT), re.MULTILINE)
    assert said
    assert printed == said

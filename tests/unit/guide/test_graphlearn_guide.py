"""docs/coming_from_graphlearn.md: what it shows is what runs."""

from __future__ import annotations

import re
import runpy

DOCUMENT = "docs/coming_from_graphlearn.md"


def test_the_snippets_print_what_the_comments_below_them_say(python_of_document, tmp_path):
    program = tmp_path / "coming_from_graphlearn.py"
    program.write_text(python_of_document(DOCUMENT))
    printed = []

    runpy.run_path(str(program), init_globals={"print": lambda *values: printed.append(" ".join(map(str, values)))})

    said = re.findall(r"^# (.*)$", python_of_document(DOCUMENT), re.MULTILINE)
    assert printed == said

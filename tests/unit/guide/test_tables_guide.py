"""docs/tables_and_sampling.md: what it shows is what runs."""

from __future__ import annotations

import re
import runpy

import pytest

DOCUMENT = "docs/tables_and_sampling.md"


@pytest.fixture(scope="module")
def after_the_snippets(python_of_document, tmp_path_factory):
    """The names that the document's program leaves, and what it printed."""
    folder = tmp_path_factory.mktemp("guide")
    program = folder / "tables_and_sampling.py"
    program.write_text(python_of_document(DOCUMENT))
    with pytest.MonkeyPatch.context() as patch:
        printed = []
        patch.chdir(folder)
        names = runpy.run_path(
            str(program), init_globals={"print": lambda *values: printed.append(" ".join(map(str, values)))}
        )
        yield names, printed


def test_the_snippets_print_what_the_comments_below_them_say(after_the_snippets, python_of_document):
    _, printed = after_the_snippets

    said = re.findall(r"^print\(.*\n# (.*)$", python_of_document(DOCUMENT), re.MULTILINE)
    assert len(said) == 5
    assert printed == said


def test_the_data_set_is_what_the_files_hold(after_the_snippets):
    names, _ = after_the_snippets

    graph = next(iter(names["dataset"]))

    assert sorted(graph.node_sets) == ["_readout", "item", "user"]
    assert graph.node_sets["_readout"]["churned"].numpy().tolist() in ([b"yes"], [b"no"])


def test_every_positive_pair_has_its_negatives(after_the_snippets):
    names, _ = after_the_snippets
    report = names["links"]

    drawn = sum(report.num_negatives.values()) + sum(report.num_missing_negatives.values())
    assert drawn == 2 * sum(report.num_seeds.values())

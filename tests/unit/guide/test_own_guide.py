"""docs/input_pipeline.md: what it shows is what runs."""

from __future__ import annotations

import re
import runpy

import pytest

import tfx_gnn as tfgnn
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written


@pytest.fixture(scope="module")
def after_the_snippets(python_of_document, tmp_path_factory):
    """The names that the document's program leaves, and what it printed."""
    folder = tmp_path_factory.mktemp("guide")
    program = folder / "input_pipeline.py"
    program.write_text(python_of_document("docs/input_pipeline.md"))
    with pytest.MonkeyPatch.context() as patch, libraries_traced_as_written():
        printed = []
        patch.chdir(folder)
        names = runpy.run_path(
            str(program), init_globals={"print": lambda *values: printed.append(" ".join(map(str, values)))}
        )
        yield names, printed


def test_the_snippets_print_what_the_comments_below_them_say(after_the_snippets, python_of_document):
    _, printed = after_the_snippets

    said = re.findall(r"^print\(.*\n# (.*)$", python_of_document("docs/input_pipeline.md"), re.MULTILINE)
    assert len(said) == 6
    assert printed == said


def test_the_two_models_of_the_document_fit_together(after_the_snippets):
    names, _ = after_the_snippets

    graph, labels = next(iter(names["batches"].map(names["preproc_model"])))

    assert labels.numpy().tolist() == [0, 1, 0, 1, 0, 1, 0, 0]
    assert sorted(graph.node_sets["paper"].features) == ["hashed_title", "year"]


def test_parsing_and_merging_at_once_gives_the_same_graph(after_the_snippets):
    names, _ = after_the_snippets

    at_once = next(iter(names["merged"]))
    apart = next(iter(names["batches"])).merge_batch_to_components()

    assert tfgnn.graph_tensor_to_values(at_once) == tfgnn.graph_tensor_to_values(apart)
    assert at_once.edge_sets["cites"].adjacency.source.numpy().tolist() == (
        apart.edge_sets["cites"].adjacency.source.numpy().tolist()
    )


def test_dynamic_batches_keep_the_order(after_the_snippets):
    names, _ = after_the_snippets

    sizes = [size for batch in names["in_order"] for size in batch.node_sets["paper"].sizes[:, 0].numpy().tolist()]

    assert sizes == [2 + i % 7 for i in range(64)]

"""docs/tutorials/: the files that the pages say to write make projects that train; fewer epochs, no TFX."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import sys
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.cli.project_verbs import create_project
from tfx_gnn.components import (
    generate_subgraph_examples,
    learn_size_constraints,
    train_graph_model,
    transform_graphs,
)
from tfx_gnn.components.graph_trainer.training_run import Exporters
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn_pipelines.project import read_project

PAGES = Path(__file__).resolve().parents[3] / "docs" / "tutorials"


def files_of(page):
    """Name to text of each file that a page says to write."""
    found = {}
    for block in re.finditer(r"^```(\w+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        paragraph = page[: block.start()].rstrip().rpartition("\n\n")[2]
        names = re.findall(r"`([\w./]+\.(?:json|pbtxt|py|yaml))`", paragraph)
        assert names, f"no file is named above {block[2][:40]!r}"
        found[names[0]] = block[2]
    return found


def without_blocks(page):
    """The page without its files."""
    return re.sub(r"^```\w+\n.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)


def commands_of(page):
    """The command lines of a page, as typed."""
    joined = page.replace("\\\n", "")
    return [shlex.split(line) for line in re.findall(r"^    (tfx-gnn .*|python .*)$", joined, re.MULTILINE)]


@pytest.fixture
def project_of(tmp_path, monkeypatch):
    """Makes the project of a page, with the page's files, and stands in it."""

    def make(page, name):
        folder, _ = create_project(str(tmp_path / name))
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("PYTHONPATH", "")
        files = files_of((PAGES / page).read_text())
        for file_name, text in files.items():
            Path(file_name).write_text(text)
        return files

    yield make
    for module in [name for name in sys.modules if name.partition(".")[0] in ("web_shop", "cabling")]:
        del sys.modules[module]


class Unwritten:
    """Stands where a trained model is exported: the served models of these tasks have tests of their own."""

    def __init__(self, **_):
        pass

    def save(self, folder):
        os.makedirs(folder)


def train(*, num_epochs):
    """Runs the steps that the project here configures, up to the training; returns its last epoch."""
    config = read_project("", shortcuts={"root": "out", "num_epochs": num_epochs}).configure()
    generate_subgraph_examples(
        tables_dir=config.tables_dir, examples_dir="out/examples", options=config.subgraph_example_gen
    )
    transform_graphs(
        examples_dir="out/examples",
        graph_schema_dir="out/examples",
        transform_graph_dir="out/transform_graph",
        transformed_examples_dir="out/transformed",
        transformed_graph_schema_dir="out/transformed_schema",
        options=config.graph_transform,
    )
    learn_size_constraints(
        examples_dir="out/transformed",
        graph_schema_dir="out/transformed_schema",
        size_constraints_dir="out/sizes",
        transform_graph_dir="out/transform_graph",
        options=config.size_constraint_learner,
    )
    with libraries_traced_as_written():
        summary = train_graph_model(
            transformed_examples_dir="out/transformed",
            transform_graph_dir="out/transform_graph",
            graph_schema_dir="out/examples",
            transformed_graph_schema_dir="out/transformed_schema",
            size_constraints_dir="out/sizes",
            model_dir="out/model",
            model_run_dir="out/run",
            options=config.graph_trainer,
            exporters=Exporters(served_model=Unwritten, training_reference=Unwritten),
        )
    return summary.epochs[-1]


def test_files_of_the_page_on_links_train_a_model(project_of):
    project_of("predict_links.md", "web-shop")
    # Few purchases: for more than a guess, the page trains longer on all of them.
    purchases = Path("web_shop/data/purchases.csv")
    purchases.write_text("\n".join([*purchases.read_text().splitlines()[:301], ""]))

    epoch = train(num_epochs=1)

    # Untrained, the loss of a guess is log(2) = 0.693.
    assert epoch["val_loss"] < 0.69
    assert 0.3 < epoch["val_mrr"] <= 1.0


def test_files_of_the_page_on_graphs_tell_rings_from_chains(project_of):
    project_of("predict_graphs.md", "cabling")
    runpy.run_path("make_tables.py")

    epoch = train(num_epochs=5)

    # Half of them are rings.
    assert epoch["val_accuracy"] > 0.7


def test_commands_of_the_page_on_own_tables_print_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (PAGES / "own_tables.md").read_text()
    make, new, check, run = commands_of(page)

    assert [make, check, run] == [["python", "make_accounts.py"], ["tfx-gnn", "check"], ["tfx-gnn", "run"]]
    Path("make_accounts.py").write_text(files_of(page)["make_accounts.py"])
    runpy.run_path("make_accounts.py")
    done = CliRunner().invoke(app, new[1:])
    assert done.exit_code == 0, done.output

    # What `check` and `run` print is not compared: like those of other pages, this project is not trained here.
    said, features, _ = re.findall(r"(?:^    (?!tfx-gnn |python |cd ).+\n)+", without_blocks(page), re.MULTILINE)
    assert "".join(said.split()) in "".join(done.output.split())
    assert textwrap.dedent(features) in Path("blocked-accounts/project.yaml").read_text()
    config = read_project("blocked-accounts").configure()
    generate_subgraph_examples(
        tables_dir=config.tables_dir, examples_dir="examples", options=config.subgraph_example_gen
    )
    assert len(list(Path("examples/dead_letters").iterdir())) == 1

from __future__ import annotations

import os
import shutil

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.sampling.index.graph_index import open_graph_index


def _run(*args):
    return CliRunner().invoke(app, ["index", *args], env={"COLUMNS": "200"})


def _cells(shown):
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.stdout.splitlines() if "│" in line]


@pytest.fixture
def index_dir(shop_dir, tmp_path):
    with open(os.path.join(shop_dir, "buys.csv"), "a") as file:
        file.write("ann,7,9\nann,7,9\n")
    columns = ["--extra-columns", '{"user": ["part"]}', "--edge-time", "buys=count"]

    shown = _run(
        "--tables-dir", shop_dir, "--graph-index-dir", str(tmp_path / "index"),
        "--duplicate-edges", "keep_first", *columns,
    )  # fmt: skip

    assert shown.exit_code == 0, shown.output
    assert ["edges/buys", "6", "5"] in _cells(shown)
    return str(tmp_path / "index")


def test_an_index_is_built_and_verified_and_knows_how_it_was_built(index_dir):
    entry = open_graph_index(index_dir).manifest.edge_sets["buys"]
    assert (entry.edge_time, entry.duplicate_edges) == ("count", "keep_first")

    shown = _run("--graph-index-dir", index_dir, "--verify")

    assert shown.exit_code == 0, shown.output
    assert ["edges/buys", "6", "5"] in _cells(shown)
    assert "All files have the sizes and checksums of the manifest." in shown.stdout


def test_a_changed_byte_is_found_when_an_index_is_verified(index_dir, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(index_dir, folder)
    path = folder / "edges.buys.sources"
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])

    refused = _run("--graph-index-dir", str(folder), "--verify")

    assert refused.exit_code == 2
    assert "must have the checksum" in refused.stderr


@pytest.mark.parametrize("options", [[], ["--tables-dir", "x", "--verify"]])
def test_one_of_tables_and_verify_is_needed(options):
    refused = _run("--graph-index-dir", "x", *options)

    assert refused.exit_code == 2
    assert "`--tables-dir` must name the tables to build from, or --verify be given instead" in refused.stderr

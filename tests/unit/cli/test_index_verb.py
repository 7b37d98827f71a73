from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay
from tfx_gnn.sampling.overlay.overlay_position import check_overlay_fits


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


def test_an_index_that_is_built_on_beam_is_the_same(index_dir, shop_dir, tmp_path):
    options = ["--extra-columns", '{"user": ["part"]}', "--edge-time", "buys=count", "--duplicate-edges", "keep_first"]

    shown = _run(
        "--tables-dir", shop_dir, "--graph-index-dir", str(tmp_path / "of_beam"),
        "--execution", "beam", "--beam-arg=--direct_num_workers=1", *options,
    )  # fmt: skip

    assert shown.exit_code == 0, shown.output
    found = _contents(tmp_path / "of_beam")
    assert found == _contents(index_dir)
    assert "dead_letters/edges.buys.jsonl" in found


def _contents(folder):
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_an_index_is_of_the_newest_span_or_of_the_one_that_is_named(shop_dir, tmp_path):
    for name in ("2026-01-24", "2026-01-31"):
        shutil.copytree(shop_dir, tmp_path / "spans" / name)
    with open(tmp_path / "spans" / "2026-01-31" / "buys.csv", "a") as file:
        file.write("ann,7,9\n")
    pattern = f"{tmp_path}/spans/{{DATE}}"

    def edges(name, *span):
        shown = _run("--tables-dir", pattern, "--graph-index-dir", str(tmp_path / name), *span)
        assert shown.exit_code == 0, shown.output
        return open_graph_index(str(tmp_path / name)).edge_tables["buys"].num_edges

    assert edges("newest") == edges("named", "--span", "2026-01-24") + 1
    absent = _run("--tables-dir", pattern, "--graph-index-dir", str(tmp_path / "absent"), "--span", "2026-02-07")
    assert absent.exit_code == 2
    assert "which has 2026-01-24, 2026-01-31; got '2026-02-07'" in " ".join(absent.stderr.split())


def test_a_changed_byte_is_found_when_an_index_is_verified(index_dir, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(index_dir, folder)
    path = folder / "edges.buys.sources"
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])

    refused = _run("--graph-index-dir", str(folder), "--verify")

    assert refused.exit_code == 2
    assert "must have the checksum" in refused.stderr


def test_the_next_index_is_built_from_one_and_its_overlay(index_dir, tmp_path):
    path = str(tmp_path / "overlay.log")
    new = {"#id": ["eve"], "age": [9], "color": ["red"], "#column.part": ["train"]}
    options = ["--graph-index-dir", str(tmp_path / "next"), "--base-index-dir", index_dir]

    absent = _run(*options, "--overlay", f"{path}.absent")
    with open_graph_overlay(open_graph_index(index_dir), path) as overlay:  # By a server, which runs on.
        overlay.add(nodes={"user": new})
        shown = _run(*options, "--overlay", path)
    swapped = _run("--graph-index-dir", str(tmp_path / "x"), "--base-index-dir", path, "--overlay", index_dir)
    foreign = _run(*options, "--overlay", os.path.join(index_dir, "graph_schema.pbtxt"))

    assert (absent.exit_code, shown.exit_code, swapped.exit_code, foreign.exit_code) == (2, 0, 2, 2), shown.output
    assert "`--base-index-dir` must be a graph index" in swapped.stderr
    assert "`--overlay` must be an overlay of a graph index" in foreign.stderr
    assert "`--overlay` must be a file" in absent.stderr
    assert not os.path.exists(f"{path}.absent")
    assert ["nodes/user", "5", "5"] in _cells(shown)
    following = open_graph_index(str(tmp_path / "next"), verify=True)
    assert following.node_tables["user"].num_nodes == 5
    check_overlay_fits(following, path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "`--tables-dir` must name the tables to build from, or --base-index-dir or --verify be given instead"),
        (["--tables-dir", "x", "--verify"], "got ['--tables-dir', '--verify']"),
        (["--tables-dir", "x", "--base-index-dir", "y"], "got ['--tables-dir', '--base-index-dir']"),
        (["--verify", "--span", "7"], "`--span` must be given with --tables-dir, and only then; got '7' with --verify"),
        (["--base-index-dir", "y"], "`--overlay` must be given with --base-index-dir, and only then"),
        (["--tables-dir", "x", "--overlay", "y"], "`--overlay` must be given with --base-index-dir, and only then"),
        (["--verify", "--execution", "beam"], "`--execution` must be given with --tables-dir, and only then"),
        (["--tables-dir", "x", "--beam-arg=--y=1"], "`--beam-arg` must be given with --execution beam, and only then"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    refused = _run("--graph-index-dir", "x", *options)

    assert refused.exit_code == 2
    assert message in refused.stderr

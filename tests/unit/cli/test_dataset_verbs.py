from __future__ import annotations

import zipfile

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli.dataset_verbs import dataset

PACKAGES = """\
Package: app
Version: 1
Maintainer: Ann Example <ann@example.org>
Architecture: all
Depends: lib, gone

Package: lib
Version: 1
Maintainer: Ann Example <ann@example.org>
Architecture: all
"""


@pytest.fixture
def lists(tmp_path):
    (tmp_path / "Packages").write_text(PACKAGES)
    (tmp_path / "Sources").write_text("Package: app\nVersion: 1\n")
    return ["--packages", str(tmp_path / "Packages"), "--sources", str(tmp_path / "Sources")]


def _run(*args: str):
    return CliRunner().invoke(dataset, list(args))


def test_debian_writes_tables_and_says_what_it_left_out(tmp_path, lists):
    shown = _run("debian", "--output", str(tmp_path / "tables"), *lists)

    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "tables" / "graph_schema.pbtxt").exists()
    lines = [line.replace("│", " ").split() for line in shown.stdout.splitlines()]
    assert ["package", "2"] in lines
    assert ["virtual", "none:", "left", "out"] in lines
    assert ["depends", "2", "1", "0", "0", "0", "1"] in lines
    assert "1 sources missing" in shown.stdout


def test_a_failed_build_leaves_no_folder(tmp_path, lists):
    (tmp_path / "Packages").write_text("Package: app\n")

    shown = _run("debian", "--output", str(tmp_path / "tables"), *lists)

    assert shown.exit_code != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Packages", "Sources"]


def test_one_list_alone_is_refused(tmp_path, lists):
    shown = _run("debian", "--output", str(tmp_path / "tables"), *lists[:2])

    assert shown.exit_code == 2
    assert "--sources" in shown.output
    assert "must be given with --packages" in " ".join(shown.output.split())


def test_each_verb_explains_every_option():
    from typer.main import get_command

    for name, verb in get_command(dataset).commands.items():
        for parameter in verb.params:
            assert parameter.help, f"{name} --{parameter.name} has no help"


def test_mutag_says_what_it_wrote(tmp_path):
    files = {
        "A": "1, 2\n", "graph_indicator": "1\n1\n", "graph_labels": "1\n", "node_labels": "0\n1\n",
        "edge_labels": "0\n",
    }  # fmt: skip
    with zipfile.ZipFile(tmp_path / "grakel.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(f"grakel/tests/data/MUTAG/MUTAG_{name}.txt", text)

    shown = _run("mutag", "--output", str(tmp_path / "tables"), "--wheel", str(tmp_path / "grakel.whl"))

    assert shown.exit_code == 0, shown.output
    assert "1 molecules, 1 of them mutagenic; 2 atoms, 1 directed bonds." in shown.stdout
    assert (tmp_path / "tables" / "context.parquet").exists()

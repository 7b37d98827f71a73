from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tfx_gnn.cli.table_verbs import dataset, tables
from tfx_gnn.graph.schema.schema_io import parse_schema, read_schema

FILES = {
    "users.csv": "id,age,code\nbob,30,007\nann,20,12\n",
    "items.csv": "number,price\n12,1.5\n7,\n",
    "buys.csv": "user,item\nann,7\nbob,7\n",
    "graph.csv": "title\nshop\n",
}
INFER = [
    "infer-schema", "--node", "user=users.csv", "--node", "item=items.csv", "--edge", "buys=user,item,buys.csv",
    "--context", "graph.csv", "--id-column", "item=number", "--source-column", "buys=user",
    "--target-column", "buys=item",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def _run(*args):
    return CliRunner().invoke(tables, list(args), env={"COLUMNS": "200"})


@pytest.mark.parametrize("verb", ["infer-schema", "check"])
def test_each_verb_explains_every_option_without_tensorflow(verb):
    code = (
        "import sys\nfrom tfx_gnn.cli.table_verbs import tables\n"
        f"try:\n    tables([{verb!r}, '--help'])\nexcept SystemExit as done:\n    assert done.code == 0\n"
        "assert 'tensorflow' not in sys.modules and 'pyarrow' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    for parameter in get_command(tables).commands[verb].params:
        assert parameter.help, f"{verb} --{parameter.name} has no help"


def test_a_schema_is_written_and_shown(folder):
    shown = _run(*INFER, "--tables-dir", str(folder))

    assert shown.exit_code == 0, shown.output
    schema = read_schema(str(folder / "graph_schema.pbtxt"))
    assert (
        schema.edge_sets["buys"]
        == parse_schema("""edge_sets { key: "buys" value {
      source: "user" target: "item"
      metadata { extra { key: "source_column" value: "user" } extra { key: "target_column" value: "item" }
                 filename: "buys.csv" cardinality: 2 } } }""").edge_sets["buys"]
    )
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.stdout.splitlines() if "│" in line]
    assert rows == [
        ["context", "1", "title string"],
        ["nodes/item", "2", "#id int64, price float32"],
        ["nodes/user", "2", "age int64, code string"],
        ["edges/buys", "2", ""],
    ]
    assert "node set 'item', feature 'price': Rows without a value: 1 of 2; declare" in shown.stdout
    assert f"graph_schema              {folder}/graph_schema.pbtxt" in shown.stdout


def test_a_written_schema_is_not_replaced(folder):
    (folder / "graph_schema.pbtxt").write_text("")

    refused = _run(*INFER, "--tables-dir", str(folder))

    assert refused.exit_code == 1
    assert "must not hold a graph_schema.pbtxt yet; got one in" in str(refused.exception)
    assert (folder / "graph_schema.pbtxt").read_text() == ""


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--node", "user"),
        ("--node", "=users.csv"),
        ("--node", "user="),
        ("--edge", "buys=buys.csv"),
        ("--edge", "buys=user,,buys.csv"),
        ("--id-column", "item"),
    ],
)
def test_an_option_of_another_form_is_refused(folder, option, value):
    refused = _run("infer-schema", "--tables-dir", str(folder), "--node", "n=users.csv", option, value)

    assert refused.exit_code == 2
    assert f"Invalid value for {option}: must be" in refused.output


def test_a_set_that_is_given_twice_is_refused(folder):
    refused = _run("infer-schema", "--tables-dir", str(folder), "--node", "n=users.csv", "--node", "n=items.csv")

    assert refused.exit_code == 2
    assert "each set once; got 'n=items.csv'" in refused.output


def _infer_with_default(folder):
    assert _run(*INFER, "--tables-dir", str(folder)).exit_code == 0
    path = Path(folder, "graph_schema.pbtxt")
    schema = path.read_text().replace('key: "id_column"', 'key: "default.price" value: "0" } extra { key: "id_column"')
    path.write_text(schema)


def test_good_tables_pass(folder):
    _infer_with_default(folder)

    shown = _run("check", "--tables-dir", str(folder))

    assert shown.exit_code == 0, shown.output
    assert "no bad rows" in shown.stdout


def test_bad_rows_are_counted_shown_and_written(folder):
    _infer_with_default(folder)
    (folder / "users.csv").write_text("id,age,code\nbob,30,007\nann,x,12\nbob,1,1\ncid,[1],2\n")
    (folder / "buys.csv").write_text("user,item\nbob,7\nbob,7\nzed,7\n,7\n")

    shown = _run("check", "--tables-dir", str(folder), "--limit", "1", "--dead-letters-dir", str(folder / "bad"))

    assert shown.exit_code == 1
    lines = shown.stdout.splitlines()
    rows = {}
    for line in lines:
        cells = [cell.strip() for cell in line.replace("┃", "│").split("│")[1:-1]]
        if cells:
            rows[cells[0]] = cells[1:]
    assert rows == {
        "table": [
            "rows",
            "good",
            "dangling source",
            "duplicate node",
            "missing",
            "type",
            "parallel edges",
            "self loops",
        ],
        "context": ["1", "1", "", "", "", "", "", ""],
        "nodes/item": ["2", "2", "", "", "", "", "", ""],
        "nodes/user": ["4", "1", "", "1", "", "2", "", ""],
        "edges/buys": ["4", "2", "1", "", "1", "", "1", "0"],
    }
    assert any(line.startswith("`age` must be of type int64; got 'x' in ") for line in lines)
    assert "... and 2 more of nodes/user." in lines
    assert "... and 1 more of edges/buys." in lines
    assert "bad rows: 5" in lines
    letters = [json.loads(line) for line in (folder / "bad" / "nodes.user.jsonl").read_text().splitlines()]
    assert sorted(letter["value"] for letter in letters) == ["'[1]'", "'bob' again", "'x'"]
    everything = _run("check", "--tables-dir", str(folder), "--limit", "0").stdout
    assert "got '[1]' in" in everything
    assert "more of" not in everything


def test_tables_that_cannot_be_read_are_an_error(folder):
    failed = _run("check", "--tables-dir", str(folder))

    assert isinstance(failed.exception, ValueError)
    assert "`tables_dir` must hold a graph_schema.pbtxt" in str(failed.exception)


def test_the_problems_of_all_tables_are_told(folder):
    assert _run(*INFER, "--tables-dir", str(folder)).exit_code == 0
    (folder / "users.csv").write_text("id,age,code\nann,x,007\nbob,20,12\nbob,30,12\n")
    (folder / "items.csv").unlink()
    (folder / "buys.csv").write_text("user,item\n,7\nann,7\n")
    schema = (folder / "graph_schema.pbtxt").read_text()
    (folder / "graph_schema.pbtxt").write_text(
        schema
        + """
        edge_sets { key: "knows" value { source: "user" target: "user" metadata { filename: "knows.csv" } } }
        edge_sets { key: "likes" value { source: "user" target: "user" metadata { filename: "likes.csv" } } }
        """
    )
    (folder / "knows.csv").write_text("source,target\neve,bob\nbob,dan\n")
    (folder / "likes.csv").write_text("source,goal\nbob,bob\n")

    shown = _run("check", "--tables-dir", str(folder))

    assert shown.exit_code == 1
    for told in (
        "`age` must be of type int64; got 'x' in ",
        "`user` must have a value in every record; got an empty cell in ",
        "nodes/item: `metadata.filename` must name a file that exists",
        "edges/buys: `edges/buys` must lead to nodes that exist; got none to compare with, as ['nodes/item']",
        "edges/knows: `edges/knows` must have at least one usable edge; got none, after 2 were dropped",
        "edges/likes: `target` must be one column of the table; got none among ['source', 'goal'] in ",
        "tables that cannot be used: 4",
        "bad rows: 3",
    ):
        assert told in shown.stdout
    assert "no bad rows" not in shown.stdout


def test_problems_are_told_in_the_words_of_the_command_line(folder):
    _infer_with_default(folder)
    (folder / "buys.csv").write_text("user,item\nzed,7\nbob,7\n")
    tables_dir = folder / "inner"
    tables_dir.mkdir()
    for name in ("graph_schema.pbtxt", *FILES):
        (folder / name).rename(tables_dir / name)
    (tables_dir / "items.csv").rename(folder / "items.csv")
    (tables_dir / "items.csv").symlink_to(folder / "items.csv")

    refused = _run("check", "--tables-dir", str(tables_dir)).stdout
    allowed = _run("check", "--tables-dir", str(tables_dir), "--allow-outside-files").stdout

    assert "nodes/item: `metadata.filename` must name a file inside of the tables folder" in refused
    assert "Copy the file there, or set `--allow-outside-files`." in refused
    assert "or drop them by `sample --dangling-edges drop`." in allowed


@pytest.mark.parametrize(
    ("name", "shown"),
    [("u[/v]", "u[/v]"), ("[red]u[/]", "[red]u[/]"), ("a:smile:", "a:smile:"), ("u\x1b[2J", r"u\x1b[2J")],
)
def test_names_are_printed_as_they_are_and_control_characters_escaped(folder, name, shown):
    inferred = _run("infer-schema", "--tables-dir", str(folder), "--node", f"{name}=users.csv")
    (folder / "users.csv").write_text("id,age,code\nann,x,12\nbob,1,2\n")

    checked = _run("check", "--tables-dir", str(folder))

    assert checked.exit_code == 1, checked.output
    for output in (inferred.stdout, checked.stdout):
        assert f"nodes/{shown} " in output
        assert "\x1b" not in output


def test_dead_letters_are_written_before_anything_is_printed(folder):
    _infer_with_default(folder)
    (folder / "users.csv").write_text("id,age,code\nann,日,12\nbob,1,2\n")

    failed = CliRunner(charset="ascii").invoke(
        tables, ["check", "--tables-dir", str(folder), "--dead-letters-dir", str(folder / "bad")]
    )

    assert isinstance(failed.exception, UnicodeEncodeError)
    assert [path.name for path in (folder / "bad").iterdir()] == ["nodes.user.jsonl"]


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


def _build(*args: str):
    return CliRunner().invoke(dataset, list(args))


def test_debian_writes_tables_and_says_what_it_left_out(tmp_path, lists):
    shown = _build("debian", "--output", str(tmp_path / "tables"), *lists)

    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "tables" / "graph_schema.pbtxt").exists()
    lines = [line.replace("│", " ").split() for line in shown.stdout.splitlines()]
    assert ["package", "2"] in lines
    assert ["virtual", "none:", "left", "out"] in lines
    assert ["depends", "2", "1", "0", "0", "0", "1"] in lines
    assert "1 sources missing" in shown.stdout


def test_a_failed_build_leaves_no_folder(tmp_path, lists):
    (tmp_path / "Packages").write_text("Package: app\n")

    shown = _build("debian", "--output", str(tmp_path / "tables"), *lists)

    assert shown.exit_code != 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Packages", "Sources"]


def test_one_list_alone_is_refused(tmp_path, lists):
    shown = _build("debian", "--output", str(tmp_path / "tables"), *lists[:2])

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

    shown = _build("mutag", "--output", str(tmp_path / "tables"), "--wheel", str(tmp_path / "grakel.whl"))

    assert shown.exit_code == 0, shown.output
    assert "1 molecules, 1 of them mutagenic; 2 atoms, 1 directed bonds." in shown.stdout
    assert (tmp_path / "tables" / "context.parquet").exists()

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli.app import app

FOLDERS = (
    "examples-dir", "graph-schema-dir", "transform-graph-dir", "transformed-examples-dir",
    "transformed-graph-schema-dir",
)  # fmt: skip


@pytest.mark.parametrize(
    "options", [["--schema-file", "mine.pbtxt"], ["--allow-outside-files"], ["--max-record-mib", "32"]]
)
def test_what_is_about_tables_is_refused_without_them(tmp_path, options):
    folders = [text for name in FOLDERS for text in (f"--{name}", str(tmp_path / name))]

    shown = CliRunner().invoke(app, ["transform", "--preprocessing-fn", "a.b:c", *folders, *options])

    assert shown.exit_code == 2
    assert "`--max-record-mib` must go with `--tables`, which they are about; got " in shown.output

import errno
import os
import resource
import signal
import subprocess
import sys

import pytest
import tensorflow as tf
from google.protobuf import text_format
from typer.main import get_command
from typer.testing import CliRunner

from tfx_gnn.cli.app import app
from tfx_gnn.cli.errors import error_line, flags_of, name_flags

FLAGS = {
    "examples_dir": "--examples-dir",
    "plan": "--plan",
    "splits": "--split",
    "label_features": "--label-feature",
    "dangling_edges": "--dangling-edges",
    "allows_empty_splits": "--allow-empty-splits",
}
GIVEN = {"out": "--examples-dir", "in": "--tables-dir", "in/plan.json": "--plan", "user=users": "--node"}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("`examples_dir` must hold splits; got 'x'.", "`--examples-dir` must hold splits; got 'x'."),
        ("`split` must be one of ['a']; got 'b'.", "`--split` must be one of ['a']; got 'b'."),
        ("Change the bounds, or set `allows_empty_splits`.", "Change the bounds, or set `--allow-empty-splits`."),
        (
            "`plan` must be of type int64; got 'x' in t.csv, line 3. Correct the cell.",
            "`plan` must be of type int64; got 'x' in t.csv, line 3. Correct the cell.",
        ),
        (
            "`source` must name a node; got 'x' in t.csv, line 3. Drop them by dangling_edges.",
            "`source` must name a node; got 'x' in t.csv, line 3. Drop them by `--dangling-edges`.",
        ),
        ("`fan_out` must be at least 1; got 0.", "`fan_out` must be at least 1; got 0."),
        ("`path` must be absent; got 'out'.", "`--examples-dir` must be absent; got 'out'."),
        ("`filename` must name a table; got 'users'. Rename.", "`--node` must name a table; got 'users'. Rename."),
        ("`path` must hold a spec; got a mistake in in/plan.json. X.",
         "`--plan` must hold a spec; got a mistake in in/plan.json. X."),
        ("`label_features` must be one of ['a']; got 'b'.", "`label_features` must be one of ['a']; got 'b'."),
        ("`path` must hold records; got 'out/a.gz'. X.", "`--examples-dir` must hold records; got 'out/a.gz'. X."),
        ("`path` must be absent; got 'other'.", "`path` must be absent; got 'other'."),
        (
            "`in/plan.json` must be readable and writable as needed; got No such file.",
            "`in/plan.json` (`--plan`) must be readable and writable as needed; got No such file.",
        ),
        (
            "`out/Split-a/x.gz` must be readable and writable as needed; got X.",
            "`out/Split-a/x.gz` (`--examples-dir`) must be readable and writable as needed; got X.",
        ),
    ],
)  # fmt: skip
def test_messages_name_the_flags_of_the_verb(line, told):
    assert name_flags(line, FLAGS, GIVEN) == told


@pytest.mark.parametrize(
    ("verb", "name", "flag"),
    [("train", "eval_split", "--eval-split"), ("evaluate", "baseline_split", "--baseline-split")],
)
def test_splits_that_are_absent_are_named_by_their_flags(verb, name, flag):
    flags = flags_of(get_command(app).commands[verb])

    assert name_flags(f"`{name}` must be one of ['a']; got 'b'.", flags) == f"`{flag}` must be one of ['a']; got 'b'."


def test_options_of_a_sampling_spec_are_named_where_there_is_one():
    line = "`label_features` must be one of ['a']; got 'b'."

    assert name_flags(line, FLAGS, {"in/spec.pbtxt": "--plan"}) == line.replace("label_features", "--label-feature")


@pytest.mark.parametrize("value", ["", "/"])
def test_a_value_that_begins_every_path_claims_none(value):
    line = "`/etc/x` must be readable and writable as needed; got No such file."

    assert name_flags(line, FLAGS, {value: "--examples-dir"}) == line


def _refused_connection(path):
    raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def test_only_an_error_of_an_open_file_is_one_of_the_path_in_use():
    with pytest.raises(OSError, match="refused") as raised:
        _refused_connection("/out/x.gz")

    assert "/out/x.gz" not in (error_line(raised.value) or "")


def _full_disk(path):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_is_one_line_with_the_file_name():
    told = "`/out/x.gz` must be readable and writable as needed; got No space left on device. Free some space, or"
    full = "/out/x.gz; No space left on device"
    by_worker = f"tensorflow.python.framework.errors_impl.ResourceExhaustedError: {full} [while running 'Write']"

    lines = [
        error_line(tf.errors.ResourceExhaustedError(None, None, full)),
        error_line(RuntimeError(by_worker)),
        error_line(RuntimeError(f"Traceback (most recent call last):\n  File x\nRuntimeError: {by_worker}")),
    ]
    with pytest.raises(OSError, match="No space") as of_python:
        _full_disk("/out/x.gz")
    lines.append(error_line(of_python.value))

    assert all(line is not None and line.startswith(told) for line in lines), lines


def test_errors_show_no_password_of_a_url():
    result = CliRunner().invoke(app, ["task", "mysql://ann:hush@host/shop"])

    assert result.exit_code == 2
    assert "'mysql://ann:***@host/shop'" in result.stderr


def test_defects_keep_their_traceback():
    assert error_line(RuntimeError("unexpected")) is None
    assert error_line(KeyError("x")) is None
    assert error_line(text_format.ParseError("no text\nof a schema")) == "no text of a schema"


def test_a_file_that_cannot_grow_is_one_line_with_its_name(tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    (tmp_path / "users.csv").write_text("id," + ",".join(f"column{i}" for i in range(50)) + "\n")
    run = subprocess.run(
        # Without bytecode: Python would leave files cut off at the limit, which later processes could not read.
        [sys.executable, "-B", "-m", "tfx_gnn.cli", "tables", "infer-schema", "--tables-dir", str(tmp_path),
         "--node", "user=users.csv"],
        capture_output=True, text=True, check=False, preexec_fn=limit,
    )  # fmt: skip

    assert run.returncode == 2, run.stderr
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith(f"`{tmp_path}/graph_schema.pbtxt` (`--tables-dir`) must be readable and writable as needed")
    assert "Traceback" not in run.stderr


_PRINTING = """
import sys, typer
from tfx_gnn.cli.errors import OneLineErrors
from tfx_gnn.io.plain_console import PlainConsole

app = typer.Typer(cls=OneLineErrors, pretty_exceptions_enable=False)
app.command("show")(lambda: [{print_}("x" * 1_000) for _ in range(1_000)])
app.command("other")(lambda: None)
sys.argv[1:] = ["show"]
app()
"""


@pytest.mark.parametrize("print_", ["typer.echo", "PlainConsole().print"])
def test_output_that_cannot_be_printed_ends_the_command_without_a_traceback(print_):
    program = [sys.executable, "-c", _PRINTING.format(print_=print_)]

    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as closed:
        closed.stdout.close()
        told = closed.stderr.read()
    with open("/dev/full", "w") as full_disk:
        full = subprocess.run(program, stdout=full_disk, stderr=subprocess.PIPE, text=True, check=False)

    assert (closed.returncode, told) == (128 + signal.SIGPIPE, "")
    assert full.returncode == 2
    assert full.stderr.startswith("`standard output` must be readable and writable as needed; got No space left"), full


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("", "Interrupted. No half-written output is left: run the same command again.\n"),
        ("The run goes on: wait again.", "The run goes on: wait again.\n"),
    ],
)
def test_interrupted_command_says_how_to_go_on(monkeypatch, message, shown):
    def interrupt(_):
        if message:
            raise KeyboardInterrupt(message)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("tfx_gnn_pipelines.project_schema.list_project_options", interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    result = CliRunner().invoke(app, ["options"], env={"COLUMNS": "40"})

    signal.signal(signal.SIGINT, before)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", shown)


def test_interrupted_sampling_says_what_it_goes_on_after(monkeypatch, tmp_path):
    def interrupt(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tfx_gnn.components.subgraph_example_gen.stage.generate_subgraph_examples", interrupt)
    (tmp_path / "graphs.json").write_text("{}")

    result = CliRunner().invoke(
        app, ["sample", "--tables-dir", "t", "--examples-dir", "e", "--graph-level-examples", f"{tmp_path}/graphs.json"]
    )

    assert result.exit_code == 130
    assert result.stderr.endswith("run the same command again; it goes on after the shards that are finished.\n")

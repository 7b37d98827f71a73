from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tfx_gnn.cli import app, main
from tfx_gnn.cli.errors import error_line
from tfx_gnn.records.blessing import write_blessing

VERBS = (
    *("sample", "schema", "validate", "transform", "batches", "tune", "train", "report", "evaluate", "skew"),
    *("push", "predict", "serve"),
)
"""Those that are no groups of verbs."""


def _run(*args: str):
    return CliRunner().invoke(app, list(args))


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_explains_every_option(verb):
    shown = _run(verb, "--help")

    assert shown.exit_code == 0
    from typer.main import get_command

    for parameter in get_command(app).commands[verb].params:
        assert parameter.help, f"{verb} --{parameter.name} has no help"


def test_help_lists_verbs_in_the_order_of_use():
    text = _run("--help").stdout

    in_order = (
        *("new", "run", "options", "show", "report", "predict", "serve", "sample", "schema", "validate", "transform"),
        *("sizes", "batches", "tune", "train", "evaluate", "skew", "push", "submit", "tables", "dataset"),
    )
    positions = [text.index(f"│ {verb} ") for verb in in_order]
    assert positions == sorted(positions)


def test_help_costs_no_import_of_tensorflow():
    code = (
        "import sys\nfrom tfx_gnn.cli import app\n"
        "try:\n    app(['train', '--help'])\nexcept SystemExit as done:\n    assert done.code == 0\n"
        "assert 'tensorflow' not in sys.modules and 'apache_beam' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_predict_imports_tensorflow_and_nothing_of_the_pipeline(toy_model_dir, toy_examples_dir):
    code = (
        "import sys\nfrom tfx_gnn.cli import app\n"
        f"sys.argv = ['tfx-gnn', 'predict', '--model-dir', {toy_model_dir!r}, "
        f"'--examples', {toy_examples_dir + '/Split-test'!r}, '--json', '--limit', '2']\n"
        "try:\n    app()\nexcept SystemExit as done:\n    assert done.code == 0, done.code\n"
        "banned = {'apache_beam', 'tensorflow_transform', 'tf_keras', 'tfx', 'tfx_gnn.graph.tensor'}\n"
        "assert not banned & set(sys.modules), banned & set(sys.modules)"
    )

    # With TF_USE_LEGACY_KERAS TensorFlow itself imports tf_keras.
    environment = {key: value for key, value in os.environ.items() if key != "TF_USE_LEGACY_KERAS"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"id": "w-0", "label": "red", "score": pytest.approx(0.9526, abs=1e-4)},
        {"id": "y-0", "label": "red", "score": pytest.approx(0.7311, abs=1e-4)},
    ]


def test_predict_shows_a_table_of_the_newest_version(tmp_path, toy_model_dir, toy_examples_dir):
    for version in ("9", "10"):
        (tmp_path / version).symlink_to(Path(toy_model_dir, "Format-Serving"))

    shown = _run(
        "predict", "--model-dir", str(tmp_path), "--examples", f"{toy_examples_dir}/Split-test", "--limit", "1"
    )

    assert shown.exit_code == 0, shown.output
    assert "w-0" in shown.stdout
    assert "red" in shown.stdout
    assert "0.9526" in shown.stdout
    assert "y-0" not in shown.stdout
    assert "/10" in shown.stdout.replace("\n", "")


def test_limit_zero_means_all(toy_model_dir, toy_examples_dir):
    shown = _run(
        "predict",
        "--model-dir",
        toy_model_dir,
        "--examples",
        f"{toy_examples_dir}/Split-test",
        "--limit",
        "0",
        "--json",
    )

    assert len(shown.stdout.splitlines()) == 4


def test_evaluate_and_push_report_what_they_did(tmp_path, toy_model_dir, toy_examples_dir):
    common = ["--model-dir", toy_model_dir, "--examples-dir", toy_examples_dir, "--blessing-dir", str(tmp_path / "b")]
    evaluated = _run(
        "evaluate", *common, "--label-feature", "color", "--evaluation-dir", str(tmp_path / "e"), "--split", "train",
        "--baseline-split", "train",
    )  # fmt: skip
    pushed = _run(
        "push", *common, "--push-destination", str(tmp_path / "serving"), "--pushed-model-dir", str(tmp_path / "p")
    )

    why = "accuracy 0.7500 does not exceed the majority class's 0.7500 by more than 0"
    assert (evaluated.exit_code, pushed.exit_code) == (1, 1), evaluated.output + pushed.output
    assert "always 'red'" in evaluated.stdout
    assert evaluated.stdout.splitlines()[-1] == f"NOT blessed: {why}"
    assert pushed.stdout.splitlines()[-1] == f"NOT pushed: not blessed: {why}"
    assert (evaluated.stderr, pushed.stderr) == ("", "")
    assert not (tmp_path / "serving").exists()


def test_a_pushed_version_is_the_last_line(tmp_path, toy_model_dir, toy_examples_dir, monkeypatch):
    from tfx_gnn.components.graph_pusher import stage
    from tfx_gnn.serving.verification import verify_saved_model

    reports = []

    def verify_once(saved_model_dir, records, **_):
        """Many requests at a time would take five seconds of all processors for each push."""
        if not reports:
            reports.append(verify_saved_model(saved_model_dir, records, num_threads=0))
        return reports[0]

    monkeypatch.setattr(stage, "verify_saved_model", verify_once)
    (tmp_path / "b").mkdir()
    write_blessing(str(tmp_path / "b"), blessed=True, reasons=[])

    shown, again = (
        _run(
            "push", "--model-dir", toy_model_dir, "--examples-dir", toy_examples_dir,
            "--blessing-dir", str(tmp_path / "b"), "--push-destination", str(tmp_path / "serving"),
            "--pushed-model-dir", str(tmp_path / record),
        )
        for record in ("p", "q")
    )  # fmt: skip

    assert (shown.exit_code, again.exit_code) == (0, 0), shown.output + again.output
    version = f"pushed version 1: {tmp_path / 'serving' / '1'}"
    assert shown.stdout.splitlines()[-1] == version
    assert again.stdout.splitlines()[-1] == f"{version} (the newest version is this model already)"


@pytest.mark.parametrize("verb", ["validate", "check-tpu", "evaluate", "skew", "push"])
def test_help_of_each_verb_with_a_verdict_tells_its_exit_code(verb):
    assert "Exits with 1 if" in " ".join(_run(verb, "--help").stdout.split())


def test_what_the_terminal_cannot_encode_is_escaped(monkeypatch):
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys.modules["tfx_gnn.cli.app"], "app", lambda: sys.stdout.write("日"))

    main()
    terminal.flush()

    assert terminal.buffer.getvalue() == rb"\u65e5"


def test_error_is_one_line_on_stderr_and_exit_code_2(tmp_path):
    shown = _run("predict", "--model-dir", str(tmp_path), "--examples", str(tmp_path))

    assert shown.exit_code == 2
    assert shown.stdout == ""
    assert shown.stderr.startswith("`path` must be a SavedModel")
    assert shown.stderr.count("\n") == 1


def test_debug_lets_the_traceback_through(tmp_path):
    shown = _run("--debug", "predict", "--model-dir", str(tmp_path), "--examples", str(tmp_path))

    assert isinstance(shown.exception, FileNotFoundError)


def test_file_without_examples_is_no_prediction(tmp_path, toy_model_dir):
    import tensorflow as tf

    path = str(tmp_path / "requests.tfrecord")
    tf.io.TFRecordWriter(path).close()

    shown = _run("predict", "--model-dir", toy_model_dir, "--examples", path, "--json")

    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr.startswith(f"`--examples` must hold at least one example; got none in '{path}'. Choose another")


def test_damaged_examples_are_named_by_their_file(tmp_path, toy_model_dir):
    import tensorflow as tf

    path = tmp_path / "requests.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"one")
    path.write_bytes(path.read_bytes()[:-1])

    shown = _run("predict", "--model-dir", toy_model_dir, "--examples", str(tmp_path))

    assert shown.exit_code == 2
    assert shown.stderr.startswith(
        "`--examples` must hold undamaged TFRecord files, gzipped if and only if named '.gz';"
    )
    assert f"got '{path}'. Make the examples again. Cause: truncated record" in shown.stderr
    assert "{{" not in shown.stderr
    assert "[Op:" not in shown.stderr


def test_garbage_examples_are_one_line_too(tmp_path, toy_model_dir):
    import tensorflow as tf

    path = str(tmp_path / "requests.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"\x0agarbage")

    shown = _run("predict", "--model-dir", toy_model_dir, "--examples", path)

    assert shown.exit_code == 2
    assert shown.stderr == (
        "`--examples` must hold graph tf.Examples; got a record that cannot be parsed as one. Take examples of the "
        "schema that the model was trained on.\n"
    )


WORKER_ERROR = """Traceback (most recent call last):
  File "index_reading.py", line 60, in process
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "sdk_worker.py", line 313, in _execute
{}
"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            ModuleNotFoundError("x", name="pyarrow"),
            "This command must have 'pyarrow' installed; got none. Install tfx-gnn with its extra 'beam'.",
        ),
        (ModuleNotFoundError("`reference` must name a module.", name="mine"), "`reference` must name a module."),
        (
            PermissionError(13, "Permission denied", "a"),
            "`a` must be readable and writable as needed; got Permission denied. Check the path.",
        ),
        (FileNotFoundError("`path` must exist."), "`path` must exist."),
        (ValueError("`x` must be 1."), "`x` must be 1."),
        (ValueError("`x` must be 1. [while running 'Infer']"), "`x` must be 1."),
        (RuntimeError("a defect"), None),
        (
            RuntimeError(WORKER_ERROR.format("ValueError: `age` must be there; got ''. [while running 'Read']")),
            "`age` must be there; got ''.",
        ),
        (RuntimeError(WORKER_ERROR.format("KeyError: 'age'")), None),
        (RuntimeError("Traceback: ValueError: not one of Beam's"), None),
    ],
)
def test_error_lines(error, line):
    assert error_line(error) == line


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            '{"seed_node_set": "n", "hops": [{"edge_set": "e", "fanout": 3}]}',
            "; got ['fanout'] in `--plan`. Did you mean 'fan_out'?",
        ),
        ('{"seed_node_set": "n", "hops": 3}', "`hops` must be a list; got 3 in `--plan`"),
        ('{"seed_node_set": "n", "hops": [{"edge_set": "e"}]}', "`fan_out` must be an integer of at least 1; got 0"),
        ('{"seed_node_set": "n"; }', "Expecting ',' delimiter: line 1 column 22"),
    ],
)
def test_a_plan_with_a_mistake_is_named(tmp_path, text, cause):
    path = str(tmp_path / "plan.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

    shown = _run("sample", "--tables-dir", str(tmp_path), "--examples-dir", str(tmp_path / "out"), "--plan", path)

    assert shown.exit_code == 2
    assert shown.stderr.startswith(f"`--plan` must name a JSON file of a SamplingPlan; got {path!r} with a mistake.")
    assert cause in shown.stderr


def test_a_sampling_spec_of_links_is_told_the_edge_set(tmp_path):
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "graph_schema.pbtxt").write_text(
        'node_sets { key: "n" value { metadata { filename: "n.csv" } } }'
        'edge_sets { key: "e" value { source: "n" target: "n" metadata { filename: "e.csv" } } }'
    )
    (tables / "n.csv").write_text("id\n" + "".join(f"{i}\n" for i in range(40)))
    (tables / "e.csv").write_text("source,target\n" + "".join(f"{i},{i * 7 % 40}\n" for i in range(1, 40)))
    spec = tmp_path / "spec.pbtxt"
    spec.write_text(
        'symmetric_link_seed_op { op_name: "pairs" }'
        ' sampling_ops { op_name: "h" input_op_names: "pairs" strategy: RANDOM_UNIFORM sample_size: 2'
        ' edge_set_name: "e" }'
    )
    arguments = ["sample", "--tables-dir", str(tables), "--examples-dir", str(tmp_path / "out"), "--plan", str(spec)]

    refused = _run(*arguments)
    done = _run(*arguments, "--seed-edge-set", "e")

    assert "`--seed-edge-set` must name the edge set of the pairs; got none" in refused.stderr
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "out" / "Split-train").is_dir()


@pytest.mark.parametrize("option", [("--num-partitions", "2"), ("--beam-arg", "--runner=FlinkRunner")])
def test_options_of_beam_are_not_passed_over_in_memory(tmp_path, option):
    shown = _run("sample", "--tables-dir", str(tmp_path), "--examples-dir", str(tmp_path / "out"), *option)

    assert shown.exit_code == 2
    assert "must go with `--execution beam`; got " in shown.stderr

"""tfx_gnn.run: the project that it writes for data frames, when it writes it anew, and what it makes of a run's end."""

from __future__ import annotations

import json

import pandas as pd
import pyarrow as pa
import pytest
import yaml

import tfx_gnn
from tfx_gnn import tables_run

OUTCOME = {
    "root": "/r",
    "page": "",
    "pushed": True,
    "pushed_model": "/r/serving/1",
    "metrics": {"split": "test"},
    "warnings": ["one"],
    "seconds": 2.5,
}


@pytest.fixture
def commands(monkeypatch):
    """The commands that would be run, and what they are said to end with."""
    ran = []

    def run_shown(command, show):
        ran.append(command[1:])
        return run_shown.code, run_shown.printed

    run_shown.code, run_shown.printed = 0, json.dumps(OUTCOME)
    monkeypatch.setattr(tables_run, "_run_shown", run_shown)
    run_shown.ran = ran
    return run_shown


@pytest.fixture
def frames():
    users = pd.DataFrame(
        {"age": [20 + number % 7 for number in range(60)], "buys": pd.Categorical(["yes", "no", "no"] * 20)},
        index=pd.Index([f"u{number}" for number in range(60)], name="user_id"),
    )
    orders = pa.table({"order_id": list(range(90)), "user_id": [f"u{number % 60}" for number in range(90)]})
    return {"users": users, "orders": orders}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "Web shop"


def test_frames_become_a_project_and_its_run_is_told(frames, folder, commands):
    run = tfx_gnn.run(frames, label="users.buys", folder=folder, options={"graph_trainer.num_epochs": 3})

    project = yaml.safe_load((folder / "project.yaml").read_text())
    assert project["name"] == "web_shop"
    assert project["tables_dir"] == "data"
    assert sorted(path.name for path in (folder / "data").iterdir()) == [
        "graph_schema.pbtxt",
        "orders.parquet",
        "users.parquet",
    ]
    assert commands.ran == [
        ["-m", "tfx_gnn.cli", "run", str(folder), "--json", "--set=graph_trainer.num_epochs=3"],
    ]
    assert (run.pushed_model, run.is_pushed, run.warnings, run.seconds) == ("/r/serving/1", True, ("one",), 2.5)
    assert run.metrics == {"split": "test"}


def test_the_same_call_keeps_what_was_edited(frames, folder, commands, capsys):
    tfx_gnn.run(frames, label="users.buys", folder=folder)
    file = folder / "project.yaml"
    file.write_text(file.read_text() + "# mine\n")

    tfx_gnn.run(frames, label="users.buys", folder=folder)

    assert "as you edited it" in capsys.readouterr().out
    assert file.read_text().endswith("# mine\n")
    frames["users"].loc["u0", "age"] = 99
    with pytest.raises(FileExistsError, match=r"other tables and a project\.yaml that you edited"):
        tfx_gnn.run(frames, label="users.buys", folder=folder)
    assert file.read_text().endswith("# mine\n")


def test_other_tables_are_proposed_anew_and_runs_stay(frames, folder, commands, capsys):
    tfx_gnn.run(frames, label="users.buys", folder=folder)
    (folder / "runs").mkdir()
    (folder / "runs" / "index.html").write_text("page")
    frames["users"]["city"] = ["a", "b"] * 30

    tfx_gnn.run(frames, label="users.buys", folder=folder)

    assert "Proposed anew, because the tables have changed" in capsys.readouterr().out
    assert "city" in (folder / "data" / "graph_schema.pbtxt").read_text()
    assert (folder / "runs" / "index.html").read_text() == "page"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_call_that_died_while_it_replaced_a_project_is_repeated(frames, folder, commands, monkeypatch):
    tfx_gnn.run(frames, label="users.buys", folder=folder)
    frames["users"]["city"] = ["a", "b"] * 30
    replace = tables_run.os.replace

    def die_at_the_project_file(source, target):
        if str(target).endswith("project.yaml"):
            raise KeyboardInterrupt
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(tables_run.os, "replace", die_at_the_project_file)
        with pytest.raises(KeyboardInterrupt):
            tfx_gnn.run(frames, label="users.buys", folder=folder)

    tfx_gnn.run(frames, label="users.buys", folder=folder)
    assert "city" in (folder / "data" / "graph_schema.pbtxt").read_text()
    assert len(commands.ran) == 2


def test_keys_and_missing_values_are_taken_as_given(frames, folder, commands):
    frames["orders"] = frames["orders"].append_column("rating", pa.array([-1, 1, 2] * 30))

    tfx_gnn.run(
        frames,
        label="users.buys",
        folder=folder,
        primary_keys={"orders": "order_id"},
        foreign_keys={"orders.user_id": "users"},
        missing_values={"orders.rating": -1},
    )

    schema = next(folder.glob("*/graph_schema.pbtxt")).read_text()
    assert 'key: "orders_user_id"' in schema


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tables": None, "label": "users.buys"}, "`tables` must be given with 'label'"),
        ({"tables": {}, "label": "users.buys"}, "`tables` must have a table; got none"),
        ({"tables": {"users": pd.DataFrame({"a": [1]})}}, "One of `label` and `task` must say"),
        ({"tables": {"../users": pd.DataFrame({"a": [1]})}, "label": "users.a"}, "names of letters.*got '../users'"),
        ({"tables": {"users": pd.DataFrame({"a": [1, "x"]})}, "label": "users.a"}, "for 'users' of type DataFrame"),
        ({"tables": {"users": {"a": [1]}}, "label": "users.a"}, "it is none, and has no interface"),
        (
            {"tables": {"users": pd.DataFrame({"a": [1]})}, "task": {"for_eac": "users"}},
            "`task`.*for_eac",
        ),
    ],
)
def test_what_cannot_be_a_project_is_refused_and_leaves_nothing(given, message, folder, commands):
    with pytest.raises(ValueError, match=message):
        tfx_gnn.run(**given, folder=folder)
    assert not folder.exists()
    assert not commands.ran


def test_a_folder_of_something_else_is_left_alone(frames, folder, commands):
    folder.mkdir()
    (folder / "thesis.tex").write_text("all of it")

    with pytest.raises(FileExistsError, match="which holds other files"):
        tfx_gnn.run(frames, label="users.buys", folder=folder)
    assert [path.name for path in folder.iterdir()] == ["thesis.tex"]


def test_ends_of_a_run(folder, commands, frames):
    tfx_gnn.run(frames, label="users.buys", folder=folder)
    commands.code, commands.printed = 1, json.dumps({**OUTCOME, "pushed": False, "pushed_model": ""})
    assert not tfx_gnn.run(folder=folder).is_pushed

    finding = {"severity": "error", "message": "`age` must be there."}
    commands.code, commands.printed = 2, json.dumps({"pushed": False, "check": {"findings": [finding]}})
    with pytest.raises(ValueError, match=r"^`age` must be there\.$"):
        tfx_gnn.run(folder=folder)

    commands.code, commands.printed = 2, ""
    with pytest.raises(RuntimeError, match="exit code 2"):
        tfx_gnn.run(folder=folder)

    commands.code = 130
    with pytest.raises(KeyboardInterrupt):
        tfx_gnn.run(folder=folder)


def test_the_page_is_shown_in_a_frame(tmp_path):
    page = tmp_path / "index.html"
    page.write_text('<p class="a">5 < 6</p>')
    run = tables_run.TablesRun(
        folder="", root="", page=str(page), pushed_model="", metrics={}, warnings=(), seconds=0.0
    )

    shown = run._repr_html_()

    assert shown.startswith('<iframe srcdoc="&lt;p class=&quot;a&quot;&gt;5 &lt; 6&lt;/p&gt;"')

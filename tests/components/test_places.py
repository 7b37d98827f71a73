"""Where a message of the check finds its line in the user's files."""

from __future__ import annotations

import runpy

import pytest

from tfx_gnn_pipelines.checks.places import argument_of, place_in_function, place_of_argument, place_of_message

CODE = """# Mine, with 'age' in it.
PLAN = dict(
    column="splitt",
    hops=[dict(name="first", edge_set="buys"),
          dict(name="second", edge_set="bys",
               inputs=["first"])],
    features={"user": {"numbers": 1},
              "item": {"numbers": 2}},
    loss="mse",
)
"""

PROJECT = """# interests of users, in splits such as val
name: mine
plan:
  splits: {column: splitt}
  hops:
    - {edge_set: buys, fan_out: 8}
    - edge_set: buys
      inputs: [buys]
      direction: backwards
      name: buyers
features:
  nodes/user: {age: z_score}
prediction: {class_vocabulary: interests}
graph_evaluator:
  thresholds: {macro_f1: 60}
tables_dir: here
unknown: &again [interests]
other: *again
"""

SCHEMA = """node_sets {
  key: "item"  # "items.csv"
  value { metadata { filename: "items.csv" } }
}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("mine.py", CODE), ("project.yaml", PROJECT), ("schema.pbtxt", SCHEMA)):
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in ("mine.py", "project.yaml", "schema.pbtxt")}


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("`column` must be one of ['split']; got 'splitt'. Mend it.", 3),
        ("`splitt` must be one column of the table; got none among ['split']. Mend it.", 3),
        ("`inputs` must end in 'user'; got 'buys', in hop 'second'. Mend it.", 6),
        ("`fan_out` must be positive; got 0 in hop 'second'. Mend it.", 5),
        ("`edge_set` must be one of ['buys']; got 'bys'. Mend it.", 5),
        ("`inputs` must name it; got 'x' in hop 'second'. Look at hop 'first', from which no hop starts.", 4),
        ("`preprocessing_fn` must give numbers; got 'nodes/item.numbers' with 1 NaN. Mend it.", 8),
    ],
)
def test_place_of_a_wrong_name_is_found_in_python(files, message, line):
    assert place_of_message(message, [files["mine.py"]]).line == line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("`splitt` must be one column of the table; got none among ['split']. Mend it.", 4),
        ("`plan.hops.1.direction` must be one of ['backward']; got 'backwards'. Mend it.", 9),
        ("`plan.hops.0.fan_out` must be at most 4; got 8. Mend it.", 6),
        ("`inputs` must end in 'user'; got 'item' in hop 'buyers'. Mend it.", 8),
        ("`fan_out` must be positive; got 0 in hop 'buyers'. Mend it.", 10),
        ("`inputs` must name it; got 'buys' in hop 'buyers'. Look at hop 'buys', from which no hop starts.", 6),
        ("`class_vocabulary` must be known; got 'interests'. Mend it.", 13),
        ("`features` must give finite numbers; got 'nodes/user.age' with 1 NaN. Mend it.", 12),
        ("`kind` must be known; got 'z_score'. Mend it.", 12),
    ],
)
def test_place_of_a_wrong_name_is_found_in_yaml_but_not_in_its_comments(files, message, line):
    assert place_of_message(message, [files["project.yaml"]]).line == line


@pytest.mark.parametrize(
    "got", ["'numbers'", "'absent'", "1 without a text", "'buys'"], ids=["twice", "absent", "no text", "twice in one"]
)
def test_name_in_several_lines_or_none_has_no_place(files, got):
    assert place_of_message(f"`x` must be y; got {got}. Mend it.", [files["mine.py"], files["project.yaml"]]) is None


def test_line_that_a_message_names_is_its_place(files, tmp_path):
    table = tmp_path / "users in 2026.csv"
    table.write_text("id,age\n1,x\n")

    place = place_of_message(f"`age` must be in every row; got 'x' in {table}, line 2. Mend it.", files.values())
    of_yaml = place_of_message(f"`{files['project.yaml']}` must be YAML; got `: in line 5, column 2. Mend it.", [])

    assert (place.path, place.line) == (str(table), 2)
    assert (of_yaml.path, of_yaml.line) == (files["project.yaml"], 5)
    assert place_of_message("`age` must be 1; got 'x' in /no/such/users.csv, line 2. Mend it.", files.values()) is None


def test_text_is_looked_for_in_the_schema_that_a_message_names(files):
    schema = files["schema.pbtxt"]
    message = f"`filename` must name a file; got 'items.csv' for node set 'item' in {schema}. Correct it."

    place = place_of_message(message, [files["project.yaml"]])

    assert (place.path, place.line) == (schema, 3)


def test_files_that_cannot_be_read_have_no_places(tmp_path):
    (tmp_path / "broken.yaml").write_text("a: [1\nb: 'x'\n")
    (tmp_path / "broken.py").write_text("a = = 1\n")
    paths = [str(tmp_path / name) for name in ("broken.yaml", "broken.py", "absent.yaml")]

    assert place_of_message("`b` must be y; got 'x'. Mend it.", paths) is None


def test_arguments_and_keys_have_places(files):
    paths = [files["mine.py"], files["project.yaml"]]

    assert place_of_argument("thresholds", paths).line == 15
    assert place_of_argument("loss", paths).line == 9
    assert place_of_argument("name", paths) is None  # Two hops have one, and the project.
    assert place_of_argument("tables_dir", paths, message="`tables_dir` must be there; got 'here'. Mend it.").line == 16
    assert place_of_argument("tables_dir", paths, message="`tables_dir` must be there; got 'x' by a flag.") is None
    assert argument_of("`a.b` must be c; got d.") == "a.b"
    assert argument_of("Something else.") == ""


def test_message_about_a_loss_or_a_result_is_placed_in_the_function(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def model_fn():\n    compiled(\n        loss='mse')\n    return 3\n")
    function = runpy.run_path(str(path))["model_fn"]
    place = {
        words: place_in_function(function, f"`model_fn` must {words} ...; got x.", [str(path)])
        for words in ("be", "compile a loss", "return a")
    }

    assert {words: found.line for words, found in place.items()} == {"be": 1, "compile a loss": 3, "return a": 4}
    assert place_in_function(None, "", []) is None

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from tfx_gnn_pipelines.config import step_names
from tfx_gnn_pipelines.project import PIPELINE_SETTINGS, Project, with_options
from tfx_gnn_pipelines.project_schema import list_project_options, project_schema
from tfx_gnn_pipelines.task import load_task

STARTER = Path(__file__).parents[2] / "templates" / "starter"


@pytest.fixture(scope="module")
def validator():
    schema = project_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture
def starter():
    return yaml.safe_load((STARTER / "project.yaml").read_text())


def test_starter_has_the_schema_of_today():
    shipped = json.loads((STARTER / ".project.schema.json").read_text())

    assert shipped == project_schema(), (
        "write it again: tfx-gnn options --json-schema > templates/starter/.project.schema.json"
    )


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({}, None),
        ({"graph_trainer": {"hyperparameters": {"units": 3}, "execution": {"jit_compile": True}}}, None),
        (
            {
                "graph_tuner": {
                    "search_space": {"units": {"kind": "choice", "values": [1, 2]}},
                    "trainer": {"num_epochs": 1},
                }
            },
            None,
        ),
        ({"beam_args": ["--runner=DirectRunner"], "root": "runs/here", "enable_cache": False}, None),
        ({"graph_trainer": {"hyperparametrs": {}}}, "graph_trainer"),
        ({"graph_trainer": {"model_fn": "a:b"}}, "graph_trainer"),
        ({"graph_trainr": {}}, ""),
        ({"plan": {"hops": [{"fan_out": 3}]}}, "plan"),
        ({"num_epochs": "many"}, "num_epochs"),
        ({"pipeline_name": "x"}, ""),
    ],
)
def test_schema_takes_the_starter_with_what_a_project_may_hold(validator, starter, change, place):
    errors = list(validator.iter_errors({**starter, **change}))

    assert [".".join(map(str, list(error.absolute_path)[:1])) for error in errors] == ([] if place is None else [place])


def is_read(task, change):
    try:
        with_options(Project(task=task), change).configure()
    except ValueError:
        return False
    return True


def test_schema_and_reader_take_null_for_the_same_options(validator, starter):
    task = load_task("debian_sections")
    changes = [{name: None} for name in (*step_names(), *PIPELINE_SETTINGS)]

    read = [change for change in changes if is_read(task, change)]

    assert read == [change for change in changes if validator.is_valid({**starter, **change})]
    assert {"graph_tuner": None} in read


def test_project_is_whole_or_names_a_task(validator, starter):
    del starter["prediction"]

    assert not validator.is_valid(starter)
    assert validator.is_valid({**starter, "task": "a.b:TASK"})


def test_options_commented_in_the_starter_exist(validator, starter):
    text = (STARTER / "project.yaml").read_text().partition("Options of steps.")[2]
    commented = yaml.safe_load("\n".join(line.removeprefix("# ") for line in text.splitlines()[2:]))

    assert len(commented) >= 3
    assert list(validator.iter_errors({**starter, **commented})) == []


def test_options_are_listed_by_group_and_each_says_what_it_means():
    listed = list_project_options()

    assert [entry.name for entry in listed if not entry.meaning] == []
    assert {"plan.hops[].fan_out", "graph_trainer.batching.kind", "graph_tuner.num_trials", "root"} <= {
        entry.name for entry in listed
    }
    assert {entry.name.split(".")[0] for entry in list_project_options("graph_pusher")} == {"graph_pusher"}
    assert "plan" in {entry.name for entry in list_project_options("project")}
    # The task holds it: read `prediction` instead.
    assert "graph_trainer.task" not in {entry.name for entry in listed}
    with pytest.raises(ValueError, match=r"`GROUP` must be one of .*; got 'graph_traner'. Did you mean 'graph_tra"):
        list_project_options("graph_traner")

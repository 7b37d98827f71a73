"""Every kind of name that a user types, with a letter missing or wrong: the message suggests the right one.

Run as a program, this file prints what each message says.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner


def _cli(*arguments: str) -> Callable[[], str]:
    """What the command line prints."""

    def typed() -> str:
        from tfx_gnn.cli import app

        shown = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "500"})
        assert shown.exit_code
        return shown.output

    return typed


def _raised(call: Callable[[], object]) -> Callable[[], str]:
    """What an error says."""

    def typed() -> str:
        with pytest.raises((ValueError, TypeError, OSError, ModuleNotFoundError)) as raised:
            call()
        return str(raised.value)

    return typed


def _assign(text: str) -> Callable[[], str]:
    """What `--set` of a project says."""

    def call() -> object:
        from tfx_gnn_pipelines.project import read_config

        return read_config("debian_sections", assignments=[text])

    return _raised(call)


def _plan(**fields: Any) -> object:
    from tfx_gnn.sampling import SamplingPlan, SplitPlan

    return SamplingPlan(**{"seed_node_set": "user", "splits": SplitPlan(weights={"train": 1}), **fields})


def _bad_hop() -> object:
    from tfx_gnn.sampling import Hop

    bought, sold = Hop(edge_set="buys", fan_out=2), Hop(edge_set="sells", fan_out=2, inputs=("buyss",))
    return _plan(hops=(bought, sold))


def _splits(**fields: Any) -> object:
    from tfx_gnn.sampling import SplitPlan

    return SplitPlan(weights={"train": 1}, **fields)


def _seed_dtype() -> object:
    from tfx_gnn.sampling.plan.plan import SeedTable

    return SeedTable(filename="a.csv", features={"time": "int46"})


def _seed_input() -> object:
    from tfx_gnn.sampling.plan.plan import SeedTable

    return SeedTable(filename="a.csv", features={"time": "int64"}, input_features=("tme",))


def _task(**fields: Any) -> object:
    from tfx_gnn.models.tasks import NodeRegression

    return NodeRegression(label_feature="age", **fields)


def _options(of: str, **fields: Any) -> object:
    from tfx_gnn import components

    return getattr(components, of)(**fields)


def _model_fn(name: str) -> object:
    from tfx_gnn.io.user_code import load_function

    return load_function(name)


def _hyperparameter() -> object:
    from tfx_gnn.models.model_fns import _check_known
    from tfx_gnn.models.networks.graph_sage import graph_sage

    return _check_known(graph_sage, {"unts": 3}, ("learning_rate", "l2"))


def _thresholds() -> object:
    from tfx_gnn.components.graph_evaluator.thresholds import normalize_thresholds

    return normalize_thresholds("thresholds", {"acuracy": 0.5}, ["accuracy", "macro_f1"])


def _layout() -> Any:
    return SimpleNamespace(features={"nodes/user.age": 0}, sets=[], set_by_prefix={})


def _declared_feature() -> object:
    from tfx_gnn.components.graph_example_validator.validation_plan import _check_declared

    return _check_declared("unique_features", "nodes/user.agee", _layout())


def _table() -> object:
    from tfx_gnn.tables.schema_layouts import _check_known

    return _check_known("node_sets", ["usr"], ["user", "product"])


def _label(text: str) -> Callable[[], str]:
    def call() -> object:
        from tfx_gnn_pipelines.proposals.tables import like_label

        raise ValueError(like_label(text, ["users.age", "users.buys"]))

    return _raised(call)


def _components() -> object:
    from tfx_gnn_pipelines.resources import Resources, check_components

    return check_components(Resources(components={"GraphTrianer": None}), ["GraphTrainer", "GraphPusher"])  # type: ignore[dict-item]


def _parameter() -> object:
    from tfx_gnn_pipelines.compiled_pipeline import run_parameters

    return run_parameters(SimpleNamespace(declared_parameters={"num_epochs": None}), {"num_epoch": "3"})  # type: ignore[arg-type]


TYPED: dict[str, tuple[Callable[[], str], str]] = {
    "verb": (_cli("rnu"), "run"),
    "verb of a group": (_cli("dataset", "mutagg"), "mutag"),
    "flag": (_cli("run", "--epohs", "3"), "--epochs"),
    "runner": (_cli("run", "--runner", "locl"), "local"),
    "service to imitate": (_cli("run", "x.json", "--runner", "spec", "--semantics", "vertx"), "vertex"),
    "method of explanations": (_raised(lambda: _explainer("oclusion")), "occlusion"),
    "task of a flag": (_raised(lambda: _read_task("node_clasification")), "node_classification"),
    "folder of a project": (_cli("check", "projct"), "project"),
    "file of a project": (_cli("check", "project/projct.yaml"), "project/project.yaml"),
    "bundled task": (_cli("check", "debian_section"), "debian_sections"),
    "module of a task": (_cli("check", "tfx_gnn_pipelines.taks.debian_sections:TASK"), "tasks"),
    "attribute of a task": (_cli("check", "tfx_gnn_pipelines.tasks.debian_sections:TSK"), "TASK"),
    "root of a run to show": (_cli("show", "runs/shp"), "runs/shop"),
    "root of a run to compare": (_cli("compare", "runs/shp", "runs/shop"), "runs/shop"),
    "compiled file": (_cli("submit", "compild.json"), "compiled.json"),
    "folder of a model": (_cli("explain", "--model-dir", "runs/shp", "--examples", "e"), "runs/shop"),
    "group of options": (_cli("options", "graph_trainr"), "graph_trainer"),
    "word of an option": (_cli("options", "dropuot"), "dropout"),
    "file of options": (_cli("check", "debian_sections", "--options", "optons.yaml"), "options.yaml"),
    "key of the project": (_assign("batch_sise=3"), "batch_size"),
    "step": (_assign("graph_trainr.num_epochs=3"), "graph_trainer"),
    "option of a step": (_assign("graph_trainer.training_sed=3"), "training_seed"),
    "option of a group of a step": (_assign("graph_trainer.batching.examples_per_clas=3"), "examples_per_class"),
    "choice of an option": (_assign("graph_trainer.batching.kind=packd"), "packed"),
    "kind of a prediction": (_assign("prediction.kind=node_clasification"), "node_classification"),
    "parameter of a compiled file": (_raised(_parameter), "num_epochs"),
    "component of resources": (_raised(_components), "GraphTrainer"),
    "module of model_fn": (_raised(lambda: _model_fn("tfx_gnn.modls:graph_sage")), "models"),
    "model_fn": (_raised(lambda: _model_fn("tfx_gnn.models.model_fns:graph_saeg")), "graph_sage"),
    "hyperparameter": (_raised(_hyperparameter), "units"),
    "normalization of a network": (_raised(lambda: _normalization("layr")), "layer"),
    "loss of a task": (_raised(lambda: _task(loss="huberr")), "huber"),
    "metric of a threshold": (_raised(_thresholds), "accuracy"),
    "severity of a check": (
        _raised(lambda: _options("GraphExampleValidatorOptions", severities={"dangling_edge": "eror"})),
        "error",
    ),
    "feature to validate": (_raised(_declared_feature), "nodes/user.age"),
    "table of the graph schema": (_raised(_table), "user"),
    "input of a hop": (_raised(_bad_hop), "buys"),
    "visibility of splits": (_raised(lambda: _splits(visibility="inducive")), "inductive"),
    "dtype of a seed's column": (_raised(_seed_dtype), "int64"),
    "input feature of seeds": (_raised(_seed_input), "time"),
    "label without its table": (_label("buys"), "users.buys"),
    "label with a typo": (_label("users.agee"), "users.age"),
    "label without its table and with a typo": (_label("buyss"), "users.buys"),
}
"""By kind of name: what gives the message, and the suggestion in it."""


def _explainer(method: str) -> object:
    from tfx_gnn.serving.explanation import Explainer

    return Explainer("no-model", method=method)


def _read_task(kind: str) -> object:
    from tfx_gnn.cli.arguments import read_task

    return read_task(kind, "", label_feature="interest")


def _normalization(name: str) -> object:
    from tfx_gnn.models.state_blocks import check_normalization

    return check_normalization(name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return _make_folder(tmp_path_factory.mktemp("typed"))


def _make_folder(place: Path) -> Path:
    for name in ("project", "runs/shop"):
        (place / name).mkdir(parents=True)
    (place / "project" / "project.yaml").write_text("{}")
    for name in ("compiled.json", "options.yaml"):
        (place / name).write_text("{}")
    return place


@pytest.mark.parametrize("kind", TYPED)
def test_mistyped_name_gets_the_right_one_suggested(kind, folder, monkeypatch):
    monkeypatch.chdir(folder)
    typed, right = TYPED[kind]

    said = typed()

    assert f"Did you mean '{right}'" in said or f"Possible options: {right}" in said


def _print_all(place: Path) -> None:
    os.chdir(_make_folder(place))
    for kind, (typed, _) in TYPED.items():
        with contextlib.suppress(AssertionError):
            sys.stdout.write(f"{kind}: {' '.join(typed().split())}\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        _print_all(Path(scratch))

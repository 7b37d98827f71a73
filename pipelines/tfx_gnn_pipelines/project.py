"""A project: a task with the options of every step, from one file, from Python, or by a bundled name.

A project file is a mapping such as

    name: web_shop
    tables_dir: web_shop/data
    plan: {seed_node_set: user, label_features: [interest], hops: [{edge_set: purchase, fan_out: 8}]}
    features: {nodes/product: {price: log1p_z_score}}
    prediction: {kind: node_classification, label_feature: interest}
    graph_trainer:
      hyperparameters: {units: 64}
    graph_pusher:
      keep_versions: 3

Its keys are fields of `PipelineTask` and of `PipelineConfig`. A file of options has the same keys and changes a
project: a mapping changes the fields that it names and keeps the others; everything else replaces what it names.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
import sys
import typing
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfx_gnn.io import options_json
from tfx_gnn.io.package_paths import PACKAGE_SCHEME, resolve_package_path
from tfx_gnn.io.suggestions import did_you_mean, did_you_mean_path
from tfx_gnn.io.user_errors import source_files
from tfx_gnn.prediction_tasks.task_options import PredictionTask
from tfx_gnn.tables.spans import check_span_pattern, find_span, has_span
from tfx_gnn_pipelines.config import PipelineConfig, is_uri, quickstart, step_names
from tfx_gnn_pipelines.option_changes import changed, merged, nested, read_options, with_dotted
from tfx_gnn_pipelines.prediction_plan import seed_table_path, with_plan_of_task
from tfx_gnn_pipelines.task import PipelineTask, load_task, task_names
from tfx_gnn_pipelines.yaml_files import parse_yaml, read_yaml

if TYPE_CHECKING:
    from tfx_gnn.prediction_tasks import SeedTableReport

PROJECT_FILE = "project.yaml"
TASK = "task"
"""Key of a project file: an object of Python, which the other keys change; or a mapping, a prediction task."""

#: Options of steps that several steps share: the task holds them.
OF_THE_TASK = {
    ("graph_trainer", "task"): "prediction",
    ("graph_evaluator", "task"): "prediction",
    ("graph_trainer", "model_fn"): "model_fn",
    ("graph_transform", "preprocessing_fn"): "preprocessing_fn",
    ("graph_transform", "features"): "features",
    ("subgraph_example_gen", "plan"): "plan",
    ("subgraph_example_gen", "graph_level_examples"): "graph_level_examples",
}
PIPELINE_SETTINGS = (
    "root",
    "push_destination",
    "span",
    "tables_fingerprint",
    "enable_cache",
    "beam_args",
    "runtime_parameters",
)
_PATHS = ("tables_dir", "root", "push_destination")
_COMPILED = frozenset({"pipelineSpec", "deploymentSpec", "pipelineInfo"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Project:
    """A task, and the settings of its pipeline.

    Attributes:
        task: the task, with the options of its steps.
        settings: fields of `PipelineConfig` that belong to no step, by name.
        folder: the project's folder, whose outputs lie below `runs`; empty for the current one.
        file: the project file; empty if the task came from Python.
    """

    task: PipelineTask
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    folder: str = ""
    file: str = ""

    def configure(self, *, is_remote: bool = False) -> PipelineConfig:
        """Builds the pipeline's config.

        Args:
            is_remote: whether the pipeline is compiled for a service, so that no local root is chosen.

        Raises:
            ValueError: if a value breaks a rule of the options it goes to, or there is no such span of the tables.
        """
        settings = {"root": "", **self.settings}
        if not is_remote:
            settings["root"] = settings["root"] or os.path.join(self.folder, "runs", self.task.name)
        tables_dir = self.task.tables_dir
        span = str(settings.get("span", ""))
        if is_remote and has_span(tables_dir):
            check_span_pattern(tables_dir)
        elif has_span(tables_dir) or span:
            # All steps of this run read the span that is the newest now; services look for it in each run.
            found = find_span(resolve_package_path(tables_dir), span)
            settings |= {"tables_dir": found.folder, "tables_pattern": tables_dir, "span": found.name}
        if is_uri(tables_dir) and not tables_dir.startswith(PACKAGE_SCHEME) and not settings.get("tables_fingerprint"):
            # Remote tables are not read here, so a compilation must not reuse cached examples of another one.
            settings["tables_fingerprint"] = (
                f"compiled {dt.datetime.now(dt.timezone.utc).isoformat(timespec='seconds')}"
            )
        return quickstart(self.task, **settings)


def read_project(
    reference: str = "",
    *,
    options_file: str = "",
    assignments: Sequence[str] = (),
    shortcuts: Mapping[str, Any] | None = None,
) -> Project:
    """Finds a project and changes it; the last change wins.

    Modules of the project can be imported afterwards, here and in new processes.

    Args:
        reference: a folder with project.yaml, or such a file; "package.module:ATTRIBUTE" of a `PipelineTask`; or the
            name of a bundled task. Empty for the current folder.
        options_file: YAML file of options that change the project; empty for none.
        assignments: each "key.key=VALUE", where VALUE is YAML, as in "graph_trainer.hyperparameters.units=64".
        shortcuts: values by names that may have dots.

    Returns:
        The project.

    Raises:
        FileNotFoundError: if there is no such project or file.
        ModuleNotFoundError: if the module of a task cannot be found.
        ValueError: if a key is unknown, or a value breaks a rule.
    """
    file = find_project_file(reference)
    changes = with_dotted(read_given(options_file, assignments), shortcuts or {})
    if file:
        folder = os.path.dirname(os.path.abspath(file))
        make_importable(folder)
        given = _with_absolute_paths(_read_mapping(file, option="PROJECT"), folder)
        if (found := _prediction_task(given, file, changes)) is not None:
            del given[TASK]
            given = with_plan_of_task(given, found.task, found.seed_table, file=file)
        task = _task_of_file(given, file)
    else:
        folder, given, task = "", {}, load_task(reference)
    return with_options(Project(task=task, folder=folder, file=file), merged(given, changes))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProjectPrediction:
    """What a project file says in words, SQL or rows of what is predicted.

    Attributes:
        task: the task.
        tables_dir: folder of the tables.
        seed_table: path of its seed table.
        folder: folder of the project.
        file: the project file.
        plan: the plan, as the file has it.
    """

    task: PredictionTask
    tables_dir: str
    seed_table: str
    folder: str
    file: str
    plan: Any


def read_prediction_task(
    reference: str = "",
    *,
    options_file: str = "",
    assignments: Sequence[str] = (),
    shortcuts: Mapping[str, Any] | None = None,
) -> ProjectPrediction | None:
    """Reads the prediction task of a project alone; its seed table need not be there yet.

    Args:
        reference: see `read_project`; likewise the others, of which only the folder of the tables matters here.
        options_file: YAML file of options; empty for none.
        assignments: each "key.key=VALUE".
        shortcuts: values by names that may have dots.

    Returns:
        The task; None if the project has none, but a plan that is complete.

    Raises:
        FileNotFoundError: if there is no such project or file.
        ValueError: if a key of the task is unknown, or a value breaks a rule.
    """
    file = find_project_file(reference)
    if not file:
        return None
    given = _with_absolute_paths(_read_mapping(file, option="PROJECT"), os.path.dirname(os.path.abspath(file)))
    return _prediction_task(given, file, with_dotted(read_given(options_file, assignments), shortcuts or {}))


def make_seeds(found: ProjectPrediction) -> SeedTableReport:
    """Makes the seed table of a project's prediction task, and its statistics beside it.

    Args:
        found: what the project says of the task.

    Raises:
        ValueError: for a reason of `make_seed_table`.
    """
    from tfx_gnn.prediction_tasks import make_seed_table

    return make_seed_table(found.task, resolve_package_path(found.tables_dir), found.seed_table, folder=found.folder)


def _prediction_task(given: Mapping[str, Any], file: str, changes: Mapping[str, Any]) -> ProjectPrediction | None:
    if not isinstance(given.get(TASK), dict):
        return None
    task = read_options(given[TASK], PredictionTask, place=f"{TASK} in {file}")
    tables_dir, name = changes.get("tables_dir") or given.get("tables_dir"), given.get("name")
    if not isinstance(tables_dir, str) or not isinstance(name, str) or has_span(tables_dir):
        raise ValueError(
            f"`{TASK}` must go with a `name` and a `tables_dir` that is one folder, beside whose tables its seed table "
            f"lies; got {name!r} and {tables_dir!r} in {file!r}. Write both, without {{SPAN}} and {{DATE}}."
        )
    return ProjectPrediction(
        task=task,
        tables_dir=tables_dir,
        seed_table=seed_table_path(name, tables_dir),
        folder=os.path.dirname(os.path.abspath(file)),
        file=file,
        plan=given.get("plan") or {},
    )


def read_config(reference: str = "", *, is_remote: bool = False, **changes: Any) -> PipelineConfig:
    """Reads a project, as `read_project` does, and builds the config of its pipeline, as `Project.configure` does."""
    return read_project(reference, **changes).configure(is_remote=is_remote)


def read_given(options_file: str, assignments: Sequence[str]) -> dict[str, Any]:
    """Reads options from a file, and then from assignments, which win.

    Args:
        options_file: YAML file; empty for none.
        assignments: see `read_project`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it holds no mapping, an assignment has no "=" or no YAML behind it, or a key is unknown.
    """
    given = _read_mapping(options_file, option="--options") if options_file else {}
    _check_keys(given, place=f" in {options_file!r}")
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals or not all(key.split(".")):
            raise ValueError(
                f"`--set` must have the form NAME=VALUE; got {text!r}. Write, for example, graph_trainer.num_epochs=3."
            )
        parsed = parse_yaml(value, name=f"--set {key}")
        _check_keys(nested(key, parsed), place=f" in --set {text}")
        given = merged(given, nested(key, parsed))
    return given


def with_options(project: Project, given: Mapping[str, Any]) -> Project:
    """Changes a task's fields, the options of its steps and the pipeline's settings."""
    names = task_fields()
    steps = {name: value for name, value in given.items() if name in step_names()}
    task = changed(project.task, {name: value for name, value in given.items() if name in names}, place="the task")
    kinds = typing.get_type_hints(PipelineConfig)
    settings = {
        name: options_json.from_json(json.dumps(given[name]), kinds[name], name=name)
        for name in PIPELINE_SETTINGS
        if name in given
    }
    return dataclasses.replace(
        project,
        task=dataclasses.replace(task, step_options=merged(dict(task.step_options), steps)),
        settings={**project.settings, **settings},
    )


def make_importable(folder: str) -> None:
    """Puts a folder first among those of modules, in this process and in those that it starts."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    others = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != folder]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])


def find_project_file(reference: str) -> str:
    """Finds the project file that a reference means.

    Args:
        reference: see `read_project`.

    Returns:
        The file; empty if the reference means a task of Python or a bundled one.

    Raises:
        FileNotFoundError: if there is no such file or folder, or the folder has no project file.
        ValueError: if it means nothing at all.
    """
    is_file = reference.endswith((".yaml", ".yml"))
    if is_file or (reference and os.path.isfile(reference)):
        if not os.path.isfile(reference):
            raise FileNotFoundError(
                f"`PROJECT` must name a file; got {reference!r}, which is not there. {did_you_mean_path(reference)}"
            )
        return reference
    if reference and (":" in reference or (reference in task_names() and not os.path.isdir(reference))):
        return ""
    file = os.path.join(reference, PROJECT_FILE)
    if os.path.isfile(file):
        return file
    if os.path.isdir(reference or "."):
        raise FileNotFoundError(
            f"`PROJECT` must be a folder with {PROJECT_FILE}; got {os.path.abspath(reference)!r} without one. Name the "
            "project's folder, 'package.module:TASK' for a task of Python, or make a project with `tfx-gnn new FOLDER`."
        )
    raise ValueError(
        f"`PROJECT` must be a folder with {PROJECT_FILE}, 'package.module:ATTRIBUTE', or one of {task_names()}; got "
        f"{reference!r}. {did_you_mean(reference, task_names(), otherwise=did_you_mean_path(reference))}"
    )


def user_files(reference: str) -> list[str]:
    """Lists the files in which a user may have made a mistake in a project itself, not in the code that it names.

    Args:
        reference: see `read_project`.

    Returns:
        The project file, or the Python files beside the module of a task.

    Raises:
        FileNotFoundError: as `find_project_file` does.
        ValueError: as `find_project_file` does.
    """
    file = find_project_file(reference)
    return [file] if file else source_files([reference] if ":" in reference else [])


def _read_mapping(path: str, *, option: str) -> dict[str, Any]:
    given = read_yaml(path, option=option)
    if not isinstance(given, dict):
        raise ValueError(f"`{path}` must hold options by name; got {given!r}. Write, for example, num_epochs: 3.")
    if _COMPILED & given.keys():
        raise ValueError(
            f"`PROJECT` must be a project; got the compiled pipeline {path!r}. Run it with --runner spec, or start it "
            "on its service with `tfx-gnn submit`."
        )
    return given


def _task_of_file(given: dict[str, Any], file: str) -> PipelineTask:
    """Makes the task of a project file; the options of steps that the file has are applied with the others."""
    _check_keys({name: value for name, value in given.items() if name != TASK}, place=f" in {file!r}")
    if TASK in given:
        reference = given.pop(TASK)
        if not isinstance(reference, str):
            raise ValueError(
                f"`{TASK}` must be 'package.module:ATTRIBUTE', a bundled name, or a mapping with `for_each` and "
                f"`predict`; got {reference!r} in {file!r}. Name a PipelineTask, or leave the key out and give its "
                "fields."
            )
        return load_task(reference)
    fields = {name: given[name] for name in task_fields() if name in given}
    return read_options(fields, PipelineTask, place=file)


def _with_absolute_paths(given: dict[str, Any], folder: str) -> dict[str, Any]:
    """Resolves paths of a project file, which are relative to its folder."""
    paths = {
        name: os.path.join(folder, given[name])
        for name in _PATHS
        if isinstance(given.get(name), str) and given[name] and not is_uri(given[name])
    }
    return {**given, **paths}


def task_fields() -> set[str]:
    """Lists the keys of a project file that are fields of `PipelineTask`."""
    return {field.name for field in dataclasses.fields(PipelineTask)} - {"step_options"}


def _check_keys(given: Mapping[str, Any], *, place: str) -> None:
    allowed = {*task_fields(), *step_names(), *PIPELINE_SETTINGS}
    for name, value in given.items():
        if name not in allowed:
            advice = did_you_mean(name, allowed)
            among = f"the {len(allowed)}" if advice.startswith("Did") else f"{sorted(allowed)},"
            raise ValueError(
                f"`{name}` must be an option among {among} that `tfx-gnn options` lists; got it{place}. {advice}"
            )
        for inner in value if isinstance(value, dict) else ():
            of_task = OF_THE_TASK.get((name, inner))
            if of_task:
                raise ValueError(
                    f"`{name}.{inner}` must be left out, because several steps share it; got it{place}. Set "
                    f"`{of_task}` instead."
                )

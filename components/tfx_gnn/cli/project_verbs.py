"""The command `new`: copies the starter project that comes with this package, or proposes one for tables."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.machinery
import keyword
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import tfx_gnn
from tfx_gnn.cli import arguments
from tfx_gnn.cli.prediction_task_flags import with_prediction_task
from tfx_gnn.io.folded_help import FOLDED
from tfx_gnn.prediction_tasks.task_options import PredictionTask

if TYPE_CHECKING:
    from tfx_gnn.tables.keys.given_keys import GivenKeys
    from tfx_gnn_pipelines.proposals.graph_proposal import GraphProposal
    from tfx_gnn_pipelines.proposals.proposal import Proposal
    from tfx_gnn_pipelines.proposals.task_proposal import TaskProposal

TEMPLATE_NAME = "my_graph"
"""Name of the template's Python package, which a new project's name replaces."""


TEMPLATE_ENTRIES = (
    ".dockerignore",
    ".github",
    ".gitignore",
    ".project.schema.json",
    "Dockerfile",
    "README.md",
    "cloudbuild.yaml",
    "project.yaml",
    "pyproject.toml",
    TEMPLATE_NAME,
    "tests",
)
"""Entries of a new project; the template's folder may hold more, such as outputs of its own runs."""


_ENTRIES_FOR_TABLES = (("starter", ".gitignore"), ("starter", ".project.schema.json"), ("from_tables", "README.md"))
"""Entries of a project for tables, and the template of each; project.yaml is beside them."""


PREPARED_TABLES = "tables"
"""Folder of a project for tables that could not be read where they are."""


_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


_MAX_NAME_LENGTH = 63  # what labels of Kubernetes hold


_FOLDERS_OF_A_PROJECT = ("runs", "tests")


def create_project(directory: str, *, name: str = "") -> tuple[Path, str]:
    """Writes a complete small project that runs as is.

    It is written into a hidden folder next to `directory` and renamed when complete, so
    a killed command leaves nothing that looks like a project.
    """
    from tfx_gnn.io.atomic_folder import atomic_folder

    template = _templates_folder(Path(tfx_gnn.__file__).parent) / "starter"
    folder = Path(directory).resolve()
    if name:
        _check_name("name", name, "Choose another name.")
    else:
        name = folder.name.replace("-", "_")
        _check_name("directory", name, "Give the Python package a name of its own by --name.")
    with atomic_folder(directory, name="directory") as partial:
        for entry in TEMPLATE_ENTRIES:
            _copy(template / entry, Path(partial) / entry.replace(TEMPLATE_NAME, name), name)
    return folder, name


@dataclasses.dataclass(frozen=True, kw_only=True)
class StartedProject:
    """A project for tables without Python of its own, while it is written.

    Attributes:
        folder: where it will be.
        name: its name.
        partial: where it is written meanwhile; tables that are put there belong to it.
    """

    folder: Path
    name: str
    partial: Path

    def propose_for_label(self, tables_dir: str, *, label: str, given: GivenKeys) -> None:
        """Writes a project that predicts a column, and prints what was found and chosen."""
        from tfx_gnn.graph.schema.schema_io import write_schema
        from tfx_gnn.tables.table_access import TableAccess
        from tfx_gnn_pipelines.proposals.project_text import project_text
        from tfx_gnn_pipelines.proposals.proposal import propose_project

        proposal = propose_project(tables_dir, label=label, prepared_dir=self._prepared_dir, given=given)
        self._write(project_text, proposal)
        schema_path = TableAccess().schema_path(proposal.tables_dir)
        if proposal.is_inferred:
            write_schema(proposal.schema, schema_path)
        _say_remarks(proposal)
        if proposal.is_inferred and not self._owns(proposal.tables_dir):
            arguments.say_written(graph_schema=schema_path)

    def propose_for_task(self, tables_dir: str, *, task: PredictionTask, given: GivenKeys) -> None:
        """Writes a project of a prediction task, and prints what was found and chosen."""
        from tfx_gnn.cli.task_verb import show_seeds
        from tfx_gnn_pipelines.proposals.project_text import task_project_text
        from tfx_gnn_pipelines.proposals.task_proposal import propose_task_project

        proposal = propose_task_project(tables_dir, task, name=self.name, prepared_dir=self._prepared_dir, given=given)
        self._write(task_project_text, proposal)
        _say_remarks(proposal)
        show_seeds(proposal.seeds)

    @property
    def _prepared_dir(self) -> str:
        """Folder for tables that are written anew."""
        return str(self.partial / PREPARED_TABLES)

    def _owns(self, tables_dir: str) -> bool:
        return Path(tables_dir).is_relative_to(self.partial)

    def _write(self, text_of: Callable[..., str], proposal: GraphProposal) -> None:
        """Writes all entries but for the tables; `text_of` makes the project file."""
        templates = _templates_folder(Path(tfx_gnn.__file__).parent)
        for template, entry in _ENTRIES_FOR_TABLES:
            _copy(templates / template / entry, self.partial / entry, self.name)
        tables_dir = proposal.tables_dir
        if self._owns(tables_dir):
            tables_dir = str(Path(tables_dir).relative_to(self.partial))
        else:
            tables_dir = _seen_from(self.folder, tables_dir)
        with (self.partial / ".gitignore").open("a", encoding="utf-8") as ignored:
            ignored.writelines(f"/{entry.name}/\n" for entry in sorted(self.partial.iterdir()) if entry.is_dir())
        text = text_of(proposal, name=self.name, tables_dir=tables_dir)
        (self.partial / "project.yaml").write_text(text, encoding="utf-8")


@contextlib.contextmanager
def started_project(directory: str, name: str) -> Iterator[StartedProject]:
    """Checks the name, and puts the project into its folder at the end of the block, as `create_project` does."""
    from tfx_gnn.io.atomic_folder import atomic_folder

    folder = Path(directory).resolve()
    argument, name = ("name", name) if name else ("directory", folder.name.replace("-", "_"))
    _check_form(argument, name, "Give the project a name of its own by --name.")
    with atomic_folder(directory, name="directory") as partial:
        yield StartedProject(folder=folder, name=name, partial=Path(partial))


def _seen_from(folder: Path, tables_dir: str) -> str:
    """Returns a path as a project file may name it: relative if it was given so."""
    if "://" in tables_dir or os.path.isabs(tables_dir):
        return tables_dir
    return os.path.relpath(os.path.realpath(tables_dir), folder)


def _templates_folder(package_folder: Path) -> Path:
    # The first is for a wheel; the second for a checkout, where the library is in components/tfx_gnn.
    candidates = [package_folder / "templates", package_folder.parents[1] / "templates"]
    for folder in candidates:
        if (folder / "starter" / TEMPLATE_NAME).is_dir():
            return folder
    raise FileNotFoundError(
        f"The installed tfx-gnn must hold its starter project; got none in {[str(path) for path in candidates]}. "
        "Install tfx-gnn again."
    )


def _check_form(argument: str, name: str, advice: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH or keyword.iskeyword(name):
        raise ValueError(
            f"`{argument}` must make a Python package's name of lower-case letters, digits and single underscores, at "
            f"most {_MAX_NAME_LENGTH} characters, starting with a letter, and no keyword; got {name!r}. {advice}"
        )


def _check_name(argument: str, name: str, advice: str) -> None:
    _check_form(argument, name, advice)
    if name in _FOLDERS_OF_A_PROJECT or name in sys.stdlib_module_names or _is_installed(name):
        raise ValueError(
            f"`{argument}` must not make the name of an installed package, or of a folder that every project has "
            f"({', '.join(_FOLDERS_OF_A_PROJECT)}), because one would hide the other; got {name!r}. {advice}"
        )


def _is_installed(name: str) -> bool:
    # Skip the current folder: it may hold the new project, or an old one of the same name.
    here = os.getcwd()
    search_path = [place for place in sys.path if os.path.abspath(place) != here]
    return importlib.machinery.PathFinder.find_spec(name, search_path) is not None


def _copy(source: Path, target: Path, name: str) -> None:
    if source.is_dir():
        target.mkdir()
        for entry in sorted(source.iterdir()):
            if entry.name != "__pycache__":
                _copy(entry, target / entry.name, name)
        return
    text = source.read_bytes().decode("utf-8")
    for old, new in ((TEMPLATE_NAME, name), (TEMPLATE_NAME.replace("_", "-"), name.replace("_", "-"))):
        text = text.replace(old, new)
    target.write_bytes(text.encode("utf-8"))


def _about_tables(flag: str, form: str, what: str) -> Any:
    """Makes an option of what is found in tables unless it is given; it may be given several times."""
    return typer.Option(flag, help=f"With --tables: {what}", metavar=form, show_default="found")


@with_prediction_task
def new(
    directory: Annotated[
        str, typer.Argument(help="Folder to create; must be absent or empty.", show_default=False, metavar="FOLDER")
    ],
    *,
    tables_dir: Annotated[
        str,
        typer.Option(
            "--tables",
            help="Folder of tables of yours, as CSV or Parquet files, for a project that needs no Python. It reads "
            "them there, by a `graph_schema.pbtxt` that is written if it is missing; those of a database, or with "
            "times, it copies.",
            metavar="FOLDER",
            show_default="example tables",
        ),
    ] = "",
    label: Annotated[
        str,
        typer.Option(help="With --tables: the column of nodes to predict.", metavar="SET.COLUMN", show_default=False),
    ] = "",
    primary_keys: Annotated[
        list[str] | None,
        _about_tables(
            "--primary-key", "TABLE=COLUMN", "the column, or columns with commas, that tell the rows of a table apart."
        ),
    ] = None,
    foreign_keys: Annotated[
        list[str] | None,
        _about_tables(
            "--foreign-key",
            "TABLE.COLUMN=TABLE",
            "the table that a column names; nothing behind the = if it names none.",
        ),
    ] = None,
    time_columns: Annotated[
        list[str] | None,
        _about_tables(
            "--time-column",
            "TABLE=COLUMN",
            "the column with the times of a table's rows; nothing behind the = if there is none.",
        ),
    ] = None,
    missing_values: Annotated[
        list[str] | None,
        _about_tables(
            "--missing-value", "TABLE.COLUMN=VALUE", "what stands for no value in a column, such as -1 or 1900-01-01."
        ),
        FOLDED,
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of the project and of its Python package.", show_default="that of the folder")
    ] = "",
    asked: PredictionTask | None = None,
) -> None:
    """Start a project of your own, ready to run: from tables of yours, or from an example with Python to adapt."""
    if asked is not None and (label or not tables_dir):
        raise typer.BadParameter("must be given with --tables, and without --label", param_hint="--predict")
    if tables_dir:
        arguments.say_begun(f"Reading the tables of {tables_dir}")
        given = _read_given_keys(primary_keys or [], foreign_keys or [], time_columns or [], missing_values or [])
        if asked is not None:
            with started_project(directory, name) as started:
                started.propose_for_task(tables_dir, task=asked, given=given)
        else:
            with started_project(directory, name) as started:
                started.propose_for_label(tables_dir, label=label, given=given)
        _say_created(started)
        return
    if primary_keys or foreign_keys or time_columns or missing_values:
        hint = "--primary-key, --foreign-key, --time-column, --missing-value"
        raise typer.BadParameter("must be given with --tables", param_hint=hint)
    if label:
        raise typer.BadParameter("must be given with --tables", param_hint="--label")
    folder, name = create_project(directory, name=name)
    arguments.say_written(project=str(folder))
    _say_next("Train its model on the example data; README.md there says how to go on:", folder, "run")


def _read_given_keys(*given: list[str]) -> GivenKeys:
    from tfx_gnn.tables.keys.given_keys import read_given_keys

    return read_given_keys(*given)


def _say_remarks(proposal: Proposal | TaskProposal) -> None:
    from tfx_gnn.cli.table_verbs import show_schema

    if proposal.is_inferred:
        show_schema(proposal.schema)
    for line in proposal.remarks():
        arguments.console.print(line, markup=False, soft_wrap=True)
    if proposal.questions:
        arguments.console.print("\nOpen questions:", style="bold")
    for line in proposal.questions:
        arguments.console.print(f"  {line}", style="yellow", markup=False, soft_wrap=True)


def _say_created(started: StartedProject) -> None:
    if (started.folder / PREPARED_TABLES).is_dir():
        arguments.say_written(tables=str(started.folder / PREPARED_TABLES))
    arguments.say_written(project=str(started.folder))
    _say_next(
        "Read project.yaml there, which says what was chosen; then check it and make the model:",
        started.folder,
        "check",
        "run",
    )


def _say_next(what: str, folder: Path, *verbs: str) -> None:
    """Prints what to type next."""
    arguments.console.print(f"\n{what}", style="bold")
    for command in (["cd", os.path.relpath(folder)], *([*_command(), verb] for verb in verbs)):
        arguments.console.print("  " + shlex.join(command), markup=False, soft_wrap=True)


def _command() -> list[str]:
    """Returns what starts this program in any folder."""
    folder = os.path.dirname(sys.executable)
    found = shutil.which("tfx-gnn")
    if found is not None and os.path.dirname(os.path.abspath(found)) == folder:
        return ["tfx-gnn"]
    script = shutil.which("tfx-gnn", path=folder)
    return [script] if script else [sys.executable, "-m", "tfx_gnn.cli"]

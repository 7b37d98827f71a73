"""The whole chain from Python: from data frames, or tables in a folder, to a checked and pushed model.

It is what `tfx-gnn new --tables` and `tfx-gnn run` do, in one call that may be repeated, as cells of notebooks are.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

    from tfx_gnn.cli.project_verbs import StartedProject
    from tfx_gnn.prediction_tasks import PredictionTask
    from tfx_gnn.tables.keys.given_keys import GivenKeys

_DATA = "data"
"""Folder of a project with the tables that were given as data frames."""

_RECORD = ".tables_run.json"
"""File of a project that tells from what `run` proposed it."""

_PROJECT_FILE = "project.yaml"
_TABLE_NAME = re.compile(r"\w[\w -]*")
_EXIT_NOT_PUSHED = 1
_NUM_LAST_LINES = 12
_FORCING = ("CLICOLOR_FORCE", "FORCE_COLOR")
"""Variables that kernels of notebooks set, by which a program would move a cursor that its output does not have."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TablesRun:
    """What a run reached. A notebook that shows it shows its page.

    Attributes:
        folder: the project, for `tfx-gnn` commands and to be edited.
        root: folder of the run's artifacts.
        page: the page of the run, an HTML file of its own; empty if it has none.
        pushed_model: folder of the version that was pushed; empty if none was.
        metrics: the evaluation: split, metrics with intervals, and baselines, by the names of the evaluator.
        warnings: what needs attention, the most severe first, with remedies.
        seconds: how long it took.
    """

    folder: str
    root: str
    page: str
    pushed_model: str
    metrics: Mapping[str, Any] = dataclasses.field(repr=False)
    warnings: tuple[str, ...] = dataclasses.field(repr=False)
    seconds: float

    @property
    def is_pushed(self) -> bool:
        """Whether the model was good enough to be pushed."""
        return bool(self.pushed_model)

    def _repr_html_(self) -> str:
        """The page, in a frame of its own, so that its style does not change the notebook's."""
        if not self.page:
            return f"<pre>{html.escape(repr(self))}</pre>"
        page = html.escape(Path(self.page).read_text(encoding="utf-8"))
        return (
            f'<iframe srcdoc="{page}" style="width: 100%; height: 640px; border: 0" title="Page of the run"></iframe>'
        )


def run(
    tables: Mapping[str, Any] | str | os.PathLike[str] | None = None,
    *,
    label: str = "",
    task: Mapping[str, Any] | PredictionTask | None = None,
    folder: str | os.PathLike[str] = "tfx_gnn_project",
    primary_keys: Mapping[str, str | Sequence[str]] | None = None,
    foreign_keys: Mapping[str, str] | None = None,
    time_columns: Mapping[str, str] | None = None,
    missing_values: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> TablesRun:
    """Proposes a project for tables and runs it: sampled, checked, trained, evaluated, and pushed if it is good enough.

        run = tfx_gnn.run(tables={"flights": flights, "planes": planes}, label="flights.late")
        run.metrics, run.warnings, run.pushed_model

    It prints what was found and chosen: keys, times, splits, columns that would give the label away. All of it is in
    `project.yaml` of the folder. Called again with the same tables and arguments, it runs that file as it is, also if
    you edited it, and takes finished steps from their cache. If the tables or arguments are others, it proposes the
    project anew, unless you edited the file. Runs and their pages stay.

    The steps run in a process of their own, as `tfx-gnn run` does in a terminal.

    Args:
        tables: by name a pandas.DataFrame, pyarrow.Table or other table of Arrow's interface; or a local folder of CSV
            or Parquet files. None runs the project of `folder`, and takes no argument but `options`.
        label: the column to predict, as in "flights.late".
        task: instead of a label, a prediction task: the fields of `task` in project.yaml, as in
            {"for_each": "users", "predict": "count(orders, 0 to 30 days) > 0", "anchors": {...}}.
        folder: the project's folder, which must be new or of an earlier call.
        primary_keys: by table the column, or columns, that tell its rows apart; of other tables they are found, as the
            following are.
        foreign_keys: by "TABLE.COLUMN" the table that it names; "" if it names none.
        time_columns: by table the column with the times of its rows; "" if they have none.
        missing_values: by "TABLE.COLUMN" a value, or a list of them, that stands for none, such as -1.
        options: by name, as in "graph_trainer.num_epochs", what `--set` of `tfx-gnn run` takes.

    Returns:
        What the run reached, also if the model was not good enough to be pushed.

    Raises:
        ValueError: if the tables, the label or the task break a rule; or if the check that runs beside the first steps
            finds that they would fail.
        FileExistsError: if the folder holds something else, or a project that you edited for other tables.
        RuntimeError: if an option breaks a rule, or a step fails; the message has the last lines that it printed.
    """
    place = os.path.abspath(os.fspath(folder))
    given = {
        "label": label,
        "task": _plain_task(task),
        "primary_keys": primary_keys or {},
        "foreign_keys": foreign_keys or {},
        "time_columns": time_columns or {},
        "missing_values": missing_values or {},
    }
    if tables is None:
        _check_is_project(place, [name for name, value in given.items() if value])
    else:
        if bool(label) == (task is not None):
            raise ValueError(
                f"One of `label` and `task` must say what is predicted; got {'both' if label else 'neither'}. Give "
                'label="TABLE.COLUMN", or the task.'
            )
        _propose(tables, place, given)
    return _run_project(place, options or {})


def _plain_task(task: Mapping[str, Any] | PredictionTask | None) -> dict[str, Any]:
    if task is None or isinstance(task, Mapping):
        return dict(task or {})
    return dataclasses.asdict(task)


def _check_is_project(place: str, given: Sequence[str]) -> None:
    if given:
        raise ValueError(f"`tables` must be given with {', '.join(map(repr, given))}; got none. Give the tables, too.")
    if not os.path.isfile(os.path.join(place, _PROJECT_FILE)):
        raise FileNotFoundError(
            f"`folder` must hold a {_PROJECT_FILE} where no tables are given; got {place!r} without one. Give `tables`."
        )


class _Record(NamedTuple):
    """From what a project was proposed, and as what, by hashes of the contents."""

    tables: str
    arguments: str
    project: str


def _propose(tables: Mapping[str, Any] | str | os.PathLike[str], place: str, given: Mapping[str, Any]) -> None:
    """Writes the project, unless it is there; what is new appears whole or not at all."""
    if "tensorflow" not in sys.modules:
        from tfx_gnn.io.quiet_libraries import quiet_start

        quiet_start()
    from tfx_gnn.cli.project_verbs import started_project
    from tfx_gnn.io.fingerprint import fingerprint_folders
    from tfx_gnn.tables.table_access import TableAccess

    keys, name = _given_keys(given), _project_name(place)
    with tempfile.TemporaryDirectory() as scratch:
        if isinstance(tables, Mapping):
            source = _written(tables, scratch)
        else:
            source = os.path.abspath(os.fspath(tables))
            if not os.path.isdir(source):
                raise FileNotFoundError(
                    f"`tables` must be data frames by name, or a local folder of CSV or Parquet files; got {tables!r}. "
                    "Copy the tables of a database by `tfx-gnn snapshot SOURCE --to FOLDER`."
                )
        # The proposal writes a schema beside tables that it can read where they are.
        asked = _Record(
            tables=fingerprint_folders([source], without=[TableAccess().schema_file]),
            arguments=_hash(
                json.dumps({**given, "tables": "" if source == scratch else source}, sort_keys=True, default=str)
            ),
            project="",
        )
        if _is_proposed(place, asked):
            return

        with _replaced(place) as target, started_project(target, name) as started:
            if source == scratch:
                source = os.fspath(shutil.copytree(scratch, started.partial / _DATA))
            _write_proposal(started, source, given, keys)
            text = (started.partial / _PROJECT_FILE).read_text(encoding="utf-8")
            _write_record(os.fspath(started.partial), asked._replace(project=_hash(text)))
    _say(f"Project: {place}")


def _write_proposal(started: StartedProject, source: str, given: Mapping[str, Any], keys: GivenKeys) -> None:
    if not given["task"]:
        started.propose_for_label(source, label=given["label"], given=keys)
        return
    from tfx_gnn.prediction_tasks import PredictionTask
    from tfx_gnn_pipelines.option_changes import read_options

    started.propose_for_task(source, task=read_options(given["task"], PredictionTask, place="`task`"), given=keys)


def _is_proposed(place: str, asked: _Record) -> bool:
    """Whether the folder holds the project already; if it holds another, whether that may be replaced is checked."""
    if not os.path.isdir(place) or not os.listdir(place):
        return False
    path, file = os.path.join(place, _RECORD), os.path.join(place, _PROJECT_FILE)
    if not os.path.isfile(path) or not os.path.isfile(file):
        raise FileExistsError(
            f"`folder` must be absent, empty, or a project of an earlier tfx_gnn.run; got {place!r}, which holds other "
            "files. Choose another; or, to run a project that is there, leave out `tables`."
        )
    made = _Record(**json.loads(Path(path).read_text(encoding="utf-8")))
    is_edited = made.project not in ("", _hash(Path(file).read_text(encoding="utf-8")))
    others = [name for name in ("tables", "arguments") if getattr(made, name) != getattr(asked, name)]
    if not others:
        _say(f"Project: {place}, as {'you edited it' if is_edited else 'proposed before'}")
        return True
    if is_edited:
        raise FileExistsError(
            "`folder` must hold a project for these tables and arguments, or one as it was proposed; got "
            f"{place!r} with other {' and '.join(others)} and a {_PROJECT_FILE} that you edited. Choose another "
            "folder, or move this one away."
        )
    _say(f"Proposed anew, because the {' and '.join(others)} have changed since the last call")
    return False


@contextlib.contextmanager
def _replaced(place: str) -> Iterator[str]:
    """Gives a folder to write the new project to, whose entries then replace those of an old one, but for its runs."""
    if not os.path.isdir(place) or not os.listdir(place):
        yield place
        return
    from tfx_gnn.cli.project_verbs import PREPARED_TABLES

    with tempfile.TemporaryDirectory(prefix=f".{os.path.basename(place)}.", dir=os.path.dirname(place)) as beside:
        new = os.path.join(beside, "project")
        yield new
        # If the process dies from here on, the next call finds that this was nobody's edit, and proposes once more.
        _write_record(place, _Record(tables="", arguments="", project=""))
        for entry in sorted({*os.listdir(new), _DATA, PREPARED_TABLES} - {_RECORD}):
            old = os.path.join(place, entry)
            if os.path.isdir(old):
                shutil.rmtree(old)
            if os.path.exists(os.path.join(new, entry)):
                os.replace(os.path.join(new, entry), old)
        os.replace(os.path.join(new, _RECORD), os.path.join(place, _RECORD))


def _write_record(folder: str, record: _Record) -> None:
    from tfx_gnn.io.whole_files import write_whole

    write_whole(os.path.join(folder, _RECORD), json.dumps(record._asdict()))


def _written(tables: Mapping[str, Any], folder: str) -> str:
    """Writes tables as Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not tables:
        raise ValueError("`tables` must have a table; got none. Give a data frame by its name.")
    for name, table in tables.items():
        if not isinstance(name, str) or not _TABLE_NAME.fullmatch(name):
            raise ValueError(
                f"`tables` must have names of letters, digits, underscores, blanks and hyphens; got {name!r}. "
                "Rename it."
            )
        try:
            columns = _as_arrow(table)
            pq.write_table(columns, os.path.join(folder, f"{name}.parquet"))
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(
                f"`tables` must be data frames whose columns have values of one type; got for {name!r} of type "
                f"{type(table).__name__}: {error}. Correct it; astype(str) makes texts of a "
                "column."
            ) from error
    return folder


def _as_arrow(table: Any) -> pa.Table:
    import pyarrow as pa

    if type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns"):
        # A named index is a column, one that only counts from 0 is none.
        found = pa.Table.from_pandas(table.rename(columns=str))
    elif isinstance(table, pa.Table):
        found = table
    elif hasattr(table, "__arrow_c_stream__"):
        found = pa.RecordBatchReader.from_stream(table).read_all()
    else:
        raise TypeError("it is none, and has no interface of Arrow's")
    plain = [
        column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        for column in found.columns
    ]
    return pa.Table.from_arrays(plain, names=[str(name) for name in found.column_names])


def _given_keys(given: Mapping[str, Any]) -> GivenKeys:
    from tfx_gnn.tables.keys.given_keys import read_given_keys

    primary = ((name, [one] if isinstance(one, str) else one) for name, one in given["primary_keys"].items())
    missing = (
        (place, value)
        for place, values in given["missing_values"].items()
        for value in (values if isinstance(values, (list, tuple)) else [values])
    )
    return read_given_keys(
        (f"{name}={','.join(columns)}" for name, columns in primary),
        (f"{place}={target}" for place, target in given["foreign_keys"].items()),
        (f"{name}={column}" for name, column in given["time_columns"].items()),
        (f"{place}={value}" for place, value in missing),
    )


def _project_name(place: str) -> str:
    words = re.findall(r"[a-z0-9]+", os.path.basename(place).casefold())
    name = "_".join(words)
    return name if name[:1].isalpha() else f"project_{name}".rstrip("_")


def _run_project(place: str, options: Mapping[str, Any]) -> TablesRun:
    assignments = [f"--set={name}={json.dumps(value)}" for name, value in options.items()]
    command = [sys.executable, "-m", "tfx_gnn.cli", "run", place, "--json", *assignments]
    last_lines: list[str] = []

    def show(line: str) -> None:
        _say(line)
        last_lines[:] = [*last_lines, line][-_NUM_LAST_LINES:]

    code, printed = _run_shown(command, show)
    if code == -signal.SIGINT or code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    found = json.loads(printed) if printed.strip() else {}
    if "check" in found:
        messages = [finding["message"] for finding in found["check"]["findings"] if finding["severity"] == "error"]
        raise ValueError("\n".join(messages))
    if code not in (0, _EXIT_NOT_PUSHED) or not found:
        raise RuntimeError("\n".join([f"The run failed, with exit code {code}. It ended with:", *last_lines]))
    return TablesRun(
        folder=place,
        root=found["root"],
        page=found["page"],
        pushed_model=found["pushed_model"],
        metrics=found["metrics"],
        warnings=tuple(found["warnings"]),
        seconds=found["seconds"],
    )


def _run_shown(command: Sequence[str], show: Callable[[str], None]) -> tuple[int, str]:
    """Runs a command, shows what it says as it comes, and returns its exit code and what it printed."""
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as printed,
        # In a session of its own, so that Ctrl-C reaches it once, from here.
        subprocess.Popen(
            command,
            stdout=printed,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name not in _FORCING},
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        try:
            for line in process.stderr or ():
                show(line.rstrip("\n"))
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
        printed.seek(0)
        return code, printed.read()


def _say(line: str) -> None:
    from tfx_gnn.io.plain_console import PlainConsole

    PlainConsole().print(line, soft_wrap=True)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

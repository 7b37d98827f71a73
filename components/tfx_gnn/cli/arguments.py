"""Options that several commands share, the parsing of their texts, and the report of outputs and verdicts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfx_gnn.io.folded_help import FOLDED
from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.io.suggestions import did_you_mean

if TYPE_CHECKING:
    from tfx_gnn.models.tasks import Task
    from tfx_gnn.tables.row_rules import RowRules

REFUSED_EXIT_CODE = 1
"""Exit code of a command that ran and whose verdict is no; an error or a wrong command line exits with 2."""

console = PlainConsole()
"""Where commands print their results."""

TABLES_PANEL = "Files of the tables"
"""Panel of the help for flags about reading tables."""


def folder(help_text: str) -> Any:
    """Declares an option that names a folder."""
    return typer.Option(help=help_text, show_default=False, metavar="FOLDER")


Project = Annotated[
    str,
    typer.Argument(
        help="Folder with project.yaml, or such a file; package.module:ATTRIBUTE for a task in Python; the name of a "
        "bundled task.",
        metavar="PROJECT",
        show_default="the current folder",
    ),
]
ProjectTables = Annotated[str, typer.Option(help="Folder or URI of the tables.", show_default="the project's own")]
ProjectOptions = Annotated[
    str, typer.Option(help="YAML file that changes the project, as for `run`.", metavar="FILE", show_default=False)
]
ProjectSettings = Annotated[
    list[str] | None,
    typer.Option("--set", help="One option, as for `run`; repeatable.", metavar="NAME=VALUE", show_default=False),
]
Tables = Annotated[
    str,
    folder("Folder with `graph_schema.pbtxt` and the tables that it names, or a pattern such as data/{SPAN}."),
]
Span = Annotated[
    str,
    typer.Option(help="Number or date of the tables' span, of a pattern.", show_default="the newest"),
]
Examples = Annotated[str, folder("Raw graph tf.Examples: the output of `sample`.")]
TransformedExamples = Annotated[str, folder("Transformed examples: an output of `transform`.")]
GraphSchema = Annotated[
    str, folder("Graph schema before the transform: an output of `schema`; or its file, `graph_schema.pbtxt`.")
]
TransformedGraphSchema = Annotated[
    str,
    folder("Graph schema after the transform: an output of `transform`; or its file, `graph_schema.pbtxt`."),
]
TransformGraph = Annotated[str, folder("The transform: an output of `transform`.")]
SizeConstraints = Annotated[str, folder("Padding budgets (size constraints): the output of `sizes learn`.")]
OptionalSizeConstraints = Annotated[
    str,
    typer.Option(
        help="Padding budgets (size constraints): the output of `sizes learn`; needed unless batching is 'ego'.",
        show_default=False,
        metavar="FOLDER",
    ),
]
Model = Annotated[str, folder("Trained model: an output of `train`.")]
Splits = Annotated[
    list[str] | None,
    typer.Option("--split", help="Split to read; repeat for several. By default, all.", show_default=False),
]
BeamArgs = Annotated[
    list[str] | None,
    typer.Option(
        "--beam-arg",
        help="Argument for Apache Beam, such as `--beam-arg=--runner=DataflowRunner`; repeat for several.",
        show_default=False,
    ),
    FOLDED,
]

AskedBlessing = Annotated[
    str, folder("Blessing of the model, which is then not asked unless blessed; if not given, none is required.")
]
InfraBlessing = Annotated[str, folder("Blessing from `skew`; if not given, none is required.")]

ModelFn = Annotated[
    str, typer.Option(help="Your function that builds the model, as 'package.module:function'.", show_default=False)
]
TaskKind = Annotated[
    str,
    typer.Option(
        help="What to predict: 'node_classification' (default), 'graph_classification', 'node_regression', "
        "'graph_regression' or 'link_prediction'. Others, such as 'graph_matching', need --task-json.",
        show_default=False,
    ),
]
LabelFeature = Annotated[
    str,
    typer.Option(
        help="Label feature of node set `_readout`, or of the context for graph-level tasks.", show_default=False
    ),
]
ClassVocabulary = Annotated[
    str,
    typer.Option(help="`vocab_filename` of the labels' vocabulary.", show_default=False),
]


def read_task(kind: str, text: str, **given: str) -> Task:
    """Builds a task from `--task` and its fields, or from `--task-json`; "" marks an option that was not given."""
    from tfx_gnn.io import options_json
    from tfx_gnn.models.tasks import TASK_KINDS, Task

    # The JSON decides which class is built; mypy would want a concrete class here.
    any_task: Any = Task
    fields = {name: value for name, value in given.items() if value}
    task: Task
    if text:
        if fields:
            raise ValueError(
                f"`--task-json` must be given alone; got {sorted(fields)} as well. Put all fields of the task into it."
            )
        task = options_json.from_json(text, any_task, name="--task-json")
        return task
    kinds = set(TASK_KINDS) - {"multi_task"}
    if kind not in kinds:
        advice = did_you_mean(kind, kinds, otherwise="For several tasks at once, use --task-json.")
        raise ValueError(f"`--task` must be one of {sorted(kinds)}; got {kind!r}. {advice}")
    task = options_json.from_json(json.dumps({"kind": kind, **fields}), any_task, name="--task")
    return task


def read_object(option: str, text: str) -> dict[str, Any]:
    """Reads an option whose text is a JSON object."""
    from tfx_gnn.io.text_files import parse_json

    try:
        values = parse_json(text)
    except ValueError as error:
        raise ValueError(f"`{option}` must be JSON; got {text!r}: {error}. Fix it.") from error
    if not isinstance(values, dict):
        raise ValueError(f"`{option}` must be a JSON object; got {text!r}. Give each value a name.")
    return values


def check_row_rules(rules: RowRules) -> None:
    """Refuses a share of rows to drop where no rule drops rows; `RowRules` itself checks the choices."""
    if rules.max_dropped_share and "drop" not in (rules.invalid_rows, rules.dangling_edges):
        raise ValueError(
            "`--max-dropped-share` must go with `--dangling-edges drop` or `--invalid-rows drop`, which say what may "
            f"be dropped; got {rules.max_dropped_share} alone. Add one of them."
        )


def say_begun(what: str, *, as_json: bool = False) -> None:
    """Prints what begins before anything heavy is imported: nobody should wait before a blank screen."""
    PlainConsole(stderr=as_json).print(f"{what} ...", style="dim", soft_wrap=True)


def say_written(**folders: str) -> None:
    """Prints where the outputs of a command are."""
    for name, path in folders.items():
        console.print(f"{name:<25} {path}", markup=False, soft_wrap=True)


def end_with_verdict(*, passed: bool, verdict: str, reasons: Sequence[str] = ()) -> None:
    """Prints a verdict as the last line of a command, and exits with `REFUSED_EXIT_CODE` if it is no."""
    line = verdict if passed or not reasons else f"{verdict}: {'; '.join(reasons)}"
    console.print(line, style="green" if passed else "red", markup=False, soft_wrap=True)
    if not passed:
        raise typer.Exit(REFUSED_EXIT_CODE)


def end_with_blessing(*, blessed: bool, objections: Sequence[str]) -> None:
    """Prints the verdict of a command that blesses, as `end_with_verdict` does."""
    end_with_verdict(passed=blessed, verdict="blessed" if blessed else "NOT blessed", reasons=objections)

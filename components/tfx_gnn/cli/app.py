"""The command line itself: its commands and the options they all share."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

import tfx_gnn
from tfx_gnn.cli import (
    check_tpu_verb,
    check_verb,
    example_verbs,
    model_verbs,
    project_verbs,
    schedule_verbs,
    service_verbs,
    table_verbs,
    training_data_verbs,
    training_verbs,
)
from tfx_gnn.cli.errors import OneLineErrors
from tfx_gnn.io.plain_console import escape_what_cannot_be_encoded
from tfx_gnn.io.quiet_libraries import quiet_start

_ORDER = (
    "new", "check", "sample", "schema", "validate", "transform", "sizes", "batches", "check-tpu", "tune", "train",
    "report", "evaluate", "skew", "push", "predict", "submit", "status", "wait", "logs", "cancel", "schedule",
)  # fmt: skip


class _VerbsInOrderOfUse(OneLineErrors):
    """Lists commands and groups in the order of a pipeline's stages, and those that belong to no stage last."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=[*_ORDER, *super().list_commands(ctx)].index)


app = typer.Typer(
    name="tfx-gnn",
    cls=_VerbsInOrderOfUse,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Graph neural networks from tables to a served model, one command per stage.\n\n"
    "The order is sample, schema, validate, transform, sizes, train, evaluate, skew, push, predict; each command reads "
    "folders that earlier ones wrote. An output folder must be absent or empty, and appears only once it is "
    "complete.\n\n"
    "Pipelines that were compiled for Kubeflow Pipelines or Vertex AI are started by submit and schedule.\n\n"
    "Exit codes: 0 for success; 1 when a command with a verdict (check, tables check, validate, check-tpu, evaluate, "
    "skew, push, wait) says no, with the reason; 2 after an error; 141 when the reader of the output, such as head, "
    "closed it.",
)
for _verb in (
    project_verbs.new,
    check_verb.check,
    example_verbs.sample,
    example_verbs.schema,
    example_verbs.validate,
    training_data_verbs.transform,
    training_data_verbs.batches,
    check_tpu_verb.check_tpu,
    training_verbs.tune,
    training_verbs.train,
    training_verbs.report,
    model_verbs.evaluate,
    model_verbs.skew,
    model_verbs.push,
    model_verbs.predict,
    service_verbs.submit,
    service_verbs.status,
    service_verbs.wait,
    service_verbs.logs,
    service_verbs.cancel,
):
    app.command()(_verb)
app.add_typer(training_data_verbs.sizes, name="sizes")
app.add_typer(schedule_verbs.schedule, name="schedule")
app.add_typer(table_verbs.tables, name="tables")
app.add_typer(table_verbs.dataset, name="dataset")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so.
    if wanted:
        typer.echo(f"tfx-gnn {tfx_gnn.__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    context: typer.Context,
    *,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, not just its message.")
    ] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    context.obj = {"debug": debug}
    if not debug:
        quiet_start()
    # Options name functions as "package.module:function"; as with `python -m`, modules in the current folder count.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def main() -> None:
    """Runs the command line with this process's arguments; does not return."""
    escape_what_cannot_be_encoded()
    app()

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
    embed_verb,
    example_verbs,
    explain_verb,
    index_verb,
    layerwise_verb,
    model_verbs,
    options_verb,
    plan_verb,
    project_verbs,
    schedule_verbs,
    serve_verb,
    service_verbs,
    show_verb,
    snapshot_verb,
    table_verbs,
    task_verb,
    training_data_verbs,
    training_verbs,
)
from tfx_gnn.cli.errors import OneLineErrors
from tfx_gnn.io.plain_console import escape_what_cannot_be_encoded
from tfx_gnn.io.quiet_libraries import quiet_start
from tfx_gnn_pipelines import command

_VERBS = {
    "Projects": (
        project_verbs.new,
        task_verb.task,
        check_verb.check,
        plan_verb.plan,
        command.run,
        show_verb.show,
        show_verb.compare,
        options_verb.options,
    ),
    "Steps": (
        index_verb.index,
        example_verbs.sample,
        example_verbs.schema,
        example_verbs.validate,
        training_data_verbs.transform,
        training_data_verbs.sizes,
        training_data_verbs.batches,
        check_tpu_verb.check_tpu,
        training_verbs.tune,
        training_verbs.train,
        training_verbs.report,
        model_verbs.evaluate,
        model_verbs.skew,
        model_verbs.push,
        model_verbs.infer,
        layerwise_verb.infer_layerwise,
        model_verbs.predict,
        serve_verb.serve,
        explain_verb.explain,
        embed_verb.embed,
    ),
    "Kubeflow Pipelines and Vertex AI": (
        service_verbs.submit,
        service_verbs.status,
        service_verbs.wait,
        service_verbs.logs,
        service_verbs.cancel,
        schedule_verbs.schedule,
    ),
    "Data": (snapshot_verb.snapshot, table_verbs.tables, table_verbs.dataset),
}
"""Commands, and groups of commands, by the panel of `--help` that lists them."""


class _VerbsInOrderOfUse(OneLineErrors):
    """Lists commands and groups in the order of `_VERBS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = [_name(verb) for verbs in _VERBS.values() for verb in verbs]
        return sorted(super().list_commands(ctx), key=[*names, *super().list_commands(ctx)].index)


def _name(verb: Any) -> str:
    return str(verb.info.name) if isinstance(verb, typer.Typer) else verb.__name__.replace("_", "-")


app = typer.Typer(
    name="tfx-gnn",
    cls=_VerbsInOrderOfUse,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Graph neural networks from tables to a served model.\n\n"
    "Run a whole project with `run`, or one step at a time: sample, schema, validate, transform, sizes, train, "
    "evaluate, skew, push, infer, predict, serve. Each of these commands reads folders that earlier ones wrote. An "
    "output folder must be absent or empty, and appears only once it is complete.\n\n"
    "Exit codes: 0 for success; 1 when a command with a verdict (check, plan, run, tables check, validate, check-tpu, "
    "evaluate, skew, push, infer, infer-layerwise, wait) says no, with the reason; 2 after an error; 130 after Ctrl-C; "
    "141 when the reader of the output, such as head, closed it.",
)
for _panel, _verbs in _VERBS.items():
    for _verb in _verbs:
        if isinstance(_verb, typer.Typer):
            app.add_typer(_verb, rich_help_panel=_panel)
        else:
            app.command(rich_help_panel=_panel)(_verb)


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
    # `run` and `check` have this flag as well.
    if "--debug" not in sys.argv:
        quiet_start()
    # Options name functions as "package.module:function"; as with `python -m`, modules in the current folder count.
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def main() -> None:
    """Runs the command line with this process's arguments; does not return."""
    escape_what_cannot_be_encoded()
    app()

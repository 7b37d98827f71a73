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
from tfx_gnn.io.folded_help import FOLDED, FoldedCommand, FoldedGroup
from tfx_gnn.io.plain_console import escape_what_cannot_be_encoded
from tfx_gnn.io.quiet_libraries import quiet_start
from tfx_gnn_pipelines import command

_VERBS: dict[str, dict[Any, str]] = {
    "Start and run a project": {
        project_verbs.new: "Start a project, an example's or one for your tables.",
        task_verb.task: "Make the seeds of a prediction task from tables.",
        check_verb.check: "Find in seconds what would stop a pipeline.",
        plan_verb.plan: "Tell time, memory, disk and money before a run.",
        command.run: "Run a project from tables to a pushed model.",
        options_verb.options: "List or search what project.yaml and --set can change.",
    },
    "Look at runs": {
        show_verb.show: "Show a run as one page.",
        show_verb.compare: "Set runs side by side on one page.",
        training_verbs.report: "Render the report of a training or search again.",
    },
    "Ask and serve a model": {
        model_verbs.predict: "Predict a few examples.",
        explain_verb.explain: "Explain answers by nodes, edges and features.",
        serve_verb.serve: "Serve a model over HTTP.",
        model_verbs.infer: "Write the answers to all examples to tables.",
        layerwise_verb.infer_layerwise: "Write the answers to all nodes of a graph index.",
        embed_verb.embed: "Store embeddings, to serve them without the model.",
    },
    "Single steps, in the order of a pipeline": {
        index_verb.index: "Build a graph index, to sample without tables.",
        example_verbs.sample: "Sample a subgraph around every seed.",
        example_verbs.schema: "Write the schema of examples.",
        example_verbs.validate: "Check examples, and bless them if they are fit.",
        training_data_verbs.transform: "Transform features by statistics of all data.",
        training_data_verbs.sizes: "Learn what to pad batches to, and what it costs.",
        training_data_verbs.batches: "Write the batches of a training in advance.",
        check_tpu_verb.check_tpu: "Find what would keep a model from a TPU.",
        training_verbs.tune: "Search for the best hyperparameters.",
        training_verbs.train: "Train a model and export it.",
        model_verbs.evaluate: "Measure a model, and bless it if it is good.",
        model_verbs.skew: "Compare what training saw with what serving gets.",
        model_verbs.push: "Make a blessed model the next version served.",
    },
    "Kubeflow Pipelines and Vertex AI": {
        service_verbs.submit: "Start a run of a compiled pipeline.",
        service_verbs.status: "Show the state of a run and of its tasks.",
        service_verbs.wait: "Wait for the end of a run.",
        service_verbs.logs: "Print the log of a task.",
        service_verbs.cancel: "Stop a run.",
        schedule_verbs.schedule: "Start runs at fixed times.",
    },
    "Data": {
        snapshot_verb.snapshot: "Copy the tables of a database as of one moment.",
        table_verbs.tables: "Infer the schema of tables, and check their rows.",
        table_verbs.dataset: "Get public data sets as tables.",
    },
}
"""Commands, and groups of commands, with what they do in one line, by the panel of `--help` that lists them."""


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
    for _verb, _in_short in _verbs.items():
        if isinstance(_verb, typer.Typer):
            app.add_typer(_verb, cls=FoldedGroup, short_help=_in_short, rich_help_panel=_panel)
            for _of_group in _verb.registered_commands:
                _of_group.cls = FoldedCommand
        else:
            app.command(cls=FoldedCommand, short_help=_in_short, rich_help_panel=_panel)(_verb)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so.
    if wanted:
        typer.echo(f"tfx-gnn {tfx_gnn.__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    context: typer.Context,
    *,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error, not just its message."), FOLDED
    ] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version),
        FOLDED,
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

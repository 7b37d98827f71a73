"""The command `explain`: what predictions rest on."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.io.progress import progress

if TYPE_CHECKING:
    from tfx_gnn.serving.explanation import Explanation


def explain(
    *,
    model_dir: Annotated[
        str, arguments.folder("A push destination (its newest version is used), a trained model, or a SavedModel.")
    ],
    examples: Annotated[
        str,
        typer.Option(
            help="Raw graph tf.Examples: a TFRecord file, or the folder of a split such as examples/Split-test.",
            show_default=False,
            metavar="PATH",
        ),
    ],
    limit: Annotated[int, typer.Option(help="Examples to explain; 0 for all.", min=0)] = 5,
    target: Annotated[
        str,
        typer.Option(
            help="Class to explain, or position of an output or a candidate, from 0.",
            show_default="what is predicted",
            metavar="CLASS",
        ),
    ] = "",
    task: Annotated[str, typer.Option(help="Task to explain, in a model of several.", show_default=False)] = "",
    method: Annotated[
        str,
        typer.Option(
            help="'gradients' needs a model trained with `--explanation-steps`; 'occlusion' removes one edge at a time "
            "and works for every model; 'auto' takes gradients if the model has them."
        ),
    ] = "auto",
    num_contexts: Annotated[
        int,
        typer.Option(
            help="Graphs in which occlusion removes each edge: the whole one, then some without other edges, drawn at "
            "random, so that edges that can stand in for each other are found.",
            min=1,
        ),
    ] = 1,
    top: Annotated[int, typer.Option(help="Edges and nodes to show of each example; JSON has all.", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, not tables.")] = False,
    page: Annotated[
        str, typer.Option(help="Also write a page that draws the graphs.", show_default=False, metavar="FILE")
    ] = "",
) -> None:
    """Say which edges, nodes and features carried each prediction; needs only TensorFlow."""
    from tfx_gnn.serving.explanation import Explainer
    from tfx_gnn.serving.prediction import read_records
    from tfx_gnn.serving.versions import resolve_saved_model

    saved_model_dir = resolve_saved_model(model_dir)
    records = list(itertools.islice(read_records(examples), limit or None))
    if not records:
        raise ValueError(
            f"`examples` must hold at least one example; got none in {examples!r}. Choose another split or file, or "
            "make the examples again."
        )
    explainer = Explainer(saved_model_dir, method=method, task=task, num_contexts=num_contexts)
    explanations = []
    with progress("explaining", unit="examples") as advance:
        for explanation in explainer.explain(records, target=target or None):
            explanations.append(explanation)
            advance()
    if page:
        from tfx_gnn.reports.explanation_page import render_explanation_page
        from tfx_gnn.reports.report_page import write_page

        write_page(render_explanation_page(records, explanations, explainer.edge_ends, model=saved_model_dir), page)
    for explanation in explanations:
        if as_json:
            typer.echo(json.dumps(explanation.plain(), ensure_ascii=False))
        else:
            _show(explanation, top)
    if not as_json:
        arguments.console.print(f"explained by {explanations[0].method}: {saved_model_dir}", markup=False)
        if page:
            arguments.say_written(page=page)


def _show(explanation: Explanation, top: int) -> None:
    """Prints the largest weights of one explanation."""
    from tfx_gnn.reports.explanation_texts import weight_rows, weight_text

    subject = "" if explanation.id is None else f"{explanation.id}: "
    table = Table(
        "edges", "weight", "nodes", "weight", "features", "weight",
        title=f"{subject}{explanation.target_name}, {explanation.value:.4f}; without edges "
        f"{explanation.value_without_edges:.4f}",
        title_justify="left",
    )  # fmt: skip
    for row in weight_rows(explanation, top):
        table.add_row(*(text for name, weight in row for text in (name, weight_text(weight))))
    arguments.console.print(table)
    for warning in explanation.warnings:
        arguments.console.print(f"Warning: {warning}", markup=False)

"""The command `explain`: what predictions rest on."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.io.progress import progress

if TYPE_CHECKING:
    from tfx_gnn.serving.explained_prediction import Explanation

_NUM_REFERENCES = 256
"""Examples whose columns tell what a removed value becomes."""


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
    num_orders: Annotated[
        int,
        typer.Option(
            help="Random orders of removal that each explanation is checked against, at up to nine predictions each; "
            "0: no check.",
            min=0,
        ),
    ] = 20,
    top: Annotated[int, typer.Option(help="Rows of each table of an example; JSON has all.", min=1)] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, not tables.")] = False,
    page: Annotated[
        str, typer.Option(help="Also write a page that draws the graphs.", show_default=False, metavar="FILE")
    ] = "",
) -> None:
    """Say which edges, nodes and features carried each prediction; needs only TensorFlow."""
    from tfx_gnn.reports.explanation_texts import cost_sentence
    from tfx_gnn.serving.explanation import Explainer
    from tfx_gnn.serving.prediction import read_records
    from tfx_gnn.serving.versions import resolve_saved_model

    saved_model_dir = resolve_saved_model(model_dir)
    found = read_records(examples)
    records = list(itertools.islice(found, limit or None))
    reference = [*records, *itertools.islice(found, max(0, _NUM_REFERENCES - len(records)))][:_NUM_REFERENCES]
    if not records:
        raise ValueError(
            f"`examples` must hold at least one example; got none in {examples!r}. Choose another split or file, or "
            "make the examples again."
        )
    explainer = Explainer(
        saved_model_dir,
        method=method,
        task=task,
        num_contexts=num_contexts,
        num_orders=num_orders,
        reference=reference,
    )
    explanations = []
    with progress("explaining", unit="examples") as advance:
        for explanation in explainer.explain(records, target=target or None):
            explanations.append(explanation)
            advance()
    if page:
        from tfx_gnn.reports.explanation_page import render_explanation_page
        from tfx_gnn.reports.report_page import write_page

        write_page(render_explanation_page(records, explanations, explainer.edge_ends, model=saved_model_dir), page)
    for number, explanation in enumerate(explanations):
        if as_json:
            typer.echo(json.dumps(explanation.plain(), ensure_ascii=False))
        else:
            _show(explanation, number, top)
    if not as_json:
        _say(cost_sentence(explanations))
        arguments.console.print(f"explained by {explanations[0].method}: {saved_model_dir}", markup=False)
        if page:
            arguments.say_written(page=page)


def _show(explanation: Explanation, number: int, top: int) -> None:
    """Prints an explanation: the prediction, its largest weights, and what its check shows."""
    from tfx_gnn.reports import explanation_texts as texts
    from tfx_gnn.reports.number_texts import as_percent

    arguments.console.rule(escape(texts.subject_text(explanation, number)), align="left")
    _say(texts.prediction_text(explanation))
    _say(texts.value_sentence(explanation))
    for found in texts.weight_tables(explanation, top):
        value_column = "columns" if found.kind.startswith("feature,") else "value in the table"
        table = Table(found.kind, *([value_column] if found.has_values else []), box=box.SIMPLE_HEAD)
        table.add_column(f"weight, {explanation.unit}", justify="right")
        table.add_column("share", justify="right")
        for name, values, weight, share in found.rows:
            shown = [values] if found.has_values else []
            table.add_row(*map(escape, (name, *shown, texts.weight_text(weight), as_percent(share))))
        arguments.console.print(table)
    _say(texts.check_sentence(explanation))
    for warning in filter(None, (texts.check_warning(explanation), *explanation.warnings)):
        _say(f"Warning: {warning}")


def _say(sentence: str) -> None:
    if sentence:
        arguments.console.print(sentence, markup=False, highlight=False)

"""Verbs for trained models: `push` and `predict`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from tfx_gnn.cli import arguments
from tfx_gnn.cli.verdicts import end_with_verdict

_SHOWN_CANDIDATES = 3


def push(
    *,
    model_dir: arguments.Model,
    blessing_dir: Annotated[str, arguments.folder("Blessing of the model: an output of `evaluate`.")],
    examples_dir: arguments.Examples,
    push_destination: Annotated[str, arguments.folder("Folder of version folders that a server watches.")],
    pushed_model_dir: Annotated[str, arguments.folder("Where to write the record `pushed_version.json`.")],
    infra_blessing_dir: Annotated[
        str,
        typer.Option(
            help="Blessing of `skew`; without it, serving is not asked for.", show_default=False, metavar="FOLDER"
        ),
    ] = "",
    num_verification_requests: Annotated[int, typer.Option(help="Real examples that the copy must answer first.")] = 8,
    num_verification_threads: Annotated[
        int, typer.Option(help="Threads that then ask it at the same time; 0 for none.")
    ] = 4,
    verification_seconds: Annotated[float, typer.Option(help="How long these threads ask.")] = 5.0,
    warmup: Annotated[
        bool, typer.Option(help="Give the copy warm-up requests for TensorFlow Serving, if the model has none.")
    ] = True,
    refuses_nonfinite_answers: Annotated[
        bool,
        typer.Option(
            "--refuse-nonfinite-answers",
            help="Do not push if a finite value out of the domain, as a negative count, is answered with NaN.",
        ),
    ] = False,
) -> None:
    """Make a blessed model the next version of a serving folder, after its copy answered real requests.

    Exits with 1 if it is not pushed because a blessing is withheld.
    """
    from tfx_gnn.components.graph_pusher.options import GraphPusherOptions
    from tfx_gnn.components.graph_pusher.stage import push_graph_model

    pushed = push_graph_model(
        model_dir=model_dir,
        blessing_dir=blessing_dir,
        examples_dir=examples_dir,
        push_destination=push_destination,
        pushed_model_dir=pushed_model_dir,
        infra_blessing_dir=infra_blessing_dir,
        options=GraphPusherOptions(
            num_verification_requests=num_verification_requests,
            num_verification_threads=num_verification_threads,
            verification_seconds=verification_seconds,
            warmup=warmup,
            refuses_nonfinite_answers=refuses_nonfinite_answers,
        ),
    )
    arguments.say_written(pushed_model=pushed_model_dir)
    end_with_verdict(
        passed=pushed.pushed,
        verdict=f"pushed version {pushed.version}: {pushed.path}" if pushed.pushed else "NOT pushed",
        reasons=(pushed.reason, *(f"warning: {warning}" for warning in pushed.warnings)),
    )


def predict(
    *,
    model_dir: Annotated[
        str, arguments.folder("A push destination (its newest version answers), a trained model, or a SavedModel.")
    ],
    examples: Annotated[
        str,
        typer.Option(
            help="Raw graph tf.Examples: a TFRecord file, or the folder of a split such as examples/Split-test.",
            show_default=False,
            metavar="PATH",
        ),
    ],
    limit: Annotated[int, typer.Option(help="Examples to answer; 0 for all.", min=0)] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line instead of a table.")] = False,
) -> None:
    """Ask a model about examples; TensorFlow is all that this needs."""
    from tfx_gnn.serving.prediction import ServingModel, read_records
    from tfx_gnn.serving.versions import resolve_saved_model

    saved_model_dir = resolve_saved_model(model_dir)
    records = itertools.islice(read_records(examples), limit or None)
    first = next(records, None)
    if first is None:
        raise ValueError(
            f"`examples` must hold at least one example; got none in {examples!r}. Choose another split or file, or "
            "make the examples again."
        )
    answers = ServingModel(saved_model_dir).answers(itertools.chain([first], records))
    if as_json:
        for answer in answers:
            typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    rows = [_cells(answer) for answer in answers]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    table = Table(*map(escape, columns), caption=f"answered by {saved_model_dir}", caption_justify="left")
    for row in rows:
        table.add_row(*(escape(row.get(name, "")) for name in columns))
    arguments.console.print(table)


def _cells(answer: Mapping[str, Any]) -> dict[str, str]:
    """One answer as texts by column."""
    cells: dict[str, str] = {}
    for name, value in answer.items():
        if isinstance(value, dict):
            cells |= {f"{name} {column}": text for column, text in _cells(value).items()}
        elif name == "candidates":
            best = value[:_SHOWN_CANDIDATES]
            cells["source"] = str(best[0].get("source_id", ""))
            cells["best targets"] = ", ".join(f"{pair.get('target_id', '')} ({pair['score']:.4f})" for pair in best)
            cells["candidates"] = str(len(value))
        elif isinstance(value, list):
            cells[name] = ", ".join(f"{number:.6g}" for number in value)
        else:
            cells[name] = f"{value:.4f}" if isinstance(value, float) else str(value)
    return cells

"""Flags of a command that takes a prediction task in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tfx_gnn.cli.option_flags import with_parameters
from tfx_gnn.io.folded_help import FOLDED

if TYPE_CHECKING:
    from tfx_gnn.prediction_tasks import PredictionTask

_Verb = TypeVar("_Verb", bound=Callable[..., Any])

_FLAGS = {
    "predict": typer.Option(
        help="What to predict of each entity from its past, such as 'count(orders, 0 to 30 days) > 0'.",
        metavar="TEXT",
        show_default=False,
    ),
    "for_each": typer.Option(help="With --predict: node set of the entities.", metavar="SET", show_default=False),
    "where": typer.Option(
        help="With --predict: for which entities, such as 'count(orders, -90 to 0 days) > 0'.",
        metavar="TEXT",
        show_default="all",
    ),
    "every": typer.Option(
        help="With --predict: time between predictions for an entity, such as '30 days'.",
        metavar="TEXT",
        show_default="the end of the window",
    ),
    "validation_from": typer.Option(help="With --predict: when validation begins.", metavar="TIME", show_default=False),
    "test_from": typer.Option(help="With --predict: when the test begins.", metavar="TIME", show_default=False),
}
_MARKS = {"where": FOLDED, "every": FOLDED}


def with_prediction_task(verb: _Verb) -> _Verb:
    """Gives a command the flags of a prediction task, which its parameter `asked` gets; None without --predict."""
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default="", annotation=Annotated[str, flag, _MARKS.get(name)]
        )
        for name, flag in _FLAGS.items()
    ]
    return with_parameters(verb, "asked", parameters, _read_task)


def _read_task(given: dict[str, str]) -> PredictionTask | None:
    from tfx_gnn.prediction_tasks import Anchors, PredictionTask
    from tfx_gnn.prediction_tasks.query_parser import parse_predicted, parse_query
    from tfx_gnn.prediction_tasks.query_syntax import aggregates_of

    times = {name: given[name] for name in ("every", "validation_from", "test_from")}
    if not given["predict"] and not given["for_each"]:
        alone = [f"--{name.replace('_', '-')}" for name in ("where", *times) if given[name]]
        if alone:
            raise typer.BadParameter("must be given with --predict and --for-each", param_hint=", ".join(alone))
        return None
    if any(times.values()) and not (times["validation_from"] and times["test_from"]):
        raise typer.BadParameter(
            "must be given together, and --every with both", param_hint="--validation-from, --test-from"
        )
    anchors = Anchors(**times) if times["test_from"] else None
    asks_of_windows = (given["predict"] and any(aggregates_of(parse_predicted(given["predict"])))) or (
        given["where"] and any(aggregates_of(parse_query(given["where"], "where")))
    )
    if anchors is None and given["for_each"] and asks_of_windows:
        raise typer.BadParameter(
            "must be given for what happens within a time, such as --validation-from 2026-05-01 --test-from 2026-06-01",
            param_hint="--validation-from, --test-from",
        )
    return PredictionTask(for_each=given["for_each"], predict=given["predict"], where=given["where"], anchors=anchors)

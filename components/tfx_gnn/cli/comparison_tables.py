"""Prints what differs between runs as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from tfx_gnn.cli import arguments
from tfx_gnn.records.metric_names import shown_metric
from tfx_gnn.reports.comparison_page import ComparedRun, Comparison, ValueRow
from tfx_gnn.reports.number_texts import shorten
from tfx_gnn.reports.option_differences import ABSENT, TextRow
from tfx_gnn.reports.paired_metrics import as_signed, p_value_words

_NONE = "-"
_LONGEST = 60
_MOST_ROWS = 20
_STYLES = {"good": "green", "bad": "red", "plain": "dim"}


def print_comparison(runs: Sequence[ComparedRun], comparison: Comparison) -> None:
    """Prints options and data that differ, the metrics, and what was tested."""
    say = arguments.console.print
    for title, rows, otherwise in (
        ("Options that differ", comparison.options, "No option is known to differ."),
        ("Data that differ", comparison.data, "Tables, splits and schemas do not differ."),
    ):
        say(f"{title}", style="bold")
        if not rows:
            say(otherwise)
        else:
            say(_text_table(runs, rows))
            if len(rows) > _MOST_ROWS:
                say(f"{len(rows) - _MOST_ROWS:,} more are on the page.", style="dim")
        say()
    say("Metrics", style="bold")
    if comparison.metrics:
        say(_metric_table(runs, comparison.metrics))
    else:
        say("None of the runs has an evaluation.")
    for note in comparison.notes:
        say(note, style="dim", markup=False, highlight=False)
    say()


def _text_table(runs: Sequence[ComparedRun], rows: Sequence[TextRow]) -> Table:
    shown = _table("", "", *(run.title for run in runs))
    for row in rows[:_MOST_ROWS]:
        shown.add_row(*map(Text, (*row.names, *map(_short, row.values))))
    return shown


def _metric_table(runs: Sequence[ComparedRun], rows: Sequence[ValueRow]) -> Table:
    shown = _table("", *(run.title for run in runs))
    for row in rows:
        name = f"{row.names[0]}: " if row.names[0] else ""
        shown.add_row(Text(name + shown_metric(row.names[1])), *(_cell(row, i) for i in range(len(runs))))
    return shown


def _cell(row: ValueRow, position: int) -> Text:
    value, delta, test = row.values[position], row.deltas[position], row.tests[position]
    if value is None:
        return Text(_NONE)
    cell = Text(f"{value:.4f}")
    if test is not None:
        cell.append(f"\n{test.verdict}", style=_STYLES[row.moods[position]])
        # Short lines, which narrow terminals do not break.
        for line in (as_signed(test.difference), test.interval_words, p_value_words(test.p_value)):
            cell.append(f"\n{line}" if line else "", style="dim")
    elif delta:
        cell.append(f"\n{as_signed(delta)}, not tested", style="dim")
    return cell


def _short(value: str) -> str:
    return _NONE if value == ABSENT else shorten(value or "empty", _LONGEST)


def _table(*names: str) -> Table:
    shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in names:
        shown.add_column(Text(name), overflow="fold")
    return shown

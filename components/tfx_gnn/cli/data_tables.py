"""Prints statistics of a run's data as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from tfx_gnn.cli import arguments
from tfx_gnn.reports.data_summary import DataFigures
from tfx_gnn.reports.degree_figures import DegreeRow, IsolatedRow
from tfx_gnn.reports.feature_figures import FeatureFigures, SplitFigures
from tfx_gnn.reports.label_tables import LabelTable
from tfx_gnn.reports.number_texts import as_amount, as_count, as_percent, shorten
from tfx_gnn.reports.statistics_files import Distance

if TYPE_CHECKING:
    from tfx_gnn.reports.run_record import RecordedRun

_NONE = "-"
_MOST_TOP_VALUES = 5
_MOST_LABELS = 20
_LONGEST_NAME = 20


def print_data_figures(run: RecordedRun, figures: DataFigures) -> None:
    """Prints the figures as tables with a column for each split."""
    say = arguments.console.print
    sizes = ", ".join(f"{split} {number:,}" for split, number in figures.splits.items())
    say(f"{run.title}, run {run.number} of {run.num_runs}: examples of {sizes}", markup=False, soft_wrap=True)
    splits = list(figures.splits)
    for name, features in figures.features.items():
        _print_titled(name, _features_table(features, splits))
    for table in figures.labels:
        _print_titled(f"Distribution of {table.feature}", _label_table(table))
    if figures.degrees:
        _print_titled("Degrees in sampled graphs", _degrees_table(figures.degrees, splits))
    if figures.isolated:
        _print_titled("Isolated nodes in sampled graphs", _isolated_table(figures.isolated, splits))
    say()
    say(" ".join(figures.notes()), markup=False, style="dim")


def _print_titled(title: str, table: Table) -> None:
    # A table's own title would be broken at the width of the table.
    arguments.console.print(f"\n{title}", style="bold", markup=False, soft_wrap=True)
    arguments.console.print(table)


def _features_table(features: list[FeatureFigures], splits: list[str]) -> Table:
    shown = _table("feature", "", splits=splits)
    for feature in features:
        shown.add_section()
        for position, (row, cells) in enumerate(_feature_rows(feature, splits)):
            shown.add_row(_short(feature.name) if not position else "", row, *cells)
    return shown


def _feature_rows(feature: FeatureFigures, splits: list[str]) -> list[tuple[str, list[str | Text]]]:
    """Rows of a feature: those that its kind has."""
    is_text = feature.kind == "strings"

    def row(name: str, show: Callable[[SplitFigures], str | Text]) -> tuple[str, list[str | Text]]:
        return name, [show(feature.splits[split]) for split in splits]

    rows = [row("missing", _missing)]
    if is_text:
        rows.append(row("distinct", lambda one: _number(one.num_distinct, as_count)))
        rows += _top_rows(feature)
    elif any(one.mean is not None for one in feature.splits.values()):
        if any(one.num_nan for one in feature.splits.values()):
            rows.append(row("NaN", lambda one: _number(one.num_nan, as_count)))
        rows.append(row("mean", lambda one: _number(one.mean, as_amount)))
        rows.append(row("deviation", lambda one: _number(one.deviation, as_amount)))
        rows.append(row("min to max", lambda one: _range(one.quantiles, 0, 10)))
        rows.append(row("10% to 90%", lambda one: _range(one.quantiles, 1, 9)))
        rows.append(row("median", lambda one: as_amount(one.quantiles[5]) if one.quantiles else _NONE))
    measured = [one for split in feature.splits.values() for one in (split.skew, split.drift) if one is not None]
    measure = "JS" if measured and measured[0].measure == "Jensen-Shannon" else "L-inf"
    if any(one.skew is not None for one in feature.splits.values()):
        rows.append(row(f"skew {measure}", lambda one: _distance(one.skew)))
    if any(one.drift is not None for one in feature.splits.values()):
        rows.append(row(f"drift {measure}", lambda one: _distance(one.drift)))
    return rows


def _top_rows(feature: FeatureFigures) -> list[tuple[str, list[str | Text]]]:
    """Shares of the strings that are the most frequent in the first split."""
    return [
        (f"'{_short(value)}'", [_number(share, as_percent) for share in shares])
        for value, shares in feature.bars[:_MOST_TOP_VALUES]
    ]


def _label_table(labels: LabelTable) -> Table:
    shown = _table("value", splits=list(labels.splits))
    for value, shares in labels.rows[:_MOST_LABELS]:
        shown.add_row(_short(value), *map(as_percent, shares))
    left = labels.num_not_shown + max(0, len(labels.rows) - _MOST_LABELS)
    if left:
        shown.add_row(f"... {left:,} more", *("" for _ in labels.splits))
    return shown


def _degrees_table(rows: list[DegreeRow], splits: list[str]) -> Table:
    shown = _table("edge set", "", splits=splits)
    by_end: dict[tuple[str, str], dict[str, DegreeRow]] = {}
    for one in rows:
        by_end.setdefault((one.edge_set, one.end), {})[one.split] = one
    for (edge_set, end), by_split in by_end.items():
        shown.add_section()
        lines: list[tuple[str, Callable[[DegreeRow], str | Text]]] = [
            (f"{end}, mean", lambda one: as_amount(one.mean)),
            ("min to max", lambda one: _range(one.quantiles, 0, 10)),
            ("median", lambda one: as_amount(one.quantiles[5]) if one.quantiles else _NONE),
            ("no such edge", lambda one: as_percent(one.zero_share)),
            ("dangling edges", lambda one: _number(one.num_dangling, as_count)),
        ]
        if any(one.drift is not None for one in by_split.values()):
            lines.append(("drift JS", lambda one: _distance(one.drift)))
        for position, (name, show) in enumerate(lines):
            cells = [show(by_split[split]) if split in by_split else _NONE for split in splits]
            shown.add_row(_short(edge_set) if not position else "", name, *cells)
    return shown


def _isolated_table(rows: list[IsolatedRow], splits: list[str]) -> Table:
    shown = _table("node set", splits=splits)
    by_set: dict[str, dict[str, IsolatedRow]] = {}
    for one in rows:
        by_set.setdefault(one.node_set, {})[one.split] = one
    for name, by_split in by_set.items():
        cells = [
            f"{by_split[split].num_isolated:,} ({as_percent(by_split[split].share)})" if split in by_split else _NONE
            for split in splits
        ]
        shown.add_row(_short(name), *cells)
    return shown


def _table(*names: str, splits: list[str]) -> Table:
    shown = Table(*names, *splits, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for column in shown.columns[len(names) :]:
        column.justify = "right"
    return shown


def _missing(one: SplitFigures) -> str | Text:
    if not one.num_missing:
        return "0"
    return f"{one.num_missing:,} ({as_percent(one.num_missing / one.num_examples)})"


def _number(value: float | None, show: Callable[[float], str]) -> str:
    return _NONE if value is None else show(value)


def _range(quantiles: tuple[float, ...], low: int, high: int) -> str:
    return f"{as_amount(quantiles[low])} to {as_amount(quantiles[high])}" if quantiles else _NONE


def _distance(distance: Distance | None) -> str | Text:
    if distance is None:
        return _NONE
    if distance.is_high:
        return Text(f"{distance.value:.3f} > {distance.threshold:g}", style="red")
    return f"{distance.value:.3f}"


def _short(name: str) -> str:
    return shorten(name, _LONGEST_NAME)

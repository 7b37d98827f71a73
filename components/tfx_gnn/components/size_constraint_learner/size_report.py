"""The HTML report on padding budgets, which helps to choose one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfx_gnn.records.size_constraints_file import (
    FIT_OR_SKIP,
    PACKING,
    SLICINGS,
    TIGHT,
    Budget,
    SetSizes,
    SizeConstraintsFile,
    SliceLoss,
    SplitSizes,
)
from tfx_gnn.reports.report_page import INK, NUM_SERIES_COLORS, SERIES_COLORS, draw_for_page, render_page, write_page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEAVY_TAIL = 8
"""If a set's largest size is at least this many times its median, its vertical axis is logarithmic."""

_LINE_STYLES = {"tight": "-", "fit_or_skip": "--", "packing": ":"}

_MAX_TICKS = 6


def size_histogram(
    sizes: Mapping[str, SetSizes], room: Mapping[str, float], *, main_split: str, identity: str, title: str
) -> str:
    """Draws the distribution of the number of items in one set.

    `room` holds the items that a budget has per real graph, by kind of budget. The histogram of `main_split`
    is filled; those of other splits are outlines.
    """
    return draw_for_page(lambda axes: _draw(axes, sizes, room, main_split), identity=identity, title=title)


def is_heavy_tailed(sizes: Mapping[str, SetSizes]) -> bool:
    """Tells whether some graphs are so much larger than most that a linear axis would hide them."""
    return any(one.maximum >= HEAVY_TAIL * max(1.0, one.quantiles["p50"]) for one in sizes.values())


def _draw(axes: Axes, sizes: Mapping[str, SetSizes], room: Mapping[str, float], main_split: str) -> None:
    bounds, shares = _bins(sizes, max(room.values(), default=0.0))
    # Bins double in size, so equally wide bars make a logarithmic axis; matplotlib's own cannot start at 0.
    edges = np.arange(len(bounds), dtype=np.float64)
    floor = 0.0
    if is_heavy_tailed(sizes):
        floor = min(float(share[share > 0].min(initial=1.0)) for share in shares.values()) / 2
        axes.set_yscale("log")
    for i, (split, share) in enumerate(shares.items()):
        filled = split == main_split or len(shares) == 1
        axes.stairs(
            np.maximum(share, floor),
            edges,
            baseline=floor,
            color=SERIES_COLORS[i % NUM_SERIES_COLORS],
            fill=filled,
            alpha=0.55 if filled else 1.0,
            linewidth=1.4,
        )
    for kind, items in room.items():
        axes.axvline(
            float(np.interp(items, bounds, edges)), color=INK, linestyle=_LINE_STYLES.get(kind, "-."), linewidth=1.2
        )
    axes.set_xlim(0, edges[-1])
    step = -(-len(bounds) // _MAX_TICKS)
    axes.set_xticks(edges[::step], [_short(bound) for bound in bounds[::step]])
    _percent_ticks(axes, floor)


def _bins(sizes: Mapping[str, SetSizes], reach: float) -> tuple[list[int], dict[str, npt.NDArray[np.float64]]]:
    """Trims bins at both ends that are empty in all splits, and adds bins up to `reach`."""
    bounds = sorted({bound for one in sizes.values() for bound in one.histogram_bounds})
    while bounds[-1] <= reach:
        bounds.append(max(1, 2 * bounds[-1]))
    counts = {
        split: np.array([*one.histogram_counts, *[0] * (len(bounds) - 1 - len(one.histogram_counts))], np.float64)
        for split, one in sizes.items()
    }
    used = np.flatnonzero(sum(counts.values()))
    last_line = int(np.searchsorted(bounds, reach, side="right")) - 1
    first = int(used[0]) if used.size else 0
    last = max(int(used[-1]) if used.size else 0, last_line if reach else 0) + 1
    return bounds[first : last + 1], {
        split: count[first:last] / max(1.0, count.sum()) for split, count in counts.items()
    }


def _percent_ticks(axes: Axes, floor: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    if floor:
        axes.set_ylim(floor, 1.4)
        axes.yaxis.set_major_locator(LogLocator(numticks=5))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(0, None)
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g}%"))


def _short(number: int) -> str:
    for unit, factor in (("G", 2**30), ("M", 2**20), ("k", 2**10)):
        if number >= factor:
            return f"{number // factor}{unit}"
    return str(number)


SUCCESS_TOLERANCE = 0.002
"""Largest deviation of a fit-or-skip budget's achieved success ratio from the requested one that is not marked."""

_KINDS = (PACKING, FIT_OR_SKIP, TIGHT)

_SHOWN_SLICES = 15


def render_size_report(content: SizeConstraintsFile) -> str:
    """Explains padding budgets on one HTML page; names of sets, splits and classes may have any characters."""
    budgets = sorted_budgets(content)
    main = _main_budgets(content, budgets)
    return render_page(
        "size_report.html.j2",
        content=content,
        splits=_splits(content),
        budgets=budgets,
        main=main,
        room_rows=_room_rows(budgets),
        distributions=_distributions(content, main),
        slice_tables=[_slice_table(slicing, budgets) for slicing in SLICINGS],
        limit=_share_option(content, "warn_slice_loss"),
        refusal=_share_option(content, "max_slice_loss"),
        padded_work=padded_work,
        tolerance=SUCCESS_TOLERANCE,
        shown_slices=_SHOWN_SLICES,
    )


def write_size_report(content: SizeConstraintsFile, path: str) -> None:
    """Writes the page of `render_size_report`."""
    write_page(render_size_report(content), path)


def sorted_budgets(content: SizeConstraintsFile) -> list[Budget]:
    """Sorts budgets for reports: by batch size with the options' own first, then by kind and by success ratio."""
    own = content.options["batch_size"]
    return sorted(
        content.budgets.values(),
        key=lambda one: (one.batch_size != own, one.batch_size, _KINDS.index(one.kind), one.success_ratio),
    )


def padded_work(budget: Budget) -> float:
    """Computes the nodes and edges of a padded batch per expected real graph."""
    items = sum(budget.total_num_nodes.values()) + sum(budget.total_num_edges.values())
    return items / budget.graphs_per_batch


def _share_option(content: SizeConstraintsFile, name: str) -> float:
    return float(content.options[name])


def _splits(content: SizeConstraintsFile) -> dict[str, SplitSizes]:
    """The training split, then the others."""
    first = content.options["train_split"]
    return dict(sorted(content.splits.items(), key=lambda item: (item[0] != first, item[0])))


def _main_budgets(content: SizeConstraintsFile, budgets: Iterable[Budget]) -> dict[str, Budget]:
    """The first budget of each kind, for the learner's own batch size."""
    found: dict[str, Budget] = {}
    for budget in budgets:
        if budget.batch_size == content.options["batch_size"]:
            found.setdefault(budget.kind, budget)
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RoomRow:
    """One set in all budgets."""

    kind: str
    name: str
    totals: list[int]
    fills: list[float]
    minima: list[int]


def _room_rows(budgets: list[Budget]) -> list[_RoomRow]:
    """Node sets, then edge sets, each sorted from the largest."""
    rows = []
    for kind, prefix, field in (("node set", "nodes", "total_num_nodes"), ("edge set", "edges", "total_num_edges")):
        names = dict.fromkeys(name for budget in budgets for name in getattr(budget, field))
        rows += [
            _RoomRow(
                kind=kind,
                name=name,
                totals=[getattr(budget, field)[name] for budget in budgets],
                fills=[budget.fill_by_set[f"{prefix}/{name}"] for budget in budgets],
                minima=[budget.min_nodes_per_component.get(name, 0) if kind == "node set" else 0 for budget in budgets],
            )
            for name in sorted(names, key=lambda name: (-getattr(budgets[0], field)[name], name))
        ]
    return rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Distribution:
    """The sizes of one set in all splits."""

    kind: str
    name: str
    sizes: dict[str, SetSizes]
    room: dict[str, float]
    heavy_tailed: bool
    drawing: str


def _distributions(content: SizeConstraintsFile, main: Mapping[str, Budget]) -> list[_Distribution]:
    """Node sets, then edge sets, each sorted from the largest."""
    main_split = str(content.options["train_split"])
    found = []
    for kind, field, totals in (
        ("node set", "node_sets", "total_num_nodes"),
        ("edge set", "edge_sets", "total_num_edges"),
    ):
        by_set: dict[str, dict[str, SetSizes]] = {}
        for split, of_split in _splits(content).items():
            for name, sizes in getattr(of_split, field).items():
                by_set.setdefault(name, {})[split] = sizes
        for name, sizes in sorted(
            by_set.items(), key=lambda item: (-max(one.mean for one in item[1].values()), item[0])
        ):
            room = {
                budget_kind: getattr(budget, totals)[name] / budget.graphs_per_batch
                for budget_kind, budget in main.items()
            }
            found.append((kind, name, sizes, room))
    return [
        _Distribution(
            kind=kind,
            name=name,
            sizes=sizes,
            room=room,
            heavy_tailed=is_heavy_tailed(sizes),
            drawing=size_histogram(
                sizes,
                room,
                main_split=main_split,
                identity=f"sizes-{position}",
                title=f"{kind.capitalize()} {name}: fraction of graphs by number of items",
            ),
        )
        for position, (kind, name, sizes, room) in enumerate(found)
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SliceTable:
    """Losses of slices under each fit-or-skip budget."""

    slicing: str
    budgets: list[Budget]
    rows: list[tuple[str, int, list[float | None]]]
    """Value, number of graphs, lost fraction by budget if known; sorted from the worst."""
    longest: float
    """Fraction whose bar fills its column."""


def _slice_table(slicing: str, budgets: Iterable[Budget]) -> _SliceTable:
    skipping = [budget for budget in budgets if budget.kind == FIT_OR_SKIP]
    by_value: dict[str, dict[int, SliceLoss]] = {}
    for column, budget in enumerate(skipping):
        for loss in budget.losses:
            if loss.slicing == slicing:
                by_value.setdefault(loss.value, {})[column] = loss
    worst = {value: max(loss.lost_share for loss in found.values()) for value, found in by_value.items()}
    num_graphs = {value: max(loss.num_graphs for loss in found.values()) for value, found in by_value.items()}
    rows = [
        (value, num_graphs[value], [found[i].lost_share if i in found else None for i in range(len(skipping))])
        for value, found in by_value.items()
    ]
    rows.sort(key=lambda row: (-worst[row[0]], -row[1], row[0]))
    longest = max(worst.values(), default=0.0) or 1.0
    return _SliceTable(slicing=slicing, budgets=skipping, rows=rows, longest=longest)

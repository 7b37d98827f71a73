"""Prints a plan on 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from tfx_gnn.reports.number_texts import as_bytes, as_duration
from tfx_gnn_pipelines.planning.earlier_runs import ActualStep
from tfx_gnn_pipelines.planning.graph_statistics import GraphStatistics
from tfx_gnn_pipelines.planning.measurements import SAMPLE
from tfx_gnn_pipelines.planning.pipeline_plan import START, PipelinePlan, TrainingPlan
from tfx_gnn_pipelines.planning.quantities import Quantity

_WIDTH = 80
_EXTRAPOLATED = "~"


def print_plan(plan: PipelinePlan, console: Console) -> None:
    """Prints the steps, what measured them, the training, totals, notes and, as the last line, the verdict."""
    console.print(f"{_examples(plan)}, counted", soft_wrap=True)
    for line in _sources(plan):
        console.print(line, style="dim", soft_wrap=True)
    console.print(_table(plan), width=_WIDTH)
    if any(
        cell.origin == "extrapolated" for step in plan.steps for cell in (step.seconds, step.disk, step.memory) if cell
    ):
        console.print(f"{_EXTRAPOLATED} extrapolated, with its range; others measured", style="dim", soft_wrap=True)
    for line in [*_training(plan.training), *_totals(plan)]:
        console.print(line, soft_wrap=True)
    for note in plan.notes:
        console.print(note, style="yellow", width=_WIDTH)
    _print_verdict(plan, console)


def _examples(plan: PipelinePlan) -> str:
    counts = ", ".join(f"{count:,} {split}" for split, count in plan.num_examples.items())
    return f"{plan.name}: {sum(plan.num_examples.values()):,} examples ({counts})"


def print_estimate(plan: PipelinePlan, statistics: GraphStatistics, hits: str, console: Console) -> None:
    """Prints a plan from statistics: the subgraphs, the steps with their intervals, and how earlier ones came true."""
    console.print(f"{_examples(plan)}, from the tables", soft_wrap=True)
    by_hop = ", ".join(f"{hop} {edges:,.1f}" for hop, edges in statistics.edges_by_hop.items())
    console.print(
        f"a subgraph has about {statistics.nodes:,.1f} nodes and {statistics.edges:,.1f} edges; by hop: {by_hop}",
        soft_wrap=True,
    )
    by_source: dict[str, list[str]] = {}
    for step in plan.steps:
        by_source.setdefault(step.source, []).append(step.step)
    for source, names in by_source.items():
        steps = "" if len(by_source) == 1 else f": {', '.join(names)}"
        console.print(f"costs by {source}{steps}", style="dim", soft_wrap=True)
    console.print(_estimate_table(plan), width=_WIDTH)
    console.print("nothing was run; in brackets, 80 % intervals", style="dim", soft_wrap=True)
    for line in [_training(plan.training)[0], *_totals(plan)]:
        console.print(line, soft_wrap=True)
    for note in plan.notes:
        console.print(note, style="yellow", width=_WIDTH)
    if hits:
        console.print(hits, soft_wrap=True)
    _print_verdict(plan, console)


def _estimate_table(plan: PipelinePlan) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for title in ("step", "examples", "time", "80 % interval", "disk", "memory"):
        is_name = title == "step"
        table.add_column(title, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for step in plan.steps:
        low, high = (as_duration(end) for end in (step.seconds.low, step.seconds.high))
        table.add_row(
            step.step,
            "" if step.num_examples is None else f"{step.num_examples.value:,.0f}",
            as_duration(step.seconds.value),
            _range(low, high),
            *("" if one is None else _bytes(one.value) for one in (step.disk, step.memory)),
            style="red" if step.lacks_memory else "",
        )
    return table


def _print_verdict(plan: PipelinePlan, console: Console) -> None:
    for objection in plan.objections:
        console.print(objection, style="red", soft_wrap=True)
    verdict = "NOT enough memory" if plan.objections else "enough memory"
    console.print(verdict, style="red" if plan.objections else "green")


def _sources(plan: PipelinePlan) -> list[str]:
    """Says what measured which steps; without names if one measured all."""
    by_source: dict[str, list[str]] = {}
    for step in plan.steps:
        if step.step != START:
            by_source.setdefault(step.source, []).append(step.step)
    lines = []
    for source, names in by_source.items():
        what = f"the run {source}"
        if source == SAMPLE:
            is_whole = plan.sample == plan.num_examples
            what = "all examples" if is_whole else f"a sample of {sum(plan.sample.values()):,}"
            what += f" in {as_duration(plan.seconds)}"
        measured = f"measured {'on' if source == SAMPLE else 'by'} {what}"
        lines.append(measured if len(by_source) == 1 else f"{measured}: {', '.join(names)}")
    return lines


def _table(plan: PipelinePlan) -> Table:
    has_money = plan.money is not None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for title in ("step", "examples", "time", "disk", "memory", *(("money",) if has_money else ())):
        # On a narrow terminal, names of steps are folded before a figure is cut.
        is_name = title == "step"
        table.add_column(title, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for step in plan.steps:
        examples = "" if step.num_examples is None else f"{step.num_examples.value:,.0f}"
        row = [
            step.step,
            examples,
            _cell(step.seconds, as_duration),
            _cell(step.disk, _bytes),
            _cell(step.memory, _bytes),
        ]
        table.add_row(
            *row, *([_cell(step.money, _amount)] if has_money else []), style="red" if step.lacks_memory else ""
        )
    return table


def _cell(quantity: Quantity | None, text: Callable[[float], str]) -> str:
    """Formats a quantity; an extrapolated one with its range below."""
    if quantity is None:
        return ""
    mark = _EXTRAPOLATED if quantity.origin == "extrapolated" else ""
    low, high = text(quantity.low), text(quantity.high)
    more = f"\n{_range(low, high)}" if quantity.origin == "extrapolated" and low != high else ""
    return f"{mark}{text(quantity.value)}{more}"


def _range(low: str, high: str) -> str:
    """Joins two ends, whose common unit is written once."""
    (number, _, unit), (_, _, other) = low.partition(" "), high.partition(" ")
    return f"{number}-{high}" if unit == other else f"{low}-{high}"


def _bytes(value: float) -> str:
    return as_bytes(round(value))


def _amount(value: float) -> str:
    return f"{value:,.2f}" if value >= 0.01 or not value else "<0.01"


def _with_range(quantity: Quantity, text: Callable[[float], str]) -> str:
    value, low, high = text(quantity.value), text(quantity.low), text(quantity.high)
    return value if low == high else f"{value} ({_range(low, high)})"


def _training(training: TrainingPlan) -> list[str]:
    batch = f", {as_bytes(training.batch_bytes)} a padded batch" if training.batch_bytes else ""
    steps = _with_range(training.num_steps, _count)
    each = f"{training.num_epochs.value:.0f} epochs of {_with_range(training.steps_per_epoch, _count)}"
    parameters = f", {training.num_parameters:,} parameters" if training.num_parameters else ""
    milliseconds = 1000 * training.seconds_per_step.value
    return [
        f"training     {steps} steps: {each}",
        f"             {milliseconds:,.1f} ms a step{parameters}{batch}",
    ]


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _totals(plan: PipelinePlan) -> list[str]:
    peak = plan.peak_memory
    worst = max(plan.steps, key=lambda step: step.memory.value if step.memory is not None else 0.0)
    limit = worst.machines.memory_bytes
    of = f" of {as_bytes(limit)} on {worst.machines.name}" if limit is not None else ""
    lines = [
        f"time         {_with_range(plan.total_seconds, as_duration)}",
        f"disk         {_with_range(plan.total_disk, _bytes)}",
        f"peak memory  {_with_range(peak, _bytes)} in {worst.step}{of}",
    ]
    if plan.is_remote:
        lines.append(f"machines     {_with_range(plan.machine_hours, lambda hours: f'{hours:,.2f}')} machine-hours")
    if plan.money is not None:
        lines.append(f"money        {_with_range(plan.money, _amount)} {plan.currency}")
    return lines


def print_comparison(plan: PipelinePlan, actual: Sequence[ActualStep], place: str, console: Console) -> None:
    """Prints the planned seconds, bytes and memory of each step beside those of a run, and what is out of its range."""
    by_step = {step.step: step for step in plan.steps}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for title in ("step", "", "planned", "actual", "range"):
        table.add_column(title, justify="right" if title in ("planned", "actual") else "left", overflow="fold")
    for one in actual:
        planned = by_step.get(one.step)
        is_complete = one.state == "complete"
        rows = [
            ("time", planned.seconds if planned else None, one.seconds if is_complete else None, as_duration),
            ("disk", planned.disk if planned else None, one.disk, _bytes),
            ("memory", planned.memory if planned else None, one.memory or None, _bytes),
        ]
        for place_of_row, (title, quantity, value, text) in enumerate(rows):
            name = one.step if place_of_row == 0 else ""
            shown = text(value) if value is not None else one.state if title == "time" else ""
            table.add_row(
                name, title, text(quantity.value) if quantity else "", shown, _judged_range(quantity, value, text)
            )
    console.print(f"against {place}: time, disk and peak memory", soft_wrap=True)
    console.print(table, width=_WIDTH)


def _judged_range(quantity: Quantity | None, value: float | None, text: Callable[[float], str]) -> str:
    """The range of an extrapolated quantity, and whether `value` missed it; a measured one has no range to miss."""
    if quantity is None or quantity.low == quantity.high:
        return ""
    shown = _range(text(quantity.low), text(quantity.high))
    if value is None or quantity.low <= value <= quantity.high:
        return shown
    return f"{shown}, missed"

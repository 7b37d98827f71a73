"""Plans a pipeline from the statistics of its tables and what earlier runs cost; runs no step, and no TensorFlow."""

from __future__ import annotations

import dataclasses
import glob
import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.reports.run_record import RecordedRun
from tfx_gnn_pipelines.config import PipelineConfig, is_uri
from tfx_gnn_pipelines.planning.earlier_runs import folder_bytes_of
from tfx_gnn_pipelines.planning.graph_statistics import GraphStatistics, estimate_statistics
from tfx_gnn_pipelines.planning.machines import this_machine
from tfx_gnn_pipelines.planning.measurements import examples_of_step, planned_steps
from tfx_gnn_pipelines.planning.pipeline_plan import START, PipelinePlan, StepPlan, TrainingPlan
from tfx_gnn_pipelines.planning.quantities import Quantity, exactly
from tfx_gnn_pipelines.planning.step_rates import COSTS, Cost, Rate, Sizes, built_in_cost, learn_rate, step_share
from tfx_gnn_pipelines.recorded_run import METADATA_FILE, read_runs

_MOST_RUNS = 20
_COUNT_DOUBT = 0.15
"""Share by which an estimated number of batches may be wrong."""
BUILT_IN = "built-in rates"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CountedRun:
    """A run of this machine and its sizes.

    Attributes:
        run: the run.
        num_examples: examples by split.
        sizes: what its costs depend on.
    """

    run: RecordedRun
    num_examples: dict[str, int]
    sizes: Sizes


def plan_from_statistics(config: PipelineConfig) -> tuple[PipelinePlan, GraphStatistics, list[CountedRun]]:
    """Plans a pipeline in seconds.

    Args:
        config: the pipeline.

    Returns:
        The plan, whose ranges are 80 % intervals; the statistics; and the runs that it is based on, those of the
        pipeline's own root and of its neighbors, newest first.

    Raises:
        ValueError: if the statistics of the tables cannot be read, or a root's database.
    """
    started = time.monotonic()
    statistics = estimate_statistics(config)
    runs = find_counted_runs(config, statistics)
    load, num_processors = os.getloadavg()[0], os.cpu_count() or 1
    slowness = max(1.0, load / num_processors)
    batches = _num_batches(config, statistics.num_examples)
    options = config.graph_trainer
    least = min(options.num_epochs, options.early_stopping_patience + 1) if options.early_stopping_patience else 0
    least = least or options.num_epochs
    epochs = Quantity(
        value=round((least + options.num_epochs) / 2), low=least, high=options.num_epochs, origin="counted"
    )
    sizes = Sizes(
        num_examples=_of_steps(config, statistics.num_examples),
        items=statistics.nodes + statistics.edges,
        row_bytes=statistics.row_bytes,
        table_bytes=statistics.table_bytes,
        num_steps=batches * epochs.value,
        graphs_per_batch=_batch_size(config),
    )
    steps = tuple(
        _planned(step, config, sizes, runs, slowness=slowness, statistics=statistics)
        for step in (START, *planned_steps(config))
    )
    steps_per_epoch = Quantity(
        value=batches,
        low=math.floor(batches * (1 - _COUNT_DOUBT)),
        high=math.ceil(batches * (1 + _COUNT_DOUBT)),
        origin="extrapolated",
    )
    trainer = next(step for step in steps if step.step == "GraphTrainer")
    plan = PipelinePlan(
        name=config.pipeline_name,
        num_examples=statistics.num_examples,
        sample={},
        steps=steps,
        training=TrainingPlan(
            num_epochs=epochs,
            steps_per_epoch=steps_per_epoch,
            num_steps=Quantity(
                value=steps_per_epoch.value * epochs.value,
                low=steps_per_epoch.low * epochs.low,
                high=steps_per_epoch.high * epochs.high,
                origin="extrapolated",
            ),
            seconds_per_step=trainer.seconds.times(step_share(sizes) / max(sizes.num_steps, 1.0)),
            batch_bytes=round(sizes.items * sizes.graphs_per_batch * sizes.row_bytes),
            num_parameters=0,
        ),
        currency="",
        is_remote=False,
        notes=(*statistics.notes, *_notes(steps, slowness=slowness, load=load, num_processors=num_processors)),
        seconds=time.monotonic() - started,
    )
    return plan, statistics, runs


def _notes(steps: Sequence[StepPlan], *, slowness: float, load: float, num_processors: int) -> list[str]:
    is_guessed = any(step.source == BUILT_IN for step in steps if step.step != START)
    notes = []
    if is_guessed:
        notes.append(
            "No run in the root or beside it has measured every step, so intervals are wide; --measure tries the steps."
        )
    if is_guessed and slowness > 1.0:
        notes.append(
            f"Other processes keep this machine busy (load {load:.1f} on {num_processors} processors): built-in "
            f"seconds are multiplied by {slowness:.1f}."
        )
    return notes


def _planned(
    step: str,
    config: PipelineConfig,
    sizes: Sizes,
    runs: Sequence[CountedRun],
    *,
    slowness: float,
    statistics: GraphStatistics,
) -> StepPlan:
    rates: dict[Cost, Rate] = {}
    for cost in COSTS:
        ratios, distance = _ratios(step, cost, _own(runs, config) or runs, built_in_cost(step, cost, sizes))
        rates[cost] = learn_rate(cost, ratios, distance=distance, slowness=slowness)
    costs = {cost: rate.quantity(built_in_cost(step, cost, sizes)) for cost, rate in rates.items()}
    count = examples_of_step(step, config, statistics.num_examples) if step != START else 0
    seconds = costs["seconds"]
    if step == "GraphTuner" and config.graph_tuner is not None and not rates["seconds"].num_runs:
        seconds = seconds.times(config.graph_tuner.num_trials)
    return StepPlan(
        step=step,
        num_examples=exactly(count) if count else None,
        seconds=seconds,
        disk=None if step == START else costs["disk"],
        memory=None if step == START else costs["memory"],
        machines=this_machine(),
        source=_source(rates["seconds"]),
    )


def _source(rate: Rate) -> str:
    return f"{rate.num_runs} {'run' if rate.num_runs == 1 else 'runs'}" if rate.num_runs else BUILT_IN


def _own(runs: Sequence[CountedRun], config: PipelineConfig) -> list[CountedRun]:
    return [one for one in runs if os.path.abspath(one.run.root) == os.path.abspath(config.root)]


def _ratios(step: str, cost: Cost, runs: Sequence[CountedRun], planned: float) -> tuple[list[float], float]:
    """What runs paid for a step over what built-in rates say of their sizes, and how far these are from a plan's."""
    found: list[float] = []
    sizes: list[float] = []
    for one in runs:
        for done in one.run.steps:
            if done.component == step and done.state == "complete":
                paid = {"seconds": done.seconds, "disk": folder_bytes_of(done), "memory": done.peak_bytes}[cost]
                if paid > 0:
                    sizes.append(math.log(built_in_cost(step, cost, one.sizes)))
                    found.append(math.log(paid) - sizes[-1])
    found, sizes = found[:_MOST_RUNS], sizes[:_MOST_RUNS]
    distance = abs(sum(sizes) / len(sizes) - math.log(planned)) if sizes else 0.0
    return [math.exp(one) for one in found], distance


def _of_steps(config: PipelineConfig, num_examples: Mapping[str, int]) -> dict[str, int]:
    return {step: examples_of_step(step, config, num_examples) for step in planned_steps(config)}


def _batch_size(config: PipelineConfig) -> int:
    return max(config.size_constraint_learner.batch_sizes)


def _num_batches(config: PipelineConfig, num_examples: Mapping[str, int]) -> int:
    return max(1, math.ceil(num_examples.get(config.graph_trainer.train_split, 0) / _batch_size(config)))


def find_counted_runs(config: PipelineConfig, statistics: GraphStatistics) -> list[CountedRun]:
    """Finds the newest runs in a pipeline's root, then those in the folders beside it, that say how large they were.

    The widths of their tables are not recorded: they are taken to be those of the pipeline's.
    """
    if not config.root or is_uri(config.root):
        return []
    roots = [config.root, *sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(config.root)), "*")))]
    found, seen = [], set()
    for root in map(os.path.abspath, roots):
        if root not in seen and os.path.isfile(os.path.join(root, METADATA_FILE)):
            runs = [_counted(config, run, statistics) for run in reversed(read_runs(root)[-_MOST_RUNS:])]
            found += [run for run in runs if run is not None]
        seen.add(root)
    return found


def _counted(config: PipelineConfig, run: RecordedRun, statistics: GraphStatistics) -> CountedRun | None:
    """Reads the sizes of a run; None if its examples are gone, or were counted by an earlier version."""
    folders = run.folders()
    examples = folders.get("SubgraphExampleGen", {}).get("examples", "")
    report = _json(os.path.join(examples, "statistics.json")) if examples else {}
    if not report.get("num_seeds") or "statistics" not in report:
        return None
    num_examples, of_all = report["num_seeds"], report["statistics"]
    training = _json(os.path.join(folders.get("GraphTrainer", {}).get("model_run", ""), "training_summary.json"))
    num_steps = training.get("num_steps", 0)
    return CountedRun(
        run=run,
        num_examples=num_examples,
        sizes=Sizes(
            num_examples=_of_steps(config, num_examples),
            items=of_all["all_nodes"]["mean"] + of_all["all_edges"]["mean"],
            row_bytes=statistics.row_bytes,
            table_bytes=statistics.table_bytes,
            num_steps=num_steps,
            graphs_per_batch=training.get("budget", {}).get("graphs_per_batch", _batch_size(config)),
        ),
    )


def _json(path: str) -> dict[str, Any]:
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        content: dict[str, Any] = json.load(file)
    return content

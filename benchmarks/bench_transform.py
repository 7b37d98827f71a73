"""GraphTransform beside the stock Transform on the same subgraphs, and the memory that it takes.

Both take statistics and transform with the quickstart's preprocessing function, on Beam's local runner. The stock
one counts a node as often as it was sampled; here each counts once. The subgraphs are those of
the quickstart's packages, and of ten copies of its graph.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from comparison import Bound, Report, Row, run_process
from transform_runs import make_examples, run_ours, run_stock

#: Time of the stock Transform over ours: ours takes at most 1.3 times as long.
TIME_BOUND = Bound(at_least=1 / 1.3)
#: Time with statistics before and after the transform over that without.
STATISTICS_BOUND = Bound(at_most=1.15)
#: Peak memory of the process with ten times the graph over that with one.
MEMORY_BOUND = Bound(at_most=1.2)

_GIB = 2**30


@pytest.mark.parametrize(("times", "rounds"), [(1, 3), (10, 2)])
def bench_time(report: Report, tmp_path: Path, times: int, rounds: int) -> None:
    """Transforms the subgraphs of some copies of the graph."""
    examples_dir = str(tmp_path / "examples")
    num_examples = int(make_examples(examples_dir, times)["examples"])
    numbers = itertools.count()

    def output_dir() -> str:
        return str(tmp_path / f"run{next(numbers)}")

    report.compare(
        f"transform of {num_examples:,} subgraphs",
        {
            "tfx_gnn": lambda: run_ours(examples_dir, output_dir()),
            "stock Transform": lambda: run_stock(examples_dir, output_dir()),
            "tfx_gnn with statistics": lambda: run_ours(examples_dir, output_dir(), 1),
        },
        {"stock Transform": TIME_BOUND, "tfx_gnn with statistics": STATISTICS_BOUND},
        items=num_examples,
        unit="graphs",
        rounds=rounds,
    )


def bench_memory(report: Report, tmp_path: Path) -> None:
    """Transforms the subgraphs of one graph, and of ten copies of it, each in a process of its own."""
    results: dict[tuple[str, int], dict[str, Any]] = {}

    def measure() -> None:
        for times in (1, 10):
            examples_dir = tmp_path / f"examples_{times}"
            run_process("transform_runs.py", "examples", examples_dir, times)
            for run in ("ours", "stock"):
                output_dir = tmp_path / f"{run}_{times}"
                results[run, times] = run_process("transform_runs.py", run, examples_dir, output_dir)

    report.repeat(measure, rounds=1)
    for run, name, bound in (("ours", "GraphTransform", MEMORY_BOUND), ("stock", "the stock Transform", None)):
        once, often = (results[run, times]["peak"] for times in (1, 10))
        report.add(
            Row(
                what=f"peak memory of {name}, ten times the graph",
                ours=f"{often / _GIB:.2f} GiB",
                peer="the graph once",
                theirs=f"{once / _GIB:.2f} GiB",
                figure=often / once,
                bound=bound,
            )
        )

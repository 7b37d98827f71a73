"""A generated database whose best possible model is known: trees on the rows' own columns fail, a network must not.

Customers order things over two years, and send some of them back. A check looks at a customer at some moment, and fails
with a probability that depends on how many orders of the last 30 days were sent back: two hops away, by time. No column
of the check itself tells anything. The best possible AUROC is that of these probabilities.

    .venv/bin/python benchmarks/relational_database.py --output checks --seed 1
    .venv/bin/python benchmarks/relational_database.py --output checks --seed 1 --fault copy --no-run

`--fault` plants what must be reported by name: `copy` (notes written with a check carry its result), `constant` (a
column with one value), `future` (the result's own time, which is after the check). With `shuffled`, the customers of
orders are random, so that nothing can be learned; no table shows that, so the run must say that the network learned
nothing, and end with 1 without pushing it. Few checks teach too little, too: with 1,500 of a healthy database the run
ends in the same way.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc_csv

DAY = 86_400
START = 1_704_067_200
"""2024-01-01, in seconds since 1970."""
NUM_DAYS = 730
WINDOW = 30 * DAY
FAULTS = ("", "copy", "constant", "future", "shuffled")

_Seconds = npt.NDArray[np.int64]


def auroc(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_]) -> float:
    """Computes the area under the ROC curve; ties count half."""
    order = np.argsort(scores, kind="stable")
    _, inverse, counts = np.unique(scores[order], return_inverse=True, return_counts=True)
    ranks = np.empty(len(scores))
    ranks[order] = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    num_positive = int(labels.sum())
    return float(
        (ranks[labels].sum() - num_positive * (num_positive + 1) / 2) / (num_positive * (len(labels) - num_positive))
    )


def write_database(folder: Path, *, num_checks: int, seed: int, fault: str = "") -> float:
    """Writes the tables as CSV files, and returns the best possible AUROC on the newest tenth of the checks."""
    random = np.random.default_rng(seed)
    num_customers, num_orders = num_checks // 4, num_checks * 6
    customers = np.arange(num_customers) * 7 + 100_003
    of_order = random.integers(0, num_customers, num_orders)
    ordered = START + np.sort(random.integers(0, NUM_DAYS * DAY, num_orders))
    # Some customers have bad months, in which they send much back.
    bad = random.random((num_customers, NUM_DAYS // 30 + 1)) < 0.3
    is_returned = random.random(num_orders) < np.where(bad[of_order, (ordered - START) // (30 * DAY)], 0.8, 0.1)
    of_check = random.integers(0, num_customers, num_checks)
    checked = START + np.sort(random.integers(60 * DAY, NUM_DAYS * DAY, num_checks))
    counts = np.array(
        [
            (is_returned & (of_order == customer) & (ordered <= at) & (ordered > at - WINDOW)).sum()
            for customer, at in zip(of_check, checked, strict=True)
        ]
    )
    chances = 1 / (1 + np.exp(2.5 - 2.5 * counts))
    failed = random.random(num_checks) < chances
    columns = {
        "check_no": np.arange(num_checks) * 3 + 500_009,
        "customer_no": customers[of_check],
        "checked_at": _texts(checked),
        "clerk_age": random.integers(20, 65, num_checks),
        "amount": np.round(random.gamma(2.0, 50.0, num_checks), 2),
        "failed": np.where(failed, "yes", "no"),
    }
    orders = {
        "order_no": np.arange(num_orders) * 5 + 900_001,
        "customer_no": customers[of_order if fault != "shuffled" else random.permutation(of_order)],
        "ordered_at": _texts(ordered),
        "price": np.round(random.gamma(2.0, 20.0, num_orders), 2),
        "sent_back": np.where(is_returned, "yes", "no"),
    }
    if fault == "constant":
        columns["year"] = np.full(num_checks, 2013)
    if fault == "future":
        columns["result_at"] = _texts(checked + np.where(failed, 9 * DAY, 2 * DAY))
    if fault == "copy":
        notes = {
            "note_no": np.arange(num_checks) + 1,
            "check_no": columns["check_no"],
            "noted_at": columns["checked_at"],
        }
        _write(folder / "notes.csv", {**notes, "stars": np.where(failed, 1, 5)})
    people = {"customer_no": customers, "born": random.integers(1950, 2005, num_customers)}
    for name, table in (("checks", columns), ("orders", orders), ("customers", people)):
        _write(folder / f"{name}.csv", table)
    newest = slice(int(0.9 * num_checks), None)
    return auroc(chances[newest], failed[newest])


def _texts(seconds: _Seconds) -> npt.NDArray[np.str_]:
    return np.datetime_as_string(seconds.astype("datetime64[s]"))


def _write(path: Path, columns: dict[str, npt.NDArray]) -> None:
    pc_csv.write_csv(pa.table({name: pa.array(values.tolist()) for name, values in columns.items()}), path)


def main() -> None:
    """Writes a database, makes a project of it, runs it, and prints the best possible beside what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder to create")
    parser.add_argument("--checks", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", choices=FAULTS, default="")
    parser.add_argument("--no-run", action="store_true", help="only propose the project")
    arguments = parser.parse_args()
    tables = arguments.output / "tables"
    tables.mkdir(parents=True)
    best = write_database(tables, num_checks=arguments.checks, seed=arguments.seed, fault=arguments.fault)
    project = arguments.output / "project"
    command = [sys.executable, "-m", "tfx_gnn.cli"]
    start = time.monotonic()
    subprocess.run([*command, "new", str(project), "--tables", str(tables), "--label", "checks.failed"], check=True)
    figures = {"best possible AUROC": best, "seconds to propose": time.monotonic() - start}
    if not arguments.no_run:
        start = time.monotonic()
        # A model that is not blessed is not pushed, which is what some faults must lead to.
        figures["exit status of the run"] = subprocess.run([*command, "run"], check=False, cwd=project).returncode
        figures["seconds to run"] = time.monotonic() - start
    sys.stdout.write(f"{json.dumps(figures, indent=2)}\n")


if __name__ == "__main__":
    main()

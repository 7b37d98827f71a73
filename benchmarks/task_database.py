"""A generated database for a prediction task whose best possible model is known.

Customers visit a shop over a year, and click on things in each visit. Whether a customer orders something within 30
days depends on how many visits of the 30 days before had a click on the basket: two hops away, by time. The best
possible AUROC is that of these probabilities. No column of the customers tells anything, and without the times of
visits relative to the anchor nobody knows which ones count.

    .venv/bin/python benchmarks/task_database.py --output /tmp/shop --seed 1
    .venv/bin/python benchmarks/task_database.py --output /tmp/shop --seed 1 --no-ages
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from relational_database import auroc

DAY = 86_400
START = 1_735_689_600
"""2025-01-01, in seconds since 1970."""
NUM_MONTHS = 12
MONTH = 30 * DAY
TASK = "count(orders, 0 to 30 days) > 0"


def write_database(folder: Path, *, num_customers: int, seed: int) -> float:
    """Writes the tables as Parquet files, and returns the best possible AUROC in the newest window."""
    random = np.random.default_rng(seed)
    customers = np.arange(num_customers) * 7 + 100_003
    num_visits = num_customers * 18
    of_visit = random.integers(0, num_customers, num_visits)
    visited = START + np.sort(random.integers(0, NUM_MONTHS * MONTH, num_visits))
    # Some customers have months in which they want something.
    wants = random.random((num_customers, NUM_MONTHS)) < 0.3
    has_basket = random.random(num_visits) < np.where(wants[of_visit, (visited - START) // MONTH], 0.8, 0.1)
    of_click = np.repeat(np.arange(num_visits), 2)
    # Which of the two clicks is the one on the basket does not matter.
    is_basket = np.repeat(has_basket, 2) & (np.tile([0, 1], num_visits) == random.integers(0, 2, num_visits).repeat(2))
    counts = np.zeros((num_customers, NUM_MONTHS))
    np.add.at(counts, (of_visit[has_basket], (visited[has_basket] - START) // MONTH), 1)
    chances = 1 / (1 + np.exp(2.5 - 2.5 * counts))
    # The orders of a month follow from the visits of the month before; those of the month after the last are the end of
    # the data, in which no window ends.
    orders = random.random(chances.shape) < chances
    of_order, month = np.nonzero(orders)
    ordered = START + (month + 1) * MONTH + random.integers(1, MONTH, len(month))
    tables = {
        "customers": {"customer_id": customers, "born": random.integers(1950, 2005, num_customers)},
        "visits": {
            "visit_id": np.arange(num_visits) * 5 + 900_001,
            "customer_id": customers[of_visit],
            "visited_at": _times(visited),
            "pages": random.integers(1, 20, num_visits),
        },
        "clicks": {
            "click_id": np.arange(len(of_click)) * 3 + 5_000_003,
            "visit_id": of_click * 5 + 900_001,
            "target": np.where(is_basket, "basket", np.where(random.random(len(of_click)) < 0.5, "picture", "text")),
        },
        "orders": {
            "order_id": np.arange(len(month)) + 40_000_001,
            "customer_id": customers[of_order],
            "ordered_at": _times(ordered),
        },
    }
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return auroc(chances[:, -2], orders[:, -2])


def _times(seconds: npt.NDArray[np.int64]) -> npt.NDArray[np.datetime64]:
    return seconds.astype("datetime64[s]").astype("datetime64[us]")


def month_start(number: int) -> str:
    """Writes when a month begins."""
    return f"{dt.datetime.fromtimestamp(START + number * MONTH, dt.timezone.utc):%Y-%m-%d}"


def main() -> None:
    """Writes a database, makes a project of it, runs it, and prints the best possible beside what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder to create")
    parser.add_argument("--customers", type=int, default=1_500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-ages", action="store_true", help="take the ages out of the project")
    parser.add_argument("--no-run", action="store_true", help="only propose the project")
    arguments = parser.parse_args()
    tables = arguments.output / "tables"
    tables.mkdir(parents=True)
    best = write_database(tables, num_customers=arguments.customers, seed=arguments.seed)
    project = arguments.output / "project"
    command = [sys.executable, "-m", "tfx_gnn.cli"]
    start = time.monotonic()
    # The first anchor has no visits before it, so that training begins a month later.
    words = ["--predict", TASK, "--for-each", "customers", "--where", "count(visits, -30 to 0 days) >= 0"]
    words += ["--validation-from", month_start(NUM_MONTHS - 2), "--test-from", month_start(NUM_MONTHS - 1)]
    subprocess.run([*command, "new", str(project), "--tables", str(tables), *words], check=True)
    figures = {"best possible AUROC": best, "seconds to propose": time.monotonic() - start}
    if arguments.no_ages:
        file = project / "project.yaml"
        file.write_text(re.sub(r"\{kind: age[^}]*\}", "{kind: drop}", file.read_text()))
    if not arguments.no_run:
        start = time.monotonic()
        subprocess.run([*command, "run"], check=True, cwd=project)
        figures["seconds to run"] = time.monotonic() - start
    sys.stdout.write(f"{json.dumps(figures, indent=2)}\n")


if __name__ == "__main__":
    main()

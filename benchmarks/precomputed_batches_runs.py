"""Precomputed batches of the quickstart's subgraphs, written and read in processes of their own.

`python precomputed_batches_runs.py RUN ARGUMENTS` prints what it measured as JSON, in the last line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf

from tfx_gnn.components import SizeConstraintLearnerOptions, learn_size_constraints
from tfx_gnn.training import (
    PrecomputedBatchesOptions,
    precomputed_batches_dataset,
    read_manifest,
    write_precomputed_batches,
)

#: So few that they are there both times that memory is compared.
_SHUFFLE_BUFFER_SIZE = 1000


def learn(examples_dir: str, size_constraints_dir: str, schema_dir: str = "") -> dict[str, float]:
    """Learns budgets for 32 graphs, and for 128.

    Args:
        examples_dir: the examples.
        size_constraints_dir: folder to make.
        schema_dir: folder of their schema, if they are not beside it.
    """
    content = learn_size_constraints(
        examples_dir=examples_dir,
        graph_schema_dir=schema_dir or examples_dir,
        size_constraints_dir=size_constraints_dir,
        options=SizeConstraintLearnerOptions(batch_size=32, extra_batch_sizes=(128,)),
    )
    return {name: budget.fill for name, budget in content.budgets.items()}


def write(examples_dir: str, size_constraints_dir: str, precomputed_batches_dir: str) -> dict[str, float]:
    """Stores an epoch of packed batches.

    Args:
        examples_dir: examples with their schema.
        size_constraints_dir: their budgets.
        precomputed_batches_dir: folder to make.
    """
    started = time.perf_counter()
    manifest = write_precomputed_batches(
        transformed_examples_dir=examples_dir,
        transformed_graph_schema_dir=examples_dir,
        size_constraints_dir=size_constraints_dir,
        precomputed_batches_dir=precomputed_batches_dir,
        options=PrecomputedBatchesOptions(shuffle_buffer_size=_SHUFFLE_BUFFER_SIZE),
    )
    return _measured(manifest.epochs[0].num_graphs, started) | {"bytes": manifest.num_bytes}


def read(examples_dir: str, precomputed_batches_dir: str) -> dict[str, float]:
    """Reads them.

    Args:
        examples_dir: what they were made of.
        precomputed_batches_dir: where they are.
    """
    started = time.perf_counter()
    dataset = precomputed_batches_dataset(
        precomputed_batches_dir,
        transformed_examples_dir=examples_dir,
        transformed_graph_schema_dir=examples_dir,
        budget=read_manifest(precomputed_batches_dir).budget,
    )
    num_graphs = sum(int(tf.math.count_nonzero(batch.is_real)) for batch in dataset)
    return _measured(num_graphs, started)


def _measured(num_graphs: int, started: float) -> dict[str, float]:
    # Not ru_maxrss: it starts at the size of the process that started this one.
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    return {"graphs": num_graphs, "seconds": time.perf_counter() - started, "peak": peak}


RUNS: Mapping[str, Callable[..., dict[str, float]]] = {"learn": learn, "write": write, "read": read}

if __name__ == "__main__":
    run, *arguments = sys.argv[1:]
    sys.stdout.write(f"{json.dumps(RUNS[run](*arguments))}\n")

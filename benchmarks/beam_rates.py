"""What the stages on Beam cost by record, from which docs/beam_at_scale.md plans large graphs.

    python benchmarks/beam_rates.py [--nodes 2000 12000]

Makes random graphs of two sizes, runs every stage on both in one process each, and prints the difference by record:
processor seconds, bytes written, and bytes that Beam grouped by key, which a distributed runner shuffles. The costs of
starting are in both sizes, so they are not in the difference.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EDGES_OF_A_NODE = 10
FEATURE_WIDTH = 16

_SCHEMA = """
node_sets {
  key: "item"
  value {
    features { key: "#id" value { dtype: DT_INT64 } }
    features { key: "values" value { dtype: DT_FLOAT shape { dim { size: %d } } } }
    features { key: "kind" value { dtype: DT_INT64 } }
    metadata { filename: "items.parquet" }
  }
}
edge_sets { key: "link" value { source: "item" target: "item" metadata { filename: "links.parquet" } } }
"""


def preprocessing_fn(graph: Any) -> Any:
    """Scales the values by full-pass statistics."""
    import tensorflow_transform as tft

    values = graph.node_sets["item"]["values"]
    return graph.replace_features(node_sets={"item": {"values": tft.scale_to_z_score(values, elementwise=True)}})


def write_tables(folder: Path, num_nodes: int) -> None:
    """Writes a random graph of `num_nodes * EDGES_OF_A_NODE` edges."""
    draw = np.random.default_rng(0)
    folder.mkdir()
    values = draw.normal(size=num_nodes * FEATURE_WIDTH).astype(np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), FEATURE_WIDTH)
    kinds = draw.integers(0, 5, num_nodes)
    pq.write_table(pa.table({"id": np.arange(num_nodes), "values": lists, "kind": kinds}), folder / "items.parquet")
    ends = draw.integers(0, num_nodes, (2, num_nodes * EDGES_OF_A_NODE))
    pq.write_table(pa.table({"source": ends[0], "target": ends[1]}), folder / "links.parquet")
    (folder / "graph_schema.pbtxt").write_text(_SCHEMA % FEATURE_WIDTH)


def _count_grouped_bytes() -> Callable[[], int]:
    """Counts what Beam's local runner gets to group by key; returns a function that tells how much it was."""
    from apache_beam.runners.portability.fn_api_runner import execution

    total = 0
    append = execution.GroupingBuffer.append

    def counted(self: Any, elements_data: bytes) -> None:
        nonlocal total
        total += len(elements_data)
        append(self, elements_data)

    execution.GroupingBuffer.append = counted
    return lambda: total


def measure(folder: Path, num_nodes: int) -> dict[str, dict[str, float]]:
    """Runs the stages on one graph; gives records, processor seconds and bytes by stage."""
    import tfx_gnn.components as stages
    from tfx_gnn.sampling import Hop, SamplingPlan

    plan = SamplingPlan(
        seed_node_set="item",
        hops=(
            Hop(edge_set="link", fan_out=8),
            Hop(edge_set="link", fan_out=4, inputs=("link",), name="second"),
        ),
        label_features=("kind",),
    )
    write_tables(folder / "tables", num_nodes)
    grouped = _count_grouped_bytes()
    place = {name: str(folder / name) for name in ("examples", "statistics", "anomalies", "blessing", "transform")}
    place |= {name: str(folder / name) for name in ("transformed", "transformed_schema", "sizes")}
    runs: dict[str, tuple[str, Callable[[], object]]] = {
        "sample": (
            "examples",
            lambda: stages.generate_subgraph_examples(
                tables_dir=str(folder / "tables"),
                examples_dir=place["examples"],
                options=stages.SubgraphExampleGenOptions(plan=plan, execution="beam", num_shards=2),
            ),
        ),
        "validate": (
            "statistics",
            lambda: stages.validate_graph_examples(
                examples_dir=place["examples"],
                graph_schema_dir=place["examples"],
                statistics_dir=place["statistics"],
                anomalies_dir=place["anomalies"],
                blessing_dir=place["blessing"],
                options=stages.expectations_of_plan(plan),
            ),
        ),
        "transform": (
            "transformed",
            lambda: stages.transform_graphs(
                examples_dir=place["examples"],
                graph_schema_dir=place["examples"],
                transform_graph_dir=place["transform"],
                transformed_examples_dir=place["transformed"],
                transformed_graph_schema_dir=place["transformed_schema"],
                options=stages.GraphTransformOptions(preprocessing_fn="beam_rates:preprocessing_fn"),
            ),
        ),
        "sizes": (
            "sizes",
            lambda: stages.learn_size_constraints(
                examples_dir=place["transformed"],
                graph_schema_dir=place["transformed_schema"],
                size_constraints_dir=place["sizes"],
                options=stages.SizeConstraintLearnerOptions(batch_size=32),
            ),
        ),
    }
    found = {}
    for name, (output, run) in runs.items():
        started, before = time.process_time(), grouped()
        run()
        found[name] = {
            "records": num_nodes,
            "cpu_seconds": time.process_time() - started,
            "grouped_bytes": grouped() - before,
            "written_bytes": sum(path.stat().st_size for path in Path(place[output]).rglob("*") if path.is_file()),
        }
    return found


def main() -> None:
    """Prints a row for each stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs=2, default=[2000, 12000], help="sizes of the two graphs")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    small, large = arguments.nodes
    if arguments.folder:
        sys.stdout.write("\n" + json.dumps(measure(arguments.folder, small)) + "\n")
        return
    results = []
    for num_nodes in (small, large):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-W", "ignore", __file__, "--nodes", str(num_nodes), "0", "--folder", folder]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            results.append(json.loads(done.stdout.splitlines()[-1]))
    sys.stdout.write("stage      records/s of CPU  bytes written  bytes grouped  (by record)  seconds to start\n")
    for stage in results[0]:
        less, more = (result[stage] for result in results)
        count = more["records"] - less["records"]
        by_record = {name: (more[name] - less[name]) / count for name in less}
        start = less["cpu_seconds"] - by_record["cpu_seconds"] * less["records"]
        sys.stdout.write(
            f"{stage:<10} {1 / by_record['cpu_seconds']:>16.0f} {by_record['written_bytes']:>14.0f} "
            f"{by_record['grouped_bytes']:>14.0f} {start:>30.1f}\n"
        )


if __name__ == "__main__":
    main()

"""Sizes of graphs that budgets are learned from, and the learner in a process of its own.

`python budget_sizes.py TIMES` prints what it measured as JSON, in the last line.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from comparison import Absent
from debian_graph import debian_tables, heterogeneous_plan
from heavy_tailed_graphs import SCHEMA, draw_sizes, serialized_graphs

from tfx_gnn.records import examples_folder
from tfx_gnn.sampling import Hop, SamplingPlan

DISTRIBUTIONS = (
    "log-normal sizes",
    "power-law sizes",
    "Debian, heterogeneous",
    "Debian, plan of debian_sections",
    "Debian, reverse depends",
)

_NUM_GRAPHS = 100_000
_SHARDS = 4
_BATCH = 1024
_POWER_LAW_SCHEMA = """
node_sets { key: "user" value { } }
node_sets { key: "item" value { } }
edge_sets { key: "buys" value { source: "user" target: "item" } }
"""


@dataclasses.dataclass(frozen=True, eq=False)
class GraphSizes:
    """Sizes of graphs.

    Attributes:
        train: int32 [num_graphs, num_sets], what budgets are learned from.
        other: int32 [num_others, num_sets], graphs of the same distribution that nobody learns from.
        names: the sets, as in "nodes/package".
        schema: text of their graph schema, without features.
        origin: where they are from.
    """

    train: np.ndarray[Any, Any]
    other: np.ndarray[Any, Any]
    names: tuple[str, ...]
    schema: str
    origin: str


def graph_sizes(name: str) -> GraphSizes:
    """Finds or draws the sizes of a distribution.

    Args:
        name: one of `DISTRIBUTIONS`.
    """
    if name == "log-normal sizes":
        drawn = [draw_sizes(_NUM_GRAPHS, seed) for seed in (1, 2)]
        matrices = [np.stack(list(sizes.values()), axis=1).astype(np.int32) for sizes in drawn]
        return GraphSizes(*matrices, names=tuple(drawn[0]), schema=_without_features(SCHEMA), origin="100,000 drawn")
    if name == "power-law sizes":
        matrices = [_power_law_sizes(seed) for seed in (1, 2)]
        names = ("nodes/user", "nodes/item", "edges/buys")
        return GraphSizes(*matrices, names=names, schema=_POWER_LAW_SCHEMA, origin="100,000 drawn")
    return _debian_sizes(name)


def _power_law_sizes(seed: int) -> np.ndarray[Any, Any]:
    """Hubs and leaves: sizes that go together, the largest fifty times the mean."""
    random = np.random.default_rng(seed)
    users = np.clip((random.pareto(1.5, _NUM_GRAPHS) + 1) * 5, 5, 600)
    items = users * random.lognormal(-0.1, 0.45, _NUM_GRAPHS) + 1
    buys = users * (2 + random.pareto(2.5, _NUM_GRAPHS).clip(0, 8))
    return np.stack([users, items, buys], axis=1).astype(np.int32)


def _debian_sizes(name: str) -> GraphSizes:
    from tfx_gnn.sampling import InMemorySampler, reached_node_sets
    from tfx_gnn.tables import read_tables, read_tables_schema

    tables_dir, origin = _tables()
    plan = _plans()[name]
    schema = read_tables_schema(tables_dir)
    tables = read_tables(tables_dir, node_sets=reached_node_sets(plan, schema), edge_sets=plan.edge_set_names)
    sampler = InMemorySampler(tables, plan, sampling_seed=0)
    num_seeds = tables.node_tables[plan.seed_node_set].num_nodes
    blocks = [
        sampler.sample_nodes(np.arange(start, min(start + _BATCH, num_seeds))) for start in range(0, num_seeds, _BATCH)
    ]
    columns = {
        f"nodes/{one}": [np.diff(block.node_sets[one].splits) for block in blocks] for one in blocks[0].node_sets
    }
    columns["nodes/_readout"] = [np.ones(len(block.readouts.splits) - 1, np.int64) for block in blocks]
    columns.update(
        {f"edges/{one}": [np.diff(block.edge_sets[one].splits) for block in blocks] for one in blocks[0].edge_sets}
    )
    columns["edges/_readout/seed"] = columns["nodes/_readout"]
    text = [f'node_sets {{ key: "{key[6:]}" value {{ }} }}' for key in columns if key.startswith("nodes/")]
    ends = {one: (schema.edge_sets[one].source, schema.edge_sets[one].target) for one in blocks[0].edge_sets}
    ends["_readout/seed"] = (plan.seed_node_set, "_readout")
    text += [
        f'edge_sets {{ key: "{one}" value {{ source: "{source}" target: "{target}" }} }}'
        for one, (source, target) in ends.items()
    ]
    matrix = np.stack([np.concatenate(parts) for parts in columns.values()], axis=1).astype(np.int32)
    return GraphSizes(matrix, matrix[:0], names=tuple(columns), schema="\n".join(text), origin=origin)


def _tables() -> tuple[str, str]:
    from tfx_gnn_pipelines.tasks.debian_sections import TASK

    found = debian_tables()
    return (TASK.tables_dir, "3,013 packages") if isinstance(found, Absent) else (found, "all packages")


def _plans() -> dict[str, SamplingPlan]:
    from tfx_gnn_pipelines.tasks.debian_sections import TASK

    back = Hop(edge_set="depends", fan_out=0, strategy="full", direction="backward", name="first")
    return {
        "Debian, heterogeneous": heterogeneous_plan(),
        "Debian, plan of debian_sections": TASK.plan,
        "Debian, reverse depends": SamplingPlan(
            seed_node_set="package",
            label_features=("section",),
            hops=(back, dataclasses.replace(back, name="second", inputs=("first",))),
        ),
    }


def _without_features(schema: str) -> str:
    from google.protobuf import text_format

    from tfx_gnn.graph import parse_schema

    message = parse_schema(schema)
    message.ClearField("context")
    for one_set in (*message.node_sets.values(), *message.edge_sets.values()):
        one_set.features.clear()
    return text_format.MessageToString(message)


def write_sizes(sizes: GraphSizes, examples_dir: str) -> None:
    """Writes graphs of given sizes as tf.Examples of split "train"; all edges go from node 0 to node 0."""
    for shard in range(_SHARDS):
        records = [_serialize(sizes.names, row) for row in sizes.train[shard::_SHARDS].tolist()]
        examples_folder.write_split_shard(examples_dir, "train", shard, _SHARDS, records)
    with open(os.path.join(examples_dir, "graph_schema.pbtxt"), "w") as file:
        file.write(sizes.schema)


def _serialize(names: tuple[str, ...], row: list[int]) -> bytes:
    import tensorflow as tf

    features = {}
    for name, size in zip(names, row, strict=True):
        features[f"{name}.#size"] = tf.train.Feature(int64_list=tf.train.Int64List(value=[size]))
        if name.startswith("edges/"):
            ends = tf.train.Feature(int64_list=tf.train.Int64List(value=[0] * size))
            features[f"{name}.#source"] = features[f"{name}.#target"] = ends
    record: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    return record


def run_learner(times: int) -> dict[str, float]:
    """Learns from files that hold heavy-tailed graphs, each file `times` times.

    Args:
        times: how often the same 2,000 graphs are there; different files, so that nothing is shared.
    """
    import tensorflow as tf

    from tfx_gnn.components import SizeConstraintLearnerOptions, learn_size_constraints
    from tfx_gnn.components.size_constraint_learner import stage

    with tempfile.TemporaryDirectory() as folder:
        examples_dir, num_shards = f"{folder}/examples", 2 * times
        records = serialized_graphs(2000)
        for shard in range(num_shards):
            examples_folder.write_split_shard(examples_dir, "train", shard, num_shards, list(records[shard % 2 :: 2]))
        with open(f"{examples_dir}/graph_schema.pbtxt", "w") as file:
            file.write(SCHEMA)
        del records
        serialized_graphs.cache_clear()
        paths = examples_folder.split_files(examples_dir, "train")

        def read() -> float:
            started = time.perf_counter()
            num_records = 0
            for path in paths:
                for batch in tf.data.TFRecordDataset(path, compression_type="GZIP").batch(1024):
                    num_records += int(tf.size(batch))
            assert num_records == 1000 * num_shards
            return time.perf_counter() - started

        seconds: dict[str, float] = {}
        summarize = stage.summarize_sizes

        def timed(*args: Any, **settings: Any) -> Any:
            started = time.perf_counter()
            summary = summarize(*args, **settings)
            seconds["pass"] = time.perf_counter() - started
            return summary

        read_before = read()
        stage.summarize_sizes = timed
        started = time.perf_counter()
        learn_size_constraints(
            examples_dir=examples_dir,
            graph_schema_dir=examples_dir,
            size_constraints_dir=f"{folder}/budgets",
            options=SizeConstraintLearnerOptions(),
        )
        whole = time.perf_counter() - started
        read_seconds = (read_before + read()) / 2
    return {
        "graphs": 1000.0 * num_shards,
        "read_seconds": read_seconds,
        "pass_seconds": seconds["pass"],
        "search_seconds": whole - seconds["pass"],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0,
    }


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(run_learner(int(sys.argv[1])))}\n")

"""Other libraries' samplers on the Debian graph, each in a process of its own.

`python sampling_peers.py RUN TABLES_DIR NUM_SEEDS` prints what it measured as JSON, in the last line.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
import time
from typing import Any

# tensorflow-gnn needs Keras 2 under the name tf.keras.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
from debian_graph import FAN_OUTS, FOUR_EDGE_SETS, SEEDS, copy_tables, four_edge_sets_spec

_BATCH = 256


def run_tensorflow_gnn_on_beam(tables_dir: str, num_seeds: int) -> dict[str, float]:
    """Its sampler on Beam, as its own command runs it: tables in CSV, the direct runner."""
    from absl import flags

    sampler = importlib.import_module("tensorflow_gnn.experimental.sampler.beam.sampler")
    with tempfile.TemporaryDirectory() as folder:
        csv_dir, output = os.path.join(folder, "tables"), os.path.join(folder, "out", "samples.tfrecord")
        copy_tables(tables_dir, csv_dir, num_seeds=num_seeds, as_csv=True)
        os.makedirs(os.path.dirname(output))
        with open(os.path.join(folder, "spec.pbtxt"), "w") as file:
            file.write(four_edge_sets_spec())
        sampler.define_flags()
        flags.FLAGS(
            [
                "sampler",
                f"--graph_schema={csv_dir}/graph_schema.pbtxt",
                f"--data_path={csv_dir}",
                f"--input_seeds={csv_dir}/{SEEDS}.csv",
                f"--sampling_spec={folder}/spec.pbtxt",
                f"--output_samples={output}",
                "--runner=DirectRunner",
            ]
        )
        started, cpu = time.perf_counter(), time.process_time()
        sampler.app_main(["sampler"])
        return _measured(started, cpu, num_seeds, os.path.getsize(output))


def run_tensorflow_gnn_in_memory(tables_dir: str, num_seeds: int) -> dict[str, float]:
    """Its sampler over tensors in memory, which gives batches of GraphTensors with their features."""
    _use_one_core()
    import tensorflow as tf
    from google.protobuf import text_format

    tfgnn, sampler = (
        importlib.import_module(name) for name in ("tensorflow_gnn", "tensorflow_gnn.experimental.sampler")
    )
    nodes, edges, seeds = _graph(tables_dir, num_seeds)
    with open(os.path.join(tables_dir, "graph_schema.pbtxt")) as file:
        schema = text_format.Parse(file.read(), tfgnn.GraphSchema())
    for name in set(schema.edge_sets) - set(FOUR_EDGE_SETS):
        del schema.edge_sets[name]
    spec = text_format.Parse(four_edge_sets_spec(), importlib.import_module("tensorflow_gnn.sampler").SamplingSpec())

    def edge_sampler(operation: Any) -> Any:
        source_set, sources, targets = edges[operation.edge_set_name]
        return sampler.InMemUniformEdgesSampler(
            num_source_nodes=len(nodes[source_set][0]),
            source=sources,
            target=targets,
            sample_size=operation.sample_size,
            edge_set_name=operation.edge_set_name,
            name=operation.op_name,
        )

    def node_features(node_set: str) -> Any:
        _, features = nodes[node_set]
        return sampler.InMemIndexToFeaturesAccessor(features, name=f"nodes_{node_set}")

    model = sampler.create_sampling_model_from_spec(schema, spec, edge_sampler, node_features, seed_node_dtype=tf.int64)
    call = tf.function(model, input_signature=[tf.RaggedTensorSpec([None, None], tf.int64, ragged_rank=1)])
    batches = [
        tf.RaggedTensor.from_tensor(seeds[start : start + _BATCH, None]) for start in range(0, num_seeds, _BATCH)
    ]
    call(batches[0])
    started, cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        call(batch)
    return _measured(started, cpu, num_seeds)


def run_pyg(tables_dir: str, num_seeds: int, *, batch_size: int, is_disjoint: bool) -> dict[str, float]:
    """PyG's NeighborLoader; edges are turned round, since it follows them from target to source."""
    _use_one_core()
    import torch
    from torch_geometric.data import HeteroData
    from torch_geometric.loader import NeighborLoader

    nodes, edges, seeds = _graph(tables_dir, num_seeds)
    data = HeteroData()
    for name, (ids, features) in nodes.items():
        # It holds numbers only: texts of the tables are left out.
        numbers = [values for values in features.values() if values.dtype != object]
        data[name].x = torch.from_numpy(np.stack(numbers, axis=1)) if numbers else torch.zeros(len(ids), 0)
    targets_of = {"depends": "package", "recommends": "package", "built_from": "source", "maintained_by": "maintainer"}
    for name, (source_set, sources, targets) in edges.items():
        data[targets_of[name], name, source_set].edge_index = torch.from_numpy(np.stack([targets, sources]))
    loader = NeighborLoader(
        data,
        num_neighbors={edge_type: list(FAN_OUTS) for edge_type in data.edge_types},
        input_nodes=("package", torch.from_numpy(seeds)),
        batch_size=batch_size,
        disjoint=is_disjoint,
    )
    next(iter(loader))
    started, cpu = time.perf_counter(), time.process_time()
    num_nodes = sum(batch.num_nodes for batch in loader)
    return _measured(started, cpu, num_seeds) | {"nodes": num_nodes / num_seeds}


def _use_one_core() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _graph(tables_dir: str, num_seeds: int) -> tuple[dict[str, Any], dict[str, Any], np.ndarray]:
    """Node sets as ids and features, edge sets as source set and both ends, and seeds, all as positions."""
    from tfx_gnn.tables import read_tables

    tables = read_tables(tables_dir, node_sets=("maintainer", "package", "source"), edge_sets=FOUR_EDGE_SETS)
    nodes = {
        name: (
            table.ids,
            {feature: column.to_numpy(zero_copy_only=False) for feature, column in table.features.items()},
        )
        for name, table in tables.node_tables.items()
    }
    edges = {name: (table.source_set, table.sources, table.targets) for name, table in tables.edge_tables.items()}
    with tempfile.TemporaryDirectory() as folder:
        copy_tables(tables_dir, os.path.join(folder, "tables"), num_seeds=num_seeds)
        ids = pq.read_table(os.path.join(folder, "tables", f"{SEEDS}.parquet"))["id"].combine_chunks()
    package_ids = tables.node_tables["package"].ids
    seeds = pc.index_in(ids.cast(package_ids.type), value_set=package_ids)
    return nodes, edges, seeds.to_numpy().astype(np.int64)


def _measured(started: float, cpu: float, num_seeds: int, num_bytes: int = 0) -> dict[str, float]:
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "seeds": num_seeds,
        "bytes": num_bytes / num_seeds,
    }


RUNS = {
    "tensorflow_gnn_on_beam": run_tensorflow_gnn_on_beam,
    "tensorflow_gnn_in_memory": run_tensorflow_gnn_in_memory,
    "pyg_disjoint": lambda tables_dir, num_seeds: run_pyg(tables_dir, num_seeds, batch_size=_BATCH, is_disjoint=True),
    "pyg_one_by_one": lambda tables_dir, num_seeds: run_pyg(tables_dir, num_seeds, batch_size=1, is_disjoint=False),
    "pyg_merged": lambda tables_dir, num_seeds: run_pyg(tables_dir, num_seeds, batch_size=_BATCH, is_disjoint=False),
}

if __name__ == "__main__":
    run, tables, count = sys.argv[1:]
    with contextlib.redirect_stdout(io.StringIO()):
        result = RUNS[run](tables, int(count))
    sys.stdout.write(f"{json.dumps(result)}\n")

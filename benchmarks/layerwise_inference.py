"""All nodes of a random graph: answers from whole subgraphs, and layer by layer.

    python benchmarks/layerwise_inference.py                        # 50,000 nodes, 1,000,000 edges, 2 layers
    python benchmarks/layerwise_inference.py --edges 250000 --layers 3
    python benchmarks/layerwise_inference.py --layers 3 --subgraphs 8

A node's answer from its subgraph takes sampling and the model. Because whole subgraphs of a large graph take long, some
nodes, drawn anew in each round, stand for all. Layer by layer, all nodes are asked, and opening the index, loading the
model and writing the table count, too. The ratio is that of nodes per second of CPU time, the median of the rounds: 94
for the first line, 170 for the second and 3,574 for the third, on two cores that other processes shared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import graph_index
import numpy as np
import pyarrow.parquet as pq
import tf_keras
from google.protobuf import text_format
from served_networks import write_identity_transform

from tfx_gnn.components.graph_indexer import GraphIndexerOptions, build_graph_index
from tfx_gnn.components.graph_layerwise_inferrer import GraphLayerwiseInferrerOptions, infer_layerwise
from tfx_gnn.graph import create_graph_spec_from_schema_pb
from tfx_gnn.models import NodeClassification, model_fns
from tfx_gnn.sampling import SEED, GraphIndex, Hop, RecordedPlan, RecordSampler, SamplingPlan, open_graph_index
from tfx_gnn.sampling.plan.subgraph_schema import make_subgraph_schema
from tfx_gnn.serving.prediction import ServingModel
from tfx_gnn.training import ServedModel
from tfx_gnn.training.loop.fast_tracing import libraries_traced_as_written
from tfx_gnn.transform import SavedGraphTransform

_UNITS = 64
_NUM_CLASSES = 10
_SUBGRAPHS_AT_ONCE = 8


def whole_neighborhoods(num_layers: int) -> SamplingPlan:
    """Makes a plan that follows all edges in both directions."""
    hops: list[Hop] = []
    inputs: tuple[str, ...] = (SEED,)
    for layer in range(num_layers):
        names = (f"out_{layer}", f"in_{layer}")
        hops += [
            Hop(edge_set="e", strategy="full", inputs=inputs, name=names[0]),
            Hop(edge_set="e", strategy="full", inputs=inputs, name=names[1], direction="backward"),
        ]
        inputs = names
    return SamplingPlan(seed_node_set="n", hops=tuple(hops))


def export(folder: str, graph: GraphIndex, plan: SamplingPlan, num_layers: int) -> str:
    """Exports an untrained GraphSAGE with its plan."""
    task = NodeClassification(label_feature="y", num_classes=_NUM_CLASSES)
    schema = make_subgraph_schema(graph.schema, plan)
    spec = create_graph_spec_from_schema_pb(schema)
    text = text_format.MessageToString(schema)
    for one in (*schema.node_sets.values(), *schema.edge_sets.values()):
        one.features.pop("#id", None)
    tf_keras.utils.set_random_seed(1)
    visible = create_graph_spec_from_schema_pb(schema).relax(num_components=True, num_nodes=True, num_edges=True)
    model = model_fns.graph_sage(
        visible, objective=task.objective(), hyperparameters={"units": _UNITS, "num_layers": num_layers}
    )
    with libraries_traced_as_written():
        ServedModel(
            raw_spec=spec,
            transformed_spec=spec,
            transform=SavedGraphTransform(write_identity_transform(f"{folder}/transform", text)),
            model=model,
            objective=task.objective(),
            layerwise_inference=True,
        ).save(f"{folder}/model")
    RecordedPlan(plan=plan, sampling_seed=0).write(f"{folder}/model/assets.extra/sampling_plan.json")
    return f"{folder}/model"


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    """Returns a result, and the seconds of wall and CPU time that it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def answers_of_subgraphs(model: ServingModel, sampler: RecordSampler, rows: Any) -> Any:
    """Asks the model about whole subgraphs."""
    found = []
    for first in range(0, len(rows), _SUBGRAPHS_AT_ONCE):
        records = sampler.sample({SEED: rows[first : first + _SUBGRAPHS_AT_ONCE]})
        found.append(model.outputs_of(records)["probabilities"])
    return np.concatenate(found)


def main() -> int:
    """Prints the rates of both ways, by round, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=50_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--subgraphs", type=int, default=64, help="nodes of a round that are asked by subgraphs")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        graph_index.make(f"{folder}/tables", asked.nodes, asked.edges)
        index_dir = f"{folder}/index"
        build_graph_index(tables_dir=f"{folder}/tables", graph_index_dir=index_dir, options=GraphIndexerOptions())
        graph, plan = open_graph_index(index_dir), whole_neighborhoods(asked.layers)
        model_dir = export(folder, graph, plan, asked.layers)
        model = ServingModel(model_dir)
        sampler = RecordSampler(graph, RecordedPlan(plan=plan, sampling_seed=0))
        draw = np.random.default_rng(2)
        answers_of_subgraphs(model, sampler, draw.integers(0, asked.nodes, 1))  # The first call is slower.
        ratios = []
        for number in range(asked.rounds):
            rows = draw.integers(0, asked.nodes, asked.subgraphs)
            expected, wall, cpu = timed(lambda rows=rows: answers_of_subgraphs(model, sampler, rows))
            options = GraphLayerwiseInferrerOptions(outputs=("predictions", "scores"), num_verified=0)
            _, all_wall, all_cpu = timed(
                lambda number=number, options=options: infer_layerwise(
                    graph_index_dir=index_dir,
                    model_dir=model_dir,
                    inference_dir=f"{folder}/answers-{number}",
                    options=options,
                )
            )
            table = pq.read_table(f"{folder}/answers-{number}/Split-all/predictions-00000-of-00001.parquet")
            found = np.array(table["probabilities"].to_pylist())[rows]
            ratios.append((asked.nodes / all_cpu) / (asked.subgraphs / cpu))
            sys.stdout.write(
                f"subgraphs: {asked.subgraphs} nodes, {wall:.1f} s, CPU {cpu:.1f} s, {asked.subgraphs / cpu:,.1f} "
                f"nodes/s of CPU; layer by layer: {asked.nodes:,} nodes, {all_wall:.1f} s, CPU {all_cpu:.1f} s, "
                f"{asked.nodes / all_cpu:,.0f} nodes/s of CPU; ratio {ratios[-1]:,.0f}; largest difference of a "
                f"probability {np.abs(found - expected).max():.1e}\n"
            )
            sys.stdout.flush()
        sys.stdout.write(f"median ratio {statistics.median(ratios):,.0f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

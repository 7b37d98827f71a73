"""Answers by id are those of bulk inference over the same tables."""

import pyarrow.parquet as pq
import pytest

from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions
from tfx_gnn.components.graph_bulk_inferrer.stage import infer_in_bulk
from tfx_gnn.components.subgraph_example_gen.options import SubgraphExampleGenOptions
from tfx_gnn.components.subgraph_example_gen.stage import generate_subgraph_examples
from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay
from tfx_gnn.sampling.plan.inference_plan import plan_for_inference
from tfx_gnn.serving.prediction import read_records

NODES = {"item": {"#id": ["a", "wa"], "x": [2.0, -1.0]}}
EDGES = {"near": {"#source": ["a", "a", "wa", "w"], "#target": ["w", "wa", "x", "a"]}}
TOLERANCE = 1e-5


@pytest.fixture
def examples_dir(items_tables, items_plan, tmp_path):
    """Examples of all nodes of the tables with more rows at their ends."""
    tables = tmp_path / "tables"
    tables.mkdir()
    for path in items_tables.iterdir():
        added = {"items.csv": NODES["item"], "near.csv": EDGES["near"]}.get(path.name, {})
        rows = "".join(",".join(map(str, row)) + "\n" for row in zip(*added.values(), strict=True))
        (tables / path.name).write_text(path.read_text() + rows)
    options = SubgraphExampleGenOptions(
        plan=plan_for_inference(items_plan.plan), sampling_seed=items_plan.sampling_seed, num_shards=1
    )
    generate_subgraph_examples(tables_dir=str(tables), examples_dir=str(tmp_path / "examples"), options=options)
    return str(tmp_path / "examples")


def test_served_answers_are_those_of_bulk_inference(serve, items_model_dir, items_index, examples_dir, tmp_path):
    infer_in_bulk(
        examples_dir=examples_dir,
        model_dir=items_model_dir,
        inference_dir=str(tmp_path / "inference"),
        options=GraphBulkInferrerOptions(outputs=("predictions", "scores")),
    )
    (path,) = (tmp_path / "inference" / "Split-all").iterdir()
    bulk = {row["id"]: row for row in pq.read_table(path).to_pylist()}

    with (
        open_graph_overlay(items_index, str(tmp_path / "overlay.log")) as overlay,
        serve(items_model_dir, index=items_index, overlay=overlay) as client,
    ):
        client.ask("POST", "/v1/graph:add", {"nodes": NODES, "edges": EDGES})
        instances = [{"id": name} for name in bulk]
        served = client.ask("POST", "/v1/models/toy:predict", {"instances": instances}).json["predictions"]
        seeds = client.server.versions.served[0].seeds
        sampled = seeds.sample([seeds.read(name, "here") for name in bulk])

    assert sorted(bulk) == ["a", "w", "wa", "x", "y", "z"]
    # Rows have the order of their examples.
    assert sampled == list(read_records(f"{examples_dir}/Split-all"))
    for answer in served:
        row = bulk[answer["id"]]
        assert answer["label"] == row["label"]
        for name in ("score", "logits", "probabilities"):
            assert answer[name] == pytest.approx(row[name], abs=TOLERANCE), name

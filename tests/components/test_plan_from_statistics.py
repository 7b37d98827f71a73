"""Plans from statistics: subgraphs by hop, worked out by hand, rates, and predictions that runs are held against."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tfx_gnn.cli import app
from tfx_gnn.reports.run_record import RecordedRun, RecordedStep
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, Temporal
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn_pipelines.planning import graph_statistics
from tfx_gnn_pipelines.planning.graph_statistics import estimate_statistics
from tfx_gnn_pipelines.planning.light_schema import read_light_schema
from tfx_gnn_pipelines.planning.predictions import (
    TOTAL,
    Hits,
    Prediction,
    count_hits,
    describe_hits,
    read_predictions,
)
from tfx_gnn_pipelines.planning.step_rates import Sizes, built_in_cost, learn_rate

SCHEMA = """
node_sets { key: "user" value { features { key: "age" value { dtype: DT_INT64 } } metadata { filename: "users.csv" } } }
node_sets { key: "item" value { metadata { filename: "items.parquet" extra { key: "id_column" value: "sku" } } } }
edge_sets { key: "buys" value { source: "user" target: "item" metadata { filename: "buys.parquet" } } }
"""
BUY = Hop(edge_set="buys", fan_out=2, name="bought")
BACK = Hop(edge_set="buys", fan_out=2, direction="backward", inputs=("bought",), name="buyers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three users, who bought 3, 1 and 0 of four items; item x twice."""
    (tmp_path / "graph_schema.pbtxt").write_text(SCHEMA)
    (tmp_path / "users.csv").write_text("id,age,split\na,1,train\nb,2,train\nc,3,test\n")
    pq.write_table(pa.table({"sku": ["x", "y", "z", "w"]}), tmp_path / "items.parquet")
    edges = {"source": ["a", "a", "a", "b"], "target": ["x", "y", "z", "x"]}
    pq.write_table(pa.table(edges), tmp_path / "buys.parquet")
    return tmp_path


def _config(config, folder, **changes):
    plan = SamplingPlan(
        **{"seed_node_set": "user", "hops": (BUY, BACK), "splits": SplitPlan(column="split"), **changes}
    )
    options = dataclasses.replace(config.subgraph_example_gen, plan=plan)
    return dataclasses.replace(config, tables_dir=str(folder), root=str(folder / "root"), subgraph_example_gen=options)


def test_subgraphs_are_estimated_by_hop(tiny_config, folder):
    found = estimate_statistics(_config(tiny_config, folder))

    assert found.num_examples == {"test": 1, "train": 2}
    # Users have min(3, 2), 1 and 0 edges. Edges lead to x, x, y, z, which have 2, 2, 1 and 1 edges back: 1.5 each.
    assert found.edges_by_hop["bought"] == 1.0
    # One draw finds one item.
    assert found.edges_by_hop["buyers"] == pytest.approx(1.5)
    # Back at x, one of its two edges is the one that led there: .5 of 1.5 edges are new.
    assert found.edges == pytest.approx(1.5)
    # The seed, an item, and a user by half a draw: one with 3 of 4 edges, one with 1 of 4.
    assert found.nodes == pytest.approx(2 + (1 - 0.25**0.5) + (1 - 0.75**0.5))
    assert (found.num_rows, found.notes) == (11, ())


def test_what_was_not_counted_is_said(tiny_config, folder, monkeypatch):
    monkeypatch.setattr(graph_statistics, "_MOST_ROWS", 2)
    edges = pa.table({"source": ["a", "a", "a", "b"], "target": ["x", "y", "z", "x"], "at": [1, 2, 3, 4]})
    pq.write_table(edges, folder / "buys.parquet", row_group_size=2)
    temporal = Temporal(seed_time="age", edge_times={"buys": "at"})

    found = estimate_statistics(_config(tiny_config, folder, temporal=temporal, hops=(BUY,)))

    assert found.notes == (
        "Of buys.parquet, 50.0% of the rows were read; the rest was scaled.",
        "Edges that are newer than a seed are counted, although examples do not have them.",
    )
    # Two edges of user a stand for four.
    assert found.edges == pytest.approx(2 / 3)


def test_splits_by_time_and_by_hash_are_counted(tiny_config, folder):
    by_time = SplitPlan(time_feature="age", until={"train": 2, "val": 3, "test": None})
    by_hash = SplitPlan(weights={"train": 2, "test": 1})

    found = [estimate_statistics(_config(tiny_config, folder, splits=one)).num_examples for one in (by_time, by_hash)]

    assert found == [{"train": 1, "val": 1, "test": 1}, {"train": 2, "test": 1}]


def test_what_cannot_be_estimated_is_refused(tiny_config, folder):
    remote = dataclasses.replace(_config(tiny_config, folder), tables_dir="gs://bucket/tables")
    (folder / "graph_schema.pbtxt").write_text(SCHEMA.replace("buys.parquet", "buys.tfrecord"))

    with pytest.raises(ValueError, match="`tables` must be one folder of this machine"):
        estimate_statistics(remote)
    with pytest.raises(ValueError, match=r"must name CSV, TSV or Parquet files .* got 'buys.tfrecord'.*--measure"):
        estimate_statistics(_config(tiny_config, folder))
    (folder / "graph_schema.pbtxt").write_text("node_sets {")
    with pytest.raises(ValueError, match="must be a graph schema in text format"):
        read_light_schema(str(folder))


SIZES = Sizes(
    num_examples={"GraphTransform": 1000, "GraphTrainer": 900},
    items=100.0,
    row_bytes=10.0,
    table_bytes=1e6,
    num_steps=50,
    graphs_per_batch=32,
)


def test_built_in_costs_grow_with_the_sizes():
    larger = dataclasses.replace(SIZES, items=1000.0, num_examples={"GraphTransform": 9000})

    for step, cost in (("GraphTransform", "seconds"), ("GraphTransform", "disk"), ("GraphTrainer", "seconds")):
        assert 0 < built_in_cost(step, cost, SIZES) < built_in_cost(step, cost, larger)


def test_runs_correct_a_rate_and_narrow_its_interval():
    guess, one, many = (learn_rate("seconds", [3.0] * count, slowness=2.0) for count in (0, 1, 10))

    assert (guess.factor, one.factor, many.factor) == (2.0, pytest.approx(3.0), pytest.approx(3.0))
    assert guess.deviation > one.deviation > many.deviation > 0
    assert learn_rate("seconds", [3.0], slowness=2.0, distance=1.0).deviation > one.deviation
    assert learn_rate("seconds", [3.0], slowness=4.0).deviation > one.deviation
    found = guess.quantity(10.0)
    # A factor of exp(1.2816 * .8) either way.
    assert (found.value, found.high / found.value) == (20.0, pytest.approx(math.exp(1.02528)))
    assert found.value / found.low == pytest.approx(found.high / found.value)


def _run(started, seconds, *, state="complete", num_epochs=20):
    def step(name):
        options = {"num_epochs": num_epochs}
        return RecordedStep(
            component=name, execution=1, state=state, started=started, seconds=seconds, options=options,
            inputs=(), outputs=(), error="",
        )  # fmt: skip

    run = RecordedRun(
        root="r",
        pipeline="p",
        name=str(started),
        number=1,
        num_runs=1,
        steps=(step("GraphTransform"), step("GraphTrainer")),
    )
    return run, {"train": 100}


def test_runs_are_counted_against_the_newest_earlier_prediction():
    seconds = {"GraphTransform": (1.0, 2.0, 4.0), "GraphTrainer": (5.0, 8.0, 10.0)}
    old = Prediction(made=10.0, num_examples={"train": 105}, num_epochs=20, seconds=seconds)
    new = dataclasses.replace(old, made=30.0, seconds={"GraphTransform": (5, 6, 7), "GraphTrainer": (5, 6, 7)})
    runs = [
        _run(5.0, 6.0),  # before all predictions
        _run(20.0, 6.0),  # GraphTransform misses (1, 4), and 12 is within (6, 14)
        _run(40.0, 6.0),  # all within
        _run(50.0, 6.0, state="cached"),
        _run(60.0, 6.0, num_epochs=5),  # another training
    ]

    hits = count_hits([old, new], runs)

    assert hits == {
        "GraphTransform": Hits(num_runs=2, num_inside=1),
        "GraphTrainer": Hits(num_runs=2, num_inside=2),
        TOTAL: Hits(num_runs=2, num_inside=2),
    }
    assert describe_hits(hits) == (
        "of 2 earlier predictions, 2 lay inside their 80 % interval in total, and 3 of 4 by step "
        "(GraphTransform 1 of 2)"
    )
    assert describe_hits({"GraphTrainer": Hits(num_runs=1, num_inside=1)}) == (
        "of earlier predictions, 1 of 1 steps lay inside their 80 % interval; no whole run can be counted yet"
    )
    assert describe_hits({}) == ""


def test_the_command_keeps_its_prediction_and_agrees_with_its_json(tiny_config, tmp_path):
    command = ["plan", "tiny_project.task:TASK", "--root", str(tmp_path / "root")]

    shown, plain = CliRunner().invoke(app, command), CliRunner().invoke(app, [*command, "--json"])

    assert shown.exit_code == plain.exit_code == 0, shown.output + plain.output
    plan = json.loads(plain.stdout)
    first, second = read_predictions(str(tmp_path / "root"))
    assert second.num_examples == first.num_examples == plan["num_examples"]
    of_trainer = next(step for step in plan["steps"] if step["step"] == "GraphTrainer")["seconds"]
    assert second.seconds["GraphTrainer"] == (of_trainer["low"], of_trainer["value"], of_trainer["high"])
    assert {step["source"] for step in plan["steps"]} == {"built-in rates"}
    assert f"{sum(plan['num_examples'].values()):,} examples" in shown.stdout
    assert f"about {plan['statistics']['nodes']:,.1f} nodes" in shown.stdout


def test_damaged_predictions_are_refused(tmp_path):
    (tmp_path / "predictions.jsonl").write_text('{"made": 1}\n')

    with pytest.raises(ValueError, match=r"must have a prediction in each line; got another text in line 1"):
        read_predictions(str(tmp_path))


def test_tensorflow_is_not_imported():
    code = (
        "import sys; import tfx_gnn_pipelines.planning.statistical_plan, tfx_gnn_pipelines.planning.plan_table; "
        "print('tensorflow' in sys.modules)"
    )

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"

"""Records that are asked for by id are those that training saw, but for labels."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.examples.seed_selection import make_seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.graph_snapshot import snapshot_of_index
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.inference_plan import plan_for_inference
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import read_tables, read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of

SCHEMA = """
node_sets { key: "user" value {
  features { key: "age" value { dtype: DT_INT64 } } features { key: "color" value { dtype: DT_STRING } }
  features { key: "part" value { dtype: DT_STRING } }
  metadata { filename: "users.csv" } } }
node_sets { key: "item" value {
  features { key: "#id" value { dtype: DT_INT64 } } features { key: "price" value { dtype: DT_FLOAT } }
  metadata { filename: "items.csv" } } }
edge_sets { key: "buys" value { source: "user" target: "item"
  features { key: "weight" value { dtype: DT_FLOAT } } features { key: "at" value { dtype: DT_INT64 } }
  metadata { filename: "buys.csv" } } }
"""
SEED = 11
SPLITS = SplitPlan(weights={"train": 1, "test": 1})
STRATEGIES = {
    "uniform": {},
    "uniform_with_replacement": {},
    "weighted": {"weight_feature": "weight"},
    "top_k": {"weight_feature": "weight"},
    "in_degree": {},
    "full": {"fan_out": 0},
}
HOPS = (
    Hop(edge_set="buys", fan_out=3),
    Hop(edge_set="buys", fan_out=3, direction="backward", inputs=("buys",), name="b"),
)
NODES = SamplingPlan(seed_node_set="user", hops=HOPS, label_features=("color",), splits=SPLITS)
LINKS = SamplingPlan(
    seed_edge_set="buys",
    hops=(
        Hop(edge_set="buys", fan_out=3, inputs=("source",), name="s"),
        Hop(edge_set="buys", fan_out=3, inputs=("target",), direction="backward", name="t"),
    ),
    splits=SplitPlan(weights={"train": 1}),
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """30 users who bought 12 items 200 times, as tables in memory and as an index."""
    folder = tmp_path_factory.mktemp("graph") / "tables"
    folder.mkdir()
    draw = np.random.default_rng(1)

    def write(name, header, rows):
        (folder / name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")

    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    users = [(f"u{number}", number % 7, "red", "val" if number % 3 else "train") for number in draw.permutation(30)]
    write("users.csv", "id,age,color,part", users)
    write("items.csv", "id,price", [(number * 3 - 6, number / 4) for number in draw.permutation(12)])
    ends = sorted({(f"u{draw.integers(28)}", draw.integers(10) * 3 - 6) for _ in range(200)})
    write("buys.csv", "source,target,weight,at", [(*pair, draw.integers(5), draw.integers(9)) for pair in ends])
    index_dir = folder.parent / "index"
    index_dir.mkdir()
    schema = read_tables_schema(str(folder))
    write_graph_index(str(index_dir), schema, layouts_of(schema, str(folder)))
    return read_tables(str(folder), extra_columns={"nodes/user": ("part",)}), open_graph_index(str(index_dir))


def records_of_training(tables, plan):
    """Seeds of all splits and their records, as SubgraphExampleGen makes them, without labels."""
    seeds, _ = make_seeds(tables, plan, SEED)
    sampler = InMemorySampler(tables, plan, sampling_seed=SEED, edge_ranks=rank_edges(tables, plan))
    encoder = SubgraphExampleEncoder(tables, plan)
    found = []
    for of_split in seeds.values():
        records = encoder.encode(sampler.sample(of_split))
        found += zip(
            *(nodes.tolist() for nodes in of_split.readout_nodes.values()), map(without_label, records), strict=True
        )
    return found


def without_label(record):
    example = tf.train.Example.FromString(record)
    example.features.feature.pop("nodes/_readout.color", None)
    return example.SerializeToString(deterministic=True)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nodes_have_the_records_of_training(graph, strategy):
    tables, index = graph
    first = Hop(edge_set="buys", **{"fan_out": 3, "strategy": strategy} | STRATEGIES[strategy])
    plan = dataclasses.replace(NODES, hops=(first, HOPS[1]))
    sampler = RecordSampler(index, RecordedPlan(plan=plan, sampling_seed=SEED))
    rows, trained = zip(*records_of_training(tables, plan), strict=True)
    ids = tables.node_tables["user"].ids.take(np.array(rows)).to_pylist()

    found = sampler.find({"seed": ids})

    assert found["seed"].tolist() == list(rows)
    assert len(rows) == 30
    assert sampler.sample(found) == list(trained)
    # Neither its place nor its neighbours in a call change a record.
    assert sampler.sample({"seed": np.array([rows[4], rows[2], rows[4]])}) == [trained[4], trained[2], trained[4]]


@pytest.mark.parametrize("strategy", ["weighted", "weighted_with_replacement"])
def test_negative_weights_are_refused_where_they_are_read_in_the_index_and_in_added_rows(tmp_path, strategy):
    folder, index_dir = tmp_path / "tables", tmp_path / "index"
    folder.mkdir()
    index_dir.mkdir()
    (folder / "graph_schema.pbtxt").write_text(SCHEMA)
    (folder / "users.csv").write_text("id,age,color,part\na,1,red,train\nb,1,red,train\nc,1,red,train\n")
    (folder / "items.csv").write_text("id,price\n1,0.5\n2,0.5\n")
    (folder / "buys.csv").write_text("source,target,weight,at\na,1,1,0\na,2,0,0\nb,1,2,0\nb,2,-0.5,0\nc,1,0,0\n")
    schema = read_tables_schema(str(folder))
    write_graph_index(str(index_dir), schema, layouts_of(schema, str(folder)))
    graph = snapshot_of_index(open_graph_index(str(index_dir)))
    hop = Hop(edge_set="buys", fan_out=3, strategy=strategy, weight_feature="weight")
    plan = RecordedPlan(plan=dataclasses.replace(NODES, hops=(hop,)), sampling_seed=SEED)

    def sample(graph, row):
        (record,) = RecordSampler(graph, plan).sample({"seed": np.array([row])})
        return tf.train.Example.FromString(record).features.feature["edges/buys.#size"].int64_list.value[:]

    assert (sample(graph, 0)[0] > 0, sample(graph, 2)) == (True, [0])
    with pytest.raises(ValueError, match=r"at least 0; got -0\.5 in 'weight' of row 3 of .*buys\.csv\. Correct it"):
        sample(graph, 1)
    added = {"#source": ["c"], "#target": [2], "weight": [-3.0], "at": [0]}
    with pytest.raises(ValueError, match=r"got -3\.0 in 'weight' of added edge 0 of 'buys'\."):
        sample(graph.with_rows(edges={"buys": added}), 2)
    with pytest.raises(ValueError, match=r"got -0\.5 in 'weight' of row 3 of .*buys\.csv\. Correct it"):
        InMemorySampler(read_tables(str(folder)), plan.plan, sampling_seed=SEED)


def test_a_declared_column_of_splits_is_left_out_as_in_training(graph):
    tables, index = graph
    plan = dataclasses.replace(NODES, splits=SplitPlan(column="part"))
    rows, trained = zip(*records_of_training(tables, plan), strict=True)

    found = RecordSampler(index, RecordedPlan(plan=plan, sampling_seed=SEED)).sample({"seed": np.array(rows)})

    assert b"nodes/user.age" in found[0]
    assert b"nodes/user.part" not in found[0]
    assert found == list(trained)


def test_times_of_nodes_hide_newer_edges_as_in_training(graph):
    tables, index = graph
    plan = dataclasses.replace(NODES, temporal=Temporal(seed_time="age", edge_times={"buys": "at"}))
    rows, trained = zip(*records_of_training(tables, plan), strict=True)

    found = RecordSampler(index, RecordedPlan(plan=plan, sampling_seed=SEED)).sample({"seed": np.array(rows)})

    assert found == list(trained)
    assert found != RecordSampler(index, RecordedPlan(plan=NODES, sampling_seed=SEED)).sample({"seed": np.array(rows)})


def test_nodes_of_the_last_split_have_the_records_of_training_where_nodes_are_hidden(graph):
    tables, index = graph
    plan = dataclasses.replace(NODES, splits=dataclasses.replace(SPLITS, visibility="inductive"))
    sampler = RecordSampler(index, RecordedPlan(plan=plan, sampling_seed=SEED))
    every = dict(records_of_training(tables, plan_for_inference(plan, schema=tables.schema)))
    trained = dict(records_of_training(tables, plan))
    seeds, _ = make_seeds(tables, plan, SEED)
    last = seeds["test"].readout_nodes["seed"]

    assert 0 < len(last) < len(trained) == len(every) == 30
    assert sampler.sample({"seed": last}) == [trained[row] for row in last.tolist()]
    assert sampler.sample({"seed": np.arange(30)}) == [every[row] for row in range(30)]


def test_pairs_have_the_records_of_training(graph):
    tables, index = graph
    sampler = RecordSampler(index, RecordedPlan(plan=LINKS, sampling_seed=SEED))
    sources, targets, trained = zip(*records_of_training(tables, LINKS), strict=True)

    assert sampler.root_sets == {"source": "user", "target": "item"}
    assert sampler.sample({"source": np.array(sources), "target": np.array(targets)}) == list(trained)


def test_nodes_of_a_table_of_seeds_need_no_table(graph):
    _, index = graph
    table = SeedTable(filename="seeds.csv", features={"won": "int64"})
    plan = dataclasses.replace(NODES, seed_table=table, label_features=("won",), excluded_features={"user": ("color",)})
    rows = np.arange(30)

    found = RecordSampler(index, RecordedPlan(plan=plan, sampling_seed=SEED)).sample({"seed": rows})

    assert found == RecordSampler(index, RecordedPlan(plan=NODES, sampling_seed=SEED)).sample({"seed": rows})


def test_unknown_ids_are_told(graph):
    sampler = RecordSampler(graph[1], RecordedPlan(plan=LINKS, sampling_seed=SEED))

    found = sampler.find({"source": ["u3", "nobody", "u29"], "target": [0, 1, -6]})

    assert (found["source"] >= 0).tolist() == [True, False, True]
    assert (found["target"] >= 0).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (dataclasses.replace(LINKS, keeps_seed_edge=True), "must not keep its seed edges"),
        (
            dataclasses.replace(LINKS, temporal=Temporal(seed_time="at", edge_times={"buys": "at"})),
            "must have pairs as seeds of which the graph tells all but their ids.*'at'",
        ),
        (dataclasses.replace(NODES, hops=(Hop(edge_set="sells", fan_out=1),)), "got 'sells'"),
    ],
)
def test_plan_that_ids_do_not_determine_or_that_does_not_fit_is_refused(graph, plan, message):
    with pytest.raises(ValueError, match=message):
        RecordSampler(graph[1], RecordedPlan(plan=plan, sampling_seed=SEED))

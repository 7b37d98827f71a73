import dataclasses
import functools

import pytest
import tensorflow as tf

from tfx_gnn.records import examples_folder
from tfx_gnn.records.summary_pass import make_pipeline
from tfx_gnn.sampling.beam.partitioned_graph.build import PartitionOptions, partition_graph
from tfx_gnn.sampling.beam.sampling_pipeline import sample_with_beam
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.examples.seed_selection import make_seeds, seed_table_layout
from tfx_gnn.sampling.examples.shard_log import ShardLog
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan, SeedTable, Temporal
from tfx_gnn.sampling.plan.seed_splits import tables_with_splits
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.row_rules import RowRules
from tfx_gnn.tables.table_files import read_table

PLAN = SamplingPlan(
    seed_node_set="user",
    label_features=("color",),
    splits=SplitPlan(column="part"),
    hops=(Hop(edge_set="knows", fan_out=1), Hop(edge_set="buys", fan_out=1)),
)
ARGUMENTS = {"make_pipeline": make_pipeline, "plan": PLAN, "sampling_seed": 0, "num_shards": 2}


@pytest.fixture
def partitions_dir(tmp_path, shop_dir, write_partitions):
    tables = read_tables(shop_dir, extra_columns=tables_with_splits(PLAN).extra_columns_by_table)
    write_partitions(tables, PLAN, str(tmp_path / "partitions"), 2)
    return str(tmp_path / "partitions")


def test_seed_tables_and_the_context_are_read_from_the_partitions(tmp_path, shop_dir):
    folder = tmp_path / "shop"
    schema = (folder / "graph_schema.pbtxt").read_text()
    context = 'context { features { key: "year" value { dtype: DT_INT64 } } metadata { filename: "shop.csv" } }\n'
    (folder / "graph_schema.pbtxt").write_text(context + schema)
    (folder / "shop.csv").write_text("year\n1999\n")
    (folder / "churn.csv").write_text(
        "user,when,left,part\ncid,35,0.5,val\nann,2,1.5,train\nbob,1,2.5,train\nann,1,3.5,train\n"
    )
    table = SeedTable(
        filename="churn.csv", columns={"id": "user"}, features={"when": "int64", "left": "float32", "part": "string"}
    )
    plan = dataclasses.replace(
        PLAN,
        seed_table=table,
        label_features=("left", "color"),
        context_features=("year",),
        splits=SplitPlan(column="part", order=("train", "val")),
        temporal=Temporal(seed_time="when", edge_times={"buys": "count"}, inclusive=True),
    )
    partition_graph(
        make_pipeline=make_pipeline,
        tables_dir=shop_dir,
        partitions_dir=str(tmp_path / "partitions"),
        plan=plan,
        options=PartitionOptions(num_partitions=4),
    )

    sample_with_beam(
        **ARGUMENTS | {"plan": plan}, partitions_dir=str(tmp_path / "partitions"), examples_dir=str(tmp_path / "beam")
    )

    tables = read_tables(shop_dir)
    seed_rows = read_table(seed_table_layout(shop_dir, plan, tables.schema), RowRules())
    seeds, _ = make_seeds(tables, plan, 0, seed_table=seed_rows)
    labels = {"left": seed_rows.columns["left"]}
    sampler = InMemorySampler(tables, plan, sampling_seed=0)
    encoder = SubgraphExampleEncoder(tables, plan, seed_features=labels)
    labels_by_seed = []
    for split in ("train", "val"):
        records = list(examples_folder.read_split(str(tmp_path / "beam"), split).as_numpy_iterator())
        assert records == encoder.encode(sampler.sample(seeds[split]))
        for record in records:
            feature = tf.train.Example.FromString(record).features.feature
            ids, colors = (feature[key].bytes_list.value for key in ("nodes/user.#id", "nodes/_readout.color"))
            labels_by_seed.append((ids[0], colors[0], feature["nodes/_readout.left"].float_list.value[0]))
    assert sorted(labels_by_seed) == [
        (b"ann", b"blue", 1.5),
        (b"ann", b"blue", 3.5),
        (b"bob", b"red", 2.5),
        (b"cid", b"blue", 0.5),
    ]


def test_only_the_shards_that_are_asked_for_are_made(tmp_path, partitions_dir):
    sample_with_beam(**ARGUMENTS, partitions_dir=partitions_dir, examples_dir=str(tmp_path / "all"))

    statistics = sample_with_beam(
        **ARGUMENTS,
        partitions_dir=partitions_dir,
        examples_dir=str(tmp_path / "some"),
        shards=[("train", 1), ("val", 0)],
    )

    made = sorted(tmp_path.glob("some/Split-*/*"))
    assert [path.relative_to(tmp_path / "some").as_posix() for path in made] == [
        "Split-train/graphs-00001-of-00002.gz",
        "Split-val/graphs-00000-of-00002.gz",
    ]
    assert [path.read_bytes() for path in made] == [
        (tmp_path / "all" / path.relative_to(tmp_path / "some")).read_bytes() for path in made
    ]
    noted = ShardLog(str(tmp_path / "some")).read()
    assert sorted(noted) == [("train", 1), ("val", 0)]
    assert statistics.num_subgraphs == {split: shard.num_subgraphs[split] for (split, _), shard in noted.items()}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_shards": 0}, "`num_shards` must be at least 1; got 0"),
        ({"seeds_per_block": 0}, "`seeds_per_block` must be at least 1; got 0"),
        ({"sampling_seed": -1}, "`sampling_seed` must be in"),
        ({"shards": [("train", 2)]}, r"`shards` must name splits of .* and numbers below 2; got \('train', 2\)"),
        ({"shards": [("later", 0)]}, r"`shards` must name splits of .*got \('later', 0\)"),
    ],
)
def test_arguments_out_of_range_are_refused(tmp_path, partitions_dir, changed, message):
    sample = functools.partial(sample_with_beam, partitions_dir=partitions_dir, examples_dir=str(tmp_path / "examples"))

    with pytest.raises(ValueError, match=message):
        sample(**ARGUMENTS | changed)


def test_a_folder_without_partitions_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`partitions_dir` must be the folder of a partitioned graph"):
        sample_with_beam(**ARGUMENTS, partitions_dir=str(tmp_path), examples_dir=str(tmp_path / "examples"))

import os

import pytest

from tfx_gnn.components.graph_indexer.options import GraphIndexerOptions
from tfx_gnn.components.graph_indexer.stage import build_graph_index
from tfx_gnn.sampling.examples.seed_selection import make_seeds
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.row_rules import RowRules


def test_index_is_whole_and_dropped_rows_are_dead_letters(shop_dir, tmp_path):
    with open(os.path.join(shop_dir, "buys.csv"), "a") as file:
        file.write("nobody,7,1\n")
    options = GraphIndexerOptions(rules=RowRules(dangling_edges="drop"))

    reports = build_graph_index(tables_dir=shop_dir, graph_index_dir=str(tmp_path / "index"), options=options)

    index = open_graph_index(str(tmp_path / "index"), verify=True)
    assert index.reports == reports
    assert index.edge_tables["buys"].sources.tolist() == [0, 1, 2, 1]
    assert reports["edges/buys"].dropped == {"dangling_source": 1}
    assert os.listdir(tmp_path / "index" / "dead_letters") == ["edges.buys.jsonl"]


def test_columns_that_split_seeds_and_times_that_tell_edges_apart_are_options(shop_dir, tmp_path):
    options = GraphIndexerOptions(
        rules=RowRules(duplicate_edges="keep_first"), extra_columns={"user": ("part",)}, edge_times={"buys": "count"}
    )
    with open(os.path.join(shop_dir, "buys.csv"), "a") as file:
        file.write("ann,7,9\nann,7,1\n")

    build_graph_index(tables_dir=shop_dir, graph_index_dir=str(tmp_path / "index"), options=options)

    index = open_graph_index(str(tmp_path / "index"))
    assert index.edge_tables["buys"].num_edges == 5
    plan = SamplingPlan(seed_node_set="user", splits=SplitPlan(column="part"))
    seeds, _ = make_seeds(index, plan, 0)
    assert {split: of_split.rows.tolist() for split, of_split in seeds.items()} == {
        "train": [0, 1],
        "val": [2],
        "test": [3],
    }
    with pytest.raises(ValueError, match="`edge_times` must name an integer feature"):
        build_graph_index(
            tables_dir=shop_dir,
            graph_index_dir=str(tmp_path / "other"),
            options=GraphIndexerOptions(edge_times={"buys": "nothing"}),
        )


def test_refused_tables_leave_nothing(shop_dir, tmp_path):
    with open(os.path.join(shop_dir, "buys.csv"), "a") as file:
        file.write("nobody,7,1\n")

    with pytest.raises(ValueError, match="must name a node of 'user'"):
        build_graph_index(tables_dir=shop_dir, graph_index_dir=str(tmp_path / "index"), options=GraphIndexerOptions())

    assert sorted(os.listdir(tmp_path)) == ["shop"]

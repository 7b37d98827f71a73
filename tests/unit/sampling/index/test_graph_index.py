"""An index is the graph that its tables are, and is sampled as they are."""

import re
import shutil

import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn.sampling.engine.adjacency import build_adjacency
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.examples.seed_selection import make_seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.index import external_sort
from tfx_gnn.sampling.index.files import MANIFEST_FILE
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.index.node_lookup import sort_codes
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.row_rules import RowRules


def test_every_strategy_and_kind_of_plan_gives_the_same_records(tables, index, any_plan):
    seeds, _ = make_seeds(tables, any_plan, 5)
    of_index, _ = make_seeds(index, any_plan, 5)
    for split, of_split in seeds.items():
        found = []
        for graph, of_graph in ((tables, of_split), (index, of_index[split])):
            sampler = InMemorySampler(graph, any_plan, sampling_seed=5, edge_ranks=rank_edges(graph, any_plan))
            found.append(SubgraphExampleEncoder(graph, any_plan).encode(sampler.sample(of_graph)))
        assert found[0] == found[1]


def test_tables_of_an_index_are_those_in_memory(tables, index):
    assert index.reports == tables.reports
    assert index.context_table.features["year"].equals(tables.context_table.features["year"])
    for name, table in tables.node_tables.items():
        assert index.node_tables[name].ids.equals(table.ids)
        assert dict(index.node_tables[name].features) == dict(table.features)
    for name, table in tables.edge_tables.items():
        mapped = index.edge_tables[name]
        assert dict(mapped.features) == dict(table.features)
        for part in ("sources", "targets", "rows"):
            np.testing.assert_array_equal(getattr(mapped, part), getattr(table, part))


def test_nodes_are_found_by_id_and_unknown_ones_are_reported(tables, index):
    for name, table in tables.node_tables.items():
        rows = index.find_nodes(name, table.ids)

        assert rows.tolist() == list(range(table.num_nodes))
        sampler = InMemorySampler(index, SamplingPlan(seed_node_set=name), sampling_seed=0)
        assert sampler.sample_ids(table.ids[3:5]).node_sets[name].rows.tolist() == [3, 4]
    with pytest.raises(ValueError, match=r"`ids` must be ids of nodes/b.c/d; got \[-71\], which .*, 1 of 2"):
        sampler.sample_ids([-70, -71])
    assert index.find_nodes("a", pa.array(["", "nobody"], pa.large_string())).tolist() == [-1, -1]
    assert index.find_nodes("b.c/d", pa.array([-71, -70, -69, 10**9])).tolist() == [-1, 0, -1, -1]


def test_rows_that_rules_drop_are_dropped_and_counted_as_in_memory(graph_dir, build, tmp_path, monkeypatch):
    folder = tmp_path / "tables"
    shutil.copytree(graph_dir, folder)
    with open(folder / "ab.csv", "a") as file:
        file.write("nobody,0,1,1\n" + "a0,1,1,1\na0,0,oops,1\n")
    monkeypatch.setattr(external_sort, "_BUCKET", 200)
    rules = RowRules(invalid_rows="drop", dangling_edges="drop", duplicate_edges="keep_first")
    tables = read_tables(str(folder), rules=rules, edge_times={"aa": "t"})

    built = build(str(folder), tmp_path / "index", rules=rules, edge_times={"aa": "t"})
    index = open_graph_index(str(tmp_path / "index"))

    assert index.reports == tables.reports
    assert sorted(built.problems, key=str) == sorted(tables.problems, key=str)
    for name, table in tables.edge_tables.items():
        np.testing.assert_array_equal(index.edge_tables[name].rows, table.rows)
        whole = build_adjacency(
            table.sources, table.targets, tables.node_tables[table.source_set].num_nodes, edge_rows=table.rows
        )
        found = index.edges_by_node(Hop(edge_set=name, fan_out=1))
        everywhere = np.arange(table.num_edges)
        np.testing.assert_array_equal(found.offsets, whole.offsets)
        np.testing.assert_array_equal(found.rows_at(everywhere), whole.edge_rows)
        np.testing.assert_array_equal(found.neighbors_at(everywhere), whole.neighbors)
        np.testing.assert_array_equal(found.hashes_at(everywhere), whole.edge_hashes)
    index.edges_by_node(Hop(edge_set="aa", fan_out=1), time_feature="t")
    with pytest.raises(ValueError, match=r"got '' in the graph index .*, from which repeated edges were dropped"):
        index.edges_by_node(Hop(edge_set="ab", fan_out=1), time_feature="t")


@pytest.mark.parametrize("rules", [RowRules(duplicate_edges="refuse"), RowRules()], ids=["repeated", "dangling"])
def test_refused_rows_have_the_message_of_tables_in_memory(graph_dir, build, tmp_path, rules):
    folder = tmp_path / "tables"
    shutil.copytree(graph_dir, folder)
    if rules.duplicate_edges == "keep":
        with open(folder / "ab.csv", "a") as file:
            file.write("nobody,0,1,1\nnobody,1,1,1\n")
    with pytest.raises(ValueError, match="must name") as of_tables:
        read_tables(str(folder), rules=rules)

    with pytest.raises(ValueError, match="must name") as of_index:
        build(str(folder), tmp_path / "index", rules=rules)

    assert str(of_index.value) == str(of_tables.value)


def test_two_builds_have_the_same_bytes_and_at_most_16_bytes_an_edge_and_direction(
    index, index_dir, graph_dir, build, tmp_path
):
    again = build(graph_dir, tmp_path / "index").manifest

    assert again.fingerprint == index.fingerprint
    size = sum(
        record.num_bytes
        for name, record in again.files.items()
        if name.startswith("edges.") and ".column." not in name and not name.endswith(".offsets")
    )
    assert size <= 2 * 16 * sum(table.num_edges for table in index.edge_tables.values())


@pytest.mark.parametrize(
    ("harm", "verify", "message"),
    [
        ("cut", False, "must have .* bytes; got"),
        ("gone", False, "must have .* bytes; got no file"),
        ("flipped", True, "must have the checksum"),
        ("edited", False, "`checksum` must be .*, that of the other values; got .* The graph index is damaged"),
        ("no manifest", False, "`index_dir` must be a graph index"),
        ("version", False, "`format_version` must be 2; got 9"),
    ],
)
def test_a_damaged_index_is_refused(index_dir, tmp_path, harm, verify, message):
    folder = tmp_path / "index"
    shutil.copytree(index_dir, folder)
    victim, manifest = folder / "edges.aa.forward.rows", folder / MANIFEST_FILE
    if harm == "cut":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif harm == "gone":
        victim.unlink()
    elif harm == "flipped":
        victim.write_bytes(bytes([victim.read_bytes()[0] ^ 1]) + victim.read_bytes()[1:])
    elif harm == "edited":
        manifest.write_text(re.sub(r'"num_rows": \d+', '"num_rows": 5', manifest.read_text(), count=1))
    elif harm == "version":
        manifest.write_text(manifest.read_text().replace('"format_version": 2', '"format_version": 9'))
    else:
        manifest.unlink()

    with pytest.raises(ValueError, match=message):
        open_graph_index(str(folder), verify=verify)


def test_a_folder_in_an_object_store_is_refused():
    with pytest.raises(ValueError, match="must be a folder on a local disk"):
        open_graph_index("gs://bucket/index")


def test_two_texts_with_one_hash_are_refused():
    with pytest.raises(ValueError, match="'x' and 'y' with the same 64-bit hash"):
        sort_codes(pa.array(["x", "y"], pa.large_string()), np.array([5, 5], np.uint64), "nodes/a")

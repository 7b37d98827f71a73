import numpy as np
import pyarrow as pa
import pytest

from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.graph_source import MASK_COLUMN, UNMASKED, Graph, Mask, add_reverse_edges
from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.examples.seed_selection import make_seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.split_plan import SplitPlan
from tfx_gnn.tables.row_rules import RowRules

FILES = {
    "users_a": "id:int64\tweight:float\tlabel:int32\tattributes:string\n4\t0.5\t1\t40:Bern\n1\t1.0\t0\t10:Rome\n",
    "users_b": "id:int64\tweight:float\tlabel:int32\tattributes:string\n3\t2.0\t1\t30:Oslo\n2\t0.25\t0\t20:Lima\n",
    "items": "id:int64\tprice:string\n70\t1.5\n50\t2.5\n",
    "train": "id:int64\tweight:float\n1\t1.0\n2\t1.0\n",
    "val": "id:int64\tweight:float\n3\t1.0\n",
    "test": "id:int64\n4\n",
    "knows": "src_id:int64\tdst_id:int64\tweight:float\n"
    "1\t2\t.12\n2\t1\t.21\n1\t3\t.13\n2\t3\t.23\n3\t3\t.33\n1\t4\t.14\n",
    "buys": "src_id:int64\tdst_id:int64\ttimestamp:int64\n4\t50\t450\n1\t70\t170\n4\t70\t470\n",
}
USER = Decoder(weighted=True, labeled=True, attr_types=["int", "string"], attr_names=["age", "city"])
IDS, WEIGHTED = Decoder(), Decoder(weighted=True)
KNOWS = ("user", "user", "knows")
BUYS = ("user", "item", "buys")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _users():
    return Graph().node("users_a,users_b", "user", USER)


def _masked_users():
    return _users().node("train", "user", WEIGHTED, mask=Mask.TRAIN).node("val", "user", WEIGHTED, mask=Mask.VAL)


def _pairs(tables, name):
    edges = tables.edge_tables[name]
    ids = [tables.node_tables[node_set].ids.to_numpy() for node_set in (edges.source_set, edges.target_set)]
    return list(zip(ids[0][edges.sources].tolist(), ids[1][edges.targets].tolist(), strict=True))


@pytest.mark.usefixtures("folder")
def test_files_between_commas_are_one_source():
    users = _users().init().node_tables["user"]

    assert users.ids.to_pylist() == [1, 2, 3, 4]
    assert {name: values.to_pylist() for name, values in users.features.items()} == {
        "weight": [1.0, 0.25, 2.0, 0.5],
        "label": [0, 0, 1, 1],
        "age": [10, 20, 30, 40],
        "city": ["Rome", "Lima", "Oslo", "Bern"],
    }
    assert users.extra_columns == {}


@pytest.mark.usefixtures("folder")
def test_undirected_edges_of_one_type_are_there_both_ways_and_once():
    tables = _users().edge("knows", KNOWS, WEIGHTED, directed=False).init()

    knows = tables.edge_tables["knows"]
    assert _pairs(tables, "knows") == [(1, 2), (1, 3), (1, 4), (2, 1), (2, 3), (3, 1), (3, 2), (3, 3), (4, 1)]
    weights = [0.12, 0.13, 0.14, 0.21, 0.23, 0.13, 0.23, 0.33, 0.14]  # An edge's own, or its reverse's.
    assert knows.features["weight"].to_pylist() == pytest.approx(weights)
    assert knows.rows.tolist() == list(range(9))
    assert list(tables.edge_tables) == list(tables.schema.edge_sets) == ["knows"]
    assert (tables.reports["edges/knows"].rows_read, tables.reports["edges/knows"].rows_used) == (6, 6)


def test_undirected_edges_that_come_again_are_counted(folder):
    (folder / "knows").write_text(FILES["knows"] + "1\t2\t9\n")

    undirected = _users().edge("knows", KNOWS, WEIGHTED, directed=False).init()
    directed = _users().edge("knows", KNOWS, WEIGHTED).init()

    assert undirected.edge_tables["knows"].num_edges == 9
    assert undirected.edge_tables["knows"].features["weight"][0].as_py() == pytest.approx(0.12)
    assert dict(undirected.reports["edges/knows"].dropped) == {"duplicate_edge": 1}
    assert [problem.place for problem in undirected.problems] == ["knows, line 8"]
    assert directed.edge_tables["knows"].num_edges == 7
    with pytest.raises(
        ValueError, match=r"`edges/knows` must name every edge once; got \(1, 2\) again in knows, line 8"
    ):
        _users().edge("knows", KNOWS, WEIGHTED, directed=False).init(rules=RowRules(duplicate_edges="refuse"))


@pytest.mark.usefixtures("folder")
def test_undirected_edges_between_two_types_have_a_reverse_edge_type():
    items = Decoder(attr_types=["float"], attr_names=["price"])
    graph = Graph().edge("buys", BUYS, Decoder(timestamped=True), directed=False)

    tables = graph.node("items", "item", items).node("users_a,users_b", "user", USER).init()

    reverse = tables.edge_tables["buys_reverse"]
    assert _pairs(tables, "buys") == [(4, 50), (1, 70), (4, 70)]
    assert _pairs(tables, "buys_reverse") == [(50, 4), (70, 1), (70, 4)]
    assert (reverse.source_set, reverse.target_set) == ("item", "user")
    assert reverse.features["timestamp"].to_pylist() == [450, 170, 470]
    assert tables.schema.edge_sets["buys_reverse"].source == "item"


def test_a_directed_edge_type_has_no_reverse_and_needs_no_decoder(folder):
    (folder / "plain").write_text("src_id:int64\tdst_id:int64\n2\t1\n")

    tables = _users().edge("plain", KNOWS).init()

    assert _pairs(tables, "knows") == [(2, 1)]
    assert list(tables.edge_tables) == ["knows"]


@pytest.mark.usefixtures("folder")
def test_masks_are_a_column_of_the_nodes():
    tables = _masked_users().node("items", "item", Decoder(attr_types=["float"])).init()

    column = tables.node_tables["user"].extra_columns[MASK_COLUMN]
    assert column.type == pa.large_string()
    assert column.to_pylist() == ["train", "train", "val", UNMASKED]
    assert MASK_COLUMN not in tables.node_tables["item"].extra_columns
    assert sorted(tables.schema.node_sets) == ["item", "user"]
    assert tables.reports["nodes/user/train"].rows_used == 2


@pytest.mark.usefixtures("folder")
def test_sources_under_masks_alone_are_all_nodes_of_their_type():
    graph = Graph().node("val", "user", WEIGHTED, mask=Mask.VAL).node("train", "user", WEIGHTED, mask=Mask.TRAIN)

    users = graph.init().node_tables["user"]

    assert users.ids.to_pylist() == [1, 2, 3]
    assert users.features["weight"].to_pylist() == [1.0, 1.0, 1.0]
    assert users.extra_columns[MASK_COLUMN].to_pylist() == ["train", "train", "val"]


@pytest.mark.usefixtures("folder")
def test_subgraphs_are_sampled_with_the_splits_of_the_masks():
    tables = (
        _masked_users()
        .node("test", "user", IDS, mask=Mask.TEST)
        .node("items", "item", Decoder(attr_types=["float"], attr_names=["price"]))
        .edge("knows", KNOWS, WEIGHTED, directed=False)
        .edge("buys", BUYS, Decoder(timestamped=True), directed=False)
        .init()
    )
    plan = SamplingPlan(
        seed_node_set="user",
        label_features=("label",),
        splits=SplitPlan(column=MASK_COLUMN, unused_values=(UNMASKED,)),
        hops=(
            Hop(edge_set="knows", fan_out=9),
            Hop(edge_set="buys", fan_out=9, inputs=("knows",)),
            Hop(edge_set="buys_reverse", fan_out=9, inputs=("buys",)),
        ),
    )

    seeds, report = make_seeds(tables, plan, sampling_seed=0)
    sampler = InMemorySampler(tables, plan, sampling_seed=0, edge_ranks=rank_edges(tables, plan))
    subgraphs = sampler.sample(seeds["test"])

    assert report.num_seeds == {"train": 2, "val": 1, "test": 1}
    # User 4 knows user 1, by a reverse alone; 1 bought 70, which 4 bought too.
    ids = {name: tables.node_tables[name].ids.take(pa.array(found.rows)) for name, found in subgraphs.node_sets.items()}
    assert {name: found.to_pylist() for name, found in ids.items()} == {"user": [4, 1], "item": [70]}
    assert {name: len(found.rows) for name, found in subgraphs.edge_sets.items()} == {
        "knows": 1,
        "buys": 1,
        "buys_reverse": 2,
    }
    assert len(SubgraphExampleEncoder(tables, plan).encode(subgraphs)) == 1


@pytest.mark.usefixtures("folder")
def test_inductive_splits_hide_nodes_of_later_masks():
    tables = (
        _masked_users().node("test", "user", IDS, mask=Mask.TEST).edge("knows", KNOWS, WEIGHTED, directed=False).init()
    )
    plan = SamplingPlan(
        seed_node_set="user",
        splits=SplitPlan(column=MASK_COLUMN, visibility="inductive"),
        hops=(Hop(edge_set="knows", fan_out=9),),
    )

    seeds, _ = make_seeds(tables, plan, sampling_seed=0)
    sampler = InMemorySampler(tables, plan, sampling_seed=0, edge_ranks=rank_edges(tables, plan))

    seen = {split: np.unique(sampler.sample(seeds[split]).node_sets["user"].rows).tolist() for split in seeds}
    assert seen == {"train": [0, 1], "val": [0, 1, 2], "test": [0, 3]}


def test_ids_under_a_mask_that_are_of_no_node_are_refused_or_counted(folder):
    (folder / "train").write_text("id:int64\tweight:float\n9\t1\n1\t1\n8\t1\n")

    with pytest.raises(
        ValueError,
        match=r"`id:int64` must name a node of 'user' \(users_a,users_b\); got 9 in train, line 2\. .* 2 such",
    ):
        _masked_users().init()
    tables = _masked_users().init(rules=RowRules(dangling_edges="drop", max_dropped_share=0.9))

    assert tables.node_tables["user"].extra_columns[MASK_COLUMN].to_pylist() == ["train", "none", "val", "none"]
    report = tables.reports["nodes/user/train"]
    assert (report.rows_read, report.rows_used, dict(report.dropped)) == (3, 1, {"dangling_source": 2})
    assert [problem.place for problem in tables.problems] == ["train, line 2", "train, line 4"]
    with pytest.raises(
        ValueError, match=r"`max_dropped_share` must cover the rows that are dropped; got 0\.5 for 2 of 3"
    ):
        _masked_users().init(rules=RowRules(dangling_edges="drop", max_dropped_share=0.5))


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (
            "id:int64\tweight:float\n1\t1\n3\t1\n",
            "`mask` must name each node once; got 3 in 'val' and in 'train' of 'user'",
        ),
        (
            "id:int64\tweight:float\n1\t1\n1\t1\n",
            "`id:int64` must be different in every record; got 1 again in train, l",
        ),
        (
            "id:string\tweight:float\n1\t1\n",
            "`id:string` must have the type of the nodes' ids, int64; got large_string in",
        ),
        (
            "id:int64\n1\n",
            r"`decoder` must describe every column, here \['id', 'weight'\]; got the header \['id:int64'\]",
        ),
    ],
)
def test_masks_that_do_not_fit_are_refused(folder, train, message):
    (folder / "train").write_text(train)

    with pytest.raises(ValueError, match=message):
        _masked_users().init()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (Graph, ValueError, "`node` must be called before `init`"),
        (lambda: Graph().node("", "user", USER), ValueError, "`source` must name a file; got ''"),
        (lambda: Graph().node(["a"], "user", USER), TypeError, r"`source` must be a path, .* got \['a'\]"),
        (lambda: Graph().node("a", "user", "x"), TypeError, "`decoder` must be a Decoder; got 'x' for 'a'"),
        (lambda: Graph().node("a", "", USER), TypeError, "`node_type` must have names that are texts; got ''"),
        (
            lambda: Graph().node("a", "user", USER, mask="train"),
            TypeError,
            "`mask` must be a Mask; got 'train' for 'user'",
        ),
        (lambda: _users().node("a", "user", USER), ValueError, "`mask` must be another .* got NONE again for 'user'"),
        (lambda: Graph().edge("a", ("user", "knows")), TypeError, r"`edge_type` must be a tuple \(source type, target"),
        (
            lambda: Graph().edge("a", ("user", "user", 1)),
            TypeError,
            "`edge_type` must have names that are texts; got 1",
        ),
        (
            lambda: Graph().edge("a", BUYS, directed=False).edge("b", ("item", "user", "buys_reverse")),
            ValueError,
            "`edge_type` must have a name of its own, and so must its reverse; got 'buys_reverse' again, with 'b'",
        ),
        (
            lambda: _users().edge("buys", BUYS, Decoder(timestamped=True)),
            ValueError,
            r"`edges` must join node sets of `nodes`, \['user'\]; got 'item' in 'buys'",
        ),
        (
            lambda: Graph().node("train", "u", WEIGHTED, mask=Mask.TRAIN).node("test", "u", IDS, mask=Mask.TEST),
            ValueError,
            "`decoder` must be the same under every mask .* got 2 decoders for 'u'",
        ),
        (
            lambda: Graph().node("absent", "user", USER),
            ValueError,
            "`filename` must name a file that exists; got 'absent'",
        ),
        (
            lambda: Graph().node("users_a,absent", "user", USER),
            ValueError,
            "`filename` must join names of files by commas, each file once; got 'absent', which names no file",
        ),
    ],
)
def test_mistakes_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build().init()


def test_each_pair_is_there_once_in_both_directions():
    given = [(1, 2), (2, 1), (1, 3), (2, 3), (3, 3), (1, 4)]

    sources, targets, rows = add_reverse_edges(*np.array(given).T)

    pairs = list(zip(sources.tolist(), targets.tolist(), strict=True))
    assert len(pairs) == 9
    assert pairs == sorted({*given, *((target, source) for source, target in given)})
    assert {pair: given[row] for pair, row in zip(pairs, rows.tolist(), strict=True)} == {
        pair: pair if pair in given else pair[::-1] for pair in pairs
    }


def test_a_graph_without_edges_has_none():
    empty = np.empty(0, np.int64)

    assert [array.tolist() for array in add_reverse_edges(empty, empty)] == [[], [], []]

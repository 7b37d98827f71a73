"""What is added to an index is sampled as if it stood at the ends of the tables."""

import os
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tfx_gnn.sampling.engine.in_memory_sampler import InMemorySampler
from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.examples.seed_selection import make_seeds
from tfx_gnn.sampling.examples.subgraph_examples import SubgraphExampleEncoder
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.added_rows import NodeExistsError
from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay, read_graph_overlay
from tfx_gnn.sampling.overlay.graph_snapshot import snapshot_of_index
from tfx_gnn.sampling.overlay.next_index import write_next_index
from tfx_gnn.sampling.overlay.overlay_log import OverlayLog
from tfx_gnn.sampling.overlay.overlay_position import check_overlay_fits
from tfx_gnn.sampling.plan.edge_ranks import rank_edges
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.tables.graph_tables import read_tables
from tfx_gnn.tables.row_rules import RowRules

NEW_NODES = {
    "#id": ["zed", "a!", "axxx0", "émile"],
    "x": [0.5, 1.5, 2.5, 3.5],
    "born": [3, 60, 20, 21],
    "good": [True, False, False, True],
    "name": ["Zed", "", "n", "É"],
    "pair": [[1, 2], [3, 4], [5, 6], [7, 8]],
    "tags": [["u"], [], ["v", "w"], ["x"]],
}
PLAN = SamplingPlan(
    seed_node_set="a", hops=(Hop(edge_set="ab", fan_out=4), Hop(edge_set="ba", fan_out=3, inputs=("ab",)))
)


def _rows_from(columns, *positions):
    return {key: [values[position] for position in positions] for key, values in columns.items()}


@pytest.fixture(scope="module")
def batches(tables):
    """Rows to add: new nodes between, before and after others, edges of a hub, loops, parallel edges; some at once."""
    draw = np.random.default_rng(7)
    names = [*tables.node_tables["a"].ids.to_pylist(), *NEW_NODES["#id"]]
    numbers = [*tables.node_tables["b.c/d"].ids.to_pylist(), 1, -1000, 10**12]
    hub = tables.node_tables["a"].ids[int(np.bincount(tables.edge_tables["ab"].sources).argmax())].as_py()

    def ab(count, sources):
        return {
            "#source": sources,
            "#target": draw.choice(numbers, count).tolist(),
            "weight": draw.integers(0, 9, count).astype(float).tolist(),
            "t": draw.integers(0, 70, count).tolist(),
        }

    loops = {"#source": ["zed", "a!", "zed"], "#target": ["a!", "a!", "a!"], "w": [1.0, 2.0, 1.0], "t": [4, 70, 4]}
    return [
        ({"a": _rows_from(NEW_NODES, 0, 1)}, {"aa": loops}),
        ({"b.c/d": {"#id": numbers[-3:]}}, {"ba": {"#source": numbers[-3:], "#target": ["zed", hub, hub]}}),
        ({}, {"ab": ab(200, [hub] * 200)}),
        ({"a": _rows_from(NEW_NODES, 2, 3)}, {}),
        *(({}, {"ab": ab(1, [source])}) for source in draw.choice(names, 60).tolist()),
        ({}, {"aa": {"#source": names[-4:], "#target": names[:4], "w": [3.0] * 4, "t": [1, 2, 3, 4]}}),
    ]


@pytest.fixture(scope="module")
def whole_dir(batches, graph_dir, tmp_path_factory):
    """Tables with the added rows at their ends."""
    folder = tmp_path_factory.mktemp("whole") / "tables"
    folder.mkdir()
    for name in os.listdir(graph_dir):
        (folder / name).write_bytes(Path(graph_dir, name).read_bytes())
    nodes = pq.read_table(folder / "a.parquet")
    new = pa.table({"id" if key == "#id" else key: values for key, values in NEW_NODES.items()})
    pq.write_table(pa.concat_tables([nodes, new.cast(nodes.schema)]), folder / "a.parquet")
    for new_nodes, new_edges in batches:
        for name, columns in (new_nodes | new_edges).items():
            if name != "a":
                with open(folder / {"b.c/d": "b.csv"}.get(name, f"{name}.csv"), "a") as file:
                    file.writelines(",".join(map(str, row)) + "\n" for row in zip(*columns.values(), strict=True))
    return str(folder)


@pytest.fixture(scope="module")
def whole(whole_dir):
    """The graph of the tables with the added rows, in memory."""
    return read_tables(whole_dir)


@pytest.fixture(scope="module")
def snapshot(batches, index, tmp_path_factory):
    """The index with the rows added, batch by batch, and opened again in between."""
    path = str(tmp_path_factory.mktemp("overlay") / "overlay.log")
    with open_graph_overlay(index, path) as overlay:
        for nodes, edges in batches[:2]:
            overlay.add(nodes=nodes, edges=edges)
            overlay.snapshot()
        for nodes, edges in batches[2:30]:
            overlay.add(nodes=nodes, edges=edges)
    with open_graph_overlay(index, path) as overlay:
        for nodes, edges in batches[30:]:
            overlay.add(nodes=nodes, edges=edges)
        return overlay.snapshot()


def test_records_are_those_of_tables_with_the_same_rows_at_their_ends(whole, snapshot, any_plan):
    seeds, _ = make_seeds(whole, any_plan, 5)
    ranks = rank_edges(whole, any_plan)

    for of_split in seeds.values():
        found = [
            SubgraphExampleEncoder(graph, any_plan).encode(
                InMemorySampler(graph, any_plan, sampling_seed=5, edge_ranks=ranks).sample(of_split)
            )
            for graph in (whole, snapshot)
        ]
        assert found[0] == found[1]


def test_nodes_and_edges_of_a_snapshot_are_those_of_the_tables(whole, snapshot):
    for name, table in whole.node_tables.items():
        everywhere = pa.array(np.arange(table.num_nodes))
        assert snapshot.find_nodes(name, table.ids).tolist() == list(range(table.num_nodes))
        assert snapshot.node_tables[name].ids.take(everywhere).equals(table.ids)
        for key, column in table.features.items():
            assert snapshot.node_tables[name].features[key].take(everywhere).equals(column)
    assert snapshot.find_nodes("a", pa.array(["nobody"], pa.large_string())).tolist() == [-1]
    for name, edges in whole.edge_tables.items():
        for part in ("sources", "targets", "rows"):
            np.testing.assert_array_equal(getattr(snapshot.edge_tables[name], part), getattr(edges, part))


def test_the_next_index_is_that_of_the_tables_byte_for_byte(whole_dir, whole, snapshot, build, tmp_path):
    expected = build(whole_dir, tmp_path / "expected").manifest

    manifest = write_next_index(snapshot, str(tmp_path / "next"))

    assert manifest.fingerprint == expected.fingerprint
    assert manifest.reports == expected.reports == whole.reports
    following = open_graph_index(str(tmp_path / "next"), verify=True)
    assert following.manifest == manifest
    recorded = RecordedPlan(plan=PLAN, sampling_seed=3)
    found = [
        sampler.sample(sampler.find({"seed": NEW_NODES["#id"]}))
        for sampler in (RecordSampler(graph, recorded) for graph in (snapshot, following))
    ]
    assert found[0] == found[1]


def _records(graph, ids):
    return SubgraphExampleEncoder(graph, PLAN).encode(InMemorySampler(graph, PLAN, sampling_seed=5).sample_ids(ids))


def test_the_overlay_moves_to_the_next_index_with_what_was_added_meanwhile(
    batches, index, whole, tmp_path, monkeypatch
):
    path, ids = str(tmp_path / "overlay.log"), whole.node_tables["a"].ids
    with open_graph_overlay(index, path) as overlay:
        for nodes, edges in batches[:2]:
            overlay.add(nodes=nodes, edges=edges)
        snapshot, position = read_graph_overlay(index, path)
        for nodes, edges in batches[2:-1]:
            overlay.add(nodes=nodes, edges=edges)
        write_next_index(snapshot, str(tmp_path / "next"), overlay=position)
        following = open_graph_index(str(tmp_path / "next"))
        with monkeypatch.context() as patch:
            patch.setattr(OverlayLog, "write_rest", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
            with pytest.raises(OSError, match="No space left"):
                overlay.move_to(following)
        before, log = overlay.snapshot(), Path(path).read_bytes()

        overlay.move_to(following)
        overlay.move_to(following)

        moved = overlay.snapshot()
        assert (overlay.index, moved.index, moved.num_batches) == (following, following, len(batches) - 3)
        known = ids.filter(pa.array(before.find_nodes("a", ids) >= 0))
        assert _records(moved, known) == _records(before, known)
        assert (tmp_path / f"overlay.log.{index.fingerprint[:12]}").read_bytes() == log
        overlay.add(*batches[-1])
    with open_graph_overlay(following, path) as overlay:
        assert _records(overlay.snapshot(), ids) == _records(whole, ids)
        again, position = read_graph_overlay(following, path)
        assert position.num_entries == len(batches) - 2
    last = write_next_index(again, str(tmp_path / "last"), overlay=position)
    with open_graph_overlay(open_graph_index(str(tmp_path / "last")), path) as overlay:
        assert (overlay.snapshot().num_batches, overlay.index.manifest) == (0, last)
        assert _records(overlay.snapshot(), ids) == _records(whole, ids)


def test_an_overlay_moves_to_no_index_that_lacks_its_rows(index, build, whole_dir, graph_dir, tmp_path):
    build(whole_dir, tmp_path / "tables")
    from_tables, logs = open_graph_index(str(tmp_path / "tables")), [tmp_path / "a.log", tmp_path / "b.log"]
    for number, log in enumerate(logs):
        with open_graph_overlay(index, str(log)) as overlay:
            overlay.add(nodes={"b.c/d": {"#id": [number + 1]}})
    snapshot, position = read_graph_overlay(index, str(logs[0]))
    write_next_index(snapshot, str(tmp_path / "next"), overlay=position)
    write_next_index(snapshot, str(tmp_path / "unsaid"))
    following, unsaid = (open_graph_index(str(tmp_path / name)) for name in ("next", "unsaid"))
    content = logs[1].read_bytes()

    with open_graph_overlay(index, str(logs[1])) as overlay:
        for other, how in ((from_tables, "from tables"), (unsaid, "from tables"), (following, "from an overlay of")):
            with pytest.raises(ValueError, match=f"was built {how}.*: rows that were added would be lost"):
                overlay.move_to(other)
        overlay.add(nodes={"b.c/d": {"#id": [3]}})
    assert logs[1].read_bytes().startswith(content)
    with open_graph_overlay(following, str(logs[0])):
        pass
    for other in (index, from_tables):  # All rows are in the next index now, and are no fewer for that.
        with pytest.raises(ValueError, match="rows that were added would be lost"):
            check_overlay_fits(other, str(logs[0]))
    with open_graph_overlay(index, str(tmp_path / "empty.log")) as overlay:
        overlay.move_to(from_tables)
        assert overlay.index is from_tables
    assert sorted(os.listdir(tmp_path)) == [
        *("a.log", f"a.log.{index.fingerprint[:12]}", "b.log", "empty.log", "next", "tables", "unsaid")
    ]


def test_an_overlay_that_cannot_be_kept_does_not_move(index, tmp_path):
    path = tmp_path / "overlay.log"
    with open_graph_overlay(index, str(path)) as overlay:
        overlay.add(nodes={"b.c/d": {"#id": [1]}})
        snapshot, position = read_graph_overlay(index, str(path))
        write_next_index(snapshot, str(tmp_path / "next"), overlay=position)
        (tmp_path / f"overlay.log.{index.fingerprint[:12]}").write_text("of somebody else")

        with pytest.raises(OSError, match=r"must be an overlay that can be kept as .* Move that file away"):
            overlay.move_to(open_graph_index(str(tmp_path / "next")))

        overlay.add(nodes={"b.c/d": {"#id": [2]}})
        assert overlay.index is index
    assert read_graph_overlay(index, str(path))[1].num_entries == 2


def test_rows_are_not_taken_while_a_power_failure_could_lose_them(index, tmp_path, monkeypatch):
    path = str(tmp_path / "overlay.log")
    with open_graph_overlay(index, path) as overlay:
        overlay.add(nodes={"b.c/d": {"#id": [1]}})
        snapshot, position = read_graph_overlay(index, path)
        write_next_index(snapshot, str(tmp_path / "next"), overlay=position)

        def fail(folder):
            raise OSError(5, "Input/output error", folder)

        monkeypatch.setattr("tfx_gnn.sampling.overlay.graph_overlay.sync_path", fail)
        with pytest.raises(OSError, match="Input/output error"):
            overlay.move_to(open_graph_index(str(tmp_path / "next")))

        with pytest.raises(OSError, match="when the overlay moved to another index, so that a power failure could"):
            overlay.add(nodes={"b.c/d": {"#id": [2]}})
        assert overlay.snapshot().find_nodes("b.c/d", pa.array([1])).tolist() != [-1]


def test_a_request_may_bring_rows_that_are_not_kept(index):
    graph = snapshot_of_index(index)

    asked = graph.with_rows(
        nodes={"a": _rows_from(NEW_NODES, 0)},
        edges={"ab": {"#source": ["zed"] * 2, "#target": [-70, -63], "weight": [1, 2], "t": [0, 0]}},
    )

    found = InMemorySampler(asked, PLAN, sampling_seed=0).sample_ids(["zed"])
    assert found.hop_counts["ab"].num_edges == 2
    assert asked.num_batches == 0
    assert graph.find_nodes("a", pa.array(["zed"], pa.large_string())).tolist() == [-1]
    with pytest.raises(ValueError, match="must be new nodes; got 'zed', which is there already"):
        asked.with_rows(nodes={"a": _rows_from(NEW_NODES, 0)})


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ({"c": {"#id": ["x"]}}, {}, "`nodes/c` must be a set of the graph index"),
        ({}, {"bb": {}}, "`edges/bb` must be a set of the graph index"),
        ({"a": {"#id": ["x"]}}, {}, r"must have the columns \['#id', 'born', .*\]; got \['#id'\]"),
        ({"b.c/d": {"#id": ["x"]}}, {}, "must have values of type int64 in '#id'; got others"),
        ({"b.c/d": {"#id": [1.5]}}, {}, "must have values of type int64 in '#id'; got others"),
        ({"b.c/d": {"#id": [None]}}, {}, "must have values of type int64 in '#id'; got a null"),
        ({"b.c/d": {"#id": [-70]}}, {}, "must be new nodes; got -70, which is there already"),
        ({"b.c/d": {"#id": [1, 1]}}, {}, "must be new nodes; got 1, which is given twice"),
        ({"a": _rows_from(NEW_NODES, 0) | {"#id": [""]}}, {}, "none empty; got an empty id"),
        ({"a": _rows_from(NEW_NODES, 0) | {"x": [float("nan")]}}, {}, "all finite; got NaN"),
        ({"a": _rows_from(NEW_NODES, 0) | {"x": [1e300]}}, {}, "all finite; got NaN, or a number too large"),
        ({"a": _rows_from(NEW_NODES, 0) | {"pair": [[1.0]]}}, {}, "must have values of type .* in 'pair'; got others"),
        ({"a": _rows_from(NEW_NODES, 0) | {"tags": [["u", None]]}}, {}, "in 'tags'; got a null"),
        ({"a": _rows_from(NEW_NODES, 0) | {"name": ["\ud800"]}}, {}, "in 'name'; got others"),
        ({"a": _rows_from(NEW_NODES, 0) | {"name": "Z"}}, {}, "in 'name'; got others.* they are one text, and no list"),
        ({"a": _rows_from(NEW_NODES, 0) | {"x": []}}, {}, "must have columns of one length"),
        ({}, {"ba": {"#source": [-70], "#target": ["nobody"]}}, "must have #target among the nodes of 'a'; got 'nobod"),
    ],
)
def test_rows_that_break_a_rule_are_refused_and_nothing_is_kept(index, tmp_path, nodes, edges, message):
    path = tmp_path / "overlay.log"
    with open_graph_overlay(index, str(path)) as overlay:
        size = path.stat().st_size

        with pytest.raises(ValueError, match=message):
            overlay.add(nodes={"b.c/d": {"#id": [2]}} | nodes, edges=edges)

        assert path.stat().st_size == size
        assert overlay.snapshot().num_batches == 0
        assert overlay.snapshot().find_nodes("b.c/d", pa.array([2])).tolist() == [-1]


def test_additions_that_share_a_write_are_kept_or_refused_each_for_itself(index, tmp_path, monkeypatch):
    path = str(tmp_path / "overlay.log")
    hub = index.node_tables["a"].ids[0].as_py()
    additions = [
        ({"b.c/d": {"#id": [1]}}, {}),
        ({"b.c/d": {"#id": [2, 1]}}, {}),
        ({"b.c/d": {"#id": [2]}}, {"ba": {"#source": [1, 2], "#target": [hub, hub]}}),
    ]

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    with open_graph_overlay(index, path) as overlay:
        with monkeypatch.context() as patch:
            patch.setattr("tfx_gnn.sampling.overlay.overlay_log.os.fsync", fail)
            with pytest.raises(OSError, match="No space left"):
                overlay.add_each(additions)

        problems = overlay.add_each(additions)

        assert [type(problem) for problem in problems] == [type(None), NodeExistsError, type(None)]
        assert overlay.num_bytes == os.path.getsize(path)
        found = overlay.snapshot()
    with open_graph_overlay(index, path) as overlay:
        again = overlay.snapshot()
    for snapshot in (found, again):
        assert snapshot.num_batches == 1
        assert (len(snapshot.added_nodes["b.c/d"]), len(snapshot.added_edges["ba"])) == (2, 2)
    np.testing.assert_array_equal(found.edge_tables["ba"].sources, again.edge_tables["ba"].sources)


def test_a_text_with_the_hash_of_another_one_is_refused_before_it_is_kept(index, tmp_path, monkeypatch):
    known = index.node_codes("a")[:1]
    monkeypatch.setattr("tfx_gnn.sampling.overlay.added_rows.hash_ids", lambda ids: np.repeat(known, len(ids)))

    with (
        open_graph_overlay(index, str(tmp_path / "overlay.log")) as overlay,
        pytest.raises(ValueError, match="must be new nodes; got 'zed', whose 64-bit hash another node has"),
    ):
        overlay.add(nodes={"a": _rows_from(NEW_NODES, 0)})


def test_an_index_without_repeated_edges_takes_nodes_but_no_edges(graph_dir, build, tmp_path):
    build(graph_dir, tmp_path / "index", rules=RowRules(duplicate_edges="keep_first"))
    graph = snapshot_of_index(open_graph_index(str(tmp_path / "index")))

    added = graph.with_rows(nodes={"b.c/d": {"#id": [1]}})

    assert added.find_nodes("b.c/d", pa.array([1])).tolist() != [-1]
    with pytest.raises(ValueError, match="must be an edge set of an index that keeps repeated edges; got one built w"):
        added.with_rows(edges={"ba": {"#source": [1], "#target": graph.node_tables["a"].ids.slice(0, 1)}})


def test_only_one_process_has_an_overlay_open_and_only_for_its_index(index, tmp_path):
    path = str(tmp_path / "overlay.log")
    (tmp_path / "link.log").symlink_to(path)
    with open_graph_overlay(index, path) as overlay:
        overlay.add(nodes={"b.c/d": {"#id": [1]}})
        for name in (path, str(tmp_path / "link.log")):
            with (
                pytest.raises(BlockingIOError, match="must be an overlay that no other process has open"),
                open_graph_overlay(index, name),
            ):
                pass
        write_next_index(overlay.snapshot(), str(tmp_path / "next"))

    following = open_graph_index(str(tmp_path / "next"))
    with (
        pytest.raises(ValueError, match="`path` must be an overlay of the graph index"),
        open_graph_overlay(following, path),
    ):
        pass


def test_an_overlay_of_another_format_is_refused_and_stays_as_it_is(index, tmp_path):
    path = tmp_path / "overlay"
    OverlayLog(str(path), b'{"format_version": 2, "fingerprint": "0123456789abcdef"}').close()
    content = path.read_bytes()

    with (
        pytest.raises(ValueError, match=r"in format 1; got .*overlay', one of 0123456789ab in format 2\."),
        open_graph_overlay(index, str(path)),
    ):
        pass

    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("path", "message"), [("gs://bucket/overlay", "must be a file on a local disk"), ("", "a folder or a device")]
)
def test_an_overlay_is_a_file_on_a_local_disk(index, tmp_path, monkeypatch, path, message):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=f"`path` .*{message}"), open_graph_overlay(index, path or str(tmp_path)):
        pass

    assert list(tmp_path.iterdir()) == []


def test_threads_see_whole_batches_while_others_add(index, tmp_path):
    plan = SamplingPlan(seed_node_set="b.c/d", hops=(Hop(edge_set="ba", fan_out=2),))
    hub = index.node_tables["a"].ids[0].as_py()
    problems = []

    def write(first):
        for node in range(first, first + 40):
            overlay.add(nodes={"b.c/d": {"#id": [node]}}, edges={"ba": {"#source": [node], "#target": [hub]}})
            # What this thread added is in its next snapshot.
            found = InMemorySampler(overlay.snapshot(), plan, sampling_seed=0).sample_ids([node])
            if found.hop_counts["ba"].num_edges != 1:
                problems.append(node)

    with open_graph_overlay(index, str(tmp_path / "overlay.log")) as overlay:
        threads = [threading.Thread(target=write, args=(10**6 * number,)) for number in range(1, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert overlay.snapshot().num_batches == 120
    assert problems == []

"""The next graph index takes over while requests are answered."""

import os
import shutil
import threading

import pytest

from tfx_gnn.sampling.examples.record_sampler import RecordSampler
from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.sampling.index.graph_index import open_graph_index
from tfx_gnn.sampling.overlay.graph_overlay import open_graph_overlay, read_graph_overlay
from tfx_gnn.sampling.overlay.next_index import write_next_index
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.process import newest_index
from tfx_gnn.serving.server.served_graph import ServedGraph
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of

PREDICT, GRAPH, ADD = "/v1/models/toy:predict", "/v1/graph", "/v1/graph:add"


@pytest.fixture
def build(items_tables, tmp_path):
    """Builds an index of the items, of which some tables or the schema are other ones."""

    def make(folder, **texts):
        tables = tmp_path / "tables"
        shutil.copytree(items_tables, tables)
        for name, change in texts.items():
            path = tables / name.replace("_csv", ".csv").replace("_schema", "_schema.pbtxt")
            path.write_text(change(path.read_text()))
        schema = read_tables_schema(str(tables))
        partial = tmp_path / "partial"
        partial.mkdir()
        write_graph_index(str(partial), schema, layouts_of(schema, str(tables)))
        shutil.rmtree(tables)
        folder.parent.mkdir(exist_ok=True)
        partial.rename(folder)
        return open_graph_index(str(folder))

    return make


def more(*lines):
    return lambda text: text + "".join(f"{line}\n" for line in lines)


def test_newer_index_takes_over_without_a_lost_request(serve, build, items_model_dir, items_plan, tmp_path):
    first = build(tmp_path / "index" / "1")
    is_over = threading.Event()
    statuses = []
    with serve(items_model_dir, index=first, graph_index_dir=str(tmp_path / "index"), max_delay_ms=0.0) as client:

        def ask_until_over():
            while not is_over.is_set():
                statuses.append(client.ask("POST", PREDICT, {"instances": [{"id": "w"}]}).status)

        asking = threading.Thread(target=ask_until_over)
        asking.start()
        client.server.refresh()
        unknown = client.ask("POST", PREDICT, {"instances": [{"id": "v"}]}).status
        second = build(tmp_path / "index" / "2", items_csv=more("v,2.5"), near_csv=more("v,x", "w,v"))
        client.server.refresh()
        is_over.set()
        asking.join()
        answers = client.ask("POST", PREDICT, {"instances": [{"id": "v"}, {"id": "w"}]}).json
        sampler = RecordSampler(second, items_plan)
        records = sampler.sample(sampler.find({"seed": ["v", "w"]}))
        fingerprint = client.ask("GET", GRAPH).json["fingerprint"]
        by_example = client.server.versions.find(None).signature("").answer([records])[0]
        swaps = client.server.metrics.registry.get_sample_value("tfx_gnn_graph_swaps_total")

    assert unknown == 404
    assert set(statuses) == {200}
    assert (fingerprint, swaps) == (second.fingerprint, 1)
    assert [row["id"] for row in answers["predictions"]] == ["v", "w"]
    assert [row["logits"] for row in answers["predictions"]] == by_example["logits"].tolist()


def test_index_answers_all_ids_after_its_folder_was_removed_or_built_again(serve, build, items_model_dir, tmp_path):
    place = tmp_path / "index"
    body = {"instances": [{"id": one} for one in "wxyz"]}
    first = build(place / "1")
    with serve(items_model_dir, index=first, graph_index_dir=str(place), max_delay_ms=0.0) as client:
        shutil.rmtree(place / "1")
        of_first = client.ask("POST", PREDICT, body)
        build(place / "2", items_csv=more("v,2.5"), near_csv=more("y,v"))
        client.server.refresh()
        shutil.rmtree(place / "2")
        build(place / "2", items_csv=more("a,7.5"), near_csv=lambda _: "source,target\na,x\n")
        of_second = client.ask("POST", PREDICT, body)
        rows = {
            "nodes": {"shelf": {"#id": [1]}},
            "edges": {"on": {"#source": ["z"], "#target": [1]}, "near": {"#source": ["z"], "#target": ["w"]}},
        }
        with_rows = client.ask("POST", PREDICT, {"instances": [{"id": "z", **rows}]})

    assert of_first.status == of_second.status == 200, (of_first.body, of_second.body)
    assert [row["id"] for row in of_second.json["predictions"]] == list("wxyz")
    assert with_rows.status == 200, with_rows.body


def test_index_that_does_not_fit_changes_nothing(serve, build, items_model_dir, tmp_path, caplog):
    first = build(tmp_path / "index" / "1")
    with serve(items_model_dir, index=first, graph_index_dir=str(tmp_path / "index"), max_delay_ms=0.0) as client:
        build(
            tmp_path / "index" / "2",
            graph_schema=lambda text: text.replace('key: "x"', 'key: "y"'),
            items_csv=lambda text: text.replace("id,x", "id,y"),
        )
        client.server.refresh()
        reply = client.ask("POST", PREDICT, {"instances": [{"id": "w"}]})
        shutil.rmtree(tmp_path / "index" / "2")
        build(tmp_path / "index" / "3", items_csv=more("v,2.5"))
        file = next(path for path in (tmp_path / "index" / "3").rglob("*") if path.is_file() and path.suffix != ".json")
        os.truncate(file, 0)
        client.server.refresh()
        damaged = client.ask("GET", GRAPH).json["fingerprint"]
        failures = client.server.metrics.registry.get_sample_value("tfx_gnn_model_watch_failures_total")

    assert reply.status == 200
    assert damaged == first.fingerprint
    assert "node set 'item' has no feature 'x'" in caplog.text
    assert failures == 2


def test_index_in_place_of_another_is_taken(serve, build, items_model_dir, tmp_path):
    first, place = build(tmp_path / "first"), tmp_path / "current"
    place.symlink_to("first")
    with serve(items_model_dir, index=first, graph_index_dir=str(place), max_delay_ms=0.0) as client:
        client.server.refresh()
        build(tmp_path / "second", items_csv=more("v,2.5"))
        (tmp_path / "link").symlink_to("second")
        os.replace(tmp_path / "link", place)
        client.server.refresh()
        status = client.ask("POST", PREDICT, {"instances": [{"id": "v"}]}).status

    assert status == 200


def item(name):
    return {"nodes": {"item": {"#id": [name], "x": [2.5]}}, "edges": {"near": {"#source": [name], "#target": ["w"]}}}


def count(client, name):
    return client.server.metrics.registry.get_sample_value(f"tfx_gnn_{name}")


def build_next(index, log, folder):
    snapshot, position = read_graph_overlay(index, log)
    write_next_index(snapshot, str(folder), overlay=position)


def test_next_index_takes_over_from_an_overlay_without_a_lost_row_or_request(serve, build, items_model_dir, tmp_path):
    first, log = build(tmp_path / "index" / "1"), str(tmp_path / "overlay.log")
    is_over, asked, added = threading.Event(), [], []
    with (
        open_graph_overlay(first, log) as overlay,
        serve(
            items_model_dir, index=first, overlay=overlay, graph_index_dir=str(tmp_path / "index"), max_delay_ms=0.0
        ) as client,
    ):

        def ask_until_over():
            while not is_over.is_set():
                asked.append(
                    client.ask("POST", PREDICT, {"instances": [{"id": "w"}, {"id": "a0"}]}).json["predictions"]
                )

        def add_until_over():
            while not is_over.is_set():
                assert client.ask("POST", ADD, item(f"a{len(added) + 1}")).status == 200
                added.append(f"a{len(added) + 1}")

        client.ask("POST", ADD, item("a0"))
        threads = [threading.Thread(target=one) for one in (ask_until_over, add_until_over)]
        for thread in threads:
            thread.start()
        build_next(first, log, tmp_path / "index" / "2")
        client.server.refresh()
        is_over.set()
        for thread in threads:
            thread.join()
        client.ask("POST", ADD, item("last"))
        answers = client.ask("POST", PREDICT, {"instances": [{"id": one} for one in ("a0", *added, "last")]})
        found, swaps, rows = client.ask("GET", GRAPH).json, count(client, "graph_swaps_total"), overlay.num_bytes
        position = open_graph_index(str(tmp_path / "index" / "2")).manifest.overlay

    assert answers.status == 200
    assert all(answer == asked[0] for answer in asked)
    assert (swaps, rows) == (1, os.path.getsize(log))
    assert found["fingerprint"] == open_graph_index(str(tmp_path / "index" / "2")).fingerprint
    assert found["nodes"]["item"] == {"count": 4 + 2 + len(added), "added": 2 + len(added) - position.num_entries}
    assert found["edges"]["near"]["count"] == 4 + 2 + len(added)
    again = newest_index(str(tmp_path / "index"), log)
    with open_graph_overlay(again, log) as overlay:
        assert overlay.snapshot().node_tables["item"].num_nodes == 4 + 2 + len(added)
    assert again.fingerprint == found["fingerprint"]


def test_index_that_lacks_rows_of_the_overlay_is_passed_over(serve, build, items_model_dir, tmp_path, caplog):
    first, log = build(tmp_path / "index" / "1"), str(tmp_path / "overlay.log")
    with (
        open_graph_overlay(first, log) as overlay,
        serve(
            items_model_dir, index=first, overlay=overlay, graph_index_dir=str(tmp_path / "index"), max_delay_ms=0.0
        ) as client,
    ):
        client.ask("POST", ADD, item("a"))
        build(tmp_path / "index" / "2", items_csv=more("v,2.5"))
        client.server.refresh()
        client.server.refresh()
        refused = count(client, "model_watch_failures_total"), count(client, "graph_indexes_passed_over")
        statuses = [client.ask("POST", PREDICT, {"instances": [{"id": one}]}).status for one in "av"]
        build_next(first, log, tmp_path / "index" / "3")
        client.server.refresh()
        passed_over = count(client, "graph_indexes_passed_over")
        fingerprint = client.ask("GET", GRAPH).json["fingerprint"]

    assert (refused, statuses, passed_over) == ((2, 1), [200, 404], 0)
    assert caplog.text.count("was built from tables: rows that were added would be lost") == 1
    assert fingerprint == newest_index(str(tmp_path / "index"), log).fingerprint
    shutil.rmtree(tmp_path / "index" / "3")
    with pytest.raises(ValueError, match=r"must hold a graph index that is whole and has .*/2: .*from tables.*/1: `"):
        newest_index(str(tmp_path / "index"), log)


def test_newest_index_that_is_half_copied_does_not_stop_a_start(build, tmp_path):
    place = tmp_path / "index"
    first = build(place / "1")
    for number in ("2", "3"):
        shutil.copytree(build(tmp_path / number, items_csv=more("v,2.5")).index_dir, place / number)
    (place / "2" / "edges.near.sources").unlink()
    with open(place / "3" / "graph_index.json", "r+") as file:
        file.truncate(100)

    assert newest_index(str(place)).fingerprint == first.fingerprint
    (place / "1" / "edges.near.targets").unlink()
    with pytest.raises(ValueError, match=r"/3: .*graph_index.json.* .*/2: .*edges.near.sources.*/1: .*near.targets"):
        newest_index(str(place))


def test_newest_index_that_no_model_reads_does_not_stop_a_start(build, items_model_dir, make_version, tmp_path):
    place = tmp_path / "index"
    first = build(place / "1")
    last = build(
        place / "2", graph_schema=lambda text: text.replace('features { key: "x" value { dtype: DT_FLOAT } }', "")
    )
    make_version(str(tmp_path / "models"), 1)  # It cannot be asked by ids of any index.

    assert newest_index(str(place), model_dir=items_model_dir).fingerprint == first.fingerprint
    assert newest_index(str(place), model_dir=str(tmp_path / "models")).fingerprint == last.fingerprint
    assert newest_index(str(place), model_dir=str(tmp_path / "none")).fingerprint == last.fingerprint


def test_folder_that_is_gone_changes_nothing(items_index, tmp_path, caplog):
    metrics = ServerMetrics()
    graph = ServedGraph(items_index, ServerOptions(), metrics, followed=str(tmp_path / "gone"))

    graph.refresh([])

    assert graph.snapshot.index is items_index
    assert metrics.registry.get_sample_value("tfx_gnn_model_watch_failures_total") == 1
    assert "holds no graph index that can be served, and is passed over" in caplog.text
    graph.close()

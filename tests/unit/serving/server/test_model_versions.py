"""Versions that appear, disappear and fail."""

import gc
import os
import shutil
import weakref

import pytest

from tfx_gnn.serving.server import model_versions
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.model_versions import ModelVersions
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.process import serve_model
from tfx_gnn.serving.server.refusals import Refusal


@pytest.fixture
def versions(tmp_path):
    return ModelVersions(str(tmp_path), 2, ServerMetrics())


def served(versions):
    return [one.version for one in versions.served]


def value(versions, name):
    return versions._metrics.registry.get_sample_value(f"tfx_gnn_{name}")


@pytest.fixture
def no_collections():
    """Python collects garbage when it is told to."""
    gc.disable()
    yield
    gc.enable()


def test_newest_versions_are_served_and_older_ones_freed(versions, make_version, tmp_path, no_collections):
    make_version(str(tmp_path), 1)
    versions.refresh()
    first, graph = weakref.ref(versions.find(None)), versions.find(None).graph
    for number in (2, 4):
        make_version(str(tmp_path), number)
        versions.refresh()

    assert served(versions) == [4, 2]
    assert versions.find("2").version == 2
    assert (first(), graph()) == (None, None)
    assert (value(versions, "model_version"), value(versions, "model_swaps_total")) == (4, 2)
    with pytest.raises(Refusal, match=r"must be one of \[4, 2\]; got '1'"):
        versions.find("1")


def test_version_that_a_request_held_is_freed_when_the_folder_is_searched_again(
    versions, make_version, tmp_path, no_collections
):
    for number in (1, 2):
        make_version(str(tmp_path), number)
    versions.refresh()
    asked = [versions.find("1")]
    graph = asked[0].graph
    make_version(str(tmp_path), 3)
    versions.refresh()
    is_held = graph() is not None

    asked.clear()
    versions.refresh()

    assert (is_held, graph()) == (True, None)


def test_unchanged_folder_changes_nothing(versions, make_version, tmp_path):
    make_version(str(tmp_path), 1)
    versions.refresh()
    before = versions.served

    versions.refresh()

    assert versions.served[0] is before[0]
    assert value(versions, "model_swaps_total") == 0


def test_version_that_fails_leaves_the_old_one_and_is_tried_again(
    versions, make_version, tmp_path, caplog, monkeypatch
):
    make_version(str(tmp_path), 1)
    place = make_version(str(tmp_path), 2)
    os.truncate(f"{place}/variables/variables.index", 3)

    versions.refresh()
    versions.refresh()

    assert served(versions) == [1]
    assert list(versions.failures) == [2]
    assert value(versions, "model_load_failures_total") == 1  # Not again at once.
    assert "Version 2 cannot be loaded" in caplog.text

    shutil.copy(f"{tmp_path}/1/variables/variables.index", f"{place}/variables/variables.index")
    monkeypatch.setattr(model_versions, "_SECONDS_BEFORE_RETRY", 0.0)
    versions.refresh()

    assert served(versions) == [2, 1]
    assert versions.failures == {}


def test_version_without_its_model_file_is_not_there_yet(versions, make_version, tmp_path):
    make_version(str(tmp_path), 1)
    os.makedirs(tmp_path / "2" / "variables")
    os.makedirs(tmp_path / ".incoming-3")

    versions.refresh()

    assert served(versions) == [1]
    assert versions.failures == {}


def test_removed_version_gives_way_to_the_one_before(versions, make_version, tmp_path):
    for number in (1, 2):
        make_version(str(tmp_path), number)
    versions.refresh()
    shutil.rmtree(tmp_path / "2")

    versions.refresh()

    assert served(versions) == [1]


def test_version_that_was_removed_and_pushed_again_is_loaded_again(versions, make_version, tmp_path):
    place = make_version(str(tmp_path), 1)
    versions.refresh()
    before = versions.find(None)
    os.utime(f"{place}/saved_model.pb", ns=(1, 1))

    versions.refresh()

    assert served(versions) == [1]
    assert versions.find(None) is not before


def test_empty_folder_changes_nothing(versions, make_version, tmp_path, caplog):
    make_version(str(tmp_path), 1)
    versions.refresh()
    shutil.rmtree(tmp_path / "1")

    versions.refresh()

    assert served(versions) == [1]
    assert value(versions, "model_watch_failures_total") == 1
    assert "holds no version any more" in caplog.text


def test_version_whose_folder_is_gone_still_reads_graphs(serve, make_version, tmp_path):
    place = make_version(str(tmp_path), 1)
    graph = {"node_sets": {"item": {"x": [1.0]}}, "readout": {"seed": 0}}
    with serve(str(tmp_path)) as client:
        shutil.rmtree(place)
        reply = client.ask("POST", "/v1/models/toy:predict", {"instances": [graph]})

    assert reply.status == 200, reply.body


def test_single_model_is_a_version(toy_model_dir):
    versions = ModelVersions(toy_model_dir, 2, ServerMetrics())

    versions.refresh()

    assert served(versions) == [1]


def test_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`model_dir` must hold a model that loads; got .*Push a model first"):
        serve_model(str(tmp_path), options=ServerOptions(port=0))


def test_requests_name_either_version_during_and_after_a_swap(serve, make_version, tmp_path):
    make_version(str(tmp_path), 1)
    with serve(str(tmp_path)) as client:
        before = client.ask("GET", "/v2/models/toy").json["versions"]
        make_version(str(tmp_path), 2)
        client.server.versions.refresh()
        after = client.ask("GET", "/v2/models/toy").json["versions"]
        is_previous_ready = client.ask("GET", "/v2/models/toy/versions/1/ready").status

    assert (before, after, is_previous_ready) == (["1"], ["2", "1"], 200)

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest
from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd

from tfx_gnn_pipelines.lineage import close_abandoned_executions, read_latest_run
from tfx_gnn_pipelines.local_runs import locked_root, run_locally


@pytest.fixture
def config(tiny_config, tmp_path):
    return dataclasses.replace(tiny_config, root=str(tmp_path))


@pytest.fixture
def store(tmp_path):
    """The metadata of a run that died in the middle of its second component."""
    connection = mlmd.ConnectionConfig()
    connection.sqlite.filename_uri = str(tmp_path / "metadata.sqlite")
    connection.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
    store = metadata_store.MetadataStore(connection)
    type_id = store.put_execution_type(mlmd.ExecutionType(name="Step"))
    run_type = store.put_context_type(mlmd.ContextType(name="pipeline_run"))
    node_type = store.put_context_type(mlmd.ContextType(name="node"))
    for name, state in (("First", mlmd.Execution.COMPLETE), ("Second", mlmd.Execution.RUNNING)):
        store.put_execution(
            mlmd.Execution(type_id=type_id, last_known_state=state),
            [],
            [mlmd.Context(type_id=run_type, name="run-1"), mlmd.Context(type_id=node_type, name=f"tiny.{name}")],
            reuse_context_if_already_exist=True,
        )
    return store


def test_root_is_made_and_free_again_afterwards(config, tmp_path):
    config = dataclasses.replace(config, root=str(tmp_path / "deep" / "root"))

    for _ in range(2):
        with locked_root(config):
            assert (tmp_path / "deep" / "root").is_dir()


def test_second_run_on_the_same_root_is_refused(config):
    refused = pytest.raises(BlockingIOError, match="`root` must be used by one run at a time; got")

    with locked_root(config), refused, locked_root(config):
        pass


def test_server_that_the_skew_gate_would_lack_is_missed_before_the_run(config, monkeypatch, tmp_path):
    skew = dataclasses.replace(config.graph_skew_validator, asks_server=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(ModuleNotFoundError, match=r"`graph_skew_validator.asks_server` must .* extra 'serve'"):
        run_locally(dataclasses.replace(config, graph_skew_validator=skew))

    assert not any(tmp_path.iterdir())


def test_parameters_left_open_are_refused(config):
    opened = dataclasses.replace(config, runtime_parameters=("GraphTrainer.num_epochs",))

    with pytest.raises(ValueError, match="`runtime_parameters` must be empty for a local run"), locked_root(opened):
        pass


def test_execution_of_a_dead_run_is_closed_and_its_folders_are_removed(config, store, tmp_path):
    output = tmp_path / "artifacts" / "Second" / "model"
    for name in ("1", "2", ".2.partial-0123456789ab", "12", ".12.partial-0123456789ab"):
        (output / name).mkdir(parents=True)
    for name in (".2.lock", ".12.lock", ".2.commit-0123456789ab"):
        (output / name).write_text("")
    elsewhere = tmp_path / "artifacts" / "First" / "examples" / "2"
    elsewhere.mkdir(parents=True)

    with locked_root(config):
        pass

    assert [run.state for run in read_latest_run(config.metadata_path)] == ["complete", "failed"]
    assert sorted(path.name for path in output.iterdir()) == [".12.lock", ".12.partial-0123456789ab", "1", "12"]
    assert elsewhere.is_dir()


def test_closing_names_the_interrupted_components_once(config, store):
    assert close_abandoned_executions(config.metadata_path, config.artifacts_dir) == ["Second"]
    assert close_abandoned_executions(config.metadata_path, config.artifacts_dir) == []


def test_root_without_metadata_has_no_runs(config, tmp_path):
    assert read_latest_run(config.metadata_path) == []
    assert close_abandoned_executions(config.metadata_path, config.artifacts_dir) == []
    assert list(Path(tmp_path).iterdir()) == []

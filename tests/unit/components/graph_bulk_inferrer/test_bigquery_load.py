"""The real client asks a service on this machine, which reads the files that a load job names."""

from __future__ import annotations

import contextlib
import glob
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google.auth
import pyarrow.parquet as pq
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError

from tfx_gnn.components.graph_bulk_inferrer import bigquery_load
from tfx_gnn.components.graph_bulk_inferrer.options import GraphBulkInferrerOptions
from tfx_gnn.components.graph_bulk_inferrer.stage import infer_in_bulk
from tfx_gnn.records.examples_folder import write_split_shard


class BigQuery:
    """Datasets, load jobs and the rows of tables; jobs are done when they are asked about."""

    def __init__(self) -> None:
        self.datasets = {"shop"}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self.lost_rows = 0
        self.refusal: dict[str, Any] | None = None

    def dataset(self, name: str) -> tuple[int, dict[str, Any]]:
        if name not in self.datasets:
            return 404, _error(404, f"Not found: Dataset project:{name}", "notFound")
        return 200, {"datasetReference": {"projectId": "project", "datasetId": name}}

    def start(self, job: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        self.jobs[job["jobReference"]["jobId"]] = job
        return 200, {**job, "status": {"state": "RUNNING"}}

    def finish(self, job: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if self.refusal:
            return 200, {**job, "status": {"state": "DONE", "errorResult": self.refusal, "errors": [self.refusal]}}
        load = job["configuration"]["load"]
        paths = [path for pattern in load["sourceUris"] for path in sorted(glob.glob(pattern))]
        rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
        self.tables[load["destinationTable"]["tableId"]] = rows
        statistics = {"load": {"outputRows": str(len(rows) - self.lost_rows)}}
        return 200, {**job, "status": {"state": "DONE"}, "statistics": statistics}


def _error(code: int, message: str, reason: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "errors": [{"message": message, "reason": reason}]}}


@contextlib.contextmanager
def _served(service: BigQuery) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            *_, kind, name = self.path.partition("?")[0].split("/")
            self._answer(*(service.dataset(name) if kind == "datasets" else service.finish(service.jobs[name])))

        def do_POST(self) -> None:
            self._answer(*service.start(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

        def _answer(self, status: int, found: dict[str, Any]) -> None:
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def service(monkeypatch):
    """The service; its files lie on this machine."""
    service = BigQuery()
    with _served(service) as url:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", url)
        monkeypatch.setattr(google.auth, "default", lambda **_: (AnonymousCredentials(), "project"))
        monkeypatch.setattr(bigquery_load, "_STORE", "")
        yield service


@pytest.fixture
def infer(tmp_path, toy_records, toy_model_dir):
    """Asks the toy model about examples in two splits, of two files and of one."""
    examples_dir = str(tmp_path / "examples")
    records = [record for of_split in toy_records.values() for record in of_split]
    for shard, part in enumerate((records[:2], records[2:4])):
        write_split_shard(examples_dir, "all", shard, 2, part)
    write_split_shard(examples_dir, "more", 0, 1, records[4:5])

    def run(table, name="inference", **options):
        return infer_in_bulk(
            examples_dir=examples_dir,
            model_dir=toy_model_dir,
            inference_dir=str(tmp_path / name),
            options=GraphBulkInferrerOptions(bigquery_table=table, **options),
        )

    return run


def _rows(folder: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(folder.iterdir()) for row in pq.read_table(path).to_pylist()]


def test_each_split_has_a_table_with_its_rows_alone(tmp_path, service, infer):
    service.tables["answers_all"] = [{"id": "of last week"}]

    found = infer("project.shop.answers_{SPLIT}", outputs=("predictions", "scores"))

    assert found.bigquery_tables == {"all": "project.shop.answers_all", "more": "project.shop.answers_more"}
    assert json.loads((tmp_path / "inference" / "inference.json").read_text())["bigquery_tables"] == {
        **found.bigquery_tables
    }
    assert {name: len(rows) for name, rows in service.tables.items()} == {"answers_all": 4, "answers_more": 1}
    for split in ("all", "more"):
        assert service.tables[f"answers_{split}"] == _rows(tmp_path / "inference" / f"Split-{split}")
    load = next(iter(service.jobs.values()))["configuration"]["load"]
    assert load["writeDisposition"] == "WRITE_TRUNCATE"
    assert load["parquetOptions"] == {"enableListInference": True}
    assert load["columnNameCharacterMap"] == "V2"


def test_a_run_that_could_not_load_goes_on_with_the_finished_files(tmp_path, service, infer, monkeypatch):
    service.refusal = {"reason": "accessDenied", "message": "Access Denied: Table project:shop.answers"}
    with pytest.raises(ValueError, match=r"`bigquery_table` must be a table that can be written .*Access Denied"):
        infer("shop.answers", splits=("all",))
    assert not (tmp_path / "inference").exists()

    service.refusal = None
    monkeypatch.setattr("tfx_gnn.components.graph_bulk_inferrer.inference_pipeline.ServingModel", None)
    found = infer("shop.others", splits=("all",))

    assert found.bigquery_tables == {"all": "shop.others"}
    assert service.tables == {"others": _rows(tmp_path / "inference" / "Split-all")}


def test_a_table_with_other_rows_than_the_files_is_an_error(service, infer):
    service.lost_rows = 1

    with pytest.raises(ValueError, match=r"`bigquery_table` must have the rows of the files; got 3 of 4 in 'shop.a'"):
        infer("shop.a", splits=("all",))


def test_a_dataset_that_is_not_there_is_refused_before_anything_is_inferred(service, infer, monkeypatch):
    monkeypatch.setattr("tfx_gnn.components.graph_bulk_inferrer.inference_pipeline.ServingModel", None)

    with pytest.raises(ValueError, match=r"Not found: Dataset project:other.*Create the dataset"):
        infer("project.other.answers", splits=("all",))


def test_a_split_without_rows_leaves_the_tables_of_all_splits_as_they_are(service):
    load = bigquery_load.BigQueryLoad("shop.answers_{SPLIT}", {"all", "more"}, "answers")

    with pytest.raises(ValueError, match=r"`bigquery_table` must get rows; got none for split 'more'"):
        load.load("answers", {"all": 4, "more": 0})

    assert service.jobs == {}


@pytest.mark.parametrize(
    ("reason", "kind", "message"),
    [
        ("invalid", ValueError, r"that takes the rows; got the answer 'why.*Correct"),
        ("notFound", ValueError, r"that can be written .*got the answer 'why.*Create the dataset"),
        ("quotaExceeded", ConnectionError, r"must answer; got 'why.* for .*shop.answers.*Try again"),
        ("stopped", ConnectionError, r"must finish the load; got the answer 'why.* for .*shop.answers.*Try again"),
    ],
)
def test_a_failed_job_says_what_to_do(service, reason, kind, message):
    load = bigquery_load.BigQueryLoad("shop.answers", {"all"}, "answers")
    service.refusal = {"reason": reason, "message": "why"}

    with pytest.raises(kind, match=message):
        load.load("answers", {"all": 1})


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (exceptions.RetryError("Timeout of 600.0s exceeded", OSError()), ConnectionError, "must answer; got 'Timeout"),
        (exceptions.TooManyRequests("Quota exceeded"), ConnectionError, "must answer; got 'Quota exceeded'.*Try again"),
        (TransportError("No route to host"), ConnectionError, "must answer; got 'No route to host'"),
        (OSError("Certificate expired"), ConnectionError, "must answer; got 'Certificate expired'"),
        (RefreshError("Token has been revoked"), ValueError, "are valid; got 'Token has been revoked'.*login"),
    ],
)
def test_a_service_that_cannot_be_asked_says_what_to_do(service, monkeypatch, error, kind, message):
    load = bigquery_load.BigQueryLoad("shop.answers", {"all"}, "answers")

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(load._client, "load_table_from_uri", fail)

    with pytest.raises(kind, match=message):
        load.load("answers", {"all": 1})


def test_several_splits_do_not_share_a_table(service, infer):
    with pytest.raises(ValueError, match=r"`bigquery_table` must hold {SPLIT} .*; got 'shop.answers' for \['all', 'm"):
        infer("shop.answers")


def test_files_that_bigquery_cannot_read_are_refused(infer):
    with pytest.raises(ValueError, match=r"`inference_dir` must be on Cloud Storage for `bigquery_table`; got '/"):
        infer("shop.answers", splits=("all",))


def test_missing_credentials_are_an_error_with_the_command_that_gives_them(infer, monkeypatch):
    def no_credentials(**_: Any) -> None:
        raise DefaultCredentialsError("Your default credentials were not found.")

    monkeypatch.setattr(bigquery_load, "_STORE", "")
    monkeypatch.setattr(google.auth, "default", no_credentials)

    with pytest.raises(ValueError, match=r"credentials were not found.*gcloud auth application-default login"):
        infer("shop.answers", splits=("all",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bigquery_table": "answers"}, '`bigquery_table` must be "project.dataset.table"'),
        ({"bigquery_table": "shop.{SPLIT}.answers"}, "Only the table may hold"),
        ({"bigquery_table": "shop.answers_{split}"}, "got 'shop.answers_{split}'"),
        ({"bigquery_table": "shop.a", "file_format": "csv"}, "`file_format` must be 'parquet' for `bigquery_table`"),
    ],
)
def test_options_that_bigquery_cannot_take_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        GraphBulkInferrerOptions(**options)

"""Object stores that run on this machine, behind fronts that count and fail requests; see infra/ci/stores.sh."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import socket
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.deterministic_training import make_training_deterministic

FRONT = Path(__file__).with_name("store_front.py")
TRAINING = Path(__file__).parents[1] / "deterministic_training.py"
MINUTE = 60
EPOCHS = 2
"""Few, because what is tested is what reaches the store."""
RESOURCES = "defaults: {retries: 5, retry_seconds: 1}\n"
"""For requests whose repetition fails, because they had been carried out; by default the first wait is a minute."""


def pytest_configure() -> None:
    if "TFX_GNN_STORES_CERTIFICATE" not in os.environ:
        raise pytest.UsageError("tests/stores needs object stores; run the tests by infra/ci/stores.sh.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Store:
    """A store behind its front.

    Attributes:
        url: of the front.
        bucket: URI of a bucket.
    """

    url: str
    bucket: str

    def fail(self, **faults: Any) -> None:
        """Sets the fields of `store_front.Faults`, and starts the counting anew."""
        _ask(self.url + "/-/faults", json.dumps(faults).encode())

    def counts(self) -> dict[str, int]:
        """Tells what was asked, by method, status and kind of failure."""
        return dict(json.loads(_ask(self.url + "/-/counts")))

    def objects(self, prefix: str) -> list[str]:
        """Lists the names of objects in the bucket, on Cloud Storage."""
        names: list[str] = []
        token = ""
        while True:
            asked = {"prefix": prefix, "pageToken": token}
            page = json.loads(_ask(f"{self.url}/storage/v1/b/bucket/o?{urllib.parse.urlencode(asked)}"))
            names += [found["name"] for found in page.get("items", ())]
            token = page.get("nextPageToken", "")
            if not token:
                return names

    def read(self, name: str) -> bytes:
        """Reads an object of the bucket, on Cloud Storage."""
        return _ask(f"{self.url}/storage/v1/b/bucket/o/{urllib.parse.quote(name, safe='')}?alt=media")

    def write(self, name: str, content: bytes) -> None:
        """Writes an object of the bucket, on Cloud Storage."""
        asked = urllib.parse.urlencode({"uploadType": "media", "name": name})
        _ask(f"{self.url}/upload/storage/v1/b/bucket/o?{asked}", content)

    @contextlib.contextmanager
    def failing(self, **faults: Any) -> Iterator[dict[str, Any]]:
        """Fails requests inside of the block; yields a dict that holds the counts after it.

        The counts, and what the block adds to them, are kept for people in the file that TFX_GNN_STORES_FIGURES names.
        """
        counts: dict[str, Any] = {}
        started = time.monotonic()
        self.fail(**faults)
        try:
            yield counts
        finally:
            counts.update(self.counts(), seconds=round(time.monotonic() - started, 1))
            self.fail()
            test = os.environ["PYTEST_CURRENT_TEST"].partition(" ")[0]
            with open(os.environ["TFX_GNN_STORES_FIGURES"], "a", encoding="utf-8") as file:
                file.write(json.dumps({"test": test, "faults": faults, **counts}, sort_keys=True) + "\n")


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Cloud Storage: an emulator under the names of the real hosts, for the real clients."""
    (program,) = Path(os.environ["TFX_GNN_STORES"]).glob("lib/python3*/site-packages/fake_gcs*/vendor/*/bin/*")
    port = _free_port()
    emulator = [str(program), *("-scheme", "http", "-host", "127.0.0.1", "-port", str(port)), *("-backend", "memory")]
    certificate = os.environ["TFX_GNN_STORES_CERTIFICATE"]
    front = ["--port", "443", "--certificate", certificate, "--cloud-storage"]
    with _running(emulator, port, tmp_path_factory), _front(port, front, 443, tmp_path_factory):
        made = json.dumps({"name": "bucket"}).encode()
        _ask("https://storage.googleapis.com/storage/v1/b?project=project", made)
        yield Store(url="https://storage.googleapis.com", bucket="gs://bucket")


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """SeaweedFS, the store that Kubeflow Pipelines installs."""
    from pyarrow import fs

    folder = tmp_path_factory.mktemp("weed")
    access = {"accessKey": os.environ["AWS_ACCESS_KEY_ID"], "secretKey": os.environ["AWS_SECRET_ACCESS_KEY"]}
    identity = {"name": "tests", "credentials": [access], "actions": ["Admin", "Read", "Write", "List"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    (folder / "data").mkdir()
    ports = {name: _free_port() for name in ("master", "volume", "filer", "s3")}
    server = [
        *(os.path.join(os.environ["TFX_GNN_STORES"], "bin", "weed"), "server"),
        *("-ip=127.0.0.1", f"-dir={folder / 'data'}", "-filer", "-s3", f"-s3.config={folder / 's3.json'}"),
        *("-volume.max=200", "-master.volumeSizeLimitMB=64"),
        *(f"-{name}.port={port}" for name, port in ports.items()),
        *(f"-{name}.port.grpc={_free_port()}" for name in ports),
    ]
    front_port = _free_port()
    with (
        _running(server, ports["s3"], tmp_path_factory),
        _front(ports["s3"], ["--port", str(front_port)], front_port, tmp_path_factory),
    ):
        client = fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{front_port}", scheme="http", region="us-east-1", allow_bucket_creation=True
        )
        client.create_dir("mlpipeline")
        yield Store(url=f"http://127.0.0.1:{front_port}", bucket="mlpipeline")


def _type_command(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # The project's package is found in its folder, also by a script of another one.
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=25 * MINUTE,
        check=False,
    )


@pytest.fixture(scope="session")
def type_command() -> Callable[[list[str], Path], subprocess.CompletedProcess[str]]:
    """Runs Python with arguments, as typed in a folder."""
    return _type_command


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The starter."""
    folder = tmp_path_factory.mktemp("starter")
    made = _type_command(["-m", "tfx_gnn.cli", "new", "web-shop"], folder)
    assert made.returncode == 0, made.stderr
    return folder / "web-shop"


@pytest.fixture(scope="session")
def compile_starter(project: Path) -> Callable[..., Path]:
    """Compiles the starter for a service, with deterministic training and retries; returns the file."""

    def compile_for(service: str, *places: str, file: str) -> Path:
        (project / "resources.yaml").write_text(RESOURCES)
        options = ["--runner", service, "--compile-only", "--epochs", str(EPOCHS), "--resources", "resources.yaml"]
        image = ["--image", "registry/web-shop:1", "--output", file]
        done = _type_command(["-m", "tfx_gnn.cli", "run", *options, *places, *image], project)
        assert done.returncode == 0, done.stderr
        make_training_deterministic(project / file)
        return project / file

    return compile_for


@pytest.fixture(scope="session")
def run_locally(project: Path) -> Callable[[], Path]:
    """Runs the starter without any store and returns its artifacts; the processes of the tests share one run."""
    root = Path(os.environ["TFX_GNN_STORES_LOCAL_RUN"])

    def artifacts() -> Path:
        with root.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not root.exists():
                done = _type_command([str(TRAINING), str(project), str(root), str(EPOCHS)], project)
                assert done.returncode == 0, done.stdout + done.stderr
        return root / "artifacts"

    return artifacts


@pytest.fixture(scope="session")
def metrics_here(run_locally: Callable[[], Path]) -> Callable[[], dict[str, Any]]:
    """Runs the starter without any store and returns its metrics."""

    def metrics() -> dict[str, Any]:
        (written,) = run_locally().glob("GraphEvaluator/evaluation/*/metrics.json")
        return dict(json.loads(written.read_text()))

    return metrics


@contextlib.contextmanager
def _front(port: int, arguments: list[str], front_port: int, folders: pytest.TempPathFactory) -> Iterator[None]:
    command = [sys.executable, str(FRONT), "--backend", f"127.0.0.1:{port}", *arguments]
    with _running(command, front_port, folders):
        yield


@contextlib.contextmanager
def _running(command: list[str], port: int, folders: pytest.TempPathFactory) -> Iterator[None]:
    """Runs a server, from when it takes connections until the end of the block."""
    log = folders.mktemp("server") / "log"
    with log.open("wb") as file:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + MINUTE
        while not _takes_connections(port):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(0.05)
        yield
    finally:
        server.kill()
        server.wait()


def _takes_connections(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def _ask(url: str, content: bytes | None = None) -> bytes:
    context = ssl.create_default_context(cafile=os.environ["CURL_CA_BUNDLE"])
    with urllib.request.urlopen(url, data=content, timeout=MINUTE, context=context) as answer:
        return bytes(answer.read())

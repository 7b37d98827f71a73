"""Servers in this process, for the toy classifier of `tests/unit/conftest.py`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import http.client
import json
import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvloop

from tfx_gnn.sampling.index.build import write_graph_index
from tfx_gnn.sampling.index.graph_index import GraphIndex, open_graph_index
from tfx_gnn.sampling.overlay.graph_overlay import GraphOverlay
from tfx_gnn.sampling.plan.hop import Hop
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.plan.recorded_plan import RecordedPlan
from tfx_gnn.serving.server.app import ModelServer
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.process import ServerProcess
from tfx_gnn.serving.server.served_graph import ServedGraph
from tfx_gnn.tables.graph_tables import read_tables_schema
from tfx_gnn.tables.schema_layouts import layouts_of

TOY_SCHEMA = """
node_sets { key: "item" value {
  features { key: "#id" value { dtype: DT_STRING } }
  features { key: "x" value { dtype: DT_FLOAT } } } }
node_sets { key: "_readout" value {} }
edge_sets { key: "_readout/seed" value { source: "item" target: "_readout" } }
"""
# The items that the toy classifier is asked about by id, and who is near whom.
ITEM_TABLES = {
    "graph_schema.pbtxt": """
node_sets { key: "item" value { features { key: "x" value { dtype: DT_FLOAT } } metadata { filename: "items.csv" } } }
node_sets { key: "shelf" value {
  features { key: "#id" value { dtype: DT_INT64 } } metadata { filename: "shelves.csv" } } }
edge_sets { key: "near" value { source: "item" target: "item" metadata { filename: "near.csv" } } }
edge_sets { key: "on" value { source: "item" target: "shelf" metadata { filename: "on.csv" } } }
""",
    "items.csv": "id,x\nw,1.5\nx,-2.0\ny,0.5\nz,-0.5\n",
    "shelves.csv": "id\n7\n-3\n",
    "near.csv": "source,target\nw,x\nw,y\nw,z\nx,w\n",
    "on.csv": "source,target\nw,7\nx,7\n",
}
ITEM_PLAN = SamplingPlan(seed_node_set="item", hops=(Hop(edge_set="near", fan_out=2),))
VECTORS = {"b": [1.0, 0.0], "a": [0.0, 2.0], "d": [3.0, 0.0], "c": [1.0, 0.0]}
"""Embeddings that are stored if a test gives no others."""
TOY_TASK = {"format_version": 1, "task": {}, "label_keys": [], "roots": ["seed"], "tensor_inputs": {}}


@dataclasses.dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A server in a thread, and a connection for each request to it."""

    def __init__(self, server: ModelServer, process: ServerProcess, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self.server, self.process, self.port, self.loop = server, process, port, loop

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {} if content is None else {"Content-Type": "application/json"}
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, content, {**sent, **(headers or {})})
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())

    def stop(self, drain_seconds: float = 0.0) -> None:
        self.loop.call_soon_threadsafe(self.process.stop, drain_seconds)


@contextlib.contextmanager
def _serve(
    model_dir: str,
    *,
    index: GraphIndex | None = None,
    overlay: GraphOverlay | None = None,
    graph_index_dir: str = "",
    embeddings_dir: str = "",
    **options: Any,
) -> Iterator[Client]:
    """Serves a folder on a free port."""
    chosen = ServerOptions(port=0, model_name="toy", poll_seconds=3600.0, **options)
    server = ModelServer(
        model_dir,
        chosen,
        index=index,
        overlay=overlay,
        graph_index_dir=graph_index_dir,
        embeddings_dir=embeddings_dir,
    )
    server.refresh()
    urls: queue.Queue[str] = queue.Queue()
    process = ServerProcess(server, chosen, urls.put)
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(process.serve(),))
    thread.start()
    client = Client(server, process, int(urls.get(timeout=60).rpartition(":")[2]), loop)
    try:
        yield client
    finally:
        client.stop()
        thread.join(timeout=60)
        assert not thread.is_alive()
        server.close()
        loop.close()


@pytest.fixture(scope="session")
def serve() -> Callable[..., contextlib.AbstractContextManager[Client]]:
    """Serves a folder with some options."""
    return _serve


@pytest.fixture(scope="session")
def make_version(toy_model_dir: str) -> Callable[..., str]:
    """Adds a version of the toy classifier to a folder, as a push does; with the plan of its examples, if given."""

    def make(folder: str, version: int, plan: RecordedPlan | None = None) -> str:
        place = f"{folder}/{version}"
        shutil.copytree(f"{toy_model_dir}/Format-Serving", place)
        extra = f"{place}/assets.extra"
        os.makedirs(extra)
        with open(f"{extra}/graph_schema.pbtxt", "w") as file:
            file.write(TOY_SCHEMA)
        with open(f"{extra}/served_task.json", "w") as file:
            json.dump(TOY_TASK, file)
        if plan is not None:
            plan.write(f"{extra}/sampling_plan.json")
        return place

    return make


@pytest.fixture(scope="session")
def toy_server(make_version: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server of one version, for the whole session: tests only ask it."""
    folder = str(tmp_path_factory.mktemp("toy_server"))
    make_version(folder, 3)
    with _serve(folder, max_delay_ms=0.0, max_examples=4, max_body_bytes=100_000) as client:
        yield client


@pytest.fixture(scope="session")
def items_plan() -> RecordedPlan:
    """How examples of items are sampled."""
    return RecordedPlan(plan=ITEM_PLAN, sampling_seed=5)


@pytest.fixture(scope="session")
def items_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables folder of four items."""
    tables: Path = tmp_path_factory.mktemp("items")
    for name, text in ITEM_TABLES.items():
        (tables / name).write_text(text)
    return tables


@pytest.fixture(scope="session")
def items_index(items_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> GraphIndex:
    """Graph index of four items."""
    index = tmp_path_factory.mktemp("items_index")
    schema = read_tables_schema(str(items_tables))
    write_graph_index(str(index), schema, layouts_of(schema, str(items_tables)))
    return open_graph_index(str(index))


@pytest.fixture(scope="session")
def items_graph(items_index: GraphIndex) -> ServedGraph:
    """The four items as a server has them; no rows can be added."""
    return ServedGraph(items_index, ServerOptions(), ServerMetrics())


@pytest.fixture(scope="session")
def items_model_dir(
    make_version: Callable[..., str], items_plan: RecordedPlan, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A folder with one version that may be asked by ids of items."""
    folder = str(tmp_path_factory.mktemp("items_server"))
    make_version(folder, 1, items_plan)
    return folder


@pytest.fixture(scope="session")
def items_server(items_model_dir: str, items_index: GraphIndex) -> Iterator[Client]:
    """A server of one version that may be asked by ids: tests only ask it."""
    with _serve(items_model_dir, index=items_index, max_delay_ms=0.0, max_new_rows=4) as client:
        yield client


@pytest.fixture(scope="session")
def write_stored() -> Callable[..., None]:
    """Writes a folder of stored embeddings as `write_embeddings` does; it appears whole."""

    def write(
        folder: str,
        fingerprint: str,
        created_at: dt.datetime | None = None,
        ids: Sequence[str | int] = tuple(VECTORS),
        vectors: Sequence[Sequence[float]] = tuple(VECTORS.values()),
        **changes: Any,
    ) -> None:
        partial = f"{folder}.writing"
        os.makedirs(partial)
        np.save(f"{partial}/ids.npy", np.asarray(ids))
        np.save(f"{partial}/embeddings.npy", np.asarray(vectors, np.float32))
        manifest = {
            "format_version": 1,
            "model_fingerprint": fingerprint,
            "output": "embedding",
            "dimension": 2,
            "normalization": "none",
            "num_embeddings": len(vectors),
            "num_repeated": 0,
            "file_format": "npy",
            "created_at": (created_at or dt.datetime.now(dt.timezone.utc)).isoformat(),
        }
        with open(f"{partial}/manifest.json", "w") as file:
            json.dump(manifest | changes, file)
        os.rename(partial, folder)

    return write

"""Sends requests to a running `tfx-gnn serve` from many connections, and reports rate, latency and errors.

    python benchmarks/serve_load.py --url http://127.0.0.1:8080/v1/models/default:predict \
        --examples examples/Split-test --connections 32 --requests 20000

It writes "sending" to stderr when the first request is sent, so that a script can push a version or stop the server
then.
With `--ids FILE` in place of `--examples`, it asks by ids, one a line of the file; the server needs a graph index.
Each connection sends its next request when the last one is answered. Examples are drawn by a power law. With
`--expect`, each answer must equal the first one to the same example, as it must across versions of equal models; with
`--answers`, it must equal what `tfx-gnn infer` wrote for its id. A connection that the server closed between two
requests is opened again, as HTTP clients do. With `--restart-seconds`, a request that a killed server did not answer is
sent again until one is there; the latency is that of all attempts. Everything else that is no 200 counts as an error.
"""

from __future__ import annotations

import argparse
import base64
import collections
import http.client
import itertools
import json
import pathlib
import random
import sys
import threading
import time
import urllib.parse
from typing import Any

TOLERANCE = 1e-5


def main() -> None:
    """Runs the load and prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", required=True)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--examples", help="split of an examples folder, or a TFRecord file")
    asked.add_argument("--ids", help="text file with an id in each line")
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--per-request", type=int, default=1, help="examples in a request")
    parser.add_argument("--expect", action="store_true", help="compare answers to the same example")
    parser.add_argument("--answers", help="folder of a split that `tfx-gnn infer` wrote as Parquet")
    parser.add_argument("--restart-seconds", type=float, default=0.0, help="how long to wait for a server that is gone")
    arguments = parser.parse_args()
    rows = _examples(arguments.examples) if arguments.examples else _ids(arguments.ids)
    load = _Load(arguments, _bodies(rows, arguments.per_request))
    if arguments.answers:
        load.expected = _answers(arguments.answers)
    sys.stderr.write("sending\n")
    start = time.perf_counter()
    threads = [threading.Thread(target=load.run, args=(number,)) for number in range(arguments.connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    sys.stdout.write(json.dumps(load.report(seconds)) + "\n")


def _examples(examples: str) -> list[dict[str, str]]:
    from tfx_gnn.serving.prediction import read_records

    return [{"b64": base64.b64encode(record).decode()} for record in read_records(examples)]


def _ids(path: str) -> list[dict[str, str]]:
    with open(path, encoding="utf-8") as file:
        return [{"id": line} for line in file.read().splitlines()]


def _answers(folder: str) -> dict[str, tuple[str, float]]:
    import pyarrow.dataset

    files = sorted(str(path) for path in pathlib.Path(folder).glob("*.parquet"))
    table = pyarrow.dataset.dataset(files).to_table(columns=["id", "label", "score"])
    return {key: (label, score) for key, label, score in zip(*(column.to_pylist() for column in table), strict=True)}


def _bodies(rows: list[dict[str, str]], per_request: int) -> list[bytes]:
    bodies = []
    for first in range(len(rows)):
        instances = [rows[(first + number) % len(rows)] for number in range(per_request)]
        bodies.append(json.dumps({"instances": instances}).encode())
    return bodies


class _Load:
    def __init__(self, arguments: argparse.Namespace, bodies: list[bytes]) -> None:
        self._url = urllib.parse.urlsplit(arguments.url)
        self._bodies, self._is_compared = bodies, arguments.expect
        self._shares = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(bodies))))
        self._restart_seconds = arguments.restart_seconds
        self._left = iter(range(arguments.requests))
        self._lock = threading.Lock()
        self._latencies: list[float] = []
        self._counts: collections.Counter[str] = collections.Counter()
        self._versions: collections.Counter[str] = collections.Counter()
        self._first: dict[int, Any] = {}
        self.expected: dict[str, tuple[str, float]] = {}

    def run(self, number: int) -> None:
        """Sends requests over one connection until none is left."""
        draw = random.Random(number)
        connection = self._connect()
        while True:
            with self._lock:
                if next(self._left, None) is None:
                    return
            (chosen,) = draw.choices(range(len(self._bodies)), cum_weights=self._shares)
            start = time.perf_counter()
            try:
                status, version, content = self._send_until_answered(connection, chosen)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._note(f"{type(error).__name__}", "", time.perf_counter() - start)
                continue
            is_equal = status != 200 or (
                (not self._is_compared or self._is_as_before(chosen, content)) and self._is_expected(content)
            )
            self._note(str(status) if is_equal else "another answer", version, time.perf_counter() - start)

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=60)

    def _send_until_answered(self, connection: http.client.HTTPConnection, chosen: int) -> tuple[int, str, bytes]:
        end = time.monotonic() + self._restart_seconds
        while True:
            try:
                return self._send(connection, chosen)
            except (OSError, http.client.HTTPException):
                connection.close()
                if time.monotonic() >= end:
                    raise
            with self._lock:
                self._counts["sent again"] += 1
            time.sleep(0.2)

    def _send(self, connection: http.client.HTTPConnection, chosen: int) -> tuple[int, str, bytes]:
        for attempt in range(2):
            is_reused = connection.sock is not None
            try:
                connection.request("POST", self._url.path, self._bodies[chosen], {"Content-Type": "application/json"})
                response = connection.getresponse()
                return response.status, response.getheader("x-model-version") or "", response.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                connection.close()
                if attempt or not is_reused:
                    raise
                self._counts["reopened"] += 1
        raise AssertionError

    def _is_as_before(self, chosen: int, content: bytes) -> bool:
        rows = json.loads(content)["predictions"]
        first = self._first.setdefault(chosen, rows)
        return all(
            row["label"] == other["label"] and abs(row["score"] - other["score"]) <= TOLERANCE
            for row, other in zip(rows, first, strict=True)
        )

    def _is_expected(self, content: bytes) -> bool:
        """Compares answers with those of the bulk inferrer, if they are known."""
        return not self.expected or all(
            row["label"] == self.expected[row["id"]][0] and abs(row["score"] - self.expected[row["id"]][1]) <= TOLERANCE
            for row in json.loads(content)["predictions"]
        )

    def _note(self, outcome: str, version: str, seconds: float) -> None:
        with self._lock:
            self._counts[outcome] += 1
            self._versions[version] += 1
            self._latencies.append(seconds)

    def report(self, seconds: float) -> dict[str, Any]:
        """Returns rate, percentiles in milliseconds, and counts of outcomes and versions."""
        ordered = sorted(self._latencies)
        return {
            "requests_per_second": round(len(ordered) / seconds, 1),
            **{f"p{share}_ms": round(1000 * ordered[int(len(ordered) * share / 100)], 2) for share in (50, 99)},
            "max_ms": round(1000 * ordered[-1], 2),
            "outcomes": dict(self._counts),
            "versions": dict(self._versions),
        }


if __name__ == "__main__":
    main()

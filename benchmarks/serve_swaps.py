"""Pushes equal versions of a model to a running `tfx-gnn serve`, which is asked meanwhile; prints its memory as JSON.

    python benchmarks/serve_swaps.py SAVED_MODEL_DIR RECORDS_FILE NUM_SWAPS

The result is the resident memory in bytes after each swap, and the number of requests that were answered.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from tfx_gnn.serving import read_records

_NUM_CONNECTIONS = 2
_NUM_RECORDS = 256
_POLL_SECONDS = 0.2
_HEADERS = {"Content-Type": "application/json"}


def main(saved_model_dir: str, records_file: str, num_swaps: str) -> None:
    """Runs the swaps and prints one line of JSON."""
    records = itertools.islice(read_records(records_file), _NUM_RECORDS)
    bodies = [json.dumps({"instances": [{"b64": base64.b64encode(record).decode()}]}).encode() for record in records]
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-swaps-") as folder:
        _push(saved_model_dir, folder, 1)
        command = [
            os.path.join(os.path.dirname(sys.executable), "tfx-gnn"),
            "serve",
            "--model-dir",
            folder,
            "--port",
            "0",
        ]
        with subprocess.Popen(
            [*command, "--poll-seconds", str(_POLL_SECONDS), "--drain-seconds", "0"], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                sys.stdout.write(f"{json.dumps(_swap(server, saved_model_dir, folder, bodies, int(num_swaps)))}\n")
            finally:
                server.terminate()


def _swap(
    server: subprocess.Popen[str], saved_model_dir: str, folder: str, bodies: list[bytes], num_swaps: int
) -> dict[str, object]:
    assert server.stdout is not None
    url = re.findall(r"http://[^ ;]+", server.stdout.readline())[0]
    answered = [0] * _NUM_CONNECTIONS
    is_over = threading.Event()

    def ask(number: int) -> None:
        for body in itertools.cycle(bodies):
            if is_over.is_set():
                return
            request = urllib.request.Request(f"{url}/v1/models/default:predict", body, _HEADERS)
            with urllib.request.urlopen(request) as response:
                response.read()
            answered[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(_NUM_CONNECTIONS)]
    for thread in threads:
        thread.start()
    resident = []
    try:
        for version in range(2, num_swaps + 2):
            _push(saved_model_dir, folder, version)
            while _metric(url, "tfx_gnn_model_version") != version:
                time.sleep(_POLL_SECONDS)
            time.sleep(5 * _POLL_SECONDS)  # Until the version before the last is freed.
            resident.append(_metric(url, "process_resident_memory_bytes"))
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    return {"resident": resident, "requests": sum(answered)}


def _push(saved_model_dir: str, folder: str, version: int) -> None:
    """Adds a version as a push does: it appears at once."""
    shutil.copytree(saved_model_dir, f"{folder}/.incoming")
    os.rename(f"{folder}/.incoming", f"{folder}/{version}")


def _metric(url: str, name: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as response:
        (value,) = re.findall(rf"^{name} (\S+)$", response.read().decode(), re.MULTILINE)
    return float(value)


if __name__ == "__main__":
    main(*sys.argv[1:])

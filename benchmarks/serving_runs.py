"""Asks an exported model from one and from several threads, in a process of its own; prints JSON.

serving_runs.py latency SAVED_MODEL_DIR RECORDS_FILE true|false
serving_runs.py memory SAVED_MODEL_DIR RECORDS_FILE FEW MANY
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from tfx_gnn.serving import read_warmup_requests

BATCH_SIZES = (1, 8, 64)
THREADS = (1, 4)

_REQUESTS = 200
_SIZES = (1, 2, 4, 8, 16, 32, 64)


def _load(saved_model_dir: str, *, warm: bool) -> Any:
    model = tf.saved_model.load(saved_model_dir)
    if warm:
        for name, inputs in read_warmup_requests(saved_model_dir):
            model.signatures[name](**{key: tf.constant(tf.make_ndarray(value)) for key, value in inputs.items()})
    return model


def _run(num_threads: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def latency(saved_model_dir: str, records: list[bytes], *, warm: bool) -> dict[str, list[float]]:
    """Takes the times of requests right after the model was loaded, or after its warm-up requests.

    Returns:
        "<batch size> <threads>" to the first time, p50 and p99 in milliseconds.
    """
    found = {}
    for batch_size in BATCH_SIZES:
        for num_threads in THREADS:
            # Loaded again each time: each meets a model that has answered nothing, or its warm-up requests.
            model = _load(saved_model_dir, warm=warm)
            predict = model.signatures["serving_default"]
            times: list[list[float]] = [[] for _ in range(num_threads)]

            def ask(
                number: int,
                predict: Any = predict,
                batch_size: int = batch_size,
                num_threads: int = num_threads,
                times: list[list[float]] = times,
            ) -> None:
                draw = random.Random(number)
                for _ in range(_REQUESTS // num_threads):
                    request = tf.constant(draw.choices(records, k=batch_size))
                    start = time.perf_counter()
                    _ = {key: value.numpy() for key, value in predict(examples=request).items()}
                    times[number].append(1000 * (time.perf_counter() - start))

            _run(num_threads, ask)
            together = np.concatenate(times)
            first = max(of_thread[0] for of_thread in times)
            found[f"{batch_size} {num_threads}"] = [first, *np.percentile(together, [50, 99]).tolist()]
    return found


def memory(saved_model_dir: str, records: list[bytes], few: int, many: int) -> dict[str, dict[str, int]]:
    """Takes the process's memory after a few and after many requests of four threads.

    Returns:
        Number of requests to bytes that are resident, and that still are once the C library has given back what was
        freed: requests of differing sizes leave gaps in its heaps, whoever makes them.
    """
    model = _load(saved_model_dir, warm=True)
    predict = model.signatures["serving_default"]
    found, begun = {}, 0
    for wanted in (few, many):
        share = (wanted - begun) // max(THREADS)

        def ask(number: int, share: int = share) -> None:
            draw = random.Random(number)
            for _ in range(share):
                predict(examples=tf.constant(draw.choices(records, k=draw.choice(_SIZES))))

        _run(max(THREADS), ask)
        begun = wanted
        resident = _resident()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        found[str(wanted)] = {"resident": resident, "in use": _resident()}
    return found


def _resident() -> int:
    with open("/proc/self/status", encoding="utf-8") as status:
        (resident,) = [int(line.split()[1]) for line in status if line.startswith("VmRSS:")]
    return 1024 * resident


def main(kind: str, saved_model_dir: str, records_file: str, *settings: str) -> None:
    """Measures and prints."""
    records = [bytes(record) for record in tf.data.TFRecordDataset(records_file).as_numpy_iterator()]
    if kind == "latency":
        result: dict[str, Any] = latency(saved_model_dir, records, warm=settings[0] == "true")
    else:
        result = memory(saved_model_dir, records, *map(int, settings))
    sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Pushes models to one destination at once, kills pushes, and starts them again until each is recorded.

Arguments: the destination, a local folder, the number of models, and how often each push is killed. Prints one JSON
object: the number of kills, and the errors of attempts that failed by themselves.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import tensorflow as tf

from tfx_gnn.serving.object_store_versions import copied_version
from tfx_gnn.serving.versions import PushOrigin

_LONGEST_LIFE_SECONDS = 1.5
_LONGEST_STORM_SECONDS = 240
_POLL_SECONDS = 0.02


def model_files(number: int) -> dict[str, bytes]:
    """The files of a model, which are those of no other one."""
    return {
        "saved_model.pb": b"model %d" % number,
        "variables/variables.index": b"index %d" % number,
        "variables/variables.data-00000-of-00001": random.Random(number).randbytes(300_000),
        "assets/empty": b"",
    }


def push(destination: str, folder: Path, number: int) -> None:
    """Pushes a model and records its version, as GraphPusher does."""
    record = f"{destination}_records/{number}"
    model = folder / str(number)
    with copied_version(str(model), destination, PushOrigin(model=str(number), record=record), is_recorded) as version:
        # Whole by its name alone: nobody reads the record before it is renamed.
        with tf.io.gfile.GFile(f"{record}/.partial", "w") as file:
            file.write(str(version))
        tf.io.gfile.rename(f"{record}/.partial", f"{record}/version", overwrite=True)


def is_recorded(record: str) -> bool:
    return bool(tf.io.gfile.exists(f"{record}/version"))


def attempt(destination: str, folder: Path, number: int) -> int:
    """Starts a push in a process of its own, which has not used the store before; returns its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        push(destination, folder, number)
        status = 0
    except BaseException:  # noqa: BLE001 - told by the file
        with (folder / f"{number}.errors").open("a", encoding="utf-8") as file:
            file.write(traceback.format_exc().strip().splitlines()[-1] + "\n")
    finally:
        os._exit(status)


class Storm:
    """Keeps one process for each push that is not recorded yet."""

    def __init__(self, destination: str, folder: Path, num_models: int, num_kills: int) -> None:
        self._destination = destination
        self._folder = folder
        self._chance = random.Random(7)
        self._left = dict.fromkeys(range(num_models), num_kills)
        self._running: dict[int, int] = {}
        self._ends: dict[int, float] = {}
        self.unfinished = set(range(num_models))
        self.kills = 0

    def start(self) -> None:
        """Starts the pushes that do not run, and chooses when those are killed that have not been killed enough."""
        for number in sorted(self.unfinished - self._running.keys()):
            self._running[number] = attempt(self._destination, self._folder, number)
            if self._left[number]:
                self._ends[number] = time.monotonic() + self._chance.uniform(0.02, _LONGEST_LIFE_SECONDS)

    def end(self) -> None:
        """Takes note of pushes that ended, and kills those whose time has come."""
        for number, child in list(self._running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                del self._running[number]
                self._ends.pop(number, None)
                if status == 0:
                    self.unfinished.discard(number)
            elif number in self._ends and time.monotonic() > self._ends[number]:
                os.kill(child, signal.SIGKILL)
                del self._ends[number]
                self._left[number] -= 1
                self.kills += 1


def main(destination: str, folder: Path, num_models: int, num_kills: int) -> None:
    """Runs the storm."""
    for number in range(num_models):
        for name, content in model_files(number).items():
            path = folder / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    storm = Storm(destination, folder, num_models, num_kills)
    deadline = time.monotonic() + _LONGEST_STORM_SECONDS
    while storm.unfinished:
        if time.monotonic() > deadline:
            raise TimeoutError(f"`destination` must take all pushes; got none of {sorted(storm.unfinished)}.")
        storm.start()
        storm.end()
        time.sleep(_POLL_SECONDS)
    errors = [line for path in sorted(folder.glob("*.errors")) for line in path.read_text().splitlines()]
    sys.stdout.write(json.dumps({"kills": storm.kills, "errors": errors}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))

"""Verbs that are killed at every rename, or at random times, and started again as a supervisor would.

    .venv/bin/python benchmarks/kill_runs.py renames                    # every verb, before and after each rename
    .venv/bin/python benchmarks/kill_runs.py renames --verb schema --verb push
    .venv/bin/python benchmarks/kill_runs.py times --num-kills 100      # verbs and the pipeline, at random times

The same command, run again, must complete; its outputs must be those of a run without a kill, and nothing else may be
left. Files are compared byte by byte, but for those that differ between two runs without a kill: these are named, and
must be there. How is in `written_files.py`. A command that was killed after its commit has done its work; run again it
says that its outputs are there, and counts as ended before the kill. Renames are counted as system calls, by a library
that a C compiler makes.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("PYTHONWARNINGS", "ignore")

import typer
from rich.console import Console
from rich.table import Table
from written_files import written_files

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ROOT / "tests" / "components" / "tiny_project"
_LIBRARY = "TFX_GNN_KILL_POINTS"
_SAYS_IT_IS_THERE = "must be absent or an empty folder"
_DEADLINE_SECONDS = 600.0
_PIPELINE = "pipeline"

_PLAN = """
from pathlib import Path
from tiny_project.task import TASK
from tfx_gnn.io import options_json
Path("plan.json").write_text(options_json.to_json(TASK.plan))
"""
_INDEX = {
    "Packages": "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: M <m@x>\nSection: admin\nDepends: b\n"
    "Description: one\n\nPackage: b\nVersion: 1\nArchitecture: all\nMaintainer: M <m@x>\nSection: net\n"
    "Description: two\n",
    "Sources": "Package: a\nVersion: 1\nMaintainer: M <m@x>\nBinary: a, b\n",
}
_TRAINED = (
    "--transformed-examples-dir transformed --transform-graph-dir transform --graph-schema-dir graph_schema "
    "--transformed-graph-schema-dir transformed_schema --size-constraints-dir sizes "
    "--model-fn tiny_project.model:model_fn --label-feature topic --class-vocabulary topic"
)
#: In the order of use: each reads what those before it wrote.
VERBS = {
    "new": "new made/shop",
    "dataset": "dataset debian --packages Packages --sources Sources --output debian",
    "sample": "sample --tables-dir tiny_project/tables --plan plan.json --examples-dir examples",
    "schema": "schema --examples-dir examples --graph-schema-dir graph_schema --schema-dir schema",
    "validate": "validate --examples-dir examples --graph-schema-dir graph_schema --statistics-dir statistics "
    "--anomalies-dir anomalies --blessing-dir validated",
    "transform": "transform --examples-dir examples --graph-schema-dir graph_schema --preprocessing-fn "
    "tiny_project.preprocessing:preprocessing_fn --transform-graph-dir transform --transformed-examples-dir "
    "transformed --transformed-graph-schema-dir transformed_schema",
    "sizes": "sizes learn --transformed-examples-dir transformed --transformed-graph-schema-dir transformed_schema "
    "--size-constraints-dir sizes --batch-size 5",
    "batches": "batches --transformed-examples-dir transformed --transformed-graph-schema-dir transformed_schema "
    "--size-constraints-dir sizes --precomputed-batches-dir batches",
    "tune": f"tune {_TRAINED} --num-epochs 1 --num-trials 2 --best-hyperparameters-dir tuned --search-space "
    '{"unused":{"kind":"float","low":0.1,"high":0.2}}',
    "train": f"train {_TRAINED} --num-epochs 2 --model-dir model --model-run-dir run --deterministic",
    "evaluate": "evaluate --examples-dir examples --model-dir model --label-feature topic --evaluation-dir evaluation "
    "--blessing-dir blessing",
    "skew": "skew --examples-dir examples --transformed-examples-dir transformed --model-dir model --model-run-dir run "
    "--skew-dir skew --infra-blessing-dir infra",
    "push": "push --examples-dir examples --model-dir model --blessing-dir blessing --infra-blessing-dir infra "
    "--push-destination serving --pushed-model-dir pushed --num-verification-requests 2",
}
_STAGES = ("sample", "schema", "validate", "transform", "sizes", "train", "evaluate", "skew", "push", _PIPELINE)
_UNREAD = {"new", "dataset", "validate", "batches", "tune"}
#: Exit code of a process that ended with an exception; no command has it.
_EXCEPTION = 70


@dataclasses.dataclass
class Tally:
    """What became of the kills of a verb."""

    verb: str
    num_renames: int = 0
    num_kills: int = 0
    num_completed: int = 0
    num_ended_before: int = 0
    seconds: float = 0.0
    problems: list[str] = dataclasses.field(default_factory=list)


app = typer.Typer(pretty_exceptions_enable=False)
console = Console(stderr=True, highlight=False, width=150)
_Verbs = Annotated[list[str] | None, typer.Option("--verb", help="Only this one; repeat for several.")]
_Keep = Annotated[str, typer.Option(help="Keeps what failed kills left in this new folder.")]


@app.command()
def renames(*, verb: _Verbs = None, first_rename: int = 1, max_seconds: float = 1e9, keep: _Keep = "") -> None:
    """Kills verbs before and after each of their renames."""
    start = time.monotonic()
    verbs = verb or [*VERBS]
    with _runs(keep, verbs) as runs:
        for name in verbs:
            tally = runs.tally(name)
            for number in range(first_rename, tally.num_renames + 1):
                for when in ("before", "after"):
                    if time.monotonic() - start < max_seconds:
                        runs.kill(tally, f"{when} rename {number}", number=number, is_after=when == "after")
            console.print(f"{name}: {tally.num_completed} of {tally.num_kills} {tally.problems}", markup=False)
        runs.end("killed before and after every rename")


@app.command()
def times(
    *, num_kills: int = 100, verb: _Verbs = None, seed: int = 0, max_seconds: float = 1e9, keep: _Keep = ""
) -> None:
    """Kills verbs and the pipeline at random times."""
    generator, start = random.Random(seed), time.monotonic()
    verbs = verb or [*_STAGES]
    with _runs(keep, verbs) as runs:
        tallies = [runs.tally(name) for name in verbs]
        for kill in range(num_kills):
            tally, was_killed = tallies[kill % len(tallies)], False
            # A time that came after the verb's end is drawn again, from those that it now takes.
            while not was_killed and time.monotonic() - start < max_seconds:
                seconds = generator.uniform(0.0, tally.seconds)
                was_killed = runs.kill(tally, f"after {seconds:.2f} s", seconds=seconds)
                console.print(f"{kill + 1:3} {tally.verb} after {seconds:.2f} s {tally.problems}", markup=False)
        runs.end(f"killed at random times, seed {seed}")


class _Runs:
    """Runs commands in copies of a project, each in a process of its own that this one forks."""

    def __init__(self, folder: Path, verbs: Sequence[str]) -> None:
        self._folder = folder
        self._tallies: list[Tally] = []
        self._references: dict[str, tuple[Path, set[str]]] = {}
        self._prepared = folder / "prepared"
        shutil.copytree(PROJECT, self._prepared / PROJECT.name, ignore=shutil.ignore_patterns("__pycache__"))
        for name, text in _INDEX.items():
            (self._prepared / name).write_text(text)
        self._start(self._prepared, functools.partial(exec, _PLAN, {}))()
        order = [*VERBS, _PIPELINE]
        last = max(order.index(verb) for verb in verbs if verb != _PIPELINE or len(verbs) == 1)
        # What comes after the last verb, and what no verb reads, is not needed.
        needed = [] if verbs == [_PIPELINE] else [name for name in order[:last] if name not in _UNREAD]
        for name in needed:
            command = VERBS[name]
            # Two epochs are enough to be killed in, but not for a blessing.
            words = command.replace("--num-epochs 2 ", "--num-epochs 20 ").split()
            if self._start(self._prepared, functools.partial(_command, name, words))() not in _done(name):
                raise RuntimeError(f"{name} without a kill: {self._log(self._prepared)}")

    def tally(self, verb: str) -> Tally:
        """Runs a verb twice without a kill, and learns what differs by itself."""
        first, second = self._before(verb, "reference"), self._before(verb, "reference-again")
        start = time.monotonic()
        code, num_renames = self._run(first, verb)
        tally = Tally(verb, num_renames=num_renames, seconds=time.monotonic() - start)
        code_again, _ = self._run(second, verb)
        if code not in _done(verb) or code_again != code:
            raise RuntimeError(f"{verb} without a kill: {self._log(first)}")
        found, again = written_files(first), written_files(second)
        volatile = {name for name in found if found[name] != again.get(name)}
        if found.keys() != again.keys():
            raise RuntimeError(f"{verb} leaves other files each time: {sorted(found.keys() ^ again.keys())}")
        self._references[verb] = first, volatile
        console.print(f"{verb}: {num_renames} renames; differ without a kill: {sorted(volatile)}", markup=False)
        self._tallies.append(tally)
        return tally

    def kill(
        self, tally: Tally, point: str, *, number: int = 0, is_after: bool = False, seconds: float | None = None
    ) -> bool:
        """Kills a verb once, and runs it again; tells whether it was still running."""
        place, start = self._before(tally.verb, f"{tally.num_kills}"), time.monotonic()
        tally.num_kills += 1
        code, _ = self._run(place, tally.verb, number=number, is_after=is_after, seconds=seconds)
        was_killed = code == -signal.SIGKILL
        if not was_killed:
            tally.seconds = min(tally.seconds, time.monotonic() - start)
        again, _ = self._run(place, tally.verb)
        problem = ""
        is_there = not was_killed or _SAYS_IT_IS_THERE in self._log(place)
        done = _done(tally.verb)
        if again not in done and not is_there:
            problem = f"exit {again}: {self._log(place)[-300:]}"
        elif not was_killed and (number or code not in done):
            problem = f"was not killed but ended with {code}"
        else:
            problem = self._difference(tally.verb, place)
        if problem:
            tally.problems.append(f"{point}: {problem}")
            return was_killed
        tally.num_completed += again in done and was_killed
        tally.num_ended_before += again not in done or not was_killed
        shutil.rmtree(place)
        return was_killed

    def end(self, title: str) -> None:
        """Prints the table, and ends with 1 if there was a problem."""
        table = Table(title=title)
        for name in ("verb", "renames", "kills", "completed when run again", "ended before the kill", "problems"):
            table.add_column(name)
        for tally in self._tallies:
            counts = (tally.num_renames, tally.num_kills, tally.num_completed, tally.num_ended_before)
            table.add_row(tally.verb, *map(str, counts), "\n".join(tally.problems) or "none")
        Console(width=150).print(table, markup=False)
        raise typer.Exit(int(any(tally.problems for tally in self._tallies)))

    def _before(self, verb: str, name: str) -> Path:
        """Copies what a verb reads."""
        place = self._folder / verb / name
        place.mkdir(parents=True)
        words = [] if verb == _PIPELINE else VERBS[verb].split()
        for word in {"tiny_project", *(word.partition("/")[0] for word in words)}:
            source = self._prepared / word
            if source.is_file():
                shutil.copy2(source, place)
            elif source.is_dir() and word not in _outputs(words):
                shutil.copytree(source, place / word)
        return place

    def _run(
        self, place: Path, verb: str, *, number: int = 0, is_after: bool = False, seconds: float | None = None
    ) -> tuple[int, int]:
        """Runs a verb; gives its exit code, negative for a signal, and its number of renames."""
        words = ["tiny_project.task:TASK", "--root", "outputs"] if verb == _PIPELINE else VERBS[verb].split()
        wait = self._start(place, functools.partial(_command, verb, words), number, is_after=is_after)
        code = wait(_DEADLINE_SECONDS if seconds is None else seconds)
        count = place.with_name(f"{place.name}.count")
        return code, int(count.read_text()) if count.exists() else 0

    def _start(
        self, place: Path, function: Callable[[], None], number: int = 0, *, is_after: bool = False
    ) -> Callable[..., int]:
        """Starts a process; gives what waits for its exit code, and kills it after so many seconds."""
        log, count = (place.with_name(f"{place.name}.{kind}") for kind in ("log", "count"))
        pid = os.fork()
        if pid == 0:
            _be_child(place, log, count, function, number, is_after=is_after)
        # Here and in the child: whichever comes first.
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)

        def wait(seconds: float = _DEADLINE_SECONDS) -> int:
            deadline = time.monotonic() + seconds
            while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
                if time.monotonic() > deadline:
                    os.killpg(pid, signal.SIGKILL)
                time.sleep(0.005)
            # Processes that it had started, as to verify a push.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            return os.waitstatus_to_exitcode(ended[1])

        return wait

    def _log(self, place: Path) -> str:
        return place.with_name(f"{place.name}.log").read_text(errors="replace")

    def _difference(self, verb: str, place: Path) -> str:
        reference, volatile = self._references[verb]
        expected, found = written_files(reference), written_files(place)
        if expected.keys() != found.keys():
            return (
                f"left over {sorted(found.keys() - expected.keys())}, missing {sorted(expected.keys() - found.keys())}"
            )
        differing = [name for name in expected if name not in volatile and expected[name] != found[name]]
        return f"other bytes in {differing}" if differing else ""


def _be_child(
    place: Path, log: Path, count: Path, function: Callable[[], None], number: int, *, is_after: bool
) -> None:
    """Never returns: nothing of the parent may run in the child."""
    code = _EXCEPTION
    library = ctypes.CDLL(os.environ[_LIBRARY])
    try:
        os.setpgid(0, 0)
        with log.open("wb", buffering=0) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(place)
        sys.path.insert(0, str(place))
        library.kill_points_arm(str(place).encode(), number, int(is_after))
        function()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else _EXCEPTION
    except BaseException as error:  # noqa: BLE001
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        count.write_text(str(library.kill_points_count()))
        os._exit(code)


def _command(verb: str, words: Sequence[str]) -> None:
    if verb == _PIPELINE:
        from tfx_gnn_pipelines.command import app as command
    else:
        from tfx_gnn.cli.app import app as command

    command(list(words))


def _done(verb: str) -> tuple[int, ...]:
    """Exit codes of a command that did its work: 1 is a verb without a blessing, but a pipeline that failed."""
    return (0,) if verb == _PIPELINE else (0, 1)


def _outputs(words: Sequence[str]) -> set[str]:
    """Names of folders that a command makes: those behind flags that no other verb before it wrote."""
    earlier: set[str] = set()
    for command in VERBS.values():
        if command.split() == list(words):
            break
        earlier |= {word.partition("/")[0] for word in command.split()}
    return {word.partition("/")[0] for word in words} - earlier - {PROJECT.name}


@contextlib.contextmanager
def _runs(keep: str, verbs: Sequence[str]) -> Iterator[_Runs]:
    if keep:
        Path(keep).mkdir(parents=True)
        yield _Runs(Path(keep).resolve(), verbs)
        return
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-kills-") as folder:
        yield _Runs(Path(folder), verbs)


def _with_library() -> None:
    """Starts this program again with the library that counts renames."""
    with tempfile.TemporaryDirectory(prefix="tfx-gnn-kill-points-") as folder:
        library = str(Path(folder) / "kill_points.so")
        source = str(Path(__file__).with_name("kill_points.c"))
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
        env = {**os.environ, _LIBRARY: library, "LD_PRELOAD": library, "PYTHONDONTWRITEBYTECODE": "1"}
        raise SystemExit(subprocess.run([sys.executable, *sys.argv], env=env, check=False).returncode)


def _import_what_verbs_need() -> None:
    """So that each forked process has it: to import is safe before a fork, to run is not."""
    from tfx_gnn.io.quiet_libraries import quiet_start

    quiet_start()
    import tfx_gnn_pipelines.assembly  # noqa: F401


if __name__ == "__main__":
    if _LIBRARY not in os.environ:
        _with_library()
    _import_what_verbs_need()
    app()

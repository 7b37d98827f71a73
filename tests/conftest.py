"""Settings of every test process, made before anything imports TensorFlow."""

from __future__ import annotations

import gc
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Imports and tracing make so many objects that live on that by Python's thresholds the garbage collector would run a
# thousand times as often, for a fifth of the time of tests that trace many functions.
gc.set_threshold(500_000, 20, 20)
# pytest-xdist sets it for its workers, and a console keeps the width that it finds first.
os.environ.pop("COLUMNS", None)


#: What takes long: see infra/ci/slow_tests.py, which writes it.
SLOW_TESTS = Path(__file__).with_name("slow_tests.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--few-cases", action="store_true", help="run the first and the last case of each test alone")
    parser.addoption("--fast", action="store_true", help=f"leave out the tests and cases that {SLOW_TESTS.name} names")
    parser.addoption("--record-seconds", metavar="FILE", help="append the seconds of each test to a file")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests and cases as `--few-cases` and `--fast` ask for; they are counted as deselected."""
    slow = set(SLOW_TESTS.read_text().splitlines()) if config.getoption("--fast") else set()
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    kept = set()
    for test, of_one_test in cases.items():
        if slow.isdisjoint((test, test.partition("::")[0])):
            few = config.getoption("--few-cases") or f"{test}[...]" in slow
            kept.update(map(id, (of_one_test[0], of_one_test[-1]) if few else of_one_test))
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


class SecondsRecorder:
    """Appends a line of JSON for each phase of each test: its node id, "setup", "call" or "teardown", and seconds."""

    def __init__(self, path: str) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps([report.nodeid, report.when, report.duration])}\n")


def pytest_configure(config: pytest.Config) -> None:
    """Prepares the oracle, and makes hypothesis repeatable where a failure must be."""
    # Where tests run in several processes, the one that started them hears of all.
    if config.getoption("--record-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondsRecorder(config.getoption("--record-seconds")))
    lanes = {part for argument in config.args for part in Path(argument).parts}
    if not lanes & {"components", "e2e", "stores"}:
        # tensorflow-gnn, the oracle, needs Keras 2 under the name tf.keras. TFX components and pipelines are
        # tested without it, as their users run them.
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    if sys.version_info < (3, 11) and importlib.util.find_spec("tensorflow_gnn") is None:
        raise pytest.UsageError("the development packages are not all installed; run the tests by `make test`.")

    import hypothesis

    # A first call may trace a tf.function, which takes longer than any deadline worth having.
    hypothesis.settings.register_profile("here", deadline=None, print_blob=True)
    hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
    hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_finish() -> None:
    """Hides what modules made on import from the garbage collector, which would find half a million objects alive."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def of_another_user(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Makes a file or folder look as if another user had made it."""
    foreign: set[tuple[int, int]] = set()

    def disguised(function: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def call(*args: Any, **options: Any) -> os.stat_result:
            found = function(*args, **options)
            if (found.st_dev, found.st_ino) not in foreign:
                return found
            names = ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")
            return os.stat_result(
                (*found[:4], found.st_uid + 1, *found[5:]), {name: getattr(found, name) for name in names}
            )

        return call

    for name in ("stat", "lstat", "fstat"):
        monkeypatch.setattr(os, name, disguised(getattr(os, name)))

    def mark(path: Path) -> None:
        found = os.lstat(path)
        foreign.add((found.st_dev, found.st_ino))

    return mark


@pytest.fixture(scope="session")
def python_of_document() -> Callable[[str], str]:
    """Gives the Python blocks of a document, named from the project's top, as one program."""
    block = re.compile(r"^```python(?: title=[^\n]*)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    root = Path(__file__).resolve().parents[1]
    return lambda name: "\n".join(block.findall((root / name).read_text()))


@pytest.fixture(scope="session")
def clusters() -> ModuleType:
    """The module `clusters`: programs as clusters of real processes (`run_cluster`, `cluster_of`)."""
    spec = importlib.util.spec_from_file_location("clusters", Path(__file__).with_name("clusters.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module

"""The check beside a run, with small programs in place of a real check."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
from rich.console import Console

from tfx_gnn_pipelines.checks.background_check import checked_beside
from tfx_gnn_pipelines.checks.findings import Finding, PipelineCheck, PipelineNotReadyError
from tfx_gnn_pipelines.config import quickstart
from tfx_gnn_pipelines.task import load_task

DOUBT = Finding(severity="warning", step="GraphTrainer", message="`x` should be y.")
ERROR = Finding(severity="error", step="GraphTrainer", message="`x` must be y.")
GOOD = PipelineCheck(findings=(), seconds=2.0)
SECONDS = 20
"""A limit that only a failing test reaches."""


class Screen(io.StringIO):
    """Keeps what is printed, and waits for a line that matches."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()

    def write(self, text):
        with self._changed:
            self._changed.notify_all()
            return super().write(text)

    def wait_for(self, pattern):
        with self._changed:
            assert self._changed.wait_for(lambda: re.search(pattern, self.getvalue()), SECONDS), self.getvalue()


@pytest.fixture
def screen():
    return Screen()


@pytest.fixture
def config(tmp_path):
    return quickstart(load_task("debian_sections"), root=str(tmp_path / "root"))


@pytest.fixture
def beside(config, screen):
    """Makes a block with a check beside it, which is the given program."""

    def make(program, *, names=GOOD):
        return checked_beside(
            config,
            Console(file=screen, width=1000),
            check_names=lambda *_, **__: names,
            command=(sys.executable, "-S", "-c", program),
        )

    return make


def answering(tmp_path, found):
    """A program that finds something at once."""
    (tmp_path / "answer").write_bytes(pickle.dumps(found))
    return f"import sys; sys.stdout.buffer.write(open({str(tmp_path / 'answer')!r}, 'rb').read())"


def lasting(tmp_path):
    """A program that tells its process and its folder, and then checks for ever; and where it tells them."""
    told = tmp_path / "told"
    os.mkfifo(told)
    program = (
        "import os, signal\n"
        f"with open({str(told)!r}, 'w') as file:\n"
        "    file.write(str(os.getpid()) + ' ' + os.environ['TMPDIR'])\n"
        "signal.pause()\n"
    )
    return program, told


def run_until_interrupted():
    threading.Event().wait(SECONDS)
    pytest.fail("nothing interrupted the block")


def run_step_that_fails():
    try:
        run_until_interrupted()
    except KeyboardInterrupt:
        raise RuntimeError("the step could not clean up") from None


def is_running(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("sigint", [signal.default_int_handler, signal.SIG_IGN], ids=["terminal", "background job"])
def test_error_stops_the_block(beside, tmp_path, sigint):
    own = signal.signal(signal.SIGINT, sigint), signal.getsignal(signal.SIGUSR1)

    try:
        with (
            pytest.raises(PipelineNotReadyError, match="`x` must be y") as stopped,
            beside(answering(tmp_path, PipelineCheck(findings=(ERROR,)))),
        ):
            run_until_interrupted()
    finally:
        signal.signal(signal.SIGINT, own[0])

    assert stopped.value.found.findings == (ERROR,)
    assert isinstance(stopped.value.__cause__, KeyboardInterrupt)
    assert signal.getsignal(signal.SIGUSR1) == own[1]


def test_wrong_name_stops_the_block_before_it_starts(beside, tmp_path):
    program, _ = lasting(tmp_path)

    with (
        pytest.raises(PipelineNotReadyError, match="`x` must be y"),
        beside(program, names=PipelineCheck(findings=(ERROR,))),
    ):
        pytest.fail("the block started")


def test_failure_of_the_block_is_explained_by_the_error_that_was_found(beside, tmp_path):
    with (
        pytest.raises(PipelineNotReadyError, match="`x` must be y") as stopped,
        beside(answering(tmp_path, PipelineCheck(findings=(ERROR,)))),
    ):
        run_step_that_fails()

    assert isinstance(stopped.value.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("findings", "shown"),
    [
        ((), "ready to run: nothing wrong, 2.0 s\n"),
        ((DOUBT,), "warning  GraphTrainer: `x` should be y.\nready to run: 1 warning, 2.0 s\n"),
    ],
)
def test_passed_check_prints_its_verdict_and_the_block_goes_on(beside, screen, tmp_path, findings, shown):
    with beside(answering(tmp_path, PipelineCheck(findings=findings, seconds=2.0))):
        screen.wait_for("ready to run.*\n")
        screen.write("the block ends\n")

    assert screen.getvalue() == f"{shown}the block ends\n"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemError('no memory')", "exit code 1: SystemError: no memory."),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9: no message."),
        ("", "exit code 0: no message."),
    ],
)
def test_check_that_crashes_gives_one_warning_and_the_block_goes_on(beside, screen, program, reason):
    with beside(program):
        screen.wait_for("warning .*\n")
        screen.write("the block ends\n")

    warning, *rest = screen.getvalue().splitlines()
    assert warning.startswith(f"warning  The check beside the run failed with {reason} The run goes on.")
    assert rest == ["the block ends"]


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (None, "The run ended before its check, which the next run makes again.\n"),
        (KeyboardInterrupt, ""),
        (ValueError, ""),
    ],
)
def test_end_of_the_block_ends_the_check(beside, screen, tmp_path, end, shown):
    program, told = lasting(tmp_path)

    with pytest.raises(end) if end else contextlib.nullcontext(), beside(program):
        pid, folder = told.read_text().split(" ")
        was_there = is_running(int(pid)), Path(folder).is_dir()
        if end:
            raise end

    assert was_there == (True, True)
    assert (is_running(int(pid)), Path(folder).exists()) == (False, False)
    assert screen.getvalue() == shown

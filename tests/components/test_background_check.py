"""The check beside a run, with small programs in place of a real check."""

from __future__ import annotations

import contextlib
import inspect
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

from tfx_gnn_pipelines.checks.background_check import RunStopped, run_checked
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
def run_beside(config, screen):
    """Runs a function with a check beside it, which is the given program."""

    def call(program, run, *, names=GOOD):
        return run_checked(
            lambda before_step: run(before_step) if inspect.signature(run).parameters else run(),
            config,
            Console(file=screen, width=1000),
            check_names=lambda *_, **__: names,
            command=(sys.executable, "-S", "-c", program),
        )

    return call


def answering(tmp_path, found):
    """A program that finds something at once."""
    (tmp_path / "answer").write_bytes(pickle.dumps(found))
    return f"import sys; sys.stdout.buffer.write(open({str(tmp_path / 'answer')!r}, 'rb').read())"


def answering_when_asked(tmp_path, found):
    """A program that finds something when it is asked; and what asks it."""
    asked = tmp_path / "asked"
    os.mkfifo(asked)
    return f"open({str(asked)!r}).read(); {answering(tmp_path, found)}", lambda: asked.write_text("")


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


def is_running(pid):
    return Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("sigint", [signal.default_int_handler, signal.SIG_IGN], ids=["terminal", "background job"])
def test_error_stops_the_run(run_beside, tmp_path, sigint):
    own = signal.signal(signal.SIGINT, sigint), signal.getsignal(signal.SIGUSR1)
    program, ask = answering_when_asked(tmp_path, PipelineCheck(findings=(ERROR,)))

    def run():
        ask()
        run_until_interrupted()

    try:
        with pytest.raises(PipelineNotReadyError, match="`x` must be y") as stopped:
            run_beside(program, run)
    finally:
        signal.signal(signal.SIGINT, own[0])

    assert stopped.value.found.findings == (ERROR,)
    assert isinstance(stopped.value.__cause__, RunStopped)
    assert signal.getsignal(signal.SIGUSR1) == own[1]


def test_error_that_is_found_before_the_run_starts_keeps_it_from_starting(config, screen, tmp_path):
    program, ask = answering_when_asked(tmp_path, PipelineCheck(findings=(ERROR,)))
    arrived = threading.Event()
    own = signal.getsignal(signal.SIGUSR1)

    def check_names(*_, **__):
        # The handler of the check itself, which tells that its signal has arrived.
        handler = signal.getsignal(signal.SIGUSR1)
        signal.signal(signal.SIGUSR1, lambda *got: (handler(*got), arrived.set()))
        ask()
        arrived.wait(SECONDS)
        return GOOD

    with pytest.raises(PipelineNotReadyError, match="`x` must be y"):
        run_checked(
            lambda _: pytest.fail("the run started"),
            config,
            Console(file=screen),
            check_names=check_names,
            command=(sys.executable, "-S", "-c", program),
        )

    assert arrived.is_set()
    assert signal.getsignal(signal.SIGUSR1) == own


def test_wrong_name_keeps_the_run_from_starting(run_beside, tmp_path):
    program, _ = lasting(tmp_path)

    with pytest.raises(PipelineNotReadyError, match="`x` must be y"):
        run_beside(program, lambda: pytest.fail("the run started"), names=PipelineCheck(findings=(ERROR,)))


def test_failure_of_the_run_is_explained_by_the_error_that_was_found(run_beside, tmp_path):
    program, ask = answering_when_asked(tmp_path, PipelineCheck(findings=(ERROR,)))

    def run():
        try:
            ask()
            run_until_interrupted()
        except RunStopped:
            raise RuntimeError("the step could not clean up") from None

    with pytest.raises(PipelineNotReadyError, match="`x` must be y") as stopped:
        run_beside(program, run)

    assert isinstance(stopped.value.__cause__, RuntimeError)


def test_run_is_interrupted_once(run_beside, tmp_path):
    program, ask = answering_when_asked(tmp_path, PipelineCheck(findings=(ERROR,)))
    cleaned = []

    def run():
        try:
            ask()
            run_until_interrupted()
        finally:
            os.kill(os.getpid(), signal.SIGUSR1)
            cleaned.append("up")

    with pytest.raises(PipelineNotReadyError, match="`x` must be y"):
        run_beside(program, run)

    assert cleaned == ["up"]


def test_run_that_swallows_its_interruption_ends_with_the_error_shown(run_beside, screen, tmp_path):
    program, ask = answering_when_asked(tmp_path, PipelineCheck(findings=(ERROR,)))

    def run():
        # The answer may come before `ask` returns.
        with contextlib.suppress(RunStopped):
            ask()
            run_until_interrupted()
        return "pushed"

    assert run_beside(program, run) == "pushed"
    assert screen.getvalue() == "error    GraphTrainer: `x` must be y.\n"


def until_told(before_step, screen, component):
    """Calls what is called before a step until it prints something."""
    before = screen.getvalue()
    for _ in range(SECONDS * 20):
        before_step(component)
        if screen.getvalue() != before:
            return
        threading.Event().wait(0.05)
    pytest.fail("nothing was printed")


@pytest.mark.parametrize(
    ("findings", "shown"),
    [
        ((), "ready to run: nothing wrong, 2.0 s\n"),
        ((DOUBT,), "warning  GraphTrainer: `x` should be y.\nready to run: 1 warning, 2.0 s\n"),
    ],
)
def test_passed_check_prints_its_verdict_once_between_two_steps(run_beside, screen, tmp_path, findings, shown):
    def run(before_step):
        until_told(before_step, screen, "GraphTransform")
        screen.write("a step\n")
        before_step("GraphTrainer")
        screen.write("the run ends\n")

    run_beside(answering(tmp_path, PipelineCheck(findings=findings, seconds=2.0)), run)

    assert screen.getvalue() == f"{shown}a step\nthe run ends\n"


def test_check_that_ends_after_training_began_says_so_between_two_steps(run_beside, screen, tmp_path):
    program, ask = answering_when_asked(tmp_path, GOOD)

    def run(before_step):
        before_step("GraphTrainer")
        screen.write("training\n")
        ask()
        until_told(before_step, screen, "GraphEvaluator")

    run_beside(program, run)

    assert screen.getvalue().splitlines() == [
        "The check is not finished; training begins, and stops if it finds an error.",
        "training",
        "ready to run, known after training had begun: nothing wrong, 2.0 s",
    ]


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("raise SystemError('no memory')", "exit code 1: SystemError: no memory."),
        ("import os; os.kill(os.getpid(), 9)", "exit code -9: no message."),
        ("", "exit code 0: no message."),
    ],
)
def test_check_that_crashes_gives_one_warning_and_the_run_goes_on(run_beside, screen, program, reason):
    def run(before_step):
        until_told(before_step, screen, "GraphTransform")
        screen.write("the run ends\n")

    run_beside(program, run)

    warning, *rest = screen.getvalue().splitlines()
    assert warning.startswith(f"warning  The check beside the run failed with {reason} The run goes on.")
    assert rest == ["the run ends"]


@pytest.mark.parametrize(
    ("end", "shown"),
    [
        (None, "The run ended before its check, which the next run makes again.\n"),
        (KeyboardInterrupt, ""),
        (ValueError, ""),
    ],
)
def test_end_of_the_run_ends_the_check(run_beside, screen, tmp_path, end, shown):
    program, told = lasting(tmp_path)
    checking = []

    def run():
        pid, folder = told.read_text().split(" ")
        checking.extend((int(pid), folder))
        assert is_running(int(pid))
        assert Path(folder).is_dir()
        if end:
            raise end

    with pytest.raises(end) if end else contextlib.nullcontext():
        run_beside(program, run)

    pid, folder = checking
    assert (is_running(pid), Path(folder).exists()) == (False, False)
    assert screen.getvalue() == shown

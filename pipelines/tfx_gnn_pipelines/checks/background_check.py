"""Checks a pipeline beside its first steps: in a process of its own and of low priority, which can stop the run.

The steps before training take longer than the check, and leave a processor idle while they import TFX. So a run starts
at once, costs hardly more with a check than without one, and still ends before it trains what cannot work.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Protocol, TypeVar

from rich.console import Console

from tfx_gnn.records.warning_kinds import CHECK_FAILED
from tfx_gnn_pipelines.checks.check_summary import print_finding, print_verdict
from tfx_gnn_pipelines.checks.findings import PipelineCheck, PipelineNotReadyError
from tfx_gnn_pipelines.checks.passed_checks import read_passed, remember_passed
from tfx_gnn_pipelines.config import PipelineConfig

_Result = TypeVar("_Result")

_NICENESS = 5
"""A third of the time of a busy processor: with less, a check of 15 seconds does not end before the training."""
_RUN_CHECK = (sys.executable, "-c", "from tfx_gnn_pipelines.checks.background_check import run_check; run_check()")
_TRAINING = ("GraphTuner", "GraphTrainer")
"""Steps that the check should come before."""
_STOP = signal.SIGUSR1
"""Interrupts the run. Shells let background jobs ignore SIGINT, so that one would not do."""


class _CheckNames(Protocol):
    def __call__(self, config: PipelineConfig, *, files: Sequence[str]) -> PipelineCheck: ...


def _check_names(config: PipelineConfig, *, files: Sequence[str]) -> PipelineCheck:
    # Not above: it imports TensorFlow, which the process beside this one should begin with at once.
    from tfx_gnn_pipelines.checks.pipeline_check import check_names

    return check_names(config, files=files)


BeforeStep = Callable[[str], None]
"""Is called with the id of a component before it begins: what the check found is printed there, between two steps."""


class RunStopped(BaseException):
    """Raised wherever the main thread is when the check beside a run finds an error.

    Like `KeyboardInterrupt` it is no `Exception`, which a step or a library may take for a failure of its own.
    """


def run_checked(
    run: Callable[[BeforeStep], _Result],
    config: PipelineConfig,
    console: Console,
    *,
    files: Sequence[str] = (),
    check_names: _CheckNames = _check_names,
    command: Sequence[str] = _RUN_CHECK,
) -> _Result:
    """Runs a pipeline with a check beside it, unless it passed before: then the warnings of that check are shown again.

    Names and the heads of tables are checked before the run starts. The rest is checked in another process, which
    ends with the run, and with this process however that ends. If it finds an error, `RunStopped` is raised in the
    run, even in a background job, which ignores Ctrl-C. If it fails itself, a warning says so, and the run goes on.
    Call this from the main thread.

    Args:
        run: runs the pipeline, and calls what it is given before each step, so that no line falls into one.
        config: the pipeline.
        console: where doubts, a passed check and the failure of a check are shown.
        files: files of the user to look for wrong names in, such as `project.yaml`.
        check_names: checks what the run does not start without.
        command: the process beside the run, which does what `run_check` does.

    Returns:
        What `run` returns.

    Raises:
        PipelineNotReadyError: if an error was found before or while the run went on.
    """
    passed = read_passed(config)
    if passed is not None:
        for finding in passed.findings:
            print_finding(console, finding)
        return run(_say_nothing)
    check = _BackgroundCheck(config, console, files, command)
    try:
        try:
            names = check_names(config, files=files)
            if not names.passed:
                raise PipelineNotReadyError(names)
            check.may_interrupt()
            result = run(check.before_step)
        finally:
            check.must_not_interrupt()
        check.tell_at_the_end()
    except (Exception, KeyboardInterrupt, RunStopped) as error:
        if check.found is not None and not check.found.passed:
            raise PipelineNotReadyError(check.found) from error
        raise
    finally:
        check.end()
    return result


class _BackgroundCheck:
    """A process that checks, and a thread that waits for what it finds.

    Attributes:
        found: what it found; None as long as that is not known.
    """

    def __init__(self, config: PipelineConfig, console: Console, files: Sequence[str], command: Sequence[str]) -> None:
        self.found: PipelineCheck | None = None
        self._console = console
        self._failure = ""
        self._is_told = self._is_training = self._has_ended = False
        self._may_interrupt = False
        self._folder = tempfile.mkdtemp(prefix="tfx-gnn-check-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Accelerators belong to the run, whose process would find them occupied.
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "CUDA_VISIBLE_DEVICES": "-1",
                "TMPDIR": self._folder,
            },
            # Ctrl-C in a terminal goes to this process alone, which ends the other one.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It failed at once, which the thread reports.
            self._process.stdin.write(pickle.dumps((config, list(files), self._folder)))
            self._process.stdin.flush()
        self._handler = signal.signal(_STOP, self._interrupt)
        self._waiting = threading.Thread(target=self._wait, daemon=True)
        self._waiting.start()

    def may_interrupt(self) -> None:
        """Lets an error interrupt the main thread, once, from here on; raises at once if one was found already."""
        self._may_interrupt = True
        if self.found is not None and not self.found.passed:
            self._interrupt()

    def must_not_interrupt(self) -> None:
        """Keeps errors from interrupting the main thread."""
        self._may_interrupt = False

    def before_step(self, component: str) -> None:
        """Prints what was found since the last step, and, before a training, that nothing is known yet."""
        self._tell()
        if component in _TRAINING and not self._is_training:
            self._is_training = True
            if not self._is_told:
                self._print("The check is not finished; training begins, and stops if it finds an error.", style="dim")

    def tell_at_the_end(self) -> None:
        """Prints what was found since the last step, even an error that came too late, or that the run ended first."""
        if self._process.poll() is None:
            self._print("The run ended before its check, which the next run makes again.", style="dim")
            return
        self._waiting.join()
        self._tell()

    def _tell(self) -> None:
        if self._is_told or (self.found is None and not self._failure):
            return
        self._is_told = True
        if self.found is None:
            self._print(self._failure, style="yellow")
            return
        for finding in self.found.findings:
            print_finding(self._console, finding)
        if self.found.passed:
            print_verdict(self._console, self.found, late=self._is_training)

    def _print(self, line: str, *, style: str) -> None:
        self._console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Ends the process if it is still running."""
        self._has_ended = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._waiting.join()
        signal.signal(_STOP, self._handler)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _wait(self) -> None:
        assert self._process.stdout is not None
        answer = self._process.stdout.read()
        code = self._process.wait()
        if self._has_ended:
            return
        if code or not answer:
            self._failure = self._describe_failure(code)
            return
        self.found = pickle.loads(answer)
        assert self.found is not None
        if not self.found.passed:
            # Unlike `interrupt_main`, this also ends a wait for something else.
            signal.pthread_kill(threading.main_thread().ident or 0, _STOP)

    def _interrupt(self, _number: int = _STOP, _frame: FrameType | None = None) -> None:
        if self._may_interrupt:
            # Once: what cleans up after the run is not interrupted again.
            self._may_interrupt = False
            raise RunStopped("The check beside the run found an error, and stopped it here.")

    def _describe_failure(self, code: int) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return CHECK_FAILED.mark(
            f"warning  The check beside the run failed with exit code {code}: {lines[-1] if lines else 'no message'}. "
            "The run goes on. See what `tfx-gnn check` says, or leave the check out by --no-check."
        )


def _say_nothing(_component: str) -> None:
    """Is called before each step of a pipeline that was checked before."""


def run_check() -> None:
    """Checks the pipeline that comes through standard input, and writes what it finds to standard output.

    Ends when standard input is closed, so that no check outlives its run.
    """
    os.nice(_NICENESS)
    # What libraries and the user's code print goes elsewhere.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    from tfx_gnn.io.quiet_libraries import quiet_start

    quiet_start()
    config, files, folder = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_exit_at_end_of_input, args=[folder], daemon=True).start()
    from tfx_gnn_pipelines.checks.pipeline_check import check_pipeline

    found = check_pipeline(config, files=files)
    remember_passed(config, found)
    with answers:
        pickle.dump(found, answers)


def _exit_at_end_of_input(folder: str) -> None:
    # Not through sys.stdin, whose lock would be held when the interpreter ends, which aborts it.
    os.read(sys.stdin.fileno(), 1)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)

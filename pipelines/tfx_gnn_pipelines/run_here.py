"""Runs a pipeline on this machine for the command line: the check beside it, its progress, its page and its end."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import typer
from rich.console import Console

from tfx_gnn.io.plain_console import PlainConsole
from tfx_gnn.records.warning_kinds import PAGE_NOT_WRITTEN, RUN_NOT_RECORDED
from tfx_gnn.reports.run_record import RUN_PAGE
from tfx_gnn_pipelines.checks.background_check import BeforeStep, run_checked
from tfx_gnn_pipelines.checks.check_summary import print_finding, print_verdict
from tfx_gnn_pipelines.checks.findings import PipelineCheck, PipelineNotReadyError
from tfx_gnn_pipelines.checks.passed_checks import read_passed
from tfx_gnn_pipelines.config import PipelineConfig
from tfx_gnn_pipelines.finished_run import find_finished_run
from tfx_gnn_pipelines.summary import print_short_summary, print_summary, shorten, summarize

if TYPE_CHECKING:
    from tfx_gnn_pipelines.run_outcome import RunOutcome

LocalRunner = Literal["local", "beam"]


def run_here(
    config: PipelineConfig,
    runner: LocalRunner,
    console: Console,
    *,
    started_at: float,
    check_files: Sequence[str] | None,
    as_json: bool,
    is_quiet: bool = False,
    debug: bool,
    at_end: contextlib.ExitStack,
) -> bool:
    """Runs the pipeline in this process, with a check of it and of the user's files beside it unless they are None.

    What `at_end` is given is printed after the error, if there is one. If `is_quiet`, only that and the last lines are.

    Returns:
        Whether the model was pushed.
    """
    last_lines, console = console, PlainConsole(quiet=True) if is_quiet else console
    console.print(f"Pipeline {config.pipeline_name}, runner {runner}", style="bold", highlight=False, soft_wrap=True)
    outcome = find_finished_run(config)
    page = os.path.join(config.root, RUN_PAGE)
    if outcome is not None:
        console.print(f"= {len(outcome.steps)} steps cached: nothing has changed since they ran", style="cyan")
        # Runs by other ways than this command leave none, and writing one would take longer than all else here.
        page = page if os.path.isfile(page) else ""
    else:
        run = functools.partial(_run_steps, config, runner, console, as_json=as_json, debug=debug)
        with (
            _page_of_a_run_that_fails(config, last_lines, at_end),
            _silence() if is_quiet else contextlib.nullcontext(),
        ):
            outcome = run() if check_files is None else run_checked(run, config, console, files=check_files)
        page = leave_page(config.root, last_lines)
    seconds = time.monotonic() - started_at
    if is_quiet:
        print_short_summary(last_lines, outcome, seconds, page=page, doubts=_doubts_of_check(config, check_files))
    else:
        print_summary(last_lines, outcome, seconds, page=page)
    if as_json:
        typer.echo(json.dumps(summarize(outcome, seconds, page=page)))
    return outcome.is_pushed


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drops what steps, and functions of the user in them, print to standard output."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _doubts_of_check(config: PipelineConfig, check_files: Sequence[str] | None) -> list[str]:
    """Reads what the check beside the run warned of."""
    passed = None if check_files is None else read_passed(config)
    return (
        [f"{finding.step}: {finding.message}" for finding in passed.findings if finding.severity == "warning"]
        if passed
        else []
    )


@contextlib.contextmanager
def _page_of_a_run_that_fails(config: PipelineConfig, console: Console, at_end: contextlib.ExitStack) -> Iterator[None]:
    """Writes the page of a run that did not reach its end, and has its place printed after the error."""
    from tfx_gnn_pipelines.recorded_run import count_runs

    since, num_before = time.time(), count_runs(config.root)
    try:
        yield
    # No other run's page: the root belongs to that run.
    except BlockingIOError:
        raise
    except BaseException as error:
        if isinstance(error, PipelineNotReadyError):
            _record_refusal(config, error.found, console, since=since)
        # Otherwise it failed before it was one.
        if count_runs(config.root) > num_before:
            page = leave_page(config.root, console)
            if page:
                at_end.callback(_print_plain, console, f"Page of the run: {shorten(page)}")
        raise


def _record_refusal(config: PipelineConfig, found: PipelineCheck, console: Console, *, since: float) -> None:
    from tfx_gnn_pipelines.local_runs import record_refusal

    try:
        record_refusal(config, found, since=since)
    except (OSError, ValueError) as error:
        _print_plain(console, RUN_NOT_RECORDED.mark(f"warning  The run was not written down: {error}"), style="yellow")


def leave_page(root: str, console: Console) -> str:
    """Writes the page of the latest run of a root, and returns its path; "" if that cannot be done, which is said."""
    from tfx_gnn_pipelines.run_pages import write_run_page

    try:
        return write_run_page(root)
    except (OSError, ValueError) as error:
        _print_plain(
            console, PAGE_NOT_WRITTEN.mark(f"warning  The page of the run was not written: {error}"), style="yellow"
        )
        return ""


def _print_plain(console: Console, line: str, *, style: str = "") -> None:
    console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)


def _run_steps(
    config: PipelineConfig,
    runner: LocalRunner,
    console: Console,
    before_step: BeforeStep = lambda _component: None,
    *,
    as_json: bool,
    debug: bool,
) -> RunOutcome:
    """Runs the steps of which TFX finds no cached outputs."""
    from tfx_gnn.io.quiet_libraries import quiet_first_compilation
    from tfx_gnn_pipelines.assembly import component_ids
    from tfx_gnn_pipelines.local_runs import run_locally, run_on_beam
    from tfx_gnn_pipelines.progress import component_progress
    from tfx_gnn_pipelines.run_pages import LivePage

    run_pipeline = run_on_beam if runner == "beam" else run_locally
    if not debug:
        quiet_first_compilation()
    # Steps, and functions of the user, print as they like.
    prints = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    page = LivePage(config.root, config.pipeline_name)
    shown = component_progress(component_ids(config), console, show_warnings=debug, tell=page.tell, before=before_step)
    with prints, shown as progress:
        try:
            return run_pipeline(config)
        except BaseException as error:
            # Ctrl-C and the check beside the run are no failure of the step that they strike.
            progress.fail(is_stopped=not isinstance(error, Exception))
            raise


def print_not_ready(found: PipelineCheck, console: Console, *, as_json: bool) -> None:
    """Prints what kept a pipeline from running, and how to go on."""
    for finding in found.findings:
        print_finding(console, finding)
    print_verdict(console, found)
    console.print(
        "Correct this, and run the same command again: finished steps come from the cache. `tfx-gnn check` looks for "
        "all that is wrong; --no-check runs without it.",
        style="dim",
        highlight=False,
        soft_wrap=True,
    )
    if as_json:
        typer.echo(json.dumps({"pushed": False, "check": found.to_json()}))

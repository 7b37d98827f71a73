"""The pages that runs leave in their root, also those that failed, were stopped or were killed."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
import time
import urllib.parse
from collections.abc import Sequence

from tfx_gnn.reports.report_page import write_page
from tfx_gnn.reports.run_contents import read_contents, read_files
from tfx_gnn.reports.run_page import render_run_page
from tfx_gnn.reports.run_record import RUN_PAGE, RecordedRun, RecordedStep
from tfx_gnn.reports.runs_page import render_runs_page
from tfx_gnn_pipelines.recorded_run import count_runs, is_root, read_run, read_runs
from tfx_gnn_pipelines.recorded_trial import RUNS_FOLDER

_MOST_RUNS = 100
_RUNNING = "running"


def write_run_page(place: str) -> str:
    """Writes the page of a run, and the list of all runs in the folder above if that is called `runs`.

    Args:
        place: the run, as `read_run` takes it.

    Returns:
        The path of the page.

    Raises:
        FileNotFoundError: if there is no run.
        ValueError: if the root has no such run, or its database cannot be read.
        OSError: if a page cannot be written.
    """
    run = read_run(place)
    page = render_run_page(run, read_contents(run.folders()))
    write_page(page, run.own_page)
    write_page(page, run.page)
    folder = os.path.dirname(os.path.abspath(run.root))
    if os.path.basename(folder) == RUNS_FOLDER:
        write_page(_list_of_runs(folder), os.path.join(folder, RUN_PAGE))
    return run.page


class LivePage:
    """The page of a run that is going on, written anew whenever a step starts or ends.

    It is made from what the steps tell, not from the database, into which they write. If the run is killed, it stays
    and says how far the run came.
    """

    def __init__(self, root: str, pipeline: str) -> None:
        number = count_runs(root) + 1
        self._run = RecordedRun(
            root=root,
            pipeline=pipeline,
            name=dt.datetime.now().isoformat(),  # noqa: DTZ005 - as TFX names runs.
            number=number,
            num_runs=number,
            steps=(),
        )

    def tell(self, component: str, state: str) -> None:
        """Takes note that a step is "running", or became "cached" or "complete", and writes the page."""
        steps = list(self._run.steps)
        if state == _RUNNING or not steps or steps[-1].component != component:
            steps.append(_begun(component))
        if state != _RUNNING:
            steps[-1] = dataclasses.replace(steps[-1], state=state, seconds=time.time() - steps[-1].started)
        self._run = dataclasses.replace(self._run, steps=tuple(steps))
        # What the disk refuses, the steps and the page of the end will meet, too.
        with contextlib.suppress(OSError):
            page = render_run_page(self._run, read_contents({}))
            write_page(page, self._run.own_page)
            write_page(page, self._run.page)


def _begun(component: str) -> RecordedStep:
    return RecordedStep(
        component=component,
        execution=0,
        state=_RUNNING,
        started=time.time(),
        seconds=0.0,
        options={},
        inputs=(),
        outputs=(),
        error="",
    )


def _list_of_runs(folder: str) -> str:
    roots = [entry.path for entry in os.scandir(folder) if entry.is_dir() and is_root(entry.path)]
    runs = sorted((run for root in roots for run in _runs_of(root)), key=lambda run: run.name, reverse=True)
    return render_runs_page(
        [(run, read_files(run.folders(), []), _link(run, folder)) for run in runs[:_MOST_RUNS]],
        folder=folder,
        num_left_out=max(0, len(runs) - _MOST_RUNS),
    )


def _runs_of(root: str) -> Sequence[RecordedRun]:
    try:
        return read_runs(root)
    except (FileNotFoundError, ValueError):
        # Of another pipeline: its own pages say what is wrong with it.
        return ()


def _link(run: RecordedRun, folder: str) -> str:
    for path in (run.own_page, run.page):
        if os.path.isfile(path):
            return urllib.parse.quote(os.path.relpath(path, folder))
    return ""

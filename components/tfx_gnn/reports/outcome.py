"""How a run ended, in words."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import Any

from tfx_gnn.reports.run_record import RecordedRun, RecordedStep

DONE = ("complete", "cached", "unknown")
"""States of steps that did what they should."""

_NOT_RUN = ("skipped", "did not start")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a run ended.

    Attributes:
        mood: "good", "bad" or "plain".
        title: the outcome in a few words.
        text: why.
        is_going: whether the run may still be going on.
    """

    mood: str
    title: str
    text: str
    is_going: bool = False


def outcome_of(run: RecordedRun, files: Mapping[str, Mapping[str, Any]]) -> Outcome:
    """Says how a run ended, and why.

    Args:
        run: the run.
        files: contents of "push", as in `RunContents.files`.
    """
    ended = [step for step in run.steps if step.state in ("failed", "canceled")]
    if run.stop:
        where = f"in {ended[-1].component}" if ended else f"after {run.steps[-1].component}" if run.steps else "at once"
        return Outcome(mood="bad", title=f"Stopped {where} by the check beside the run.", text=run.stop[0])
    if ended:
        step = ended[0]
        reason = step.error or "Nobody wrote down why; the log of the run has the error."
        verb = "Interrupted" if step.state == "canceled" else "Failed"
        return Outcome(mood="bad", title=f"{verb} in {step.component}.", text=reason)
    going = [step for step in run.steps if step.state not in (*DONE, *_NOT_RUN)]
    if going:
        since = f" began at {as_clock(going[0].started)} and" if going[0].started else ""
        return Outcome(
            mood="plain",
            title=f"{going[0].component}{since} has not ended.",
            text="The run is still going on, or it was killed there.",
            is_going=True,
        )
    push = files.get("push", {})
    if push.get("pushed"):
        path = str(push["path"])
        is_gone = "://" not in path and os.path.isabs(path) and not os.path.isdir(path)
        if any(step.component == "GraphPusher" and step.state == "cached" for step in run.steps):
            title = f"Nothing new: an earlier run pushed version {push['version']}."
        else:
            same = push.get("identical_to")
            title = f"Pushed as version {push['version']}{'' if same is None else f', identical to version {same}'}."
        return Outcome(
            mood="plain" if is_gone else "good", title=title, text=f"{path} is gone since." if is_gone else path
        )
    if push:
        reason = str(push["reason"])
        return Outcome(mood="bad", title="Not pushed.", text=reason[:1].upper() + reason[1:])
    return Outcome(mood="plain", title="Nothing was pushed.", text="GraphPusher did not run.")


def as_clock(seconds: float) -> str:
    """Writes a time, in seconds since 1970, as a date and a time of day."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def duration_of(steps: Sequence[RecordedStep]) -> float:
    """Returns the seconds from the start of the first step to the end of the last one; 0 if no time is known."""
    timed = [step for step in steps if step.started]
    if not timed:
        return 0.0
    return max(step.started + step.seconds for step in timed) - min(step.started for step in timed)

"""What a check finds: messages with the step they concern and the line of the user's code."""

from __future__ import annotations

import contextlib
import dataclasses
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from tfx_gnn.io.urls_in_messages import hide_passwords_of_urls
from tfx_gnn.io.user_errors import (
    UserPlace,
    explain,
    is_house_message,
    place_of_error,
    plain_message,
    with_place,
)
from tfx_gnn.records.warning_kinds import WarningKind
from tfx_gnn_pipelines.checks.places import (
    argument_of,
    place_in_function,
    place_of_argument,
    place_of_message,
)

Severity = Literal["error", "warning", "note"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """One mistake, or one doubt.

    Attributes:
        severity: "error" if a run would fail, or its verdict could not be trusted; "note" if nothing need be done; else
            "warning".
        step: component that would stop, as in "GraphTransform", or "project".
        message: the rule, what is there instead, where, and what to do.
        file: file of the user's code; empty if there is none.
        line: line in that file; 0 if there is none.
    """

    severity: Severity
    step: str
    message: str
    file: str = ""
    line: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineCheck:
    """What a check looked at, and what it found.

    Attributes:
        findings: mistakes and doubts, in the order of the steps.
        looked_at: what was read and tried, in words.
        not_checked: what was left out, and why.
        seconds: how long it took.
    """

    findings: tuple[Finding, ...]
    looked_at: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that would make a run fail."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    @property
    def passed(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def to_json(self) -> dict[str, Any]:
        """Returns everything as plain values."""
        return {"passed": self.passed, **dataclasses.asdict(self)}


class PipelineNotReadyError(Exception):
    """A check found an error in a pipeline that was about to run, or was running.

    Attributes:
        found: what the check found.
    """

    def __init__(self, found: PipelineCheck) -> None:
        super().__init__("; ".join(finding.message for finding in found.errors))
        self.found = found


class FindingsCollector:
    """Collects findings of one check.

    Attributes:
        findings: what was found so far.
        looked_at: what was read and tried.
        not_checked: what was left out.
        files: files of the user's code, in which the places of wrong names are looked for.
        debug: whether the traceback behind a finding is printed, to standard error.
    """

    def __init__(self, files: Sequence[str] = (), *, debug: bool = False) -> None:
        self.findings: list[Finding] = []
        self.looked_at: list[str] = []
        self.not_checked: list[str] = []
        self.files = list(files)
        self.debug = debug

    @property
    def has_errors(self) -> bool:
        """Whether a finding is an error."""
        return any(finding.severity == "error" for finding in self.findings)

    def add(
        self,
        step: str,
        message: str,
        *,
        warning: WarningKind | None = None,
        is_note: bool = False,
        place: UserPlace | None = None,
        argument: str = "",
        function: Callable[..., Any] | None = None,
    ) -> None:
        """Adds an error, a warning of the given kind, or a note, unless it is there already.

        Without a place, it looks for the wrong name in the user's files, for what the message says of the user's
        `function`, and for where the option that the message begins with, or else `argument`, is set.
        """
        place = (
            place
            or place_of_message(message, self.files)
            or place_in_function(function, message, self.files)
            or place_of_argument(argument_of(message), self.files, message=message)
            or place_of_argument(argument, self.files)
        )
        message = hide_passwords_of_urls(with_place(" ".join(message.split()), place))
        finding = Finding(
            severity="warning" if warning else "note" if is_note else "error",
            step=step,
            message=warning.mark(message) if warning else message,
            file=place.path if place else "",
            line=place.line if place else 0,
        )
        if finding.message not in {known.message for known in self.findings}:
            self.findings.append(finding)

    def add_error(
        self,
        step: str,
        error: BaseException,
        *,
        argument: str = "",
        rule: str = "",
        function: Callable[..., Any] | None = None,
    ) -> None:
        """Adds an error; one without a message of this library is explained by the rule that `argument` broke."""
        if self.debug:
            traceback.print_exception(type(error), error, error.__traceback__)
        found = plain_message(error)
        if argument:
            # What loads a function does not know which option names it.
            found = found.replace("`reference` must", f"`{argument}` must", 1)
        if not is_house_message(found):
            found = explain(error, argument or step, rule or "run")
        # The line that is wrong rather than the call that found it.
        place = place_of_message(found, self.files) if is_house_message(plain_message(error)) else None
        place = place or place_of_error(error)
        self.add(step, found, place=place, argument=argument, function=function)

    @contextlib.contextmanager
    def caught(
        self, step: str, *, argument: str = "", rule: str = "", function: Callable[..., Any] | None = None
    ) -> Iterator[None]:
        """Turns an error into a finding."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever the user's code raises is a finding.
            self.add_error(step, error, argument=argument, rule=rule, function=function)

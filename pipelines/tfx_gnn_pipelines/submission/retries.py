"""What is tried again after a failure, and how often; a creation never happens twice."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TypeVar

import tenacity

from tfx_gnn_pipelines.submission.failures import ServiceError

_Result = TypeVar("_Result")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often a request is tried, and how long the waits between are.

    Attributes:
        attempts: number of tries, at least 1.
        first_wait: seconds before the second try; each later wait is twice as long.
        longest_wait: limit of these waits, in seconds.
        longest_time: no try begins later after the first one than this, in seconds.
        longest_retry_after: longest wait that a service may ask for, in seconds; where it asks for more, the request
            fails at once.
    """

    attempts: int = 6
    first_wait: float = 1.0
    longest_wait: float = 60.0
    longest_time: float = math.inf
    longest_retry_after: float = 600.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"`attempts` must be at least 1; got {self.attempts}. Use 1 for a single try.")


PATIENT = RetryPolicy(attempts=30)
"""For waiting: a service may be away for about 25 minutes."""
_LOOK_UPS = 4


@dataclasses.dataclass(kw_only=True)
class Retries:
    """Repeats requests to one service.

    Attributes:
        policy: how often, and with which waits.
        report: is told of each failure after which a request is tried again.
    """

    policy: RetryPolicy
    report: Callable[[str], None]
    _was_reached: bool = False

    def repeat(self, request: Callable[[], _Result]) -> _Result:
        """Makes a request that may be repeated: one that reads, or that changes nothing the second time.

        Raises:
            ServiceError: of the last try.
        """
        return self._retrying(self._is_worth_repeating)(self._reached(request))

    def create_once(
        self,
        create: Callable[[], _Result],
        find: Callable[[], _Result | None],
        *,
        may_repeat_unanswered: bool = False,
        may_exist: bool = False,
    ) -> _Result:
        """Creates something, once.

        After a failure that may have come too late, what was created is looked for, with growing waits; only if it is
        not there, the request is sent again. A request that got no answer in time may still be in work, so it is not
        sent again.

        Args:
            create: makes the request.
            find: returns what an earlier try created, or None; repeats its requests itself.
            may_repeat_unanswered: whether the service itself refuses to create it twice.
            may_exist: whether it may have been created by an earlier command, and is looked for first.

        Raises:
            ServiceError: if it could not be created, or if it is unknown whether it was.
        """
        if may_exist and (existing := find()) is not None:
            self.report("this was submitted before; nothing was created")
            return existing
        maybe_created = False

        def create_or_find() -> _Result:
            nonlocal maybe_created
            try:
                return self._reached(create)()
            except ServiceError as error:
                maybe_created = maybe_created or error.may_be_accepted
                if not maybe_created:
                    raise
                self.report(f"{error.reason}; looking whether the request was accepted")
                try:
                    found = self._look_for(find)
                except (OSError, ValueError) as failure:
                    raise ServiceError(
                        f"{failure} The request may have been accepted before, so it was not sent again: look at the "
                        "service's page.",
                        reason=getattr(failure, "reason", "it could not be looked for"),
                    ) from failure
                if found is not None:
                    return found
                if error.is_unanswered and not may_repeat_unanswered:
                    raise ServiceError(
                        f"{error} The request may still be in work, so it was not sent again.", reason=error.reason
                    ) from error
                raise

        return self._retrying(self._is_worth_repeating)(create_or_find)

    def delete(self, request: Callable[[], object]) -> None:
        """Makes a request that deletes something; after a failure, what is gone already counts as deleted.

        Raises:
            ServiceError: of the last try, or if there was nothing to delete.
        """
        maybe_deleted = False

        def delete_once() -> None:
            nonlocal maybe_deleted
            try:
                request()
            except ServiceError as error:
                if error.status == 404 and maybe_deleted:
                    return
                maybe_deleted = maybe_deleted or error.may_be_accepted
                raise

        self.repeat(delete_once)

    def _look_for(self, find: Callable[[], _Result | None]) -> _Result | None:
        looking: tenacity.Retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(_LOOK_UPS),
            wait=tenacity.wait_exponential(multiplier=self.policy.first_wait, max=self.policy.longest_wait),
            retry=tenacity.retry_if_result(lambda found: found is None),
            retry_error_callback=lambda _state: None,
        )
        found: _Result | None = looking(find)
        return found

    def _reached(self, request: Callable[[], _Result]) -> Callable[[], _Result]:
        """Notes that the service was reached: an address that once worked is not a typing mistake."""

        def make() -> _Result:
            try:
                result = request()
            except ServiceError as error:
                self._was_reached = self._was_reached or not error.is_unreachable
                raise
            self._was_reached = True
            return result

        return make

    def _is_worth_repeating(self, error: BaseException) -> bool:
        if not isinstance(error, ServiceError) or not error.is_transient:
            return False
        if error.is_unreachable and not self._was_reached:
            return False
        return (error.retry_after or 0.0) <= self.policy.longest_retry_after

    def _retrying(self, is_worth_repeating: Callable[[BaseException], bool]) -> tenacity.Retrying:
        return tenacity.Retrying(
            stop=self._is_over,
            wait=self._wait,
            retry=tenacity.retry_if_exception(is_worth_repeating),
            before_sleep=self._say,
            reraise=True,
        )

    def _is_over(self, state: tenacity.RetryCallState) -> bool:
        next_try_at = (state.seconds_since_start or 0.0) + self._wait(state)
        return state.attempt_number >= self.policy.attempts or next_try_at > self.policy.longest_time

    def _wait(self, state: tenacity.RetryCallState) -> float:
        doubled = min(self.policy.first_wait * 2.0 ** (state.attempt_number - 1), self.policy.longest_wait)
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after if isinstance(error, ServiceError) else None
        return max(doubled, asked or 0.0)

    def _say(self, state: tenacity.RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        reason = error.reason if isinstance(error, ServiceError) else str(error)
        seconds = state.next_action.sleep if state.next_action is not None else 0.0
        self.report(f"{reason}; trying again in {seconds:.0f} s")

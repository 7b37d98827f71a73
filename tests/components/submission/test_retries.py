from __future__ import annotations

import pytest

from tfx_gnn_pipelines.submission.failures import ServiceError
from tfx_gnn_pipelines.submission.retries import Retries, RetryPolicy


@pytest.fixture
def retries(waits):
    return Retries(policy=RetryPolicy(attempts=3), report=lambda _: None)


def _requests(*results):
    """A request that returns or raises these results in turn, and the list of those that are left."""
    left = list(results)

    def request():
        result = left.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    return request, left


def _unanswered():
    return ServiceError("no answer.", reason="no answer", is_transient=True, may_be_accepted=True, is_unanswered=True)


def test_a_creation_without_an_answer_is_looked_for_and_not_repeated(retries, waits):
    create, left = _requests(_unanswered(), "second")

    with pytest.raises(ServiceError, match="The request may still be in work, so it was not sent again"):
        retries.create_once(create, lambda: None)

    assert left == ["second"]
    assert waits == [1, 2, 4]


def test_a_creation_without_an_answer_is_repeated_where_the_service_keeps_ids_apart(retries):
    create, _ = _requests(_unanswered(), "made")

    assert retries.create_once(create, lambda: None, may_repeat_unanswered=True) == "made"


def test_a_conflict_at_the_first_try_is_of_somebody_else(retries):
    create, _ = _requests(ServiceError("taken.", reason="409", status=409))

    with pytest.raises(ServiceError, match="taken"):
        retries.create_once(create, lambda: "of somebody else")


def test_a_conflict_after_a_broken_connection_is_the_own_creation(retries):
    broken = ServiceError("broken.", reason="broken", is_transient=True, may_be_accepted=True)
    create, _ = _requests(broken, ServiceError("taken.", reason="409", status=409))
    find, _ = _requests(None, None, None, None, "made")

    assert retries.create_once(create, find) == "made"


def test_what_is_gone_after_a_broken_connection_was_deleted(retries):
    broken = ServiceError("broken.", reason="broken", is_transient=True, may_be_accepted=True)
    missing = ServiceError("missing.", reason="404", status=404)
    delete, left = _requests(broken, missing)

    retries.delete(delete)

    assert left == []
    with pytest.raises(ServiceError, match="missing"):
        retries.delete(_requests(missing)[0])


def test_a_policy_needs_a_try():
    with pytest.raises(ValueError, match="`attempts` must be at least 1; got 0"):
        RetryPolicy(attempts=0)

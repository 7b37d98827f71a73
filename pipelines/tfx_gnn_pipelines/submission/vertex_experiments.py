"""Experiments of Vertex AI: contexts of its metadata store, whose children are the contexts of runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from tfx_gnn_pipelines.submission.failures import ServiceError
from tfx_gnn_pipelines.submission.retries import Retries

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_KIND = "system.Experiment"
_POLL_SECONDS = 2.0
_POLLS = 90
_TIMEOUT = 120.0


def check_experiment_name(name: str) -> None:
    """Checks a name of an experiment.

    Raises:
        ValueError: if Vertex AI would refuse it.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            "`--experiment` must be of small letters, digits and '-' on vertex, at most 128, and begin with a letter "
            f"or digit; got {name!r}. Rename it."
        )


def find_or_create_experiment(
    parent: str, name: str, *, client: Any, call: Callable[[Callable[[], Any], str], Any], retries: Retries
) -> str:
    """Returns the full name of an experiment's context; creates it if it does not exist.

    Args:
        parent: project and region.
        name: the experiment.
        client: a MetadataServiceClient.
        call: makes one request; its second argument is the method and the resource.
        retries: repeats requests.

    Raises:
        ValueError: if something else has this name.
        ServiceError: if the service refuses.
    """
    store = f"{parent}/metadataStores/default"
    context = f"{store}/contexts/{name}"

    def find() -> Any:
        try:
            return retries.repeat(
                lambda: call(lambda: client.get_context(name=context, retry=None, timeout=_TIMEOUT), f"GET {context}")
            )
        except ServiceError as error:
            if error.status == 404:
                return None
            raise

    def create() -> Any:
        made = {"display_name": name, "schema_title": _KIND, "schema_version": "0.0.1"}
        return call(
            lambda: client.create_context(
                parent=store,
                context={**made, "metadata": {"experiment_deleted": False}},
                context_id=name,
                retry=None,
                timeout=_TIMEOUT,
            ),
            f"POST {context}",
        )

    found = find() or retries.create_once(create, find, may_repeat_unanswered=True)
    if found.schema_title != _KIND:
        raise ValueError(
            f"`--experiment` must name an experiment; got {name!r}, which is a {found.schema_title}. Choose another."
        )
    return context


def add_to_experiment(
    experiment: str,
    read_job: Callable[[], Any],
    *,
    client: Any,
    call: Callable[[Callable[[], Any], str], Any],
    retries: Retries,
) -> None:
    """Adds a run to an experiment once the service has made the run's own context, a moment after the run.

    Args:
        experiment: full name of the experiment's context.
        read_job: asks for the run.
        client: a MetadataServiceClient.
        call: as in `find_or_create_experiment`.
        retries: repeats requests.

    Raises:
        ServiceError: if the run cannot be added; it goes on.
    """
    child = _context_of_run(read_job)
    if not child:
        raise ServiceError(
            "`--experiment` must be able to take the run; got no metadata of it from Vertex AI in "
            f"{_POLLS * _POLL_SECONDS:g} s. The run goes on outside of the experiment.",
            reason="the run has no metadata",
        )
    # A child that is there already stays one, so this can be repeated.
    retries.repeat(
        lambda: call(
            lambda: client.add_context_children(
                context=experiment, child_contexts=[child], retry=None, timeout=_TIMEOUT
            ),
            f"POST {experiment}:addContextChildren",
        )
    )


def _context_of_run(read_job: Callable[[], Any]) -> str:
    for _ in range(_POLLS):
        job = read_job()
        if job.job_detail and job.job_detail.pipeline_run_context.name:
            return str(job.job_detail.pipeline_run_context.name)
        time.sleep(_POLL_SECONDS)
    return ""

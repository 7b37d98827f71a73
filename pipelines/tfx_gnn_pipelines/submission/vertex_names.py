"""Names and addresses of resources of Vertex AI: their projects, regions, ids and pages."""

from __future__ import annotations

import re

from tfx_gnn_pipelines.submission.connection import ConnectionOptions

CONSOLE = "https://console.cloud.google.com"
_NAME = re.compile(
    r"projects/(?P<project>[a-z0-9][a-z0-9:.-]*)/locations/(?P<region>[a-z0-9-]+)/"
    r"(?P<collection>pipelineJobs|schedules|customJobs)/(?P<id>[A-Za-z0-9][A-Za-z0-9_-]*)"
)
"""The region becomes a part of a host name, which a token is sent to."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_PAGE = re.compile(
    re.escape(CONSOLE)
    + r"/vertex-ai/(?:pipelines/locations/(?P<region>[^/]+)|locations/(?P<of_client>[^/]+)/pipelines)"
    r"/(?P<kind>runs|schedules)/(?P<id>[^/?]+)\?(?:.*&)?project=(?P<project>[^&#]+).*"
)
"""Address of a page, as the console and Google's own client write it."""
_PROJECT = re.compile(r"[a-z0-9][a-z0-9:.-]*")
_REGION = re.compile(r"[a-z0-9][a-z0-9-]*")
_COLLECTIONS = {"runs": "pipelineJobs", "schedules": "schedules"}
_CREATORS = {"pipelineJobs": "submit", "schedules": "schedule create"}


def full_name(run: str, collection: str, connection: ConnectionOptions) -> str:
    """Returns the full name of a run or schedule, from its id, its name or the address of its page."""
    page = _PAGE.fullmatch(run)
    if page is not None:
        region, kind = page["region"] or page["of_client"], _COLLECTIONS[page["kind"]]
        run = f"projects/{page['project']}/locations/{region}/{kind}/{page['id']}"
    found = _NAME.fullmatch(run)
    if found is not None and found["collection"] == collection:
        return run
    if found is not None or not _ID.fullmatch(run):
        raise ValueError(
            f"`run` must be an id, projects/PROJECT/locations/REGION/{collection}/ID, or the address of its page; "
            f"got {run!r}. Copy it from the output of `tfx-gnn {_CREATORS[collection]}`."
        )
    return f"{parent_name(connection)}/{collection}/{run}"


def parent_name(connection: ConnectionOptions) -> str:
    """Returns project and region as the parent of resources."""
    for flag, value, pattern, variable, example in (
        ("--project", connection.project, _PROJECT, "GOOGLE_CLOUD_PROJECT", "my-project"),
        ("--region", connection.region, _REGION, "GOOGLE_CLOUD_REGION", "europe-west4"),
    ):
        if not pattern.fullmatch(value):
            raise ValueError(
                f"`{flag}` must be given for vertex; got {value or 'none'!r}. Add it, as in {flag} {example}, or set "
                f"{variable}."
            )
    return f"projects/{connection.project}/locations/{connection.region}"


def endpoint_address(connection: ConnectionOptions, name: str = "") -> str:
    """Returns the address of the API, for the region in a resource's name if there is one."""
    region = name.split("/")[3] if name.count("/") >= 3 else connection.region
    return connection.endpoint or f"https://{region}-aiplatform.googleapis.com"


def page_address(name: str) -> str:
    """Returns the address of a resource's page in the console."""
    found = _NAME.fullmatch(name)
    if found is None:
        return f"{CONSOLE}/vertex-ai/pipelines/runs"
    if found["collection"] == "customJobs":
        return f"{CONSOLE}/vertex-ai/locations/{found['region']}/training/{found['id']}?project={found['project']}"
    kind = "schedules" if "/schedules/" in name else "runs"
    return f"{CONSOLE}/vertex-ai/pipelines/locations/{found['region']}/{kind}/{found['id']}?project={found['project']}"

"""Where a service is and who speaks to it: options, the variables that stand in for them, and files with secrets."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import urllib.parse
from collections.abc import Callable
from pathlib import Path

from tfx_gnn_pipelines.services import Service
from tfx_gnn_pipelines.submission.retries import Retries, RetryPolicy
from tfx_gnn_pipelines.submission.runs import PipelineService

_SHORTEST_SECRET = 5
"""Shorter values of cookies are no secrets, and would be found in any text."""
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_KUBEFLOW_PAGE = re.compile(r"(?P<host>https?://[^?#]+?)/?(?:\?[^#]*)?#/(?:runs|recurringrun)/details/(?P<run>[^/?#]+)")
_POD_TOKEN_FILE = "/var/run/secrets/kubeflow/pipelines/token"
"""Where Kubeflow mounts the token of a pod that may use its API."""

KUBEFLOW_ONLY = ("host", "namespace", "cookie_file", "ca_cert")
VERTEX_ONLY = ("project", "region", "endpoint")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """How to reach a service; what is empty comes from the variables of the service's own tools.

    Attributes:
        host: address of Kubeflow Pipelines; KF_PIPELINES_ENDPOINT by default.
        namespace: namespace of the user, where Kubeflow has several users.
        token_file: file with an access token. By default on Kubeflow the one that KF_PIPELINES_SA_TOKEN_PATH names or a
            pod has, and on Vertex AI Google's application default credentials.
        cookie_file: file with the cookies of a login to Kubeflow, as in "name=value; name=value".
        ca_cert: file with the certificate authorities to trust instead of the usual ones.
        project: project of Google Cloud; GOOGLE_CLOUD_PROJECT by default.
        region: region of Vertex AI; GOOGLE_CLOUD_REGION or CLOUD_ML_REGION by default.
        endpoint: address of Vertex AI, where it is not the public one of the region.
    """

    host: str = ""
    namespace: str = ""
    token_file: str = ""
    cookie_file: str = ""
    ca_cert: str = ""
    project: str = ""
    region: str = ""
    endpoint: str = ""

    def for_service(self, service: Service) -> ConnectionOptions:
        """Completes the options of one service, and refuses those of the other one.

        Raises:
            ValueError: if an option does not belong to the service, or is no address.
        """
        other, others = (
            (Service.VERTEX, VERTEX_ONLY) if service is Service.KUBEFLOW else (Service.KUBEFLOW, KUBEFLOW_ONLY)
        )
        refuse_options_of_other(service, other, {name: getattr(self, name) for name in others})
        if service is Service.VERTEX:
            return dataclasses.replace(
                self,
                project=self.project or os.environ.get("GOOGLE_CLOUD_PROJECT", ""),
                region=self.region or os.environ.get("GOOGLE_CLOUD_REGION") or os.environ.get("CLOUD_ML_REGION", ""),
                endpoint=checked_address("--endpoint", self.endpoint),
            )
        token_file = self.token_file or os.environ.get("KF_PIPELINES_SA_TOKEN_PATH", "")
        if not token_file and os.path.exists(_POD_TOKEN_FILE):
            token_file = _POD_TOKEN_FILE
        host = self.host or os.environ.get("KF_PIPELINES_ENDPOINT", "")
        return dataclasses.replace(self, host=checked_address("--host", host), token_file=token_file)


def refuse_options_of_other(service: Service, other: Service, values: dict[str, object]) -> None:
    """Refuses options that only the other service has.

    Raises:
        ValueError: if one of the values is given.
    """
    given = [f"--{name.replace('_', '-')}" for name, value in values.items() if value]
    if given:
        instead = "--host" if service is Service.KUBEFLOW else "--project and --region"
        raise ValueError(
            f"`{given[0]}` must go with {other.value}; got it for {service.value}. Leave {' and '.join(given)} out; "
            f"{service.value} has {instead}."
        )


def checked_address(flag: str, address: str) -> str:
    """Returns an address without a slash at its end; https where no scheme is given, as kfp does.

    Raises:
        ValueError: if it is no address of a server, or has a password in it.
    """
    if not address:
        return ""
    if "://" not in address:
        address = f"https://{address}"
    try:
        parts = urllib.parse.urlsplit(address)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
        parts = urllib.parse.SplitResult("", "", "", "", "")
    if "@" in address.partition("://")[2].partition("/")[0]:
        raise ValueError(
            f"`{flag}` must have no user and password in it; got an address with '@'. Put a token into a file and give "
            "--token-file."
        )
    if not has_host or parts.scheme not in ("http", "https") or parts.query or any(c.isspace() for c in address):
        raise ValueError(
            f"`{flag}` must be an address as in https://HOST or http://HOST:PORT; got {address!r}. Correct it."
        )
    return parts._replace(fragment="").geturl().rstrip("/")


@dataclasses.dataclass(frozen=True)
class Secret:
    """A file that holds a secret; it is read for every request, because such tokens are renewed.

    Attributes:
        flag: option that names the file.
        path: the file.
    """

    flag: str
    path: str

    _seen: list[str] = dataclasses.field(default_factory=list, init=False, repr=False, compare=False)
    """All values so far: an answer may repeat one that was renewed since."""

    def read(self) -> str:
        """Returns the secret.

        Raises:
            ValueError: if the file holds no single line of printable ASCII.
        """
        path = Path(self.path)
        text = (_read_pipe(path, path.stat().st_ino) if path.is_fifo() else path.read_bytes()).strip()
        if self.flag == "--token-file" and text[:7].lower() == b"bearer ":
            text = text[7:].strip()
        if not text or not text.isascii() or any(byte < 32 for byte in text):
            found = "nothing" if not text else f"{len(text)} bytes with line breaks or other special characters"
            raise ValueError(
                f"`{self.flag}` must name a file with one line, the secret alone; got {self.path!r} with {found}. "
                "Write it anew."
            )
        secret = text.decode("ascii")
        if secret not in self._seen:
            self._seen.append(secret)
        return secret

    def hide(self, text: str) -> str:
        """Replaces the secret in a text, such as an answer that repeats a request; of cookies, each value."""
        for secret in self._seen:
            values = [cookie.partition("=")[2].strip() for cookie in secret.split(";")]
            for value in (secret, *(one for one in values if len(one) > _SHORTEST_SECRET)):
                text = text.replace(value, "***")
        return text


@functools.lru_cache
def _read_pipe(path: Path, _inode: int) -> bytes:
    """Reads what comes from a shell's <(COMMAND), which can be read once."""
    return path.read_bytes()


def split_run(run: str) -> tuple[str, str]:
    """Splits the address of a run's or schedule's page on Kubeflow into host and id; the host of an id is empty."""
    page = _KUBEFLOW_PAGE.fullmatch(run)
    # The dashboard of Kubeflow shows the page of Kubeflow Pipelines, which is under /pipeline, in a frame.
    return (re.sub(r"/_/pipeline$", "/pipeline", page["host"]), page["run"]) if page else ("", run)


def service_of_run(run: str, options: ConnectionOptions) -> Service:
    """Tells which service a run or schedule belongs to, from the form of its id and from the options."""
    if split_run(run)[0]:
        return Service.KUBEFLOW
    if run.startswith("projects/") or options.project or options.region or options.endpoint:
        return Service.VERTEX
    if options.host or options.namespace or _UUID.fullmatch(run):
        return Service.KUBEFLOW
    return Service.VERTEX


def service_of_options(options: ConnectionOptions) -> Service:
    """Tells which service is meant where there is neither a file nor a run.

    Raises:
        ValueError: if the options and variables name none, or both.
    """
    if options.host or options.namespace:
        return Service.KUBEFLOW
    if options.project or options.region or options.endpoint:
        return Service.VERTEX
    has_kubeflow = bool(os.environ.get("KF_PIPELINES_ENDPOINT"))
    has_vertex = bool(os.environ.get("GOOGLE_CLOUD_PROJECT"))
    if has_kubeflow == has_vertex:
        found = "both KF_PIPELINES_ENDPOINT and GOOGLE_CLOUD_PROJECT" if has_kubeflow else "neither"
        raise ValueError(
            f"`--host` or `--project` must say which service is meant; got {found}. Give --host for Kubeflow, or "
            "--project and --region for Vertex AI."
        )
    return Service.KUBEFLOW if has_kubeflow else Service.VERTEX


def connect(
    service: Service, options: ConnectionOptions, *, policy: RetryPolicy, report: Callable[[str], None]
) -> PipelineService:
    """Returns a service; nothing is sent yet."""
    from tfx_gnn_pipelines.submission import kubeflow, vertex

    retries = Retries(policy=policy, report=report)
    kind = kubeflow.Kubeflow if service is Service.KUBEFLOW else vertex.VertexAi
    return kind(options.for_service(service), retries)

"""Stores of the artifacts of a run, and copies between them and the folders of Kubeflow's launcher."""

from __future__ import annotations

import os
import shutil
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tenacity

from tfx_gnn_pipelines.services import LAUNCHER_FOLDERS

_S3_ATTEMPTS = 5
"""Of each request; the client waits longer each time, and tells after about ten seconds that there is no server."""
_COPY_ATTEMPTS = 4
"""Of each file: an upload whose last answer was lost begins anew."""


class FolderStore:
    """A folder that stands for all stores."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def download(self, uri: str, target: Path) -> None:
        """Copies an artifact to a local path; empty folders are no objects."""
        _copy_files(self._place(uri), target)

    def upload(self, source: Path, uri: str) -> int:
        """Copies a local path to an artifact; returns the number of files."""
        return _copy_files(source, self._place(uri))

    def exists(self, uri: str) -> bool:
        """Tells whether an artifact is there."""
        return self._place(uri).exists()

    def keep_empty(self, uri: str) -> None:
        """Makes an empty folder, so that the cache can tell this output from one that was removed."""
        self._place(uri).mkdir(parents=True, exist_ok=True)

    def _place(self, uri: str) -> Path:
        return self._folder / object_path(uri)


class S3Store:
    """A server that speaks S3, such as SeaweedFS or MinIO; the first part of a URI's path is the bucket.

    Credentials are those that the AWS clients take, such as the environment variables AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY.
    """

    def __init__(self, endpoint: str, *, root: str) -> None:
        """Connects to a server.

        Args:
            endpoint: URL of the server.
            root: URI below which all artifacts are.

        Raises:
            ValueError: if the endpoint is no URL of a server, or the root is not on S3 or in no bucket of it.
        """
        parts = urllib.parse.urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise ValueError(
                f"`--store` must be the URL of an S3 server, as in http://HOST:PORT; got {endpoint!r}. The bucket is "
                "that of the pipeline's root."
            )
        if not root.startswith(("minio://", "s3://")):
            raise ValueError(
                f"`--store` must be for a pipeline whose root is minio:// or s3://; got {endpoint!r} for the root "
                f"{root!r}. Compile the pipeline with another root, or leave --store out."
            )
        from pyarrow import fs

        # Without it, missing credentials are looked for on a machine of Amazon's, for many seconds.
        os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
        self._local = fs.LocalFileSystem()
        self._s3 = fs.S3FileSystem(
            endpoint_override=parts.netloc,
            scheme=parts.scheme,
            region=os.environ.get("AWS_REGION", "us-east-1"),
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_S3_ATTEMPTS),
            # A failed upload that goes on in the background can end the process: its stream may be gone by then.
            background_writes=False,
        )
        bucket = _key(root).partition("/")[0]
        try:
            is_there = self._s3.get_file_info(bucket).type == fs.FileType.Directory
        except OSError as error:
            raise ValueError(
                f"`--store` must be an S3 server that answers with these credentials; got {endpoint!r} with "
                f"{' '.join(str(error).split())}. Check the URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            ) from error
        if not is_there:
            raise ValueError(
                f"`--store` must have the bucket of the pipeline's root, {bucket!r}; got {endpoint!r} without it. "
                "Create the bucket."
            )

    def download(self, uri: str, target: Path) -> None:
        """Copies an artifact to a local path; what was torn on the way is copied again."""
        from pyarrow import fs

        found = _retried(self._s3.get_file_info, _key(uri))
        for info in [found] if found.type == fs.FileType.File else self._objects(uri):
            relative = info.path.removeprefix(_key(uri)).lstrip("/")
            _retried(self._download_object, info, target / relative if relative else target)

    def upload(self, source: Path, uri: str) -> int:
        """Copies a local path to an artifact; returns the number of files."""
        files = [source] if source.is_file() else [path for path in sorted(source.rglob("*")) if path.is_file()]
        for path in files:
            relative = path.relative_to(source).as_posix()
            _retried(self._upload_object, path, _key(uri) if relative == "." else f"{_key(uri)}/{relative}")
        return len(files)

    def exists(self, uri: str) -> bool:
        """Tells whether there are objects of an artifact."""
        from pyarrow import fs

        return bool(_retried(self._s3.get_file_info, _key(uri)).type != fs.FileType.NotFound)

    def keep_empty(self, uri: str) -> None:
        """Does nothing: a store has no empty folders, and the task will run again."""

    def _objects(self, uri: str) -> list[Any]:
        from pyarrow import fs

        # Zero-byte objects whose names end in "/" count as folders.
        below = fs.FileSelector(_key(uri), allow_not_found=True, recursive=True)
        return [info for info in _retried(self._s3.get_file_info, below) if info.type == fs.FileType.File]

    def _download_object(self, info: Any, target: Path) -> None:
        from pyarrow import fs

        target.parent.mkdir(parents=True, exist_ok=True)
        fs.copy_files(
            info.path, str(target), source_filesystem=self._s3, destination_filesystem=self._local, use_threads=False
        )
        _check_size(info.path, target.stat().st_size, info.size)

    def _upload_object(self, source: Path, key: str) -> None:
        from pyarrow import fs

        fs.copy_files(
            str(source), key, source_filesystem=self._local, destination_filesystem=self._s3, use_threads=False
        )
        _check_size(key, self._s3.get_file_info(key).size, source.stat().st_size)


ArtifactStore = FolderStore | S3Store
"""Where the launcher copies artifacts from and to; URIs are those of the artifacts."""


def object_path(uri: str) -> str:
    """Returns the path of an object below the root of a container on Kubeflow.

    Raises:
        ValueError: if the launcher does not know the kind of store.
    """
    for scheme, folder in LAUNCHER_FOLDERS.items():
        if uri.startswith(scheme):
            return os.path.join(folder, uri.removeprefix(scheme))
    raise ValueError(
        f"`root` must be on a store that Kubeflow's launcher knows, gs://, minio:// or s3://; got {uri!r}. Compile the "
        "pipeline with another root."
    )


def _retried(function: Callable[..., Any], *arguments: Any) -> Any:
    attempts = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(OSError),
        stop=tenacity.stop_after_attempt(_COPY_ATTEMPTS),
        wait=tenacity.wait_exponential_jitter(initial=0.2, max=5),
        reraise=True,
    )
    return attempts(function, *arguments)


def _check_size(key: str, found: int, expected: int) -> None:
    if found != expected:
        raise OSError(f"The store must return what was written to it; got {found} of {expected} bytes of {key!r}.")


def _key(uri: str) -> str:
    """Returns bucket and name of an object."""
    return uri.partition("://")[2]


def _copy_files(source: Path, target: Path) -> int:
    if source.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        return 1
    copied = 0
    for folder, _, names in os.walk(source):
        inside = target / Path(folder).relative_to(source)
        for name in names:
            inside.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(folder, name), inside / name)
            copied += 1
    return copied

"""The services that run compiled pipelines, and what their containers reach."""

from __future__ import annotations

import enum


class Service(str, enum.Enum):
    """A service that runs compiled pipelines."""

    KUBEFLOW = "kubeflow"
    VERTEX = "vertex"

    @property
    def full_name(self) -> str:
        """Name of the service in texts."""
        return {Service.KUBEFLOW: "Kubeflow Pipelines", Service.VERTEX: "Vertex AI"}[self]

    @property
    def root_schemes(self) -> tuple[str, ...]:
        """Beginnings of the URIs of the object stores that can hold a pipeline's artifacts."""
        return tuple(LAUNCHER_FOLDERS) if self is Service.KUBEFLOW else ("gs://",)


LAUNCHER_FOLDERS = {"minio://": "minio", "s3://": "s3", "gs://": "gcs"}
"""Folder below a container's root in which Kubeflow's launcher keeps the objects of each kind of store."""

"""The services that run compiled pipelines."""

from __future__ import annotations

import enum


class Service(str, enum.Enum):
    """A service that runs compiled pipelines."""

    KUBEFLOW = "kubeflow"
    VERTEX = "vertex"

"""Options of LatestBlessedModelResolver."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class LatestBlessedModelResolverOptions:
    """What LatestBlessedModelResolver accepts.

    Attributes:
        must_exist: whether a push destination without any version is an error, as after a slip in its name. If not, the
            first model is judged by absolute bounds alone.
    """

    must_exist: bool = False

"""Options of GraphPusher."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from tfx_gnn.io.option_groups import check_choices


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphPusherOptions:
    """How a model is checked before it is pushed.

    Attributes:
        num_verification_requests: number of real examples that the model must answer, first one by
            one and then in one batch; at least 1. If there are fewer examples, all are used.
        num_verification_threads: threads that then query the model concurrently, with requests of 1 to 64 of these
            examples; at least 2, or 0 for no concurrent requests.
        verification_seconds: how long the threads query the model, in seconds; above 0.
        warmup: whether to add warm-up requests for TensorFlow Serving to the copy if the model has none. They are made
            from these examples without their labels; see `tfx_gnn.serving.warmup_requests`.
        refuses_nonfinite_answers: whether to refuse a model that returns NaN or infinity for finite values outside
            the domain, such as negative counts. If not, the record warns of it.
        publishing: how a version appears: "rename", by one rename of a folder, as on local disks; "copy", file by file
            with `saved_model.pb` last, as on object stores and buckets that are mounted as a folder; "auto": "copy" for
            URIs and FUSE mounts, "rename" elsewhere.
    """

    num_verification_requests: int = 8
    num_verification_threads: int = 4
    verification_seconds: float = 5.0
    warmup: bool = True
    refuses_nonfinite_answers: bool = False
    publishing: Literal["auto", "rename", "copy"] = "auto"

    def __post_init__(self) -> None:
        check_choices(self)
        if self.num_verification_threads < 0 or self.num_verification_threads == 1:
            raise ValueError(
                f"`num_verification_threads` must be at least 2, or 0; got {self.num_verification_threads}. One "
                "thread does not test concurrency; 0 leaves concurrent requests out."
            )
        if not 0 < self.verification_seconds < math.inf:
            raise ValueError(
                f"`verification_seconds` must be above 0 and finite; got {self.verification_seconds}. To leave "
                "concurrent requests out, set `num_verification_threads` to 0."
            )
        if self.num_verification_requests < 1:
            raise ValueError(
                f"`num_verification_requests` must be at least 1; got {self.num_verification_requests}. "
                "A model that answered nothing is not pushed."
            )

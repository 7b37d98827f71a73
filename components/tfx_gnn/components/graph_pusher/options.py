"""Options of GraphPusher."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True, kw_only=True)
class GraphPusherOptions:
    """How a model is checked before it is pushed.

    Attributes:
        num_verification_requests: real examples that the model must answer, one by
            one and in one batch; at least 1. Fewer are taken if there are fewer.
        num_verification_threads: threads that then ask the model at the same time, with requests of 1 to 64 of these
            examples; at least 2, or 0 for no concurrent requests.
        verification_seconds: how long they ask; above 0.
        warmup: whether the copy gets warm-up requests for TensorFlow Serving, made of these examples without their
            labels, where the model has none; see `tfx_gnn.serving.warmup_requests`.
        refuses_nonfinite_answers: whether a model is not pushed that answers finite values out of the domain, such as
            negative counts, with NaN or infinity; else the record warns of it.
    """

    num_verification_requests: int = 8
    num_verification_threads: int = 4
    verification_seconds: float = 5.0
    warmup: bool = True
    refuses_nonfinite_answers: bool = False

    def __post_init__(self) -> None:
        if self.num_verification_threads < 0 or self.num_verification_threads == 1:
            raise ValueError(
                f"`num_verification_threads` must be at least 2, or 0; got {self.num_verification_threads}. What one "
                "thread asks says nothing of several; 0 leaves concurrent requests out."
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

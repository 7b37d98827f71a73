"""Puts together what partitions answer to one block, as the answers come in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tfx_gnn.beam_sampling.messages import PartAnswer
from tfx_gnn.sampling.edge_choice import merge_scored
from tfx_gnn.sampling.edge_requests import FoundEdges
from tfx_gnn.sampling.plan import Hop

_MAX_SCORED_EDGES = 1 << 20

_Integers = npt.NDArray[np.int64]


class AnswerMerger:
    """Collects the answers to a block's requests of one round.

    The best edges of a hub come from many partitions. They are merged whenever
    many have come in, so that memory does not grow with the number of a hub's edges.
    """

    def __init__(self, hops: Sequence[Hop]) -> None:
        """Starts with no answers.

        Args:
            hops: the hops of the round.
        """
        self._hops = tuple(hops)
        self._parts: list[list[tuple[FoundEdges, _Integers]]] = [[] for _ in self._hops]
        self._scored: list[list[tuple[FoundEdges, _Integers]]] = [[] for _ in self._hops]
        self._features: dict[str, list[bytes]] = {}

    def add(self, answer: PartAnswer) -> None:
        """Takes an answer in.

        Args:
            answer: an answer to requests of this round, in any order.
        """
        edge_set = self._hops[answer.hop].edge_set
        if answer.features:
            self._features.setdefault(edge_set, []).append(answer.features)
        if answer.found.scores is None:
            self._parts[answer.hop].append((answer.found, answer.positions))
            return
        scored = self._scored[answer.hop]
        scored.append((answer.found, answer.positions))
        if len(scored) > 1 and sum(found.num_edges for found, _ in scored) > _MAX_SCORED_EDGES:
            positions = np.unique(np.concatenate([where for _, where in scored]))
            merged = merge_scored(
                self._hops[answer.hop],
                [found for found, _ in scored],
                [np.searchsorted(positions, where) for _, where in scored],
                len(positions),
                keeps_scores=True,
            )
            self._scored[answer.hop] = [(merged, positions)]

    def merge(self, num_requests: Sequence[int]) -> list[FoundEdges]:
        """Merges all answers.

        Args:
            num_requests: by hop of the round, the number of requests.

        Returns:
            By hop, the answer to all requests.
        """
        merged = []
        for hop, parts, scored, count in zip(self._hops, self._parts, self._scored, num_requests, strict=True):
            together = parts + scored
            if together:
                merged.append(
                    merge_scored(hop, [found for found, _ in together], [where for _, where in together], count)
                )
            else:
                merged.append(_nothing(hop, count))
        return merged

    @property
    def features(self) -> dict[str, list[bytes]]:
        """By edge set, tables of features as they came in; rows may repeat."""
        return self._features


def _nothing(hop: Hop, num_requests: int) -> FoundEdges:
    none, counts = np.zeros(0, np.int64), np.zeros(num_requests, np.int64)
    return FoundEdges(
        hop=hop.name,
        requests=none,
        edge_rows=none,
        neighbors=none,
        draws=np.zeros(0, np.int16),
        scores=None,
        num_candidates=counts,
        num_eligible=counts,
    )

"""What blocks of link seeds and partitions send to each other to draw negatives."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

_Integers = npt.NDArray[np.int64]
_Codes = npt.NDArray[np.uint64]


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupRequests:
    """True targets of a block that one partition holds: which group is each in?

    Attributes:
        positions: int64 array, shape [n]: which of the block's pairs these are of.
        nodes: uint64 array, shape [n]: codes of the targets.
    """

    positions: _Integers
    nodes: _Codes


@dataclasses.dataclass(frozen=True, kw_only=True)
class TotalRequests:
    """Groups of a block's pairs: how much is there to draw in each partition?

    Attributes:
        positions: int64 array, shape [n]: which of the block's pairs these are of.
        groups: uint64 array, shape [n]: hashes of the values that make the groups.
    """

    positions: _Integers
    groups: _Codes


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupTotals:
    """What may be drawn, by group and partition.

    Attributes:
        groups: uint64 array, shape [m]: hashes of values.
        partitions: int64 array, shape [m]: partitions of nodes.
        totals: int64 array, shape [m]: sum of the weights of the group's nodes there.
    """

    groups: _Codes
    partitions: _Integers
    totals: _Integers

    def take(self, at: _Integers) -> GroupTotals:
        """Selects items.

        Args:
            at: int64 array: positions of items.

        Returns:
            The items, in that order.
        """
        return GroupTotals(groups=self.groups[at], partitions=self.partitions[at], totals=self.totals[at])


@dataclasses.dataclass(frozen=True, kw_only=True)
class TotalAnswer:
    """What may be drawn for some pairs.

    Attributes:
        positions: int64 array, shape [n]: which of the block's pairs these are.
        groups: uint64 array, shape [n]: group of each.
        totals: what may be drawn from these groups.
    """

    positions: _Integers
    groups: _Codes
    totals: GroupTotals


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawRequests:
    """Draws that fall on nodes of one partition: which nodes?

    Attributes:
        positions: int64 array, shape [n]: which of the block's draws these are.
        offsets: int64 array, shape [n]: where each falls among the weights of the
            partition's nodes, or of its group there.
        groups: uint64 array, shape [n]: groups; None if there is one group of all nodes.
    """

    positions: _Integers
    offsets: _Integers
    groups: _Codes | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class DrawAnswer:
    """Nodes that draws fell on.

    Attributes:
        positions: int64 array, shape [n]: which of the block's draws these are.
        nodes: uint64 array, shape [n]: codes.
    """

    positions: _Integers
    nodes: _Codes


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairRequests:
    """Pairs of a source and a candidate: which are edges?

    Attributes:
        positions: int64 array, shape [n]: which of the block's draws these are.
        sources: uint64 array, shape [n]: codes.
        targets: uint64 array, shape [n]: codes.
    """

    positions: _Integers
    sources: _Codes
    targets: _Codes

    def take(self, at: _Integers) -> PairRequests:
        """Selects pairs.

        Args:
            at: int64 array: positions of pairs.

        Returns:
            The pairs, in that order.
        """
        return PairRequests(positions=self.positions[at], sources=self.sources[at], targets=self.targets[at])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairAnswer:
    """Pairs that are edges.

    Attributes:
        positions: int64 array: which of the block's draws these are.
    """

    positions: _Integers

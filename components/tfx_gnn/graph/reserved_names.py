"""Names of sets and features that mean the same wherever a graph is read or written.

Needs no TensorFlow, so that options load fast.
"""

from __future__ import annotations

from typing import Final

ID_NAME: Final = "#id"
"""Feature with the original identity of a node, an edge or a graph."""

READOUT_NODE_SET: Final = "_readout"
"""Node set with one node for each prediction about nodes or pairs of nodes; it carries the labels."""

SHADOW_PREFIX: Final = "_shadow/"
"""Begins the name of the auxiliary node set that stands for the edges of a set where they are read out."""

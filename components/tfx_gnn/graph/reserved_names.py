"""Reserved names of sets and features, the same wherever a graph is read or written.

This module does not import TensorFlow, so that options load fast.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

ID_NAME: Final = "#id"
"""Feature with the original ID of a node, an edge or a graph."""

READOUT_NODE_SET: Final = "_readout"
"""Node set with one node for each prediction about nodes or pairs of nodes; it carries the labels."""

SHADOW_PREFIX: Final = "_shadow/"
"""Prefix of the auxiliary node set that represents the edges of a set, so that they can be read out."""

STRUCTURE_LABEL: Final = "structure_label"
"""Feature with the place of a node relative to the pair that its subgraph is about."""


def default_vocabulary_name(key: str) -> str:
    """Makes the key of a feature a name of a vocabulary, with characters that TensorFlow takes.

    Keys that differ have names that differ.

    Example:
        >>> default_vocabulary_name("nodes/product.category")
        'nodes.product.category'
    """
    key = key.replace("/", ".")
    name = re.sub("[^A-Za-z0-9_.]", "_", key)
    return name if name == key else f"{name}_{zlib.crc32(key.encode()):08x}"

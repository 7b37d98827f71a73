"""Reads many small graphs from the text files in which the TU Dortmund collection keeps them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
"""Array of int64."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelledGraphs:
    """Graphs with one label a graph, a node and an edge.

    Attributes:
        graph_labels: shape [num_graphs].
        node_graphs: graph of each node, from 0, ascending; shape [num_nodes].
        node_labels: shape [num_nodes].
        sources: node where each edge begins, from 0; shape [num_edges].
        targets: node where each edge ends, of the same graph; shape [num_edges].
        edge_labels: shape [num_edges].
    """

    graph_labels: Integers
    node_graphs: Integers
    node_labels: Integers
    sources: Integers
    targets: Integers
    edge_labels: Integers

    @property
    def node_positions(self) -> Integers:
        """Position of each node in its graph, from 0; shape [num_nodes]."""
        starts = np.searchsorted(self.node_graphs, np.arange(len(self.graph_labels)))
        positions: Integers = np.arange(len(self.node_graphs)) - starts[self.node_graphs]
        return positions


def read_labelled_graphs(read: Callable[[str], bytes], name: str) -> LabelledGraphs:
    """Reads a data set of labelled graphs.

    Args:
        read: gives the content of a file by its name, such as "MUTAG_A.txt".
        name: name of the data set, with which the names of its files begin.

    Returns:
        The graphs.

    Raises:
        ValueError: if the files do not fit together. The message names file and line.
    """
    edges = _numbers(read, f"{name}_A.txt", 2)
    indicator = _numbers(read, f"{name}_graph_indicator.txt", 1)[:, 0]
    graph_labels = _numbers(read, f"{name}_graph_labels.txt", 1)[:, 0]
    node_labels = _numbers(read, f"{name}_node_labels.txt", 1)[:, 0]
    edge_labels = _numbers(read, f"{name}_edge_labels.txt", 1)[:, 0]
    for file, labels, of, what in (
        ("node_labels", node_labels, len(indicator), "node"),
        ("edge_labels", edge_labels, len(edges), "edge"),
    ):
        if len(labels) != of:
            raise ValueError(
                f"`{name}_{file}.txt` must have one line for each {what}; got {len(labels)} for {of}. Is it whole?"
            )
    _check_range(f"{name}_graph_indicator.txt", indicator, len(graph_labels), "graph")
    descents = np.flatnonzero(np.diff(indicator) < 0)
    if len(descents):
        raise ValueError(
            f"`{name}_graph_indicator.txt` must keep the nodes of a graph together; got graph "
            f"{indicator[descents[0] + 1]} in line {descents[0] + 2}, behind graph {indicator[descents[0]]}. "
            "Is the file whole?"
        )
    for column in (0, 1):
        _check_range(f"{name}_A.txt", edges[:, column], len(indicator), "node")
    sources, targets, node_graphs = edges[:, 0] - 1, edges[:, 1] - 1, indicator - 1
    across = np.flatnonzero(node_graphs[sources] != node_graphs[targets])
    if len(across):
        raise ValueError(
            f"`{name}_A.txt` must lead from nodes to nodes of the same graph; got {edges[across[0]].tolist()} in line "
            f"{across[0] + 1}, of graphs {indicator[sources[across[0]]]} and {indicator[targets[across[0]]]}. "
            "Do the files belong together?"
        )
    return LabelledGraphs(
        graph_labels=graph_labels,
        node_graphs=node_graphs,
        node_labels=node_labels,
        sources=sources,
        targets=targets,
        edge_labels=edge_labels,
    )


def _numbers(read: Callable[[str], bytes], file: str, columns: int) -> Integers:
    rows = []
    for number, line in enumerate(read(file).decode("ascii", errors="replace").splitlines(), 1):
        cells = line.split(",")
        try:
            rows.append([int(cell) for cell in cells])
        except ValueError as error:
            raise ValueError(f"`{file}` must hold integers; got {line[:60]!r} in line {number}. {_CHECK}") from error
        if len(cells) != columns:
            raise ValueError(
                f"`{file}` must have {columns} numbers a line; got {len(cells)} in line {number}. {_CHECK}"
            )
    return np.asarray(rows, np.int64).reshape(len(rows), columns)


_CHECK = "Is it a file of the TU Dortmund format?"


def _check_range(file: str, numbers: Integers, limit: int, what: str) -> None:
    bad = np.flatnonzero((numbers < 1) | (numbers > limit))
    if len(bad):
        raise ValueError(
            f"`{file}` must name {what}s from 1 to {limit}; got {numbers[bad[0]]} in line {bad[0] + 1}. "
            "Do the files belong together?"
        )

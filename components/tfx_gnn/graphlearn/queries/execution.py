"""Runs the steps of a query for one batch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.queries.negatives import NegativeRequests, draw_negatives
from tfx_gnn.graphlearn.queries.neighbors import NeighborRequests, choose_neighbors
from tfx_gnn.graphlearn.queries.query_step import Step, alignment, dependencies
from tfx_gnn.graphlearn.queries.random_walks import walk
from tfx_gnn.graphlearn.queries.results import Edges, Nodes, SparseEdges, SparseNodes
from tfx_gnn.graphlearn.queries.sampled_subgraphs import SampledSubGraphs, sample_subgraphs
from tfx_gnn.sampling.random_choice import hash_name, mix

_Integers = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]


@dataclasses.dataclass(kw_only=True)
class Found:
    """What a step found, item after item.

    Attributes:
        rows: int64 array, shape [num_items]: rows of the node or edge table; -1 for none.
        fan_out: items per item of the step before; None if `offsets` tells it.
        offsets: int64 array: number of items for each item of the step before; None unless
            the step is sparse.
        ends: of edges, the rows of the sources and of the targets.
        num_unfit: negatives that should not have been drawn, but no others were left.
    """

    rows: _Integers
    fan_out: int | None = 1
    offsets: _Integers | None = None
    ends: tuple[_Integers, _Integers] | None = None
    num_unfit: int = 0


class Execution:
    """Results of the steps for one batch; each step runs once, when it is needed."""

    def __init__(self, rows: _Integers, keys: _Keys) -> None:
        """Starts from the rows of the first step, each with a key of its own."""
        self._rows = rows
        self._root_keys = keys
        self._found: dict[Step, Found] = {}
        self._keys: dict[Step, _Keys] = {}

    def value(self, step: Step) -> Any:
        """Returns what users get of a step."""
        if step.operation == "subgraph":
            return self._subgraphs(step)
        found = self._find(step)
        store = step.store
        shape = self._shape(step, found)
        rows = found.rows.reshape(shape)
        if step.kind == "node":
            nodes = store.node_ids(step.type)
            return Nodes(nodes, rows) if found.offsets is None else SparseNodes(nodes, rows, found.offsets)
        assert found.ends is not None
        names = store.ends(step.type, backward=step.settings.is_backward)
        ids = [store.node_ids(name) for name in names]
        attributes = store.edge_attributes(step.type)
        if found.offsets is None:
            source, target = (Nodes(one, ends.reshape(shape)) for one, ends in zip(ids, found.ends, strict=True))
            return Edges(step.type, attributes, rows, source, target)
        sources, targets = (SparseNodes(one, ends, found.offsets) for one, ends in zip(ids, found.ends, strict=True))
        return SparseEdges(step.type, attributes, rows, sources, targets)

    def count(self, step: Step) -> dict[str, int]:
        """Counts what is missing from a step."""
        if step.operation == "subgraph":
            return {}
        found = self._find(step)
        counted = {"missing": int((found.rows < 0).sum()), "unconditional": found.num_unfit}
        return {name: number for name, number in counted.items() if number}

    def _shape(self, step: Step, found: Found) -> tuple[int, ...]:
        """Returns the shape of a step's ids; it is flat where the step is sparse."""
        if found.offsets is not None or step.operation == "traverse":
            return (len(found.rows),)
        if step.operation == "end":
            assert step.upstream is not None
            return self._shape(step.upstream, self._find(step.upstream))
        assert found.fan_out is not None
        return (len(found.rows) // found.fan_out if found.fan_out else 0, found.fan_out)

    def _find(self, step: Step) -> Found:
        if step not in self._found:
            for other in dependencies(step):
                self._find(other)
            self._found[step] = self._run(step)
        return self._found[step]

    def _run(self, step: Step) -> Found:
        if step.operation == "traverse":
            return self._traverse(step)
        if step.operation == "end":
            return self._end(step)
        if step.operation == "negative":
            return self._negative(step)
        if step.operation == "walk":
            return self._walk(step)
        return self._hop(step)

    def _traverse(self, step: Step) -> Found:
        if step.kind == "node":
            return Found(rows=self._rows)
        sources, targets = step.store.end_rows(step.type, backward=step.settings.is_backward)
        return Found(rows=self._rows, ends=(sources[self._rows], targets[self._rows]))

    def _end(self, step: Step) -> Found:
        assert step.upstream is not None
        edges = self._find(step.upstream)
        assert edges.ends is not None
        return Found(rows=edges.ends[0 if step.settings.is_source else 1], offsets=edges.offsets)

    def _hop(self, step: Step) -> Found:
        assert step.upstream is not None
        settings, inputs = step.settings, self._find(step.upstream)
        assert settings.count is not None
        chosen = choose_neighbors(
            step.store,
            NeighborRequests(
                edge_type=settings.edge_type,
                is_backward=settings.is_backward,
                strategy=settings.strategy,
                count=settings.count,
                nodes=inputs.rows,
                keys=self._request_keys(step),
                time_limits=self._time_limits(step),
                excluded=self._excluded(step),
            ),
        )
        rows = chosen.edge_rows if step.kind == "edge" else chosen.neighbors
        ends = None
        if step.kind == "edge":
            counts = settings.count if chosen.offsets is None else chosen.offsets
            ends = (np.repeat(inputs.rows, counts), chosen.neighbors)
        fan_out = settings.count if chosen.offsets is None else None
        return Found(rows=rows, fan_out=fan_out, offsets=chosen.offsets, ends=ends)

    def _negative(self, step: Step) -> Found:
        assert step.upstream is not None
        settings, inputs = step.settings, self._find(step.upstream).rows
        assert settings.count is not None
        positives = condition = None
        if settings.condition is not None:
            target, condition = settings.condition
            positives = self.aligned(step.upstream, target)[1]
        rows, num_unfit = draw_negatives(
            step.store,
            NegativeRequests(
                edge_type=settings.edge_type,
                is_backward=settings.is_backward,
                node_type=step.type,
                input_type=step.upstream.type,
                strategy=settings.strategy,
                count=settings.count,
                nodes=inputs,
                keys=self._request_keys(step),
                condition=condition,
                positives=positives,
            ),
        )
        return Found(rows=rows, fan_out=settings.count, num_unfit=num_unfit)

    def _walk(self, step: Step) -> Found:
        assert step.upstream is not None
        settings = step.settings
        rows = walk(
            step.store,
            settings.edge_type,
            self._find(step.upstream).rows,
            self._request_keys(step),
            length=settings.walk_length,
            return_p=settings.return_p,
            in_out_q=settings.in_out_q,
            time_limits=self._time_limits(step),
        )
        return Found(rows=rows, fan_out=settings.walk_length)

    def _subgraphs(self, step: Step) -> SampledSubGraphs:
        assert step.upstream is not None
        inputs = self._find(step.upstream)
        return sample_subgraphs(
            step.store,
            step.settings.edge_type,
            inputs.ends if inputs.ends is not None else (inputs.rows,),
            self._request_keys(step),
            fan_outs=step.settings.fan_outs,
            time_limits=self._time_limits(step),
            needs_distances=step.settings.needs_distances,
        )

    def _request_keys(self, step: Step) -> _Keys:
        """Returns a key for each input of a step; it only depends on the steps before."""
        assert step.upstream is not None
        return mix(self._item_keys(step.upstream) ^ np.uint64(hash_name(step.path)))

    def _item_keys(self, step: Step) -> _Keys:
        """Returns a key for each item that a step found."""
        if step.upstream is None:
            return self._root_keys
        if step not in self._keys:
            parents = self._item_keys(step.upstream)
            found = self._find(step)
            if found.offsets is None and found.fan_out == 1 and step.operation == "end":
                self._keys[step] = parents
            else:
                number = self._numbers(step)
                above = parents[self._positions(step, step.upstream)]
                self._keys[step] = mix(above + number.astype(np.uint64))
        return self._keys[step]

    def _numbers(self, step: Step) -> _Integers:
        """Returns for each item its position among those of the same input."""
        found = self._find(step)
        if step.operation == "end":
            return np.zeros(len(found.rows), np.int64)
        if found.offsets is None:
            assert found.fan_out is not None
            return np.arange(len(found.rows)) % max(found.fan_out, 1)
        firsts = np.cumsum(found.offsets) - found.offsets
        return np.arange(len(found.rows)) - np.repeat(firsts, found.offsets)

    def _positions(self, step: Step, ancestor: Step) -> _Integers:
        """Returns for each item of a step the position of the item of an ancestor that it comes from."""
        positions = np.arange(len(self._find(step).rows))
        while step is not ancestor:
            found = self._find(step)
            if step.operation != "end":
                if found.offsets is None:
                    assert found.fan_out is not None
                    positions = positions // max(found.fan_out, 1)
                else:
                    positions = np.repeat(np.arange(len(found.offsets)), found.offsets)[positions]
            assert step.upstream is not None
            step = step.upstream
        return positions

    def _time_limits(self, step: Step) -> _Integers | None:
        """Returns the time of the root edge of each input; edges of a step must be earlier."""
        root = step.root
        if root.kind != "edge":
            return None
        times = step.store.edge_attributes(root.type).timestamps(self._rows)
        assert step.upstream is not None
        return None if times is None else times[self._positions(step.upstream, root)]

    def _excluded(self, step: Step) -> tuple[_Integers, _Integers] | None:
        """Returns the nodes that `filter` excludes: positions of inputs, ascending, and rows of nodes."""
        if not step.settings.filters:
            return None
        assert step.upstream is not None
        parts = [self.aligned(step.upstream, target) for target in step.settings.filters]
        inputs = np.concatenate([part[0] for part in parts])
        order = np.argsort(inputs, kind="stable")
        return inputs[order], np.concatenate([part[1] for part in parts])[order]

    def aligned(self, inputs: Step, target: Step) -> tuple[_Integers, _Integers]:
        """Returns the items of a target step for each input: positions of inputs, and rows of the target."""
        common = alignment(inputs, target)
        assert common is not None
        of_targets = self._positions(target, common)
        order = np.argsort(of_targets, kind="stable")
        num_common = len(self._find(common).rows)
        counts = np.bincount(of_targets, minlength=num_common)
        firsts = np.cumsum(counts) - counts
        of_inputs = self._positions(inputs, common)
        sizes = counts[of_inputs]
        starts = firsts[of_inputs] - (np.cumsum(sizes) - sizes)
        which = np.repeat(starts, sizes) + np.arange(int(sizes.sum()))
        return np.repeat(np.arange(len(of_inputs)), sizes), self._find(target).rows[order[which]]

"""The steps of a query that find nodes or edges, in the words of GraphLearn's graph sampling language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.queries.conditions import Condition
from tfx_gnn.graphlearn.queries.query_step import (
    MAX_COUNT,
    Draft,
    Settings,
    Step,
    alignment,
    fan_out_between,
    is_count,
)
from tfx_gnn.io.suggestions import did_you_mean

_StepT = TypeVar("_StepT", bound=Step)


class NodeStep(Step):
    """A step that finds nodes."""

    kind = "node"

    @classmethod
    def start(cls, draft: Draft, node_type: str, rows: npt.NDArray[np.int64], path: str) -> NodeStep:
        """Starts a query at some rows of a node table."""
        step = cls(draft, node_type, operation="traverse", upstream=None, path=path, settings=Settings())
        step.source_rows = rows
        return step

    def outV(self, edge_type: str) -> NodeStep:  # noqa: N802
        """Finds the targets of edges that leave the nodes; `sample` must follow.

        Args:
            edge_type: edge type whose sources are of this node type.

        Returns:
            A new step.

        Raises:
            ValueError: if the edge type is unknown or starts at another node type.
        """
        return self._hop(NodeStep, "outV", edge_type, is_backward=False)

    def inV(self, edge_type: str) -> NodeStep:  # noqa: N802
        """Finds the sources of edges that arrive at the nodes; `sample` must follow.

        Args:
            edge_type: edge type whose targets are of this node type, directed or not.

        Returns:
            A new step.

        Raises:
            ValueError: if the edge type is unknown or ends at another node type.
        """
        return self._hop(NodeStep, "inV", edge_type, is_backward=True)

    def outE(self, edge_type: str) -> EdgeStep:  # noqa: N802
        """Finds edges that leave the nodes; `sample` must follow.

        Args:
            edge_type: edge type whose sources are of this node type.

        Returns:
            A new step.

        Raises:
            ValueError: if the edge type is unknown or starts at another node type.
        """
        return self._hop(EdgeStep, "outE", edge_type, is_backward=False)

    def inE(self, edge_type: str) -> EdgeStep:  # noqa: N802
        """Finds edges that arrive at the nodes; `sample` must follow.

        The edges have their ends exchanged: their sources are the nodes of this step.

        Args:
            edge_type: edge type whose targets are of this node type, directed or not.

        Returns:
            A new step.

        Raises:
            ValueError: if the edge type is unknown or ends at another node type.
        """
        return self._hop(EdgeStep, "inE", edge_type, is_backward=True)

    def outNeg(self, edge_type: str) -> NodeStep:  # noqa: N802
        """Draws negative targets for the nodes; `sample` must follow.

        Args:
            edge_type: edge type whose sources are of this node type.

        Returns:
            A new step.

        Raises:
            ValueError: if the edge type is unknown or starts at another node type.
        """
        return self._negative("outNeg", edge_type, is_backward=False)

    def inNeg(self, edge_type: str) -> NodeStep:  # noqa: N802
        """Draws negative sources for the nodes; `sample` must follow.

        Args:
            edge_type: edge type whose targets are of this node type.

        Returns:
            A new step.

        Raises:
            ValueError: if the edge type is unknown or ends at another node type.
        """
        return self._negative("inNeg", edge_type, is_backward=True)

    def Neg(self, node_type: str) -> NodeStep:  # noqa: N802
        """Draws nodes of any type; `sample` must follow, by "node_weight" or "random".

        Args:
            node_type: node type to draw from.

        Returns:
            A new step.

        Raises:
            ValueError: if the node type is unknown.
        """
        self.check_open("Neg")
        known = self.store.tables.node_tables
        if not isinstance(node_type, str) or node_type not in known:
            raise ValueError(
                f"`node_type` must be one of {sorted(known)}; got {node_type!r} after {self.path}. "
                f"{did_you_mean(node_type, known)}"
            )
        step = NodeStep(
            self.draft, node_type, operation="negative", upstream=self, path=f"Neg({node_type})", settings=Settings()
        )
        self.neg_downstreams.append(step)
        return step

    def where(self, target: str | Step, condition: Mapping[str, Any] | None = None) -> NodeStep:
        """Sets a condition on negatives.

        Negatives are never neighbors of their input in the edge type, and never their own
        positive. For each column a share of them has the value that the positive has in it:
        `count * share` negatives, rounded by largest remainder, first those of integer columns,
        then float, then string columns, then the rest without condition. Where too few nodes
        meet the condition, other nodes are drawn instead, and counted.

        Args:
            target: alias of the step with the positives, one for each input.
            condition: any of these keys.
                "int_cols", "float_cols", "str_cols": list of columns of integer, float
                and string attributes (hashed strings count as integers).
                "int_props", "float_props", "str_props": share of each column; together
                at most 1.
                "unique": whether the negatives of an input differ from each other.
                "batch_share": whether the positives of the whole batch are excluded,
                in place of the neighbors and the own positive.

        Returns:
            The step itself.

        Raises:
            ValueError: if this step draws no negatives, the positives have another type or
                number, or the condition is wrong.
        """
        self.check_open("where")
        if self.operation != "negative" or not self.settings.edge_type or self.settings.count is None:
            raise ValueError(
                f"`where` must follow `sample` or `by` of outNeg or inNeg; got it at {self.path}. Use another step."
            )
        step = self.find_step("where", target)
        if step.type != self.type:
            raise ValueError(
                f"`target` must be a step of the type of the negatives, {self.type!r}; got {step.type!r} in `where` at "
                f"{self.path}. Name the step of the positives."
            )
        assert self.upstream is not None
        if alignment(self.upstream, step) is None or fan_out_between(self.upstream, step) != 1:
            raise ValueError(
                f"`target` must have one positive for each input of the negatives; got {step.path} in `where` at "
                f"{self.path}. Start both at the same step, with sample(1) for positives."
            )
        self.settings.condition = step, Condition.of(condition or {}, self.decoder, self.path)
        return self

    def filter(self, target: str | Step) -> NodeStep:
        """Keeps the nodes of another step out of the sample.

        Edges to the node that the other step found for the same item are not chosen, so that,
        for example, the neighborhood does not hold the edge to be predicted.

        Args:
            target: alias of a step that finds nodes of the same type.

        Returns:
            The step itself.

        Raises:
            ValueError: if this step is no hop, the types differ, or the steps have no common start.
        """
        self.exclude(target)
        return self

    def random_walk(self, edge_type: str, walk_len: int = 1, p: float = 1.0, q: float = 1.0) -> NodeStep:
        """Walks from each node along edges of a type, as node2vec does (arXiv:1607.00653).

        From the second step on, an edge back has the weight 1/p, an edge to a neighbor of the
        node before has 1, and any other has 1/q. A walk ends at a node without edges; the
        default id fills the rest.

        Args:
            edge_type: edge type that joins nodes of this type.
            walk_len: number of nodes to find, at least 1.
            p: return parameter, greater than 0.
            q: in-out parameter, greater than 0.

        Returns:
            A new step, of shape [number of inputs, walk_len].

        Raises:
            ValueError: if the edge type is unknown or joins other types, or a number is out of range.
        """
        self._check_edge_type("random_walk", edge_type, is_backward=False)
        source, target = self.store.ends(edge_type)
        if source != target:
            raise ValueError(
                f"`edge_type` must join nodes of one type to be walked along; got {edge_type!r} from {source!r} to "
                f"{target!r} after {self.path}. Use another."
            )
        if not is_count(walk_len, 1) or walk_len > MAX_COUNT:
            raise ValueError(f"`walk_len` must be an integer in [1, {MAX_COUNT}]; got {walk_len!r}. Correct it.")
        for name, value in (("p", p), ("q", q)):
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise ValueError(f"`{name}` must be a number greater than 0; got {value!r} after {self.path}.")
        settings = Settings(edge_type=edge_type, walk_length=int(walk_len), return_p=float(p), in_out_q=float(q))
        step = NodeStep(
            self.draft, self.type, operation="walk", upstream=self, path=f"random_walk({edge_type})", settings=settings
        )
        self.pos_downstreams.append(step)
        return step

    def SubGraph(  # noqa: N802
        self,
        nbr_type: str,
        num_nbrs: Sequence[int] = (0,),
        need_dist: bool = False,  # noqa: FBT001, FBT002
    ) -> SubGraphStep:
        """Samples the subgraph around each node.

        Args:
            nbr_type: edge type that joins nodes of this type; it is followed forward.
            num_nbrs: number of neighbors to sample in each hop, without replacement; 0 for all.
            need_dist: whether each node of a subgraph gets its distance to the root.

        Returns:
            A new step; its result is a sequence of `SampledSubGraph`.

        Raises:
            ValueError: if the edge type is unknown or joins other types, or a number is negative.
        """
        self.check_open("SubGraph")
        return SubGraphStep.start(self, (self.type,), nbr_type, num_nbrs, need_dist=need_dist)

    def _hop(self, step_class: type[_StepT], word: str, edge_type: str, *, is_backward: bool) -> _StepT:
        self._check_edge_type(word, edge_type, is_backward=is_backward)
        found = edge_type if step_class.kind == "edge" else self.store.ends(edge_type, backward=is_backward)[1]
        settings = Settings(edge_type=edge_type, is_backward=is_backward)
        step = step_class(
            self.draft, found, operation="hop", upstream=self, path=f"{word}({edge_type})", settings=settings
        )
        self.pos_downstreams.append(step)
        return step

    def _negative(self, word: str, edge_type: str, *, is_backward: bool) -> NodeStep:
        self._check_edge_type(word, edge_type, is_backward=is_backward)
        found = self.store.ends(edge_type, backward=is_backward)[1]
        settings = Settings(edge_type=edge_type, is_backward=is_backward)
        step = NodeStep(
            self.draft, found, operation="negative", upstream=self, path=f"{word}({edge_type})", settings=settings
        )
        self.neg_downstreams.append(step)
        return step

    def _check_edge_type(self, word: str, edge_type: str, *, is_backward: bool) -> None:
        self.check_open(word)
        self.store.edge_table(edge_type, "edge_type")
        start = self.store.ends(edge_type, backward=is_backward)[0]
        if start != self.type:
            end = "end" if is_backward else "start"
            raise ValueError(
                f"`edge_type` must {end} at nodes of type {self.type!r} in `{word}` after {self.path}; got "
                f"{edge_type!r}, whose edges {end} at {start!r}. Use the other direction or another edge type."
            )


class EdgeStep(Step):
    """A step that finds edges."""

    kind = "edge"

    @classmethod
    def start(cls, draft: Draft, edge_type: str, rows: npt.NDArray[np.int64], *, is_reversed: bool) -> EdgeStep:
        """Starts a query at some rows of an edge table."""
        path = f"E({edge_type}{',reverse' if is_reversed else ''})"
        settings = Settings(edge_type=edge_type, is_backward=is_reversed)
        step = cls(draft, edge_type, operation="traverse", upstream=None, path=path, settings=settings)
        step.source_rows = rows
        return step

    def outV(self) -> NodeStep:  # noqa: N802
        """Finds the source of each edge.

        Returns:
            A new step, of the shape of this one.
        """
        return self._end("outV", is_source=True)

    def inV(self) -> NodeStep:  # noqa: N802
        """Finds the target of each edge: of sampled edges, the neighbor.

        Returns:
            A new step, of the shape of this one.
        """
        return self._end("inV", is_source=False)

    def filter(self, target: str | Step) -> EdgeStep:
        """Keeps edges to the nodes of another step out of the sample; see `NodeStep.filter`.

        Args:
            target: alias of a step that finds nodes of the type of the neighbors.

        Returns:
            The step itself.

        Raises:
            ValueError: if this step is no hop, the types differ, or the steps have no common start.
        """
        self.exclude(target)
        return self

    def SubGraph(  # noqa: N802
        self,
        nbr_type: str,
        num_nbrs: Sequence[int] = (0,),
        need_dist: bool = False,  # noqa: FBT001, FBT002
    ) -> SubGraphStep:
        """Samples the subgraph around both ends of each edge, without the edges that join the two.

        Args:
            nbr_type: edge type that joins nodes of the type of both ends; it is followed forward.
            num_nbrs: number of neighbors to sample in each hop, without replacement; 0 for all.
            need_dist: whether each node of a subgraph gets its distances to source and target.

        Returns:
            A new step; its result is a sequence of `SampledSubGraph`.

        Raises:
            ValueError: if the edge type is unknown or joins other types, or a number is negative.
        """
        self.check_open("SubGraph")
        ends = self.store.ends(self.type, backward=self.settings.is_backward)
        return SubGraphStep.start(self, ends, nbr_type, num_nbrs, need_dist=need_dist)

    def _end(self, word: str, *, is_source: bool) -> NodeStep:
        self.check_open(word)
        source, target = self.store.ends(self.type, backward=self.settings.is_backward)
        step = NodeStep(
            self.draft,
            source if is_source else target,
            operation="end",
            upstream=self,
            path=f"{word}()",
            settings=Settings(is_source=is_source),
        )
        if self.operation != "traverse" and not is_source:
            self.pos_downstreams.append(step)
        return step


class SubGraphStep(Step):
    """A step that samples subgraphs; its type is their edge type."""

    kind = "subgraph"

    @classmethod
    def start(
        cls, upstream: Step, root_types: Sequence[str], edge_type: str, num_nbrs: Sequence[int], *, need_dist: bool
    ) -> SubGraphStep:
        """Adds the step after one that finds the roots, which are of the given types."""
        store = upstream.store
        store.edge_table(edge_type, "nbr_type")
        types = {*root_types, *store.ends(edge_type)}
        if len(types) > 1:
            raise ValueError(
                f"`nbr_type` must join nodes of the type of the roots, {sorted(set(root_types))}; got {edge_type!r} "
                f"between {store.ends(edge_type)} after {upstream.path}. Use another edge type."
            )
        numbers = [num_nbrs] if isinstance(num_nbrs, int) else list(num_nbrs)
        if not numbers or not all(is_count(number, 0) and number <= MAX_COUNT for number in numbers):
            raise ValueError(
                f"`num_nbrs` must be integers in [0, {MAX_COUNT}], one a hop; got {num_nbrs!r} after {upstream.path}. "
                "Write [10, 5] for two hops."
            )
        settings = Settings(edge_type=edge_type, fan_outs=tuple(map(int, numbers)), needs_distances=bool(need_dist))
        step = cls(
            upstream.draft,
            edge_type,
            operation="subgraph",
            upstream=upstream,
            path=f"SubGraph({edge_type})",
            settings=settings,
        )
        upstream.pos_downstreams.append(step)
        return step

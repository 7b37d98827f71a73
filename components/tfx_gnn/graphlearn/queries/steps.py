"""The steps of a query, in the words of GraphLearn's graph sampling language."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.queries.conditions import Condition

if TYPE_CHECKING:
    from tfx_gnn.graphlearn.queries.graph_store import GraphStore
    from tfx_gnn.graphlearn.queries.query import Query

NEIGHBOR_STRATEGIES = ("random", "random_without_replacement", "edge_weight", "topk", "in_degree", "full")
NEGATIVE_STRATEGIES = ("random", "in_degree", "node_weight", "conditional")
_MAX_COUNT = 2**15 - 1  # draws are numbered in int16

Operation = Literal["traverse", "hop", "end", "negative", "walk", "subgraph"]
_StepT = TypeVar("_StepT", bound="Step")


class StrategyError(AssertionError, ValueError):
    """A strategy is unknown.

    It is a ValueError; it is also an AssertionError because GraphLearn raises that.
    """


class Draft:
    """What the steps of one query have in common while it is written."""

    def __init__(self, store: GraphStore) -> None:
        self.store = store
        self.steps: list[Step] = []
        self.aliases: dict[str, Step] = {}
        self.is_closed = False


@dataclasses.dataclass(kw_only=True)
class Settings:
    """What a step does; each operation uses some of the fields.

    Attributes:
        edge_type: edge type that a hop, a negative or a walk refers to; "" for others.
        is_backward: whether edges are followed from target to source.
        count: number of samples per input; None if not given yet.
        strategy: how they are chosen; "" if not given yet.
        walk_length, return_p, in_out_q: of a random walk.
        is_source: of an end of edges, whether it is the source.
        fan_outs: hops of a subgraph.
        needs_distances: whether a subgraph has distances.
        filters: steps whose nodes are not sampled.
        condition: condition of negatives, and the step of the positives.
    """

    edge_type: str = ""
    is_backward: bool = False
    count: int | None = None
    strategy: str = ""
    walk_length: int = 0
    return_p: float = 1.0
    in_out_q: float = 1.0
    is_source: bool = False
    fan_outs: tuple[int, ...] = ()
    needs_distances: bool = False
    filters: list[NodeStep] = dataclasses.field(default_factory=list)
    condition: tuple[NodeStep, Condition] | None = None


class Step:
    """One step of a query: it finds nodes or edges of one type for each item of the step before.

    Attributes:
        kind: "node" or "edge".
        type: node type or edge type of what the step finds.
        operation: "traverse" (the first step), "hop", "end" (of edges), "negative", "walk" or
            "subgraph".
        upstream: the step before; None for the first.
        path: name of the step that only depends on the steps before it, for random choices
            and messages.
        settings: what the step does.
        pos_downstreams: hops, walks, subgraphs and ends of sampled edges that start here.
        neg_downstreams: negatives that start here.
    """

    kind: Literal["node", "edge"] = "node"

    def __init__(
        self, draft: Draft, type_name: str, operation: Operation, upstream: Step | None, path: str, settings: Settings
    ) -> None:
        self.type = type_name
        self.operation: Operation = operation
        self.upstream = upstream
        self.settings = settings
        self.pos_downstreams: list[Step] = []
        self.neg_downstreams: list[Step] = []
        self.batch_size: int | None = None
        self.order: Literal["in_order", "shuffled", "random"] = "in_order"
        self.source_rows: npt.NDArray[np.int64] | None = None
        self._draft = draft
        self._alias = ""
        number = sum(step.upstream is upstream and step.path_start == path for step in draft.steps)
        self.path_start = path
        prefix = upstream.path + "." if upstream else ""
        self.path = prefix + path + (f"#{number + 1}" if number else "")
        draft.steps.append(self)

    # What a closed query tells of its steps.

    @property
    def store(self) -> GraphStore:
        """The graph."""
        return self._draft.store

    @property
    def root(self) -> Step:
        """The first step of the query."""
        return self._draft.steps[0]

    @property
    def decoder(self) -> Decoder:
        """Description of the columns of the type."""
        if self.kind == "node":
            return self.store.node_ids(self.type).attributes.decoder
        return self.store.edge_attributes(self.type).decoder

    @property
    def is_sparse(self) -> bool:
        """Whether the step finds any number per input: a sample by "full", and its ends."""
        if self.operation == "end":
            return self.upstream is not None and self.upstream.is_sparse
        return self.operation == "hop" and self.settings.strategy == "full"

    @property
    def count(self) -> int | None:
        """Number of samples per input; None for a traversal, and for the ends of traversed edges."""
        if self.operation == "end":
            return self.upstream.count if self.upstream else None
        return self.settings.walk_length if self.operation == "walk" else self.settings.count

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Shape of the ids of a full batch: [batch size], or [items of the step before, count].

        The number of items is None after a step by "full", and so is the count of such a step.
        """
        if self.upstream is None:
            return (self.batch_size,)
        if self.operation == "end":
            return self.upstream.shape
        inputs = self.upstream.num_items
        return (inputs, None if self.is_sparse or self.operation == "subgraph" else self.count)

    @property
    def num_items(self) -> int | None:
        """Number of items of a full batch; None if it varies."""
        sizes = [size for size in self.shape if size is not None]
        return int(np.prod(sizes)) if len(sizes) == len(self.shape) else None

    def get_alias(self) -> str:
        """Returns the alias; '' if there is none."""
        return self._alias

    def __repr__(self) -> str:
        name = f" as {self._alias!r}" if self._alias else ""
        return f"<{self.kind} step {self.path}{name}, type {self.type!r}, shape {list(self.shape)}>"

    # GraphLearn's words.

    def batch(self: _StepT, batch_size: int) -> _StepT:
        """Sets how many nodes or edges are traversed at once.

        Without `shuffle`, they come in the order of the table; the last batch of an epoch may
        be smaller.

        Args:
            batch_size: at least 1.

        Returns:
            The step itself.

        Raises:
            ValueError: if this is not the first step, or the size is not a positive integer.
        """
        self._check_open("batch")
        if self.operation != "traverse":
            raise ValueError(f"`batch` must follow V or E; got it at {self.path}. Move it to the first step.")
        if not _is_count(batch_size, 1):
            raise ValueError(f"`batch_size` must be an integer of at least 1; got {batch_size!r}. Correct it.")
        self.batch_size = int(batch_size)
        return self

    def shuffle(self: _StepT, traverse: bool = False) -> _StepT:  # noqa: FBT001, FBT002
        """Traverses in random order.

        Args:
            traverse: True: each item once per epoch, in an order that differs from epoch to
                epoch. False: independent draws with replacement, which never end.

        Returns:
            The step itself.

        Raises:
            ValueError: if this is not the first step.
        """
        self._check_open("shuffle")
        if self.operation != "traverse":
            raise ValueError(f"`shuffle` must follow V or E; got it at {self.path}. Move it to the first step.")
        self.order = "shuffled" if traverse else "random"
        return self

    def sample(self: _StepT, count: int) -> _StepT:
        """Sets how many samples to draw for each item of the step before.

        Args:
            count: at least 1; for the strategy "full" the most samples to keep, 0 for all.

        Returns:
            The step itself.

        Raises:
            ValueError: if the step does not sample, or the count is not such an integer.
        """
        self._check_open("sample")
        if self.operation not in ("hop", "negative"):
            raise ValueError(
                f"`sample` must follow outV, inV, outE, inE, outNeg, inNeg or Neg; got it at {self.path}. Remove it."
            )
        if not _is_count(count, 0) or count > _MAX_COUNT:
            raise ValueError(
                f"`count` must be an integer in [0, {_MAX_COUNT}]; got {count!r} at {self.path}. Correct it."
            )
        self.settings.count = int(count)
        return self

    def by(self: _StepT, strategy: str) -> _StepT:
        """Sets how samples are chosen; by default "random".

        | strategy of neighbors | what it does |
        |---|---|
        | "random" | with equal probability, with replacement |
        | "random_without_replacement" | with equal probability, none twice |
        | "edge_weight" | in proportion to the weights of the edges, with replacement |
        | "topk" | the edges of largest weight, in descending order |
        | "in_degree" | in proportion to the in-degree of the neighbors, with replacement |
        | "full" | all, in the order of the table; the first `count` if it is not 0 |

        | strategy of negatives | what it does |
        |---|---|
        | "random" | each id at that end of the edge type equally; neighbors are possible |
        | "in_degree" | in proportion to the in-degree in the edge type; no neighbors |
        | "node_weight" | in proportion to the weights of all nodes; none of the batch's inputs |
        | "conditional" | as `where` says, otherwise like "random" |

        If a node has fewer neighbors than `count`, "random_without_replacement" and "topk" fill
        up by the store's `padding_mode`. A node without neighbors gets the default id.

        Args:
            strategy: one of these names.

        Returns:
            The step itself.

        Raises:
            ValueError: if `sample` is missing.
            StrategyError: if the strategy is unknown.
        """
        self._check_open("by")
        if self.settings.count is None or self.operation not in ("hop", "negative"):
            raise ValueError(f"`by` must follow `sample`; got it at {self.path}. Write .sample(10).by({strategy!r}).")
        known = NEIGHBOR_STRATEGIES if self.operation == "hop" else NEGATIVE_STRATEGIES
        if strategy not in known:
            raise StrategyError(
                f"`strategy` must be one of {list(known)}; got {strategy!r} at {self.path}. Choose one of them."
            )
        if self.operation == "negative" and not self.settings.edge_type and strategy != "node_weight":
            if strategy != "random":
                raise ValueError(
                    f"`strategy` must be 'node_weight' or 'random' after Neg, which has no edge type; got {strategy!r} "
                    f"at {self.path}. Use outNeg or inNeg."
                )
        self.settings.strategy = strategy
        return self

    def alias(self: _StepT, alias: str) -> _StepT:
        """Names what the step finds; results are keyed by these names.

        Args:
            alias: name that no other step of the query has.

        Returns:
            The step itself.

        Raises:
            ValueError: if the name is empty or taken, or the step has another.
        """
        self._check_open("alias")
        if not isinstance(alias, str) or not alias:
            raise ValueError(f"`alias` must be a name; got {alias!r} at {self.path}. Write it as a string.")
        if alias in self._draft.aliases:
            raise ValueError(
                f"`alias` must be unique in a query; got {alias!r} at {self.path}, the name of "
                f"{self._draft.aliases[alias].path}. Choose another."
            )
        if self._alias:
            raise ValueError(
                f"`alias` must be given once a step; got {alias!r} at {self.path}, which is {self._alias!r}. Remove one."
            )
        self._alias = alias
        self._draft.aliases[alias] = self
        return self

    def each(self: _StepT, func: Callable[[_StepT], object]) -> _StepT:
        """Calls a function with the step, which may start several branches from it.

        Args:
            func: called once, with this step.

        Returns:
            The step itself.
        """
        self._check_open("each")
        func(self)
        return self

    def values(self, func: Callable[[dict[str, Any]], Any] | None = None) -> Query:
        """Closes the query; no step can be added afterwards.

        Args:
            func: applied to the dict of each batch; None: the dict itself.

        Returns:
            The query.

        Raises:
            ValueError: if the query is closed, no step has an alias, or a step is incomplete.
        """
        from tfx_gnn.graphlearn.queries.query import Query

        self._check_open("values")
        query = Query(self._draft.store, tuple(self._draft.steps), dict(self._draft.aliases), func)
        self._draft.is_closed = True
        return query

    def _check_open(self, word: str) -> None:
        if self._draft.is_closed:
            raise ValueError(
                f"`{word}` must come before `values`, which closes the whole query; got it at {self.path}. Write the "
                "query again with all its steps."
            )

    def _filter(self, target: str | Step) -> None:
        self._check_open("filter")
        if self.operation != "hop":
            raise ValueError(f"`filter` must follow outV, inV, outE or inE; got it at {self.path}. Remove it.")
        step = self._find_step("filter", target)
        neighbor_type = self.store.ends(self.settings.edge_type, backward=self.settings.is_backward)[1]
        if step.type != neighbor_type:
            raise ValueError(
                f"`target` must be a step of the type of the neighbors, {neighbor_type!r}; got {step.type!r} in "
                f"`filter` at {self.path}. Name another."
            )
        self.settings.filters.append(step)

    def _find_step(self, word: str, target: str | Step) -> NodeStep:
        step = self._draft.aliases.get(target) if isinstance(target, str) else target
        if step is None:
            raise ValueError(
                f"`target` must be an alias of an earlier step, {sorted(self._draft.aliases)}; got {target!r} in "
                f"`{word}` at {self.path}. Give the step that alias first."
            )
        if not isinstance(step, NodeStep) or step._draft is not self._draft:  # noqa: SLF001
            raise ValueError(
                f"`target` must be a step of this query that finds nodes; got {step!r} in `{word}` at {self.path}. "
                "Name another."
            )
        waiting: list[Step] = [step]
        while waiting:
            one = waiting.pop()
            if one is self:
                raise ValueError(
                    f"`target` must not depend on the step itself; got {step.path} in `{word}` at {self.path}. "
                    "Name another."
                )
            waiting += dependencies(one)
        return step


class NodeStep(Step):
    """A step that finds nodes."""

    kind = "node"

    @classmethod
    def start(cls, draft: Draft, node_type: str, rows: npt.NDArray[np.int64], path: str) -> NodeStep:
        """Starts a query at some rows of a node table."""
        step = cls(draft, node_type, "traverse", None, path, Settings())
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
        self._check_open("Neg")
        known = self.store.tables.node_tables
        if not isinstance(node_type, str) or node_type not in known:
            raise ValueError(
                f"`node_type` must be one of {sorted(known)}; got {node_type!r} after {self.path}. Check the spelling."
            )
        step = NodeStep(self._draft, node_type, "negative", self, f"Neg({node_type})", Settings())
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
        self._check_open("where")
        if self.operation != "negative" or not self.settings.edge_type or self.settings.count is None:
            raise ValueError(
                f"`where` must follow `sample` or `by` of outNeg or inNeg; got it at {self.path}. Use another step."
            )
        step = self._find_step("where", target)
        if step.type != self.type:
            raise ValueError(
                f"`target` must be a step of the type of the negatives, {self.type!r}; got {step.type!r} in `where` at "
                f"{self.path}. Name the step of the positives."
            )
        assert self.upstream is not None
        if alignment(self.upstream, step) is None or _fan_out_between(self.upstream, step) != 1:
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
        self._filter(target)
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
        if not _is_count(walk_len, 1) or walk_len > _MAX_COUNT:
            raise ValueError(f"`walk_len` must be an integer in [1, {_MAX_COUNT}]; got {walk_len!r}. Correct it.")
        for name, value in (("p", p), ("q", q)):
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise ValueError(f"`{name}` must be a number greater than 0; got {value!r} after {self.path}.")
        settings = Settings(edge_type=edge_type, walk_length=int(walk_len), return_p=float(p), in_out_q=float(q))
        step = NodeStep(self._draft, self.type, "walk", self, f"random_walk({edge_type})", settings)
        self.pos_downstreams.append(step)
        return step

    def _hop(self, step_class: type[_StepT], word: str, edge_type: str, *, is_backward: bool) -> _StepT:
        self._check_edge_type(word, edge_type, is_backward=is_backward)
        found = edge_type if step_class.kind == "edge" else self.store.ends(edge_type, backward=is_backward)[1]
        settings = Settings(edge_type=edge_type, is_backward=is_backward)
        step = step_class(self._draft, found, "hop", self, f"{word}({edge_type})", settings)
        self.pos_downstreams.append(step)
        return step

    def _negative(self, word: str, edge_type: str, *, is_backward: bool) -> NodeStep:
        self._check_edge_type(word, edge_type, is_backward=is_backward)
        found = self.store.ends(edge_type, backward=is_backward)[1]
        settings = Settings(edge_type=edge_type, is_backward=is_backward)
        step = NodeStep(self._draft, found, "negative", self, f"{word}({edge_type})", settings)
        self.neg_downstreams.append(step)
        return step

    def _check_edge_type(self, word: str, edge_type: str, *, is_backward: bool) -> None:
        self._check_open(word)
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
    def start(cls, draft: Draft, edge_type: str, rows: npt.NDArray[np.int64], is_reversed: bool) -> EdgeStep:
        """Starts a query at some rows of an edge table."""
        path = f"E({edge_type}{',reverse' if is_reversed else ''})"
        step = cls(draft, edge_type, "traverse", None, path, Settings(edge_type=edge_type, is_backward=is_reversed))
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
        self._filter(target)
        return self

    def _end(self, word: str, *, is_source: bool) -> NodeStep:
        self._check_open(word)
        source, target = self.store.ends(self.type, backward=self.settings.is_backward)
        step = NodeStep(
            self._draft, source if is_source else target, "end", self, f"{word}()", Settings(is_source=is_source)
        )
        if self.operation != "traverse" and not is_source:
            self.pos_downstreams.append(step)
        return step


def dependencies(step: Step) -> list[Step]:
    """Lists the steps that must run before a step."""
    found: list[Step] = [step.upstream] if step.upstream else []
    found += step.settings.filters
    if step.settings.condition:
        found.append(step.settings.condition[0])
    return found


def ancestors(step: Step) -> list[Step]:
    """Lists a step and the steps before it, back to the first."""
    found = [step]
    while found[-1].upstream is not None:
        found.append(found[-1].upstream)
    return found


def alignment(inputs: Step, target: Step) -> Step | None:
    """Returns the step at which both start such that a target belongs to each input; None if there is none.

    It is the nearest common step, if the targets of an input are those of its item there.
    """
    known = ancestors(inputs)
    return next((step for step in ancestors(target) if step in known), None)


def _fan_out_between(inputs: Step, target: Step) -> int | None:
    """Returns how many targets each input has; None if that varies."""
    common = alignment(inputs, target)
    total = 1
    for step in ancestors(target):
        if step is common:
            return total
        if step.is_sparse and step.operation == "hop":
            return None
        if step.operation != "end":
            total *= step.count or 0
    return total


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least

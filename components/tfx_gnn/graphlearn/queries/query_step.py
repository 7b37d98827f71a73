"""What all steps of a query have in common: settings, names, and the words that set how many are found and how."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from tfx_gnn.graphlearn.attribute_decoder import Decoder
from tfx_gnn.graphlearn.queries.conditions import Condition
from tfx_gnn.io.suggestions import did_you_mean

if TYPE_CHECKING:
    from tfx_gnn.graphlearn.queries.graph_store import GraphStore
    from tfx_gnn.graphlearn.queries.query import Query

NEIGHBOR_STRATEGIES = ("random", "random_without_replacement", "edge_weight", "topk", "in_degree", "full")
NEGATIVE_STRATEGIES = ("random", "in_degree", "node_weight", "conditional")
MAX_COUNT = 2**15 - 1  # draws are numbered in int16

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
    filters: list[Step] = dataclasses.field(default_factory=list)
    condition: tuple[Step, Condition] | None = None


class Step:
    """One step of a query: it finds nodes or edges of one type for each item of the step before.

    Attributes:
        kind: "node", "edge" or "subgraph".
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

    kind: Literal["node", "edge", "subgraph"] = "node"
    path: str
    path_start: str

    def __init__(
        self,
        draft: Draft,
        type_name: str,
        *,
        operation: Operation,
        upstream: Step | None,
        path: str,
        settings: Settings,
    ) -> None:
        """Adds a step to a draft; users call the words of the step before."""
        self.type = type_name
        self.operation: Operation = operation
        self.upstream = upstream
        self.settings = settings
        self.pos_downstreams: list[Step] = []
        self.neg_downstreams: list[Step] = []
        self.batch_size: int | None = None
        self.order: Literal["in_order", "shuffled", "random"] = "in_order"
        self.source_rows: npt.NDArray[np.int64] | None = None
        self.draft = draft
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
        return self.draft.store

    @property
    def root(self) -> Step:
        """The first step of the query."""
        return self.draft.steps[0]

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
        self.check_open("batch")
        if self.operation != "traverse":
            raise ValueError(f"`batch` must follow V or E; got it at {self.path}. Move it to the first step.")
        if not is_count(batch_size, 1):
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
        self.check_open("shuffle")
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
        self.check_open("sample")
        if self.operation not in ("hop", "negative"):
            raise ValueError(
                f"`sample` must follow outV, inV, outE, inE, outNeg, inNeg or Neg; got it at {self.path}. Remove it."
            )
        if not is_count(count, 0) or count > MAX_COUNT:
            raise ValueError(
                f"`count` must be an integer in [0, {MAX_COUNT}]; got {count!r} at {self.path}. Correct it."
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
        up by the store's `padding_mode`. A node without neighbors gets the default id. What has
        weight 0 is never drawn by weight; negative weights are refused, except for "topk".

        Args:
            strategy: one of these names.

        Returns:
            The step itself.

        Raises:
            ValueError: if `sample` is missing.
            StrategyError: if the strategy is unknown.
        """
        self.check_open("by")
        if self.settings.count is None or self.operation not in ("hop", "negative"):
            raise ValueError(f"`by` must follow `sample`; got it at {self.path}. Write .sample(10).by({strategy!r}).")
        known = NEIGHBOR_STRATEGIES if self.operation == "hop" else NEGATIVE_STRATEGIES
        if strategy not in known:
            raise StrategyError(
                f"`strategy` must be one of {list(known)}; got {strategy!r} at {self.path}. "
                f"{did_you_mean(strategy, known, otherwise='Choose one of them.')}"
            )
        has_edges = self.operation == "hop" or bool(self.settings.edge_type)
        if not has_edges and strategy not in ("node_weight", "random"):
            raise ValueError(
                f"`strategy` must be 'node_weight' or 'random' after Neg, which has no edge type; got {strategy!r} at "
                f"{self.path}. Use outNeg or inNeg."
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
        self.check_open("alias")
        if not isinstance(alias, str) or not alias:
            raise ValueError(f"`alias` must be a name; got {alias!r} at {self.path}. Write it as a string.")
        if alias in self.draft.aliases:
            raise ValueError(
                f"`alias` must be unique in a query; got {alias!r} at {self.path}, the name of "
                f"{self.draft.aliases[alias].path}. Choose another."
            )
        if self._alias:
            raise ValueError(
                f"`alias` must be given once a step; got {alias!r} at {self.path}, which is {self._alias!r}. "
                "Remove one."
            )
        self._alias = alias
        self.draft.aliases[alias] = self
        return self

    def each(self: _StepT, func: Callable[[_StepT], object]) -> _StepT:
        """Calls a function with the step, which may start several branches from it.

        Args:
            func: called once, with this step.

        Returns:
            The step itself.
        """
        self.check_open("each")
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

        self.check_open("values")
        query = Query(self.draft.store, tuple(self.draft.steps), dict(self.draft.aliases), func)
        self.draft.is_closed = True
        return query

    def check_open(self, word: str) -> None:
        """Refuses a word after `values`."""
        if self.draft.is_closed:
            raise ValueError(
                f"`{word}` must come before `values`, which closes the whole query; got it at {self.path}. Write the "
                "query again with all its steps."
            )

    def exclude(self, target: str | Step) -> None:
        """Keeps the nodes of another step out of the sample; see `NodeStep.filter`."""
        self.check_open("filter")
        if self.operation != "hop":
            raise ValueError(f"`filter` must follow outV, inV, outE or inE; got it at {self.path}. Remove it.")
        step = self.find_step("filter", target)
        neighbor_type = self.store.ends(self.settings.edge_type, backward=self.settings.is_backward)[1]
        if step.type != neighbor_type:
            raise ValueError(
                f"`target` must be a step of the type of the neighbors, {neighbor_type!r}; got {step.type!r} in "
                f"`filter` at {self.path}. Name another."
            )
        self.settings.filters.append(step)

    def find_step(self, word: str, target: str | Step) -> Step:
        """Returns the step that a word refers to, by its alias or itself."""
        step = self.draft.aliases.get(target) if isinstance(target, str) else target
        if step is None:
            raise ValueError(
                f"`target` must be an alias of an earlier step, {sorted(self.draft.aliases)}; got {target!r} in "
                f"`{word}` at {self.path}. Give the step that alias first."
            )
        if step.kind != "node" or step.draft is not self.draft:
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


def fan_out_between(inputs: Step, target: Step) -> int | None:
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


def is_count(value: object, least: int) -> bool:
    """Returns whether a value is an integer of at least `least`."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) >= least

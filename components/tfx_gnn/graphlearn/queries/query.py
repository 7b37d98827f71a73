"""A closed query: its steps by alias, and its batches, epoch after epoch.

For those who build on queries, such as a dataset of tensors:

- `query.aliases` lists the aliases in the order in which they were given; `query.get_step(alias)`
  is the `Step` with `kind` ("node" or "edge"), `type`, `operation`, `decoder`, `shape`, `count`,
  `is_sparse`, `upstream`, `pos_downstreams`, `neg_downstreams` and `get_alias()`.
- `query.batches(epoch=0)` is a plain iterator over one epoch. It yields what `func` of
  `values(func)` makes of each batch; `query.value_batches(epoch=0)` yields the dicts
  themselves, from alias to `Nodes`, `Edges`, `SparseNodes`, `SparseEdges` or `SampledSubGraphs`.
- `query.next()` goes on through the epochs and raises tf.errors.OutOfRangeError once at the
  end of each.
- `query.counts` tells how many ids are missing and how many negatives lack their condition.
"""

from __future__ import annotations

import collections
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfx_gnn.graphlearn.queries.execution import Execution
from tfx_gnn.graphlearn.queries.plan_of_query import plan_of_steps
from tfx_gnn.graphlearn.queries.query_step import Step
from tfx_gnn.io.suggestions import did_you_mean
from tfx_gnn.sampling.plan.plan import SamplingPlan
from tfx_gnn.sampling.random_choice import choice_keys, hop_key, mix

if TYPE_CHECKING:
    from tfx_gnn.graphlearn.queries.graph_store import GraphStore

_Rows = npt.NDArray[np.int64]


class Query:
    """A closed query on a `GraphStore`, which yields batches.

    Several threads may iterate at once, each with an iterator of its own, or share the batches of `next`. A copy by
    pickle goes on where `next` has stopped, if `func` can be pickled.

    Attributes:
        store: the graph.
        steps: all steps, in the order in which they were written.
        aliases: names of the results, in the order in which they were given.
        counts: by alias, counters over all batches so far: "missing", ids that stand in for
            no node or edge; "unconditional", negatives that were drawn without their
            condition because too few nodes meet it. Only counters above 0 are there.
    """

    def __init__(
        self,
        store: GraphStore,
        steps: tuple[Step, ...],
        aliases: dict[str, Step],
        func: Callable[[dict[str, Any]], Any] | None,
    ) -> None:
        """Checks that the steps are complete; users call `values` of a step.

        Args:
            store: the graph.
            steps: all steps; the first is the traversal.
            aliases: steps by alias.
            func: applied to the dict of each batch; None: the dict itself.

        Raises:
            ValueError: if no step has an alias, or a step is incomplete.
        """
        if not aliases:
            raise ValueError(
                f"`alias` must name at least one step, whose results the query yields; got none up to "
                f"{steps[-1].path}. Write .alias('seed') after the first step."
            )
        for step in steps:
            _check_complete(step)
        self.store = store
        self.steps = steps
        self.aliases = tuple(aliases)
        self.counts: dict[str, collections.Counter[str]] = {}
        self._aliased = aliases
        self._func = func
        self._epoch = 0
        self._num_taken = 0
        self._running: Iterator[dict[str, Any]] | None = None
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_running", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _running=None, _lock=threading.RLock())

    @property
    def root(self) -> Step:
        """The first step."""
        return self.steps[0]

    @property
    def batch_size(self) -> int:
        """Number of items in a full batch."""
        assert self.root.batch_size is not None
        return self.root.batch_size

    @property
    def num_batches(self) -> int | None:
        """Number of batches of an epoch; None if it never ends."""
        return None if self.root.order == "random" else -(-len(self._source) // self.batch_size)

    def get_step(self, alias: str) -> Step:
        """Returns the step with an alias.

        Args:
            alias: the alias.

        Returns:
            The step.

        Raises:
            ValueError: if no step has it.
        """
        if alias not in self._aliased:
            raise ValueError(
                f"`alias` must be one of {list(self.aliases)}; got {alias!r}. {did_you_mean(alias, self.aliases)}"
            )
        return self._aliased[alias]

    def batches(self, epoch: int = 0) -> Iterator[Any]:
        """Iterates over one epoch.

        Args:
            epoch: number of the epoch; shuffled orders and samples depend on it. At least 0.

        Yields:
            For each batch what `func` makes of the dict by alias; by default, the dict.
            Never ends after `shuffle()`, which draws with replacement.

        Raises:
            ValueError: if the epoch is not an integer of at least 0.
        """
        for values in self.value_batches(epoch):
            yield values if self._func is None else self._func(values)

    def value_batches(self, epoch: int = 0) -> Iterator[dict[str, Any]]:
        """Iterates over one epoch, without the `func` of `values`.

        Args:
            epoch: number of the epoch, at least 0.

        Yields:
            The dict by alias of each batch.

        Raises:
            ValueError: if the epoch is not an integer of at least 0.
        """
        if not isinstance(epoch, (int, np.integer)) or isinstance(epoch, bool) or epoch < 0:
            raise ValueError(f"`epoch` must be an integer of at least 0; got {epoch!r}. Count from 0.")
        yield from self._values_from(int(epoch), 0)

    def _values_from(self, epoch: int, first: int) -> Iterator[dict[str, Any]]:
        for rows, keys in itertools.islice(self._traverse(epoch), first, None):
            execution = Execution(rows, keys)
            values = {alias: execution.value(step) for alias, step in self._aliased.items()}
            with self._lock:
                for alias, step in self._aliased.items():
                    counted = execution.count(step)
                    if counted:
                        self.counts.setdefault(alias, collections.Counter()).update(counted)
            yield values

    def next(self) -> Any:
        """Returns the next batch, from epoch 0 on.

        Returns:
            What `func` makes of the dict by alias; by default, the dict.

        Raises:
            OutOfRangeError: of tf.errors, once at the end of each epoch; the next call returns
                the first batch of the next epoch.
        """
        with self._lock:
            if self._running is None:
                self._running = self._values_from(self._epoch, self._num_taken)
            try:
                values = next(self._running)
            except StopIteration:
                epoch, self._epoch, self._num_taken, self._running = self._epoch, self._epoch + 1, 0, None
                raise tf.errors.OutOfRangeError(
                    None, None, f"Epoch {epoch} of the query is over. Call `next` again for the next epoch."
                ) from None
            except BaseException:
                # An error ends the iterator, but not the epoch.
                self._running = None
                raise
            self._num_taken += 1
        # Outside of the iterator, which an error of `func` would end.
        return values if self._func is None else self._func(values)

    def to_plan(self) -> SamplingPlan:
        """Returns the sampling plan of the steps, to sample on Beam, to train and to serve.

        Hops are named after the aliases. A plan differs from a query in this: it always keeps the
        two ends of a seed edge out of each other's neighborhood; a node that several others lead
        to is expanded once, so that walks that meet go on together; negatives are never the true
        pair, "random" ones are drawn from all nodes of the type, and one for which too few nodes
        meet the condition is missing. Batches, shuffling and
        `func` belong to training, not to a plan.

        Returns:
            A node plan after V, with the label if there is one; a link plan after E, with times if
            the edges are timestamped, and with negatives or the label.

        Raises:
            ValueError: if a plan has nothing like one of the steps, which the message names.
        """
        return plan_of_steps(self.steps)

    @property
    def _source(self) -> _Rows:
        assert self.root.source_rows is not None
        return self.root.source_rows

    def _traverse(self, epoch: int) -> Iterator[tuple[_Rows, npt.NDArray[np.uint64]]]:
        """Yields the rows of each batch and a key for each."""
        root, size = self.root, self.batch_size
        codes = self.store.node_codes(root.type) if root.kind == "node" else self.store.edge_codes(root.type)
        none = np.zeros(1, np.uint64)

        def keys_of(name: str, codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
            return choice_keys(hop_key(self.store.sampling_seed, f"{name}/{root.path}/{epoch}"), none, codes)

        if root.order == "random":
            if not len(self._source):
                return
            number = 0
            while True:
                draws = np.arange(number, number + size, dtype=np.uint64)
                bits = keys_of("draw", mix(draws))
                rows = self._source[(bits % np.uint64(len(self._source))).astype(np.int64)]
                # The number of the draw is in the key, so that an item that is drawn again gets other samples.
                yield rows, mix(keys_of("traverse", codes[rows]) ^ bits)
                number += size
        rows = self._source
        if root.order == "shuffled":
            rows = rows[np.argsort(keys_of("shuffle", codes[rows]), kind="stable")]
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            yield batch, keys_of("traverse", codes[batch])


def _check_complete(step: Step) -> None:
    if step.operation == "traverse" and step.batch_size is None:
        raise ValueError(f"`batch` must follow V or E; got {step.path} without it. Write .batch(64), for example.")
    if step.operation not in ("hop", "negative"):
        return
    if step.settings.count is None:
        raise ValueError(f"`sample` must follow {step.path}; got the step without it. Write .sample(10).by('random').")
    if not step.settings.strategy:
        step.settings.strategy = "random"
    settings = step.settings
    if settings.count == 0 and settings.strategy != "full":
        raise ValueError(
            f"`count` must be at least 1 unless the strategy is 'full'; got 0 with {settings.strategy!r} at "
            f"{step.path}. Sample at least one."
        )
    # Weights are looked up now, so that a type without them is refused before the first batch.
    if step.operation == "hop" and settings.strategy in ("edge_weight", "topk"):
        step.store.edge_weights(settings.edge_type, are_ranks=settings.strategy == "topk")
    if step.operation == "negative":
        if settings.strategy == "node_weight":
            step.store.node_weights(step.type)
        if settings.strategy == "conditional" and settings.condition is None:
            raise ValueError(
                f"`where` must follow by('conditional'); got {step.path} without it. Write .where('positive', "
                "condition={...})."
            )

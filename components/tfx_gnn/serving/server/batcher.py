"""Answers requests that arrive at about the same time by one call of the model."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from tfx_gnn.serving.server.ids_input import AskedSeed, Item
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal
from tfx_gnn.serving.server.served_version import Answer, Outputs

_Argument = TypeVar("_Argument")
_Returned = TypeVar("_Returned")


class Answering(Protocol):
    """What answers several requests by one call, such as a signature of a model."""

    @property
    def is_batched(self) -> bool:
        """Whether requests of several clients may share a call."""
        ...

    def sample(self, items: Sequence[Item]) -> list[bytes] | Refusal:
        """Samples the examples of one request, which `answer` would do for several together."""
        ...

    def answer(self, requests: Sequence[Sequence[Item]]) -> list[Answer]:
        """Answers each request as if it were alone."""
        ...


class _Waiting:
    """A request that waits for its answer."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.result: asyncio.Future[Outputs] = asyncio.get_running_loop().create_future()
        self.since = time.monotonic()

    def end(self, answer: Outputs | BaseException) -> None:
        """Gives the request its answer, refusal or error, unless it was cancelled."""
        if self.result.done():
            return
        if isinstance(answer, BaseException):
            self.result.set_exception(answer)
        else:
            self.result.set_result(answer)


class Batcher:
    """Calls the model, or what samples for it, in threads; all methods are for one event loop.

    Each signature of each version has a queue. Its first requests become a batch when they fill one, or when the oldest
    has waited for `max_delay_ms`, and a thread is free. Requests to signatures that cannot share a call get one each.

    If nothing is going on, the example of a request about one seed is sampled while it waits for others. Their seeds
    are sampled together, as those of a batch always are: that takes less time for each.
    """

    def __init__(self, options: ServerOptions, metrics: ServerMetrics) -> None:
        self._max_batch_size = options.max_batch_size
        self._max_delay = options.max_delay_ms / 1000
        self._metrics = metrics
        self._threads = concurrent.futures.ThreadPoolExecutor(options.num_model_threads, "model")
        self._num_threads = self._num_free = options.num_model_threads
        self._queues: dict[Answering, collections.deque[_Waiting]] = {}
        self._alarm: asyncio.TimerHandle | None = None

    async def ask(self, signature: Answering, items: Sequence[Item]) -> Outputs:
        """Returns the outputs for one request; raises its refusal. A cancelled request leaves the queue."""
        waiting = _Waiting(items)
        if self._max_delay > 0 and signature.is_batched and self._is_idle and _is_one_seed(items):
            self._sample(signature, waiting)
        else:
            self._queue_of(signature).append(waiting)
            self._metrics.queued_requests.inc()
            self._dispatch()
        try:
            return await waiting.result
        except asyncio.CancelledError:
            queue = self._queues.get(signature)
            if queue and waiting in queue:
                queue.remove(waiting)
                self._metrics.queued_requests.dec()
            raise

    @property
    def _is_idle(self) -> bool:
        return self._num_free == self._num_threads and not any(self._queues.values())

    def _queue_of(self, signature: Answering) -> collections.deque[_Waiting]:
        return self._queues.setdefault(signature, collections.deque())

    def close(self) -> None:
        """Ends the threads after the calls that are running."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _dispatch(self) -> None:
        """Starts all batches that are due, and sets the alarm for the next one."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._queues = {signature: queue for signature, queue in self._queues.items() if queue}
        while self._num_free and any(self._queues.values()):
            # The queue whose first request has waited longest comes first, so none starves.
            in_order = sorted(
                ((queue[0].since, signature) for signature, queue in self._queues.items() if queue),
                key=lambda pair: pair[0],
            )
            now = time.monotonic()
            due = next((signature for since, signature in in_order if self._is_due(signature, since, now)), None)
            if due is None:
                delay = in_order[0][0] + self._max_delay - now
                self._alarm = asyncio.get_running_loop().call_later(max(delay, 0.0), self._dispatch)
                return
            self._start(due, self._take(due))

    def _is_due(self, signature: Answering, since: float, now: float) -> bool:
        if not signature.is_batched or now - since >= self._max_delay:
            return True
        return sum(len(waiting.items) for waiting in self._queues[signature]) >= self._max_batch_size

    def _take(self, signature: Answering) -> list[_Waiting]:
        queue = self._queues[signature]
        batch = [queue.popleft()]
        num_examples = len(batch[0].items)
        while signature.is_batched and queue and num_examples + len(queue[0].items) <= self._max_batch_size:
            batch.append(queue.popleft())
            num_examples += len(batch[-1].items)
        self._metrics.queued_requests.dec(len(batch))
        self._metrics.batch_examples.observe(num_examples)
        self._metrics.batch_requests.observe(len(batch))
        return batch

    def _sample(self, signature: Answering, waiting: _Waiting) -> None:
        """Samples the example of a request, which then joins the others."""

        def join(records: list[bytes] | Refusal) -> None:
            if isinstance(records, Refusal):
                waiting.end(records)
            elif not waiting.result.done():
                waiting.items = records
                self._queue_of(signature).appendleft(waiting)  # It came before those that are there.
                self._metrics.queued_requests.inc()

        self._call(signature.sample, waiting.items, [waiting], join)

    def _start(self, signature: Answering, batch: list[_Waiting]) -> None:
        def give(answers: list[Answer]) -> None:
            for waiting, answer in zip(batch, answers, strict=True):
                waiting.end(answer)

        self._call(signature.answer, [waiting.items for waiting in batch], batch, give)

    def _call(
        self,
        function: Callable[[_Argument], _Returned],
        argument: _Argument,
        asking: Sequence[_Waiting],
        then: Callable[[_Returned], None],
    ) -> None:
        """Calls a function in a thread for some requests, which get its error.

        The thread is busy until the function returns, even if the requests are cancelled.
        """
        call = asyncio.get_running_loop().run_in_executor(self._threads, function, argument)
        self._num_free -= 1

        def finish(done: asyncio.Future[_Returned]) -> None:
            self._num_free += 1
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            if error is None:
                then(done.result())
            else:
                for waiting in asking:
                    waiting.end(error)
            self._dispatch()

        call.add_done_callback(finish)


def _is_one_seed(items: Sequence[Item]) -> bool:
    return len(items) == 1 and isinstance(items[0], AskedSeed)

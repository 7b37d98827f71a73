"""Answers requests that arrive at about the same time by one call of the model."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import time
from collections.abc import Sequence
from typing import Protocol

from tfx_gnn.serving.server.ids_input import AskedSeed, Item
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal
from tfx_gnn.serving.server.served_version import Answer, Outputs


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
    """A request in a queue."""

    def __init__(self, items: Sequence[Item], result: asyncio.Future[Answer], since: float) -> None:
        self.items, self.result, self.since = items, result, since


class Batcher:
    """Calls the model, or what samples for it, in threads; all methods are for one event loop.

    Each signature of each version has a queue. Its first requests become a batch when they fill one, or when the oldest
    has waited for `max_delay_ms`, and a thread is free. Requests to signatures that cannot share a call get one each.

    If nothing is going on, the example of a request about one seed is sampled while it waits for others. These wait for
    it, and are sampled together, as the seeds of all requests of a batch are: that takes less time for each.
    """

    def __init__(self, options: ServerOptions, metrics: ServerMetrics) -> None:
        self._max_batch_size = options.max_batch_size
        self._max_delay = options.max_delay_ms / 1000
        self._metrics = metrics
        self._threads = concurrent.futures.ThreadPoolExecutor(options.num_model_threads, "model")
        self._num_threads = self._num_free = options.num_model_threads
        self._queues: dict[Answering, collections.deque[_Waiting]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._sampled: Answering | None = None  # for whose queue a request is being sampled

    async def ask(self, signature: Answering, items: Sequence[Item]) -> Outputs:
        """Returns the outputs for one request; raises its refusal. A cancelled request leaves the queue."""
        since = time.monotonic()
        is_sampled_now = self._max_delay > 0 and signature.is_batched and self._is_idle and _is_one_seed(items)
        if is_sampled_now:
            items = await self._sample(signature, items)
        waiting = _Waiting(items, asyncio.get_running_loop().create_future(), since)
        queue = self._queues.setdefault(signature, collections.deque())
        if is_sampled_now:
            queue.appendleft(waiting)  # It came before those that waited for it.
        else:
            queue.append(waiting)
        self._metrics.queued_requests.inc()
        self._dispatch()
        try:
            answer = await waiting.result
        except asyncio.CancelledError:
            if waiting in queue:
                queue.remove(waiting)
                self._metrics.queued_requests.dec()
            raise
        if isinstance(answer, Refusal):
            raise answer
        return answer

    @property
    def _is_idle(self) -> bool:
        return self._num_free == self._num_threads and not any(self._queues.values())

    async def _sample(self, signature: Answering, items: Sequence[Item]) -> Sequence[Item]:
        loop = asyncio.get_running_loop()
        self._sampled, self._num_free = signature, self._num_free - 1
        try:
            records = await loop.run_in_executor(self._threads, signature.sample, items)
        finally:
            self._sampled, self._num_free = None, self._num_free + 1
            # Whatever became of this request; if it goes on, it joins the others before.
            loop.call_soon(self._dispatch)
        if isinstance(records, Refusal):
            raise records
        return records

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
                (
                    (queue[0].since, signature)
                    for signature, queue in self._queues.items()
                    if queue and signature is not self._sampled
                ),
                key=lambda pair: pair[0],
            )
            if not in_order:
                return
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

    def _start(self, signature: Answering, batch: list[_Waiting]) -> None:
        self._num_free -= 1
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self._threads, signature.answer, [waiting.items for waiting in batch])

        def finish(done: asyncio.Future[list[Answer]]) -> None:
            self._num_free += 1
            error = asyncio.CancelledError() if done.cancelled() else done.exception()
            answers = [None] * len(batch) if error else done.result()
            for waiting, answer in zip(batch, answers, strict=True):
                if waiting.result.done():
                    continue  # It timed out.
                if answer is None:
                    assert error is not None
                    waiting.result.set_exception(error)
                else:
                    waiting.result.set_result(answer)
            self._dispatch()

        call.add_done_callback(finish)


def _is_one_seed(items: Sequence[Item]) -> bool:
    return len(items) == 1 and isinstance(items[0], AskedSeed)

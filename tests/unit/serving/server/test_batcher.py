"""Which requests share a call of the model."""

import asyncio
import threading
from typing import Any

import pytest

from tfx_gnn.serving.server.batcher import Batcher
from tfx_gnn.serving.server.ids_input import AskedSeed
from tfx_gnn.serving.server.metrics import ServerMetrics
from tfx_gnn.serving.server.options import ServerOptions
from tfx_gnn.serving.server.refusals import Refusal, malformed


class Signature:
    """Answers a request by its records, and notes what it is called with; calls of one kind may be held."""

    def __init__(self, *, is_batched=True, held=""):
        self.is_batched, self.held = is_batched, held
        self.calls = []
        self.go_on = threading.Event()

    def wait(self, name):
        assert name != self.held or self.go_on.wait(60)

    def sample(self, items):
        self.calls.append("sample")
        self.wait("sample")
        ids = [item.ids["seed"] for item in items]
        return malformed("unknown") if "nobody" in ids else [one.encode() for one in ids]

    def answer(self, requests):
        self.calls.append(requests)
        self.wait("answer")
        if any(b"broken" in request for request in requests):
            raise RuntimeError("broken")
        return [malformed("bad") if b"bad" in request else {"x": request} for request in requests]


def run(asking, **options) -> Any:
    async def ask_all():
        batcher = Batcher(ServerOptions(**options), ServerMetrics())
        try:
            return await asking(batcher)
        finally:
            batcher.close()

    return asyncio.run(ask_all())


def gather(signature, *requests, **options):
    return run(
        lambda batcher: asyncio.gather(
            *(batcher.ask(signature, list(request)) for request in requests), return_exceptions=True
        ),
        **options,
    )


def test_requests_share_calls_of_at_most_the_batch_size():
    signature = Signature()

    answers = gather(signature, [b"a"], [b"b", b"c"], [b"d"], [b"e"], max_batch_size=3, max_delay_ms=20.0)

    assert [answer["x"] for answer in answers] == [[b"a"], [b"b", b"c"], [b"d"], [b"e"]]
    assert signature.calls == [[[b"a"], [b"b", b"c"]], [[b"d"], [b"e"]]]


def test_larger_request_is_answered_alone():
    signature = Signature()

    gather(signature, [b"a"], [b"b", b"c", b"d"], [b"e"], max_batch_size=2, max_delay_ms=20.0)

    assert sorted(map(len, signature.calls)) == [1, 1, 1]


def test_signatures_whose_requests_cannot_share_calls_get_one_each():
    signature = Signature(is_batched=False)

    gather(signature, [b"a"], [b"b"], max_delay_ms=60_000.0)

    assert sorted(signature.calls) == [[[b"a"]], [[b"b"]]]


def seed(name):
    return AskedSeed(ids={"seed": name}, places={"seed": "here"}, place="here")


def test_idle_server_samples_while_a_request_waits_for_others():
    signature = Signature()

    answer, refused = (gather(signature, [seed(name)], max_delay_ms=20.0)[0] for name in ("ann", "nobody"))

    assert answer == {"x": [b"ann"]}
    assert isinstance(refused, Refusal)
    assert signature.calls == ["sample", [[b"ann"]], "sample"]


@pytest.mark.parametrize("name", ["ann", "nobody"])
def test_requests_that_come_while_one_is_sampled_share_its_call_and_are_sampled_together(name):
    signature, bob = Signature(held="sample"), seed("bob")

    async def ask(batcher):
        first = asyncio.ensure_future(batcher.ask(signature, [seed(name)]))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(batcher.ask(signature, [bob]))
        await asyncio.sleep(0)
        signature.go_on.set()
        return await asyncio.gather(first, second, return_exceptions=True)

    first, second = run(ask, max_delay_ms=20.0, num_model_threads=1)

    assert second == {"x": [bob]}
    assert signature.calls == ["sample", [[bob]] if isinstance(first, Refusal) else [[b"ann"], [bob]]]


def test_requests_wait_no_longer_than_the_delay_for_one_that_is_sampled():
    signature = Signature(held="sample")

    async def ask(batcher):
        hub = asyncio.ensure_future(batcher.ask(signature, [seed("hub")]))
        await asyncio.sleep(0)
        other = await batcher.ask(signature, [b"a"])
        signature.go_on.set()
        return other, await hub

    assert run(ask, num_model_threads=2) == ({"x": [b"a"]}, {"x": [b"hub"]})
    assert signature.calls == ["sample", [[b"a"]], [[b"hub"]]]


def test_thread_is_busy_until_the_sample_of_a_cancelled_request_ends():
    signature, bob = Signature(held="sample"), seed("bob")

    async def ask(batcher):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(batcher.ask(signature, [seed("ann")]), 0.01)
        others = [asyncio.ensure_future(batcher.ask(signature, [item])) for item in (bob, b"a")]
        await asyncio.sleep(0.01)
        signature.go_on.set()
        return await asyncio.gather(*others)

    assert run(ask, num_model_threads=1) == [{"x": [bob]}, {"x": [b"a"]}]
    assert signature.calls == ["sample", [[bob], [b"a"]]]


def test_requests_that_wait_for_a_thread_share_the_next_call():
    signature = Signature(held="answer")

    async def ask(batcher):
        first = asyncio.ensure_future(batcher.ask(signature, [b"a"]))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(batcher.ask(signature, [name])) for name in (b"b", b"c")]
        await asyncio.sleep(0)
        signature.go_on.set()
        await asyncio.gather(first, *others)

    run(ask, max_delay_ms=0.0, num_model_threads=1)

    assert signature.calls == [[[b"a"]], [[b"b"], [b"c"]]]


def test_refused_request_fails_alone_and_an_error_fails_its_call():
    signature = Signature()

    good, bad = gather(signature, [b"a"], [b"bad"], max_delay_ms=20.0)
    (broken,) = gather(signature, [b"broken"])

    assert good == {"x": [b"a"]}
    assert isinstance(bad, Refusal)
    assert isinstance(broken, RuntimeError)


def test_request_that_is_cancelled_leaves_the_queue():
    signature = Signature()

    async def ask(batcher):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(batcher.ask(signature, [b"late"]), 0.01)
        return await asyncio.gather(*(batcher.ask(signature, [name]) for name in (b"a", b"b")))

    run(ask, max_batch_size=2, max_delay_ms=60_000.0)

    assert signature.calls == [[[b"a"], [b"b"]]]

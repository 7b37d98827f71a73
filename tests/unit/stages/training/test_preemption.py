from __future__ import annotations

import signal
import threading

import pytest
import tensorflow as tf

from tfx_gnn.stages.training.preemption import StopSignal
from tfx_gnn.stages.training.training_loop import TrainingPosition

HERE = TrainingPosition()


@pytest.fixture
def said():
    return []


def _stop_signal(said, *signals):
    return StopSignal(strategy=tf.distribute.get_strategy(), signals=signals or (signal.SIGTERM,), say=said.append)


def test_signal_asks_for_a_stop_and_goes_back_to_its_owner(said):
    before = signal.getsignal(signal.SIGTERM)

    with _stop_signal(said) as stop:
        assert not stop.is_made(HERE)
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_made(HERE)
        # The next one is not ours any more.
        assert signal.getsignal(signal.SIGTERM) == before

    assert said == ["SIGTERM: training stops after this step. Once more ends it at once."]


def test_handlers_are_as_before_without_a_signal(said):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    with _stop_signal(said, signal.SIGTERM, signal.SIGINT) as stop:
        assert signal.getsignal(signal.SIGINT) not in before

    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert not stop.is_made(HERE)


def test_second_interrupt_raises_as_usual(said, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    # Processes that a shell put into the background ignore it.
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with _stop_signal(said, signal.SIGINT) as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_made(HERE)

        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_other_threads_leave_signals_alone(said):
    handlers = []

    def look():
        with _stop_signal(said):
            handlers.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert handlers == [before]

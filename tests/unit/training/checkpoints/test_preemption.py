from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
import tensorflow as tf

from tfx_gnn.training.checkpoints.preemption import StopSignal
from tfx_gnn.training.loop.training_loop import TrainingPosition

HERE = TrainingPosition()


@pytest.fixture
def said():
    return []


@pytest.fixture
def interrupts():
    """Sets the owner of SIGINT for a test: processes that a shell put into the background ignore it."""
    before = signal.getsignal(signal.SIGINT)
    yield lambda owner: signal.signal(signal.SIGINT, owner)
    signal.signal(signal.SIGINT, before)


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

    assert said == ["SIGTERM: training stops after this step and saves. A second signal ends it at once."]


def test_handlers_are_as_before_without_a_signal(said, interrupts):
    interrupts(signal.default_int_handler)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    with _stop_signal(said, signal.SIGTERM, signal.SIGINT) as stop:
        assert signal.getsignal(signal.SIGINT) not in before

    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert not stop.is_made(HERE)


def test_second_interrupt_goes_to_its_owner(said, interrupts):
    owned = []
    interrupts(lambda *_: owned.append("owner"))

    with _stop_signal(said, signal.SIGINT) as stop:
        signal.raise_signal(signal.SIGINT)
        assert (stop.is_made(HERE), stop.is_interrupt, owned) == (True, True, [])
        signal.raise_signal(signal.SIGINT)

    assert owned == ["owner"]


@pytest.mark.parametrize(("is_interactive", "second"), [(False, signal.SIG_DFL), (True, signal.default_int_handler)])
def test_second_interrupt_does_not_wait_for_python_unless_a_person_does(
    said, interrupts, monkeypatch, is_interactive, second
):
    interrupts(signal.default_int_handler)
    if is_interactive:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    else:
        monkeypatch.delattr(sys, "ps1", raising=False)

    with _stop_signal(said, signal.SIGINT):
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is second

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


RUN_ONE_STEP_FOR_EVER = """
import os
import signal
import tensorflow as tf
from tfx_gnn.training.checkpoints.preemption import StopSignal

def run():
    signal.alarm(60)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    step = tf.function(lambda: tf.while_loop(lambda i: i >= 0, lambda i: [tf.math.minimum(i + 1, 9)], [0]))
    step.get_concrete_function()
    with StopSignal(strategy=tf.distribute.get_strategy(), say=lambda line: print(line, flush=True)):
        print(os.getpid(), flush=True)
        step()

# Two processes import TensorFlow once.
for _ in range(2):
    child = os.fork()
    if not child:
        run()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_second_signal_ends_a_step_that_does_not_end():
    command = [sys.executable, "-W", "ignore", "-c", RUN_ONE_STEP_FOR_EVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                child = int(process.stdout.readline())
                os.kill(child, number)
                told = process.stdout.readline()
                os.kill(child, number)

                said = f"{number.name}: training stops after this step and saves. A second signal ends it at once.\n"
                assert told == said
                # If it was not in the step yet, the second signal found the system's own handler.
                assert int(process.stdout.readline()) in (128 + number, -number)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_ignored_interrupt_stays_ignored(said, interrupts):
    interrupts(signal.SIG_IGN)

    with _stop_signal(said, signal.SIGINT) as stop:
        signal.raise_signal(signal.SIGINT)
        assert not stop.is_made(HERE)

    assert said == []


def test_termination_is_no_interrupt(said):
    with _stop_signal(said) as stop:
        signal.raise_signal(signal.SIGTERM)

        assert (stop.is_made(HERE), stop.is_interrupt) == (True, False)


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

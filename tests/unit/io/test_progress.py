from __future__ import annotations

import io
import re
import threading
import time

import pytest
from rich.console import Console

from tfx_gnn.io import progress as progress_module
from tfx_gnn.io.progress import StageProgress, count_progress, progress, say, show_progress, shown_live


@pytest.fixture
def clock(monkeypatch):
    """Sets what `time.monotonic` says."""
    now = [100.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now[0])
    return now


def _measure_after(clock, stage, seconds, num):
    clock[0] += seconds
    stage(num)
    stage.measure()


def test_text_tells_share_remaining_time_count_and_rate(clock):
    stage = StageProgress("sampling", total=2000, unit="examples")

    _measure_after(clock, stage, 2, 500)

    assert stage.text() == "sampling 25 %, 0:06 left, 500/2,000 examples, 250/s"


def test_what_an_earlier_run_has_done_counts_as_done_but_not_as_speed(clock):
    stage = StageProgress("sampling", total=1000, unit="examples", done=800)

    _measure_after(clock, stage, 5, 100)

    assert stage.text() == "sampling 90 %, 0:05 left, 900/1,000 examples, 20/s"


def test_text_without_a_total_tells_count_and_rate(clock):
    stage = StageProgress("transform", unit="examples")

    _measure_after(clock, stage, 10, 1200)

    assert stage.text() == "transform 1,200 examples, 120/s"


def test_bytes_are_shown_as_megabytes(clock):
    stage = StageProgress("evaluation", total=4_000_000, unit="bytes")

    _measure_after(clock, stage, 2, 1_000_000)

    assert stage.text() == "evaluation 25 %, 0:06 left, 1.0/4.0 MB, 0.5 MB/s"


def test_total_is_found_out_only_where_it_is_shown():
    with progress("evaluation", total=lambda: pytest.fail("found out")):
        pass

    with show_progress(Console(file=io.StringIO())), progress("evaluation", total=lambda: 3) as stage:
        assert stage.total == 3


def test_text_of_what_is_not_counted_here_tells_how_long_it_takes(clock):
    stage = StageProgress("3/9 GraphTransform", total=7)

    _measure_after(clock, stage, 3725, 0)

    assert stage.text() == "3/9 GraphTransform, 1:02:05 so far"


def test_total_that_was_too_low_is_never_exceeded(clock):
    stage = StageProgress("training", total=10, unit="steps")

    _measure_after(clock, stage, 1, 20)

    assert stage.text() == "training 100 %, 0:00 left, 20/20 steps, 20/s"


def test_rate_is_that_of_the_last_minute_unless_little_happened_there(clock):
    stage = StageProgress("tuning", total=1000)

    _measure_after(clock, stage, 100, 100)
    _measure_after(clock, stage, 61, 610)
    assert stage.rate == 10.0
    _measure_after(clock, stage, 61, 5)
    assert stage.rate == pytest.approx(715 / 222)


def test_notes_are_made_at_most_twice_a_second(clock):
    stage, made = StageProgress("training"), []

    for seconds in (0.0, 0.4, 0.2):
        clock[0] += seconds
        stage(note=lambda: made.append(clock[0]) or f"loss {len(made)}")

    assert made == pytest.approx([100.0, 100.6])
    assert stage.text() == "training 3, loss 2"


def test_nothing_is_counted_or_shown_unless_asked_for(capfd):
    before = threading.active_count()

    with progress("sampling", total=3) as advance:
        advance(2, note=lambda: pytest.fail("made a note"))
        count_progress("", 1)

    assert advance.done == 0
    assert threading.active_count() == before
    assert capfd.readouterr() == ("", "")


def test_all_threads_count(monkeypatch):
    with (
        show_progress(Console(file=io.StringIO())),
        progress("outer") as outer,
        progress("transform", unit="examples") as advance,
    ):
        threads = [
            threading.Thread(target=lambda: [count_progress("examples", 2) for _ in range(1000)]) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert (advance.done, outer.done) == (8000, 0)


def _wait_for(text, pattern):
    deadline = time.monotonic() + 10
    while not (found := re.search(pattern, text.getvalue())) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_log_gets_a_line_from_time_to_time_about_all_stages(monkeypatch):
    monkeypatch.setattr(progress_module, "_SECONDS_BETWEEN_LINES", 0.01)
    text = io.StringIO()

    with show_progress(Console(file=text, width=20)), progress("tuning", total=4) as tuning, progress("training"):
        tuning.note = "trial [red]3[/red]"
        assert not shown_live()
        assert _wait_for(text, r"\n")

    line = text.getvalue().splitlines()[0]
    assert line == "tuning, 0:00 so far, trial [red]3[/red]; training, 0:00 so far"


@pytest.mark.parametrize("width", [200, 60, 20])
def test_terminal_shows_bars_that_fit_and_lines_above_them(monkeypatch, width):
    monkeypatch.setattr(progress_module, "_SECONDS_BETWEEN_DRAWINGS", 0.01)
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, force_interactive=True, width=width, color_system=None)

    with show_progress(console), progress("sampling", total=4, unit="examples") as advance:
        advance(1)
        assert shown_live()
        assert _wait_for(text, "sampling 25 %")
        say("trial 1: loss 0.5")

    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.getvalue())
    lines = re.split(r"[\r\n]+", plain)
    assert "trial 1: loss 0.5" in lines
    assert max(map(len, lines)) <= width
    assert ("━" in plain) == (width >= 60)
    assert ("1/4 examples" in plain) == (width >= 60)


def test_terminal_that_cannot_move_its_cursor_gets_lines(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")

    with show_progress(Console(file=io.StringIO(), force_terminal=True)):
        assert not shown_live()


@pytest.mark.parametrize("is_live", [True, False])
def test_closed_output_does_not_end_the_stage(monkeypatch, is_live):
    class Closed(io.StringIO):
        def write(self, _):
            raise OSError("closed")

    monkeypatch.setattr(progress_module, "_SECONDS_BETWEEN_LINES", 0.01)
    monkeypatch.setattr(progress_module, "_SECONDS_BETWEEN_DRAWINGS", 0.01)
    console = Console(file=Closed(), force_terminal=is_live, force_interactive=is_live)

    with show_progress(console) as display, progress("sampling") as advance:
        advance(1)
        display._thread.join(10)
        assert not display._thread.is_alive()
        advance(1)

    assert advance.done == 2


def test_without_a_display_lines_go_to_stderr(capfd):
    say("epoch 1/2 [loss] 0.5")

    assert capfd.readouterr() == ("", "epoch 1/2 [loss] 0.5\n")

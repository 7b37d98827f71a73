from __future__ import annotations

import io
import logging

import pytest
from absl import logging as absl_logging
from rich.console import Console

from tfx_gnn.io.progress import progress
from tfx_gnn_pipelines.progress import component_progress


@pytest.fixture
def terminal():
    return Console(file=io.StringIO(), width=80)


@pytest.mark.parametrize("word", ["Component", "node"], ids=["LocalDagRunner", "BeamDagRunner"])
def test_each_component_shows_position_and_what_happened(terminal, word):
    with component_progress(["First", "SecondOne"], terminal):
        absl_logging.info(f"{word} %s is running.", "First")
        absl_logging.info("A cached execution %d is used.", 3)
        absl_logging.info(f"{word} %s is finished.", "First")
        absl_logging.info(f"{word} %s is running.", "SecondOne")
        absl_logging.info("Going to run a new execution %d", 4)
        absl_logging.info(f"{word} %s is finished.", "SecondOne")

    assert terminal.file.getvalue().splitlines() == [
        "= 1/2 First      cached",
        "  2/2 SecondOne  running ...",
        "+ 2/2 SecondOne  done in 0.0 s",
    ]


def test_terminal_shows_the_running_component_in_its_display():
    terminal = Console(file=io.StringIO(), force_terminal=True, force_interactive=True, width=80)
    with component_progress(["First"], terminal):
        absl_logging.info("Component %s is running.", "First")
        absl_logging.info("Going to run a new execution %d", 4)
        with progress("sampling", total=2) as advance, progress("other"):
            advance(1)
        absl_logging.info("Component %s is finished.", "First")
        with progress("sampling"):
            pass

    assert "running ..." not in terminal.file.getvalue()
    assert "+ 1/1 First  done in 0.0 s" in terminal.file.getvalue()


def test_what_is_known_meanwhile_is_printed_between_two_components(terminal):
    with component_progress(["First"], terminal, before=lambda name: terminal.print(f"before {name}")):
        absl_logging.info("Component %s is running.", "First")
        absl_logging.info("Going to run a new execution %d", 4)
        absl_logging.info("Component %s is finished.", "First")

    assert terminal.file.getvalue().splitlines()[:2] == ["before First", "  1/1 First  running ..."]


def test_failed_component_is_named(terminal):
    with component_progress(["First"], terminal) as handler:
        absl_logging.info("Component %s is running.", "First")
        handler.fail()

    assert terminal.file.getvalue() == "x 1/1 First  failed after 0.0 s\n"


def test_failure_outside_a_component_prints_nothing(terminal):
    with component_progress(["First"], terminal) as handler:
        handler.fail()

    assert terminal.file.getvalue() == ""


def test_other_records_are_dropped_without_being_formatted(terminal):
    class Unprintable:
        def __str__(self):
            raise AssertionError("formatted")

    with component_progress(["First"], terminal):
        absl_logging.info("Running launcher for %s", Unprintable())

    assert terminal.file.getvalue() == ""


@pytest.mark.parametrize("shown", [True, False])
def test_warnings_are_shown_if_asked_for(terminal, capsys, shown):
    with component_progress(["First"], terminal, show_warnings=shown):
        absl_logging.warning("mind the %s", "gap")

    assert capsys.readouterr().err == ("mind the gap\n" if shown else "")


def test_logging_is_afterwards_as_it_was(terminal):
    logger = logging.getLogger("absl")
    before = absl_logging.get_verbosity(), logger.handlers[:], logger.propagate

    with component_progress(["First"], terminal):
        assert absl_logging.get_verbosity() == absl_logging.INFO

    assert (absl_logging.get_verbosity(), logger.handlers[:], logger.propagate) == before

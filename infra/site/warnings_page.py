"""The page of all warnings of a run, docs/warnings.md, from the registry of their kinds and the validator's checks.

    python infra/site/warnings_page.py > docs/warnings.md

The page is committed, so that it can be read in the repository and linked to. tests/unit/guide/test_warnings_page.py
holds it to the code.
"""

from __future__ import annotations

import itertools
import sys
import textwrap

from tfx_gnn.components.graph_example_validator.checks import CHECKS
from tfx_gnn.records.warning_kinds import KINDS_BY_NAME

_ABOUT = """# What a run's warnings mean

A warning is something that a step found wrong and did not refuse. A run prints all of them at its end, and its
[page](pages.md) shows them at the top, the most severe first. Each ends with a name in brackets, such as
`[no_gain_over_trees]`, which is an entry here. Lines of a step's log, which `--debug` shows, are not among them, and
neither are the remarks of `tfx-gnn explain`.

This page is made of the code: `python infra/site/warnings_page.py > docs/warnings.md`.
"""
_STEPS = {
    "GraphEvaluator": "Of the evaluation",
    "GraphTrainer": "Of the training",
    "SizeConstraintLearner": "Of padding budgets",
    "GraphSkewValidator, GraphPusher": "Of serving",
    "check": "Of the check before a run",
    "run": "Of the command itself",
}
_CHECKS = """## Of the examples

The checks of GraphExampleValidator, by their names. One of severity error keeps the
model from being trained; `graph_example_validator: {severities: {NAME: warning}}` changes that, and `off` leaves the
check out.

| name | severity | what it found | what to do |
|---|---|---|---|
"""


def page() -> str:
    """The page's text."""
    parts = [_ABOUT]
    for step, kinds in itertools.groupby(KINDS_BY_NAME.values(), key=lambda kind: kind.step):
        parts.append(f"## {_STEPS[step]}\n")
        for kind in kinds:
            parts += [f"### {kind.name}\n", _filled(kind.meaning), _filled(f"**What to do:** {kind.remedy}")]
    rows = [f"| `{name}` | {check.severity} | {check.summary} | {check.advice} |\n" for name, check in CHECKS.items()]
    return "\n".join([*parts, _CHECKS + "".join(rows)])


def _filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())

"""docs/how_to/other_libraries.md: each block runs alone, as it is pasted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how_to" / "other_libraries.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(("block", "printed"), list(zip(BLOCKS, ("amount", "Mr. Hi"), strict=True)))
def test_blocks_run_as_they_are_pasted(block, printed, capsys):
    exec(compile(block, str(PAGE), "exec"), {})  # noqa: S102 - the page's own code.

    assert printed in capsys.readouterr().out

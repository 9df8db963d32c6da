"""The guide on types: its programs run, and it lists what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "types.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("upto", range(len(PROGRAM.findall(GUIDE.read_text(encoding="utf-8")))))
def test_the_programs_of_the_guide_run(upto: int) -> None:
    """One after the other, each with the names of those before it."""
    text = GUIDE.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "guide"}
    for program in PROGRAM.findall(text)[: upto + 1]:
        code = compile(program, str(GUIDE), "exec", dont_inherit=True)
        exec(code, names)

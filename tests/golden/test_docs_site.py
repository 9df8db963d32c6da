"""The site of the documentation: it is built without a warning, and every page is in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """A link to nowhere, a page that no section names, a docstring that is no text: errors."""
    command = [sys.executable, "docs/site/build.py", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    for page in ("index.html", "guides/testing/index.html", "api/mustela.windows/index.html"):
        assert (site / page).is_file(), page
    lanes = (site / "concepts/lanes/index.html").read_text(encoding="utf-8")
    assert "_images/lanes.svg" in lanes
    assert (site / "_images/lanes.svg").is_file()
    assert 'id="mustela.App"' in (site / "api/mustela/index.html").read_text(encoding="utf-8")
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    assert "](guides/first_steps/): " in listed

"""The reference page of the settings says what the model says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.config.reference import render_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_the_settings_page_is_what_the_model_says(request: pytest.FixtureRequest) -> None:
    """docs/reference/settings.md is generated; nobody edits it by hand."""
    text = render_reference()
    if request.config.getoption("--golden-update"):
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == text, "write it anew with: ./dev golden-update -k settings_page"

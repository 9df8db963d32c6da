"""The reference page of the metrics says what the catalogue says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mustela.admin.reference import render_metrics

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_the_metrics_page_is_what_the_catalogue_says(request: pytest.FixtureRequest) -> None:
    """docs/reference/metrics.md is generated; nobody edits it by hand."""
    text = render_metrics()
    if request.config.getoption("--golden-update"):
        PAGE.write_text(text, encoding="utf-8")
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == text, "write it anew with: ./dev golden-update -k metrics_page"

"""A Chromium without a window, for tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

_CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
_DRIVER = shutil.which("chromedriver")

IN_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.skipif(not (_CHROMIUM and _DRIVER), reason="needs chromium and chromedriver"),
]
_Test = TypeVar("_Test", bound=Callable[..., None])


def in_chromium(test: _Test) -> _Test:
    """Mark one test; a module has ``pytestmark = IN_CHROMIUM``."""
    for mark in IN_CHROMIUM:
        test = mark(test)
    return test


@contextmanager
def chromium() -> Iterator[Any]:
    """Start it; it reaches nothing but 127.0.0.1, and keeps what it logs."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = _CHROMIUM or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1440,900")
    # Nothing but loopback can be reached, nor its name be looked up.
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(_DRIVER))
    try:
        yield made
    finally:
        made.quit()

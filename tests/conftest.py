"""What all tests share: Hypothesis profiles, golden files, a broker and a Spark context."""

from __future__ import annotations

import difflib
import gc
import os
from collections.abc import Callable, Generator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

if find_spec("mustela_dev") is None:
    why = "mustela-dev, the second distribution of this repository, is not installed here"
    raise ModuleNotFoundError(f"{why}; type: ./dev env", name="mustela_dev")

pytest_plugins = ["tests.broker_fixture", "tests.lanes", "tests.spark_fixture"]

# Tests measure and look at processes: nothing else is to be made in the background.
os.environ.setdefault("MUSTELA__CLASS_ARCHIVE", "false")

GOLDEN_DIR = Path(__file__).parent / "golden" / "files"

# No deadlines: a slow machine is not a wrong program. "quick" repeats the same examples each run.
_SLOW_IS_FINE = (HealthCheck.too_slow,)
settings.register_profile(
    "quick", max_examples=5, deadline=None, derandomize=True, suppress_health_check=_SLOW_IS_FINE
)
# What has to pass before a change goes in finds the same each time; new examples are looked for
# with the other two, whose findings become tests: `./dev properties`.
settings.register_profile(
    "full", max_examples=50, deadline=None, derandomize=True, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "random", max_examples=200, deadline=None, print_blob=True, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "long", max_examples=5000, deadline=None, print_blob=True, suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile("full")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the switch that writes golden files instead of comparing with them."""
    parser.addoption(
        "--golden-update", action="store_true", help="write the golden files in tests/golden/files"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the cycle collector, which would look at each new module's code for nothing.

    A third of the time of collecting is spared. What is there then stays till the end.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, object, object]:
    """Refuse that a test leaves the collector off for all that follow it in its process."""
    result = yield
    if not gc.isenabled():
        gc.enable()
        pytest.fail("the garbage collector is off after this test: let it be enabled again")
    return result


def pytest_sessionfinish() -> None:
    """Delete what applications left that tests have killed."""
    from mustela.spark.scratch import clear_scratch

    clear_scratch()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a golden file: ``golden("describe/word_count.txt", text)``."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN_DIR / name
        text = text if text.endswith("\n") else text + "\n"
        if request.config.getoption("--golden-update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if text != expected:
            diff = "\n".join(
                difflib.unified_diff(
                    expected.splitlines(), text.splitlines(), f"golden {name}", "now", lineterm=""
                )
            )
            pytest.fail(
                f"{diff}\n\nIf the new text is right, write it with:\n"
                f"  ./dev golden-update -k {request.node.originalname}",
                pytrace=False,
            )

    return compare

"""``./dev compat``: run the tests that need no JVM, and write docs/compat/matrix.md from them."""

from __future__ import annotations

import sys

import pytest

from tests.compat.matrix import PAGE, names_of, render
from tests.compat.trace import Trace

_TESTS = ("tests/conformance", "tests/unit", "tests/golden", "tests/typing")
_TESTS_MAX = 2


def main() -> int:
    """Run, write, and return the exit code."""
    trace = Trace(names_of())
    arguments = ["-q", "--hypothesis-profile=quick", "--doctest-modules", "-p", "no:cacheprovider"]
    arguments += ["-m", "not spark and not broker and not crash and not slow"]
    code = pytest.main([*arguments, *_TESTS, "src/mustela"], plugins=[trace])
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(render(lambda name: trace.chosen(name, _TESTS_MAX)), encoding="utf-8")
    for name in sorted(trace.missing):
        print(f"the library has no {name}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())

"""``./dev compat``: run the tests that need no JVM, and write docs/compat from them."""

from __future__ import annotations

import sys

import pytest

from tests.compat import divergences
from tests.compat.matrix import PAGE, names_of, render
from tests.compat.trace import Trace

_TESTS = ("tests/conformance", "tests/unit", "tests/golden")
_TESTS_MAX = 2


def main() -> int:
    """Run, write, and return the exit code."""
    trace = Trace(names_of())
    arguments = ["-q", "--hypothesis-profile=quick", "-p", "no:cacheprovider"]
    arguments += ["-m", "not spark and not broker and not crash and not slow"]
    code = pytest.main([*arguments, *_TESTS], plugins=[trace])
    examples = ["-q", "-p", "no:cacheprovider", "--doctest-modules", "src/mustela"]
    code = pytest.main(examples, plugins=[trace]) or code
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    divergences.PAGE.write_text(divergences.page(), encoding="utf-8")
    PAGE.write_text(render(lambda name: trace.chosen(name, _TESTS_MAX)), encoding="utf-8")
    for name in sorted(trace.missing):
        print(f"the library has no {name}")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())

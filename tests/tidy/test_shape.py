"""How long files and functions may be, what they are called, and what they may not call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.tidy.conftest import Source

FILE_LINES_MAX = 600
LONG_FILE_LINES_MAX = 900
LONG_ROOMS = {"api", "dsl"}
FUNCTION_LINES_MAX = 70
CHARTER_LINES_MAX = 10
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}

# Calls that run bytes or text as code, and the places that may hold one, each with its reason.
CODE_FROM_DATA = {
    "eval",
    "exec",
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "marshal.loads",
}
MAY_RUN_CODE_FROM_DATA = {
    "src/mustela/kernel/processors/transact.py": "the rows of an epoch, packed by its own lanes",
    "src/mustela/plan/expression.py": "the text of a function that came as code beside it",
    "src/mustela/plan/user_code.py": "the program's own sources, sent by its driver with a sum",
    "src/mustela/spark/frames.py": "frames travel inside one Spark job and never outlive it",
    "src/mustela/topology/written_fold.py": "functions are written from a table of our own lines",
}

# The one file of the kernel that knows what event time means to an application.
CLOCKS = "src/mustela/kernel/core/event_time.py"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def lines_without_docstring(function: Function) -> int:
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        docstring = function.body[0]
        length -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return length


def dotted(node: ast.expr) -> str:
    """Render ``a.b.c``; anything else gives an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        left = dotted(node.value)
        return f"{left}.{node.attr}" if left else ""
    return ""


def test_files_are_short(sources: list[Source]) -> None:
    """A file has at most 600 lines, one of what users write 900: its docstrings are long."""
    long = []
    for source in sources:
        limit = LONG_FILE_LINES_MAX if source.room in LONG_ROOMS else FILE_LINES_MAX
        count = len(source.text.splitlines())
        if count > limit:
            long.append(f"{source.name}: {count} lines, limit {limit}")
    assert not long, "\n".join(long)


def test_functions_are_short(sources: list[Source]) -> None:
    """A function has at most 70 lines, its docstring not counted."""
    long = [
        f"{source.name}:{function.lineno}: {function.name} has {length} lines"
        for source in sources
        for function in functions(source.tree)
        if (length := lines_without_docstring(function)) > FUNCTION_LINES_MAX
    ]
    assert not long, "\n".join(long)


def test_room_files_hold_a_charter_and_nothing_else(library: list[Source]) -> None:
    """An ``__init__`` below the root imports nothing: a room loads without its neighbours."""
    wrong = []
    for source in library:
        if source.path.name != "__init__.py" or source.room == "__init__":
            continue
        if source.name.endswith("testing/__init__.py"):  # a room whose names users import
            continue
        charter = ast.get_docstring(source.tree)
        if charter is None or len(source.tree.body) != 1:
            wrong.append(f"{source.name}: holds more, or less, than a docstring")
        elif len(charter.splitlines()) > CHARTER_LINES_MAX:
            wrong.append(f"{source.name}: the charter is longer than {CHARTER_LINES_MAX} lines")
    assert not wrong, "\n".join(wrong)


def test_modules_are_named_for_what_they_hold(sources: list[Source]) -> None:
    """No module is called utils, helpers, common or the like."""
    vague = [source.name for source in sources if source.path.stem in VAGUE_NAMES]
    assert not vague, "\n".join(vague)


def test_operators_do_not_ask_which_clock_they_have(library: list[Source]) -> None:
    """They are given one when they open, and what differs is in it."""
    asking = [
        f"{source.name}:{node.lineno}"
        for source in library
        if source.name.startswith("src/mustela/kernel/") and source.name != CLOCKS
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and dotted(node).endswith("options.event_time")
    ]
    assert not asking, f"{asking}: use operator.event_clock, or by_event_time in {CLOCKS}"


def test_data_is_not_run_as_code(library: list[Source]) -> None:
    """``eval``, ``exec`` and unpickling stand only where the list above gives a reason."""
    found: dict[str, list[str]] = {}
    for source in library:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Name | ast.Attribute) and dotted(node) in CODE_FROM_DATA:
                found.setdefault(source.name, []).append(f"{source.name}:{node.lineno}")
    undeclared = [
        place for name in found if name not in MAY_RUN_CODE_FROM_DATA for place in found[name]
    ]
    assert not undeclared, "\n".join(undeclared)


def test_a_todo_names_its_issue(sources: list[Source]) -> None:
    """A note for later says where it is tracked: ``TODO #12: …``."""
    note = re.compile(r"#.*\b(TODO|FIXME|XXX)\b(?! #\d+)")
    loose = [
        f"{source.name}:{number}"
        for source in sources
        for number, line in enumerate(source.text.splitlines(), start=1)
        if note.search(line) and not source.name.startswith("tests/tidy/")
    ]
    assert not loose, "\n".join(loose)


def test_an_expected_failure_says_why(sources: list[Source]) -> None:
    """An xfail's reason starts with notimpl, notyet or never."""
    silent = []
    for source in sources:
        for node in ast.walk(source.tree):
            if not (isinstance(node, ast.Call) and dotted(node.func).endswith("mark.xfail")):
                continue
            reasons = [k.value for k in node.keywords if k.arg == "reason"]
            text = reasons[0].value if reasons and isinstance(reasons[0], ast.Constant) else ""
            if not re.match(r"(notimpl|notyet|never)\b", str(text)):
                silent.append(f"{source.name}:{node.lineno}")
    assert not silent, "\n".join(silent)


def test_quick_tests_do_not_sleep(sources: list[Source]) -> None:
    """A test without a real broker has no reason to wait for wall-clock time."""
    quick = ("tests/unit/", "tests/conformance/", "tests/golden/", "tests/typing/", "tests/tidy/")
    asleep = [
        f"{source.name}:{node.lineno}"
        for source in sources
        if source.name.startswith(quick)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call) and dotted(node.func) in {"time.sleep", "sleep"}
    ]
    assert not asleep, "\n".join(asleep)

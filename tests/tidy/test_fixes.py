"""What errors advise exists: commands with their options, settings, and tests that follow them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest
from cyclopts import App, CycloptsError
from pydantic import BaseModel

from mustela.cli.main import command_line
from mustela.config.clients import is_client_property
from mustela.config.registry import registry_properties
from mustela.config.settings import Settings
from mustela.errors import InvariantError, MustelaError, all_codes
from mustela_dev.broker.tools import TOOLS
from tests.following import all_followed
from tests.golden.test_errors_reference import render
from tests.tidy.fix_texts import HOLE, Text, commands, fixes

if TYPE_CHECKING:
    from tests.tidy.conftest import Source

ROOT = Path(__file__).parents[2]
FOLLOWED = Path(__file__).with_name("followed_fixes.toml")
# Settings of brokers and topics that a fix may name, and a keyword of the builder's.
KAFKAS_OWN = {
    "max.message.bytes",
    "retention.bytes",
    "retention.ms",
    "transaction.max.timeout.ms",
}
_NAME = r"((?:kafka\.)?[a-z]+(?:[._][a-z]+)+)"
_SETTING = re.compile(
    rf"\b(?:[Ss]et|raise|lower|correct|check) {_NAME}\b|\b{_NAME}(?= (?:= |says ))"
    r"|\b(kafka\.[a-z._]+\w)"
)
_PYTHON = re.compile(r"[a-z]+_[a-z_]+=|\(")


@pytest.fixture(scope="module")
def advice(library: list[Source]) -> list[Text]:
    """Every text that is given as the fix of an error."""
    return [text for source in library for text in fixes(source)]


@pytest.fixture(scope="module")
def command() -> App:
    """The commands as users have them."""
    return command_line()


def settings_of(model: type[BaseModel], prefix: str = "") -> set[str]:
    names: set[str] = set()
    for name, field in model.model_fields.items():
        names.add(prefix + name)
        inner = field.annotation
        for kind in (inner, *get_args(inner)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                names |= settings_of(kind, f"{prefix}{name}.")
    return names


def typed(app: App, words: list[str]) -> list[str]:
    """Return what of some words is a command line; what is not said in prose is filled in."""
    line: list[str] = []
    at = app
    rest = list(words)
    while rest and rest[0] in at:
        line.append(rest[0])
        at = at[rest.pop(0)]
    while rest and (rest[0].startswith("--") or HOLE in rest[0] or ":" in rest[0]):
        word = rest.pop(0)
        line.append(word)
        if word.startswith("--") and rest and not rest[0].startswith("--"):
            value = rest[0].rstrip(".")
            if value == HOLE or value.isdigit() or "-" in value or "=" in value:
                line.append("1" if value == HOLE else value)
                rest.pop(0)
    return line


def refusal(app: App, line: list[str]) -> str | None:
    """Return why the command line is refused, or None; a positional may be left to the reader."""
    said = ""
    for positional in ([], ["app:app"], ["app:app", "app:app"], ["t", "0", "0"]):
        try:
            app.parse_args([*line, *positional], exit_on_error=False, print_error=False)
        except CycloptsError as error:
            said = said or str(error)
        else:
            return None
    return said


def test_every_command_that_a_fix_names_exists_with_its_options(
    advice: list[Text], command: App
) -> None:
    """Parsed by the command line itself; Kafka's own tools are at least known."""
    wrong: list[str] = []
    for text in advice:
        for words in commands(text):
            if words[0] in TOOLS:
                continue
            line = typed(command, words)
            if not line:
                if words[0] != "with":  # "install mustela with pip"
                    wrong.append(f"{text.place}: no command 'mustela {words[0]}'")
                continue
            said = refusal(command, line)
            if said is not None:
                wrong.append(f"{text.place}: mustela {' '.join(line)}: {said}")
    assert not wrong, "\n".join(wrong)


def test_the_check_of_commands_finds_what_does_not_exist(command: App) -> None:
    """A command, an option and a value that are not there; and what is there passes."""
    names = ["mustela heal", "mustela reset --gently", "mustela reset --offsets keep-all"]
    for name in names:
        (words,) = commands(Text("here", name))
        line = typed(command, words)
        assert not line or refusal(command, line) is not None, name
    for name in ("mustela reset clears it", "run mustela topics create X --partitions 6; or not"):
        (words,) = commands(Text("here", name))
        assert refusal(command, typed(command, words)) is None, name


def test_every_setting_that_a_fix_names_exists(advice: list[Text]) -> None:
    """Mustela's own, a client's by its own name, or one of Kafka's brokers and topics."""
    known = settings_of(Settings) | KAFKAS_OWN
    known |= {f"schema.registry.{name}" for name in registry_properties()}
    wrong: list[str] = []
    for text in advice:
        if _PYTHON.search(text.body):
            continue  # it shows code
        for found in _SETTING.finditer(text.body):
            name = found[1] or found[2] or found[3]
            inner = name.removeprefix("kafka.").replace("_", ".")
            client = is_client_property(inner)
            if name not in known and not client and not name.startswith("spark."):
                wrong.append(f"{text.place}: there is no setting {name}: {text.body}")
    assert not wrong, "\n".join(wrong)


def codes_of(family: type[MustelaError] | None = None) -> set[str]:
    """Return the codes of the library's errors, or of those of a family."""
    listed = set(re.findall(r"^\| `([A-Z_]+)`", render(), re.MULTILINE))
    return {
        code
        for code, kind in all_codes().items()
        if code in listed and issubclass(kind, family or kind)
    }


def register() -> dict[str, dict[str, str]]:
    """Return `followed_fixes.toml`."""
    return tomllib.loads(FOLLOWED.read_text(encoding="utf-8"))


def function_of(place: str) -> str | None:
    """Return the text of a test and of what decorates it; None if it is not there.

    Of a test with a parameter it is all of the file, where its table is.
    """
    file, _, name = place.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
    if "[" in name:
        return text if f"def {name.partition('[')[0]}(" in text else None
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    return None


def test_the_fix_of_every_error_is_followed_by_a_test() -> None:
    """By a program of `followed_programs*.toml`, by a test, or not at all for a reason."""
    listed = register()
    told = {one.code for one in all_followed()}, *(set(part) for part in listed.values())
    codes = codes_of()
    unfollowed, unknown = codes - set().union(*told), set().union(*told) - codes
    assert not unfollowed, "nobody follows the fix of these: docs/internals/settings_and_errors.md"
    assert not unknown, "codes that no error has"
    assert not listed["followed"].keys() & listed["not_followed"].keys()
    assert all(len(reason) > 20 for reason in listed["not_followed"].values())


def test_tests_that_follow_a_fix_exist_and_name_the_error() -> None:
    """`followed_fixes.toml` maps codes to tests; each tells the error by its code or its class."""
    kinds = all_codes()
    for code, place in register()["followed"].items():
        text = function_of(place)
        assert text is not None, (code, place)
        assert re.search(rf"\b({code}|{kinds[code].__name__})\b", text), (code, place)


def test_what_is_a_bug_is_to_be_reported_or_says_what_else_helps(library: list[Source]) -> None:
    """An `InvariantError` says to report it, unless something of the user's can have caused it."""
    bugs = register()["reported"]
    assert bugs.keys() <= codes_of(InvariantError)
    raised = [name for source in library for name in names_raised(source.tree)]
    for code, reason in bugs.items():
        assert all_codes()[code].__name__ in raised or code == "INVARIANT", code
        assert len(reason) > 20, code


def test_families_are_not_raised_themselves(library: list[Source]) -> None:
    """A class that only gathers others has no fix to follow."""
    gathered = {all_codes()[code].__name__ for code in register()["families"]}
    raised = {name for source in library for name in names_raised(source.tree)}
    assert not gathered & raised


def names_raised(tree: ast.AST) -> Iterator[str]:
    """Yield the names of classes that are called: an error that is made is one that is raised."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id

"""The reference pages of the verbs say what the methods say."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_overloads

import pytest

from mustela.dsl.missing import VerbStage
from tests.public import public_names

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
TABLE = REFERENCE / "dsl.md"
BEGIN, END = "<!-- verbs: ./dev golden-update writes them -->\n", "<!-- end of the verbs -->\n"


class Page(NamedTuple):
    """A page of the reference.

    Attributes:
        title: Its heading.
        text: What the verbs have in common.
        verbs: The verbs of each class, in the order of the page.
    """

    title: str
    text: str
    verbs: Mapping[str, str]


PAGES = {
    "reading": Page(
        "Reading",
        "Where a program begins: topics, schedules and its own stores.",
        {
            "StreamsBuilder": "stream table global_table scheduled add_state_store"
            " add_global_store build",
        },
    ),
    "records": Page(
        "Records one by one",
        "Verbs of a stream that handle one record at a time, and those that send records on."
        " Only `distinct` keeps any state.",
        {
            "KStream": "map map_values map_values_with_key flat_map flat_map_values"
            " flat_map_values_with_key filter filter_not distinct select_key peek foreach print"
            " merge split repartition to to_table",
            "BranchedKStream": "branch default_branch no_default_branch",
        },
    ),
    "joins": Page(
        "Joins",
        "Both sides are matched by key; topics need not have the same number of partitions. The"
        " [guide](../../guides/joins.md) helps to choose a join.",
        {
            "KStream": "join join_with_key left_join left_join_with_key outer_join"
            " outer_join_with_key",
            "KTable": "join left_join outer_join",
        },
    ),
    "grouping": Page(
        "Grouping and folding",
        "Records, or rows, are first grouped by key, possibly put into windows, and then folded"
        " into a table. See the guides on [aggregates](../../guides/aggregates.md) and"
        " [windows](../../guides/windows.md).",
        {
            "KStream": "group_by group_by_key group_all",
            "KTable": "group_by",
            "KGroupedStream": "count reduce aggregate count_distinct latest_by top_n cogroup"
            " windowed_by",
            "KGroupedTable": "count reduce aggregate count_distinct latest_by top_n",
            "TimeWindowedKStream": "count reduce aggregate count_distinct latest_by top_n"
            " emit_strategy",
            "SessionWindowedKStream": "count reduce aggregate count_distinct latest_by top_n"
            " emit_strategy",
            "CogroupedKStream": "cogroup aggregate windowed_by",
            "TimeWindowedCogroupedKStream": "aggregate",
            "SessionWindowedCogroupedKStream": "aggregate",
        },
    ),
    "tables": Page(
        "Tables",
        "A table has a row for each key, and sends changes of rows to the steps after it.",
        {
            "KTable": "filter filter_not map_values map_values_with_key transform_values suppress"
            " to_stream",
        },
    ),
    "processing": Page(
        "Processors and calls",
        "Your own code with stores and timers, calls to external services, and transactions over"
        " several keys. See the guides on [processors](../../guides/processors.md),"
        " [calls](../../guides/async_calls.md) and [transactions](../../guides/transactions.md).",
        {
            "KStream": "process process_values map_values_async map_values_async_with_key"
            " process_async request_reply transact",
            "ProcessedKStream": "output reply transacted",
            "TransactedKStream": "refused",
        },
    ),
}

_FUNCTION = re.compile(r"Callable\[\[(.*?)\], ")
_SECTION = re.compile(r"\n(Args|Returns|Yields|Raises|Example):\n")
_ITEM = re.compile(r"\*{0,2}(\w+): (.*)")


BAR = "\\|"
NOTE = """This page is generated from the methods; `./dev golden-update` renews it. Each docstring
has an example: `help(KStream.map)`.
"""


class Docs(NamedTuple):
    """What a docstring says."""

    text: str
    arguments: Mapping[str, str]
    returns: str


def docs_of(method: Callable[..., Any]) -> Docs:
    """Take a docstring apart."""
    text, *sections = _SECTION.split(inspect.getdoc(method) or "")
    by_name = dict(zip(sections[::2], sections[1::2], strict=True))
    arguments: dict[str, str] = {}
    last = ""
    for line in by_name.get("Args", "").splitlines():
        found = _ITEM.match(line[4:]) if line.startswith("    ") and line[4:5].strip() else None
        if found:
            last = found[1]
            arguments[last] = found[2]
        elif last and line.strip():
            arguments[last] += " " + line.strip()
    return Docs(text.strip(), arguments, " ".join(by_name.get("Returns", "").split()))


def markdown(text: str) -> str:
    """Return text of a docstring as Markdown."""
    return text.replace("``", "`")


def parameters_of(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return what the user gives."""
    return [one for one in inspect.signature(method).parameters.values() if one.name != "self"]


def shown_parameters(method: Callable[..., Any]) -> str:
    """Return what a method takes, without types."""
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in parameters_of(method)]
    return str(inspect.Signature(bare))


def signatures_of(method: Callable[..., Any]) -> list[inspect.Signature]:
    """Return the signatures that type checkers know."""
    return [inspect.signature(one) for one in get_overloads(method) or [method]]


def functions_of(method: Callable[..., Any]) -> str:
    """Return the functions that a method takes, with what they are called with."""
    found: dict[str, None] = {}
    for signature in signatures_of(method):
        for one in signature.parameters.values():
            function = _FUNCTION.search(str(one.annotation))
            if function and "initializer" not in one.name:
                found[f"`{one.name}({function[1]})`"] = None
    return ", ".join(found).replace("|", BAR)


def result_of(method: Callable[..., Any]) -> str:
    """Return what a method gives, as it is annotated first."""
    told = str(signatures_of(method)[0].return_annotation)
    return "nothing" if told == "None" else f"`{told}`".replace("|", BAR)


def verbs() -> Iterator[tuple[str, Page, str, str, Callable[..., Any]]]:
    """Iterate over pages, classes and verbs."""
    for file, page in PAGES.items():
        for kind, names in page.verbs.items():
            for name in names.split():
                yield file, page, kind, name, getattr(public_names()[kind], name)


def render_page(file: str) -> str:
    """Return one page."""
    page = PAGES[file]
    parts = [f"# {page.title}\n\n", f"{page.text}\n\n"]
    parts.append(NOTE)
    for where, _, kind, name, method in verbs():
        if where != file:
            continue
        docs = docs_of(method)
        parts.append(f"\n## {kind}.{name}\n\n```text\n{name}{shown_parameters(method)}\n```\n\n")
        parts.append(f"{markdown(docs.text)}\n")
        if docs.arguments:
            parts.append("\n| Argument | |\n|---|---|\n")
            for argument, text in docs.arguments.items():
                parts.append(f"| `{argument}` | {markdown(text).replace('|', BAR)} |\n")
        parts.append(f"\nGives {result_of(method)}")
        parts.append(f": {markdown(docs.returns)}\n" if docs.returns else ".\n")
    return "".join(parts)


def render_table() -> str:
    """Return the table of all verbs."""
    lines = [
        "| From | Verb | Functions, and what they are called with | Gives |\n",
        "|---|---|---|---|\n",
    ]
    before = ""
    for file, _, kind, name, method in verbs():
        told = "" if kind == before else f"`{kind}`"
        before = kind
        link = f"[`{name}`](verbs/{file}.md#{kind.lower()}{name})"
        lines.append(f"| {told} | {link} | {functions_of(method)} | {result_of(method)} |\n")
    return "".join(lines)


def compare(path: Path, text: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--golden-update"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    written = path.read_text(encoding="utf-8") if path.exists() else ""
    assert written == text, "write it anew with: ./dev golden-update -k verbs_reference"


@pytest.mark.parametrize("file", PAGES)
def test_a_page_of_verbs_is_what_the_methods_say(file: str, request: pytest.FixtureRequest) -> None:
    """docs/reference/verbs is generated; nobody edits it by hand."""
    compare(REFERENCE / "verbs" / f"{file}.md", render_page(file), request)


def test_the_table_of_verbs_is_what_the_methods_say(request: pytest.FixtureRequest) -> None:
    """The part of docs/reference/dsl.md between two marks."""
    page = TABLE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    compare(TABLE, before + BEGIN + render_table() + END + rest.split(END)[1], request)


def _public() -> Iterator[tuple[str, str]]:
    """Iterate over the verbs that users can call."""
    kinds = public_names()
    stages = {n: k for n, k in kinds.items() if isinstance(k, type) and issubclass(k, VerbStage)}
    for name, kind in stages.items():
        others = [other for other in stages.values() if other is not kind]
        bases = [other for other in others if issubclass(kind, other)]
        for verb, _ in inspect.getmembers(kind, inspect.isfunction):
            if not verb.startswith("_") and not any(hasattr(base, verb) for base in bases):
                yield name, verb


def test_every_verb_has_an_entry() -> None:
    """A new verb is given its page here, and is then in the table and on the page."""
    entries = [(kind, name) for _, _, kind, name, _ in verbs()]
    assert len(entries) == len(set(entries))
    assert set(entries) == set(_public())


@pytest.mark.parametrize("kind_and_verb", sorted({(k, n) for _, _, k, n, _ in verbs()}))
def test_every_argument_of_a_verb_is_said(kind_and_verb: tuple[str, str]) -> None:
    """In the docstring, which is what the page and `help` show."""
    method = getattr(public_names()[kind_and_verb[0]], kind_and_verb[1])
    docs = docs_of(method)
    assert docs.text
    taken = {one.name for one in parameters_of(method)}
    assert set(docs.arguments) == taken

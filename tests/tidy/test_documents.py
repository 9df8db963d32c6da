"""Documents lead somewhere: every page is found from the index, every command in them exists."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError

from mustela.cli.main import command_line
from mustela_dev.broker.tools import TOOLS
from tests.tidy.conftest import ROOT

INDEX = ROOT / "docs" / "README.md"
# `./dev compat` collects these into docs/compat/divergences.md, which is what people read.
PARTS = ROOT / "docs" / "compat" / "divergences"
# Who reads the options of a command of ./dev; what is not here gets pytest's.
READERS = {
    "bench": "benchmarks",
    "demo": "packages/mustela-dev/src/mustela_dev/demo",
    "differential": "tests/differential",
    "faults": "tests/faults",
    "lock": "dev",
    "scan": "tests/scan",
    "sim": "tests/simulation",
    "test": "tests/lanes.py",
}
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_SHELL = re.compile(r"^```(?:sh|bash|console|shell|)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Every document for people who use or change Mustela."""
    docs = [page for page in (ROOT / "docs").rglob("*.md") if PARTS not in page.parents]
    more = ("README.md", "CONTRIBUTING.md", "examples/README.md")
    return sorted([*docs, *(ROOT / name for name in more)])


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = found.get(slug, 0)
        found[slug] = number + 1
        names.add(f"{slug}-{number}" if number else slug)
    return names


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor of each relative link."""
    for target in _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" not in target and not target.startswith("mailto:"):
            path, _, anchor = target.partition("#")
            yield (page.parent / path).resolve() if path else page, anchor


def shell_lines(page: Path) -> Iterator[str]:
    """Yield what a page shows as typed: spans of code, and lines of blocks of a shell."""
    text = page.read_text(encoding="utf-8")
    for block in _SHELL.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            yield line.strip().removeprefix("$ ").partition("  #")[0].strip()
    yield from _SPAN.findall(_FENCE.sub("", text))


def test_every_page_is_reached_from_the_index() -> None:
    """Link by link; a folder leads to nothing but itself."""
    reached: set[Path] = set()
    waiting = [INDEX]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        waiting.extend(target for target, _ in links(page))
    lost = [page for page in pages() if page not in reached and ROOT / "docs" in page.parents]
    told = ", ".join(str(page.relative_to(ROOT)) for page in lost)
    assert not lost, f"no page links to {told}: add it to docs/README.md or docs/design/README.md"


def test_every_anchor_of_a_link_is_a_heading() -> None:
    """Whoever follows a link to a part of a page arrives at it."""
    dead = [
        f"{page.relative_to(ROOT)}: {target.name}#{anchor}"
        for page in pages()
        for target, anchor in links(page)
        if anchor and target.suffix == ".md" and anchor not in anchors(target)
    ]
    assert not dead, "\n".join(dead)


def test_every_divergence_is_in_the_page_that_is_read() -> None:
    """None is known to its file alone."""
    told = anchors(PARTS.with_suffix(".md"))
    assert {part.stem for part in PARTS.glob("*.md")} <= told


def test_every_command_of_dev_that_documents_name_exists_with_its_options() -> None:
    """An option is one that the command's own source reads."""
    script = (ROOT / "dev").read_text(encoding="utf-8")
    known = set(re.findall(r"^    ([a-z-]+)(?: \| -h \| --help)?\) ", script, re.MULTILINE))
    wrong: list[str] = []
    for page in pages():
        for line in shell_lines(page):
            if not line.startswith("./dev "):
                continue
            name, *options = line.removeprefix("./dev ").split()
            if name not in known:
                wrong.append(f"{page.relative_to(ROOT)}: {line}")
            for option in (one for one in options if one.startswith("--")):
                reader = ROOT / READERS.get(name, "tests/conftest.py")
                if not _reads(reader, option):
                    wrong.append(f"{page.relative_to(ROOT)}: {line}: {option}")
    assert not wrong, "\n".join(wrong)


def _reads(reader: Path, option: str) -> bool:
    files = [reader] if reader.is_file() else reader.rglob("*.py")
    names = (f'"{option}"', f"{option.removeprefix('--')}: ")
    return any(name in file.read_text(encoding="utf-8") for file in files for name in names)


@pytest.fixture(scope="module")
def command() -> App:
    """The commands as users have them."""
    return command_line()


def refused(app: App, line: str) -> str | None:
    """Return why the command line refuses what a document shows, or None."""
    numbers = re.sub(r"\b(PARTITION|OFFSET)\b", "0", line)
    words = [word for word in shlex.split(numbers)[1:] if word not in ("…", "...")]
    if not words or words[0].startswith(("-", "kafka-")) or words[0] in TOOLS:
        return None
    at, rest = app, list(words)
    while rest and rest[0] in at:
        at = at[rest.pop(0)]
    if at is app:
        return f"no command {words[0]!r}"
    said = None
    image = ["a:b", "--image", "i"]
    for positional in ([], ["a:b"], ["a:b", "c:d"], ["a:b", "t", "0", "0"], ["t", "0", "0"], image):
        try:
            app.parse_args([*words, *positional], exit_on_error=False, print_error=False)
        except CycloptsError as error:
            said = said or str(error)
        else:
            return None
    return said


def test_every_command_that_documents_name_exists_with_its_options(command: App) -> None:
    """Parsed by the command line itself; positionals may be left to the reader."""
    wrong: list[str] = []
    for page in pages():
        for line in shell_lines(page):
            if re.match(r"mustela [a-z-]", line):
                said = refused(command, re.split(r" [|>&]|;", line)[0])
                if said is not None:
                    wrong.append(f"{page.relative_to(ROOT)}: {line}: {said}")
    assert not wrong, "\n".join(wrong)


def test_every_command_that_examples_name_exists_with_its_options(command: App) -> None:
    """What an example says to type is about that example."""
    wrong: list[str] = []
    for example in sorted((ROOT / "examples").glob("*.py")):
        text = example.read_text(encoding="utf-8").split('"""', 2)[1].replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line.startswith("    ")]
        typed = [part.strip() for line in lines for part in re.split(r" [|&] ?| && | <<|#", line)]
        bare = [re.sub(r"^[A-Z_]+=\S+ ", "", line) for line in typed]
        for line in (line for line in bare if line.startswith("mustela ")):
            said = refused(command, line)
            for module in re.findall(r"(\w+):app", line):
                said = said or (None if module == example.stem else f"is about {module}")
            if said is not None:
                wrong.append(f"{example.relative_to(ROOT)}: {line}: {said}")
    assert not wrong, "\n".join(wrong)


def test_the_checks_find_what_is_wrong(command: App, tmp_path: Path) -> None:
    """A page with a dead anchor, and commands that are not there."""
    page = tmp_path / "page.md"
    page.write_text("# One `two`\n\n[x](#one-two) [y](#three)\n\n```\nmustela heal it\n```\n")
    assert [anchor in anchors(page) for _, anchor in links(page)] == [True, False]
    assert list(shell_lines(page)) == ["mustela heal it", "two"]
    for line in ("mustela heal it", "mustela reset --gently", "mustela offsets mend a:b"):
        assert refused(command, line) is not None, line
    for line in ("mustela reset a:b --yes", "mustela offsets", "mustela kafka-topics --list"):
        assert refused(command, line) is None, line
    assert _reads(ROOT / READERS["sim"], "--seeds")
    assert not _reads(ROOT / READERS["sim"], "--grains")

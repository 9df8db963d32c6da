"""Builds the site of the documentation: ``./dev docs --site [DIRECTORY]``, by default ``build``.

The pages are those of ``docs/``, as they are. Added are an entry for each public name, from its
docstring; the examples; and llms.txt, a list of all pages for programs that read.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path

import mustela

SITE = Path(__file__).parent
ROOT = SITE.parents[1]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
BUILD = ROOT / "build"

SECTIONS = {
    "Start": ("guides/first_steps", "guides/tutorial"),
    "How to": ("howto/*",),
    "Guides": ("guides/*",),
    "Examples": ("examples/*",),
    "Concepts": ("concepts/lanes", "concepts/epochs", "concepts/*"),
    "Coming from elsewhere": ("migrating/*",),
    "Reference": ("security", "reference/*", "reference/verbs/*"),
    "Python API": ("api/*",),
    "Kafka Streams compared": ("compat/matrix", "compat/divergences", "benchmarks", "costs"),
    "Inside Mustela": ("internals/*", "CONTRIBUTING", "design/*"),
}
"""Of each part of the navigation its pages; each page stands in the first that names it."""

MODULES = (
    *("mustela", "mustela.aggregates", "mustela.calls", "mustela.events", "mustela.processors"),
    *("mustela.schemas", "mustela.stores", "mustela.streams", "mustela.testing"),
    *("mustela.windows", "mustela_dev"),
)

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)


def main(build: Path) -> int:
    """Stage the pages, let Sphinx build them, and write llms.txt."""
    source, site, kept = build / "site-source", build / "site", build / "site-doctrees"
    for directory in (source, site, kept):
        shutil.rmtree(directory, ignore_errors=True)
    stage(source)
    command = [sys.executable, "-m", "sphinx", "-b", "dirhtml", "-c", str(SITE), "-W", "-q"]
    command += ["--keep-going", "-d", str(kept), str(source), str(site)]
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode == 0:
        write_llms(source, site)
        sys.stdout.write(f"{site}/index.html\n")
    return done.returncode


def stage(source: Path) -> None:
    """Put all pages into a directory, with links as they are there."""
    for page in sorted(DOCS.rglob("*.md")):
        if SITE not in page.parents and page.parent.name != "divergences":
            place = page.relative_to(DOCS)
            write(source / place, linked(page))
    for picture in sorted(DOCS.rglob("*.svg")):
        place = source / picture.relative_to(DOCS)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, place)
    write(source / "CONTRIBUTING.md", linked(ROOT / "CONTRIBUTING.md"))
    write(source / "examples" / "README.md", linked(EXAMPLES / "README.md"))
    for example in sorted(EXAMPLES.glob("*.py")):
        write(source / "examples" / f"{example.stem}.md", example_page(example))
    for module in MODULES:
        write(source / "api" / f"{module}.md", api_page(module))
    (source / "README.md").rename(source / "index.md")
    with (source / "index.md").open("a", encoding="utf-8") as index:
        index.writelines(tables_of_contents(source))


def write(path: Path, text: str) -> None:
    """Write a page, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def linked(page: Path) -> str:
    """Return a page whose links lead to pages of the site; what has no page there is only named."""

    def changed(found: re.Match[str]) -> str:
        text, target, anchor = found.groups()
        if "://" in target:
            return found[0]
        place = (page.parent / target).resolve()
        inside = staged(place)
        return text if inside is None else f"[{text}](/{inside}{anchor or ''})"

    return _LINK.sub(changed, page.read_text(encoding="utf-8"))


def staged(place: Path) -> str | None:
    """Return where a file of the repository is on the site, None if it is not."""
    if place == DOCS / "README.md":
        return "index.md"
    if place == DOCS / "design":
        return f"design/{min(DOCS.glob('design/*.md')).name}"
    if place.suffix == ".md" and place.is_relative_to(DOCS) and place.parent.name != "divergences":
        return str(place.relative_to(DOCS))
    if place == ROOT / "CONTRIBUTING.md":
        return "CONTRIBUTING.md"
    if place.suffix in {".py", ".md"} and place.parent == EXAMPLES:
        return f"examples/{place.stem}.md"
    return None


def example_page(example: Path) -> str:
    """Return the page of an example: what it shows, then the program."""
    text = example.read_text(encoding="utf-8")
    title, _, rest = (ast.get_docstring(ast.parse(text)) or example.stem).partition("\n")
    code = text.split('"""', 2)[2].lstrip()
    return f"# {title.rstrip('.')}\n\n`examples/{example.name}`\n{rest}\n\n```python\n{code}```\n"


def api_page(module: str) -> str:
    """Return the page of a module: each of its public names by its docstring."""
    found = import_module(module)
    about = (found.__doc__ or "").partition("\n\n")[0]
    parts = [f"# {module}\n\n{about}\n\n```{{eval-rst}}\n.. currentmodule:: {module}\n"]
    names = getattr(found, "__all__", None) or vars(found)
    package = () if module == "mustela" else mustela.__all__
    for name in sorted(set(names).difference(package)):
        thing = getattr(found, name)
        if isclass(thing) and name[0].isupper():
            parts.append(f"\n.. autoclass:: {name}\n   :members:\n   :inherited-members: object\n")
        elif isfunction(thing):
            parts.append(f"\n.. autofunction:: {name}\n")
    parts.append("```\n")
    if again := [f"`{name}`" for name in sorted(set(names).intersection(package))]:
        parts.append(f"\nAlso here, as in [mustela](/api/mustela.md): {', '.join(again)}.\n")
    return "".join(parts)


def tables_of_contents(source: Path) -> Iterator[str]:
    """Yield a table of contents for each section; every page is in one of them."""
    known = {str(page.relative_to(source).with_suffix("")) for page in source.rglob("*.md")}
    left = known - {"index"}
    for section, patterns in SECTIONS.items():
        chosen: list[str] = []
        for pattern in patterns:
            matching = [page for page in sorted(left) if matches(page, pattern)]
            chosen += matching
            left.difference_update(matching)
        if chosen:
            rows = "\n".join(chosen)
            yield f"\n```{{toctree}}\n:hidden:\n:caption: {section}\n\n{rows}\n```\n"
    if left:
        missing = ", ".join(sorted(left))
        msg = f"no section of the site names {missing}; add it to SECTIONS in {__file__}"
        raise SystemExit(msg)


def matches(page: str, pattern: str) -> bool:
    """Whether a page is one of a pattern; a star stands for one file of a directory."""
    folder, name = os.path.split(pattern)
    return page == pattern or (name == "*" and os.path.dirname(page) == folder)


def write_llms(source: Path, site: Path) -> None:
    """Write llms.txt, a list of all pages with what each is about, and all pages as one text."""
    lines = ["# Mustela\n", "\n> The Kafka Streams DSL as a Python library on Apache Spark.\n"]
    whole: list[str] = []
    for page in sorted(source.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        place = page.relative_to(source).with_suffix("")
        heading = _HEADING.search(text)
        title = heading[1] if heading else str(place)
        address = "" if str(place) == "index" else f"{place}/"
        lines.append(f"- [{title}]({address}): {first_sentence(text)}\n")
        if place.parts[0] != "api":  # it is only where Sphinx finds its docstrings
            whole.append(f"<!-- {place} -->\n\n{text}\n")
    (site / "llms.txt").write_text("".join([*lines[:2], "\n", *lines[2:]]), encoding="utf-8")
    (site / "llms-full.txt").write_text("".join(whole), encoding="utf-8")


def first_sentence(text: str) -> str:
    """Return the first sentence below the title of a page."""
    body = _HEADING.sub("", text, count=1)
    paragraphs = (part.strip() for part in body.split("\n\n"))
    plain = (part for part in paragraphs if part and part[0].isalnum())
    return " ".join(next(plain, "").split()).partition(". ")[0].rstrip(".:")


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD))

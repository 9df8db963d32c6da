"""What no file of the repository may hold, and how the files around the code are named."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.tidy.conftest import ROOT

if TYPE_CHECKING:
    from tests.tidy.conftest import Source

FRAGMENT = re.compile(r"\d+\.(added|changed|fixed|breaking)\.md")

# Spelled in halves, so that this file does not hold what it looks for.
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(left + right)
        for left, right in [
            ("pypi", ".org"),
            ("files.python", "hosted.org"),
            ("registry.", "npmjs.org"),
            ("repo1.", "maven.org"),
            ("repo.", "maven.apache.org"),
            ("proxy.", "golang.org"),
        ]
    )
)
MACHINE_PATHS = re.compile(
    "|".join(["/" + "root/", "/" + "work/", "/" + r"home/\w+/", "/" + "Users/"])
)
NAMED = re.compile(r"`((?:src|packages|tests|docs|examples|benchmarks)/[A-Za-z0-9_./-]*)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def texts(files: list[Path]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in files:
        try:
            found.append((path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue  # a picture or an old state format
    return found


def places(files: list[Path], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {match.group()}"
        for name, text in texts(files)
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := pattern.search(line))
    ]


def test_no_package_registry_is_named(files: list[Path]) -> None:
    """Where packages come from is a setting of the machine: locks hold hashes, not addresses."""
    found = places(files, REGISTRY_HOSTS)
    assert not found, "\n".join(found)


def test_no_path_of_one_machine_is_named(files: list[Path]) -> None:
    """A clone works wherever it lies."""
    found = places(files, MACHINE_PATHS)
    assert not found, "\n".join(found)


def test_news_fragments_are_named_for_issue_and_kind() -> None:
    """A fragment is ``changes/<issue>.<added|changed|fixed|breaking>.md`` and says something."""
    fragments = [path for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    wrong = [path.name for path in fragments if not FRAGMENT.fullmatch(path.name)]
    empty = [path.name for path in fragments if not path.read_text(encoding="utf-8").strip()]
    assert not wrong, wrong
    assert not empty, empty


def test_links_between_documents_lead_somewhere(files: list[Path]) -> None:
    """A relative link in a Markdown file names a file that is there."""
    dead = []
    for path in files:
        if path.suffix != ".md":
            continue
        for target in LINK.findall(path.read_text(encoding="utf-8")):
            if "://" in target or target.startswith(("#", "mailto:")):
                continue
            if not (path.parent / target.split("#")[0]).exists():
                dead.append(f"{path.relative_to(ROOT)}: {target}")
    assert not dead, "\n".join(dead)


def test_files_that_documents_name_are_there(files: list[Path]) -> None:
    """A path in backquotes that begins in this repository's folders names what exists."""
    dead = [
        f"{path.relative_to(ROOT)}: {named}"
        for path in files
        if path.suffix == ".md" and "changes" not in path.parts
        for named in NAMED.findall(path.read_text(encoding="utf-8"))
        if not (ROOT / named).exists()
    ]
    assert not dead, "\n".join(dead)


def test_locked_packages_carry_hashes() -> None:
    """Every entry of the locks is one exact version with at least one SHA-256 sum."""
    for lock in (ROOT / "requirements").glob("*.txt"):
        entries = re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip())
        bare = [e.split()[0] for e in entries if "--hash=sha256:" not in e or "==" not in e]
        assert entries, lock
        assert not bare, (lock.name, bare)


def test_error_codes_are_unique(library: list[Source]) -> None:
    """Two errors never share a code: users and programs tell errors apart by it."""
    seen: dict[str, str] = {}
    twice = []
    for source in library:
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.ClassDef):
                continue
            for code in class_codes(node):
                place = f"{source.name}:{node.lineno} {node.name}"
                if code in seen:
                    twice.append(f"{code}: {seen[code]} and {place}")
                seen[code] = place
                assert re.fullmatch(r"[A-Z][A-Z0-9_]*", code), (place, code)
    assert seen, "no error code found: has the way to declare them changed?"
    assert not twice, "\n".join(twice)


def class_codes(node: ast.ClassDef) -> list[str]:
    """Find ``code = "…"`` on a class; a dataclass's field of that name is something else."""
    codes = []
    for item in node.body:
        match item:
            case ast.AnnAssign(ast.Name("code"), annotation, ast.Constant(str(code))):
                if "ClassVar" in ast.unparse(annotation):
                    codes.append(code)
            case ast.Assign([ast.Name("code")], ast.Constant(str(code))):
                codes.append(code)
            case _:
                pass
    return codes

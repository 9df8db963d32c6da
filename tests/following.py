"""Programs that stop, each beside what becomes of it when its error's ``fix:`` is followed.

A file ``followed_programs*.toml`` beside a room's tests lists them: `code` and `fix` as the error
has them, word for word, the program that is `wrong`, and the one that is `right`.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from mustela.errors import MustelaError
from tests.public import public_names

ROOT = Path(__file__).parents[1]
FILES = "followed_programs*.toml"


@dataclass(frozen=True, slots=True)
class Followed:
    """A program that stops, and the same one after its fix was followed.

    Attributes:
        code: The error's code.
        fix: Its fix, whole.
        wrong: The program that stops.
        right: The program that does what the fix says.
    """

    code: str
    fix: str
    wrong: str
    right: str


def followed_in(path: Path) -> list[Followed]:
    """Return what a file lists."""
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["program"]
    return [Followed(**one) for one in listed]


def all_followed() -> list[Followed]:
    """Return what all files of the tests list."""
    found = sorted((ROOT / "tests").rglob(FILES))
    return [one for path in found for one in followed_in(path)]


def each_of(folder: Path) -> list[Any]:
    """Return a parameter of a test for each program of a room's files, named by its code."""
    counts: dict[str, int] = {}
    params: list[Any] = []
    for one in chain.from_iterable(map(followed_in, sorted(folder.glob(FILES)))):
        counts[one.code] = counts.get(one.code, 0) + 1
        params.append(pytest.param(one, id=f"{one.code}-{counts[one.code]}"))
    return params


def namespace() -> dict[str, Any]:
    """Return what a program may use without importing it."""
    return {**public_names(), "re": re, "timedelta": timedelta, "datetime": datetime, "UTC": UTC}


def caused_by(error: BaseException, code: str) -> MustelaError | None:
    """Return the error of a code that an error is, or that it came from."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MustelaError) and seen.code == code:
            return seen
        seen = seen.__cause__ or seen.__context__
    return None

"""Which line of the user's program called the DSL."""

from __future__ import annotations

import linecache
import sys
from os import sep
from pathlib import Path
from types import CodeType

from mustela.errors import Origin

__all__ = ["user_origin"]

_HERE = Path(__file__).parent
_OURS = tuple(f"{_HERE.parent / room}{sep}" for room in ("api", "dsl"))
_CODE_LENGTH_MAX = 120


def user_origin() -> Origin:
    """Return the nearest line outside of `api` and `dsl` that led to the present call."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and _is_ours(frame.f_code):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line, frame.f_globals).strip()
    if len(text) > _CODE_LENGTH_MAX:
        text = text[: _CODE_LENGTH_MAX - 3] + "..."
    return Origin(file=file, line=line, code=text)


def _is_ours(code: CodeType) -> bool:
    """Say whether code is of these rooms, or was made by `dataclass` for one of their classes."""
    made = (code.co_filename, code.co_name) == ("<string>", "__init__")
    return made or code.co_filename.startswith(_OURS)

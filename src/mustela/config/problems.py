"""From what pydantic says about values to errors that name key, source and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from mustela.config.errors import SettingValueError, UnknownSettingError
from mustela.config.masking import mask_value

__all__ = ["close_to", "unknown_setting", "value_error"]


def close_to(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are most like a name, best first, at most three.

    Example:
        >>> close_to("comit_interval", ["lanes", "commit_interval"])
        ['commit_interval']
        >>> close_to("max_records", ["epoch.max_records", "lanes"])
        ['epoch.max_records']
    """
    names = list(known)
    whole = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.7)
    last = {option.rsplit(".", 1)[-1]: option for option in names}
    parts = difflib.get_close_matches(name.lower().rsplit(".", 1)[-1], list(last), n=3, cutoff=0.8)
    above = [option for option in names if name.startswith(f"{option}.")]
    return list(dict.fromkeys([*whole, *(last[part] for part in parts), *above]))[:3]


def unknown_setting(
    name: str,
    source: str,
    known: Iterable[str],
    *,
    like: str | None = None,
    why: str | None = None,
) -> UnknownSettingError:
    """Return the error for a name that is no setting.

    Args:
        name: The name as it is spelled.
        source: Where it stands.
        known: The names that it could have been.
        like: What to compare with the known names, when that is not the spelling.
        why: Why there is no such setting.
    """
    close = close_to(like or name, known)
    return UnknownSettingError(
        f"there is no setting {name!r}",
        evidence={"source": source},
        why=why,
        fix=f"did you mean {' or '.join(map(repr, close))}?" if close else "take it out",
        fields={"key": name, "source": source, "close": close},
    )


def value_error(error: ValidationError, sources: Mapping[str, str]) -> SettingValueError:
    """Return one error for everything that pydantic found; it names values only masked."""
    problems = [
        _problem(item, sources) for item in error.errors(include_url=False, include_context=False)
    ]
    key, source, what, allowed, shown = problems[0]
    evidence: dict[str, object] = {"source": source} if source else {}
    if allowed:
        evidence["allowed"] = allowed
    for number, (_, origin, also, also_allowed, _) in enumerate(problems[1:], start=2):
        evidence[f"also {number}"] = f"{also} ({origin or 'default'}): {also_allowed}"
    fix = "give it a name: Settings.load(application_id=…)" if shown is None else None
    return SettingValueError(
        what,
        evidence=evidence,
        fix=fix,
        fields={"key": key, "source": source, "keys": [problem[0] for problem in problems]},
    )


_IN_OUR_WORDS = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
}
"""By pydantic's kinds of problems."""


def _problem(item: Any, sources: Mapping[str, str]) -> tuple[str, str, str, str, str | None]:
    key = ".".join(str(part) for part in item["loc"])
    source = sources.get(key, "")
    if item["type"] == "missing":
        return key, source, f"setting {key} is missing", "", None
    shown = repr(mask_value(key, item["input"]))
    shown = shown if len(shown) <= 80 else f"{shown[:77]}…"
    told = str(item["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    allowed = _IN_OUR_WORDS.get(item["type"], told)
    return key, source, f"setting {key} cannot be {shown}", allowed, shown

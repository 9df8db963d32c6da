"""Every error Mustela raises: four families, each error with a stable code.

The text says what happened with values, then the evidence, the user's line, why, and how to fix
it. The code is part of the text, because a failure in a Spark worker reaches the driver as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

__all__ = [
    "DataError",
    "EnvironmentFault",
    "InvariantError",
    "MustelaError",
    "Origin",
    "UsageError",
    "all_codes",
    "show_key",
]

_KEY_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class Origin:
    """The place in the user's program where a step was written."""

    file: str
    line: int
    code: str = ""

    def __str__(self) -> str:
        """Render as ``app.py:41: source text``."""
        place = f"{self.file.rsplit('/', 1)[-1]}:{self.line}"
        return f"{place}: {self.code}" if self.code else place


class MustelaError(Exception):
    """The base of all errors of Mustela.

    Args:
        what: One line, with values, saying what happened.
        evidence: Further facts, printed one per line as ``name: value``.
        at: The user's line that the error belongs to.
        why: The rule that was broken, in a sentence.
        fix: What to do about it.
        fields: Values for programs and tests to look at; not printed.

    Example:
        >>> print(UsageError("cannot use topic ''", fix="name the topic"))
        cannot use topic ''
          fix:   name the topic
          code:  USAGE
    """

    code: ClassVar[str] = "MUSTELA"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        what: str,
        *,
        evidence: Mapping[str, object] | None = None,
        at: Origin | None = None,
        why: str | None = None,
        fix: str | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.evidence: dict[str, str] = {k: str(v) for k, v in (evidence or {}).items()}
        self.at = at
        self.why = why
        self.fix = fix
        self.fields: dict[str, Any] = dict(fields or {})

    def __str__(self) -> str:
        """Render the whole text, as ``docs/reference/errors.md`` shows it."""
        lines = [self.what]
        rows = [*self.evidence.items()]
        for name, value in (("at", self.at), ("why", self.why), ("fix", self.fix)):
            if value is not None:
                rows.append((name, str(value)))
        rows.append(("code", self.code))
        width = max(6, *(len(name) + 1 for name, _ in rows))
        for name, value in rows:
            label = f"{name}:".ljust(width)
            body = str(value).replace("\n", "\n" + " " * (width + 3))
            lines.append(f"  {label} {body}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        """Survive pickle: Spark carries errors between processes."""
        return (
            _rebuild,
            (
                type(self),
                self.what,
                self.evidence,
                self.at,
                self.why,
                self.fix,
                self.fields,
            ),
        )


def _rebuild(  # noqa: PLR0913 - mirrors MustelaError.__init__
    cls: type[MustelaError],
    what: str,
    evidence: dict[str, str],
    at: Origin | None,
    why: str | None,
    fix: str | None,
    fields: dict[str, Any],
) -> MustelaError:
    error = cls.__new__(cls)
    MustelaError.__init__(error, what, evidence=evidence, at=at, why=why, fix=fix, fields=fields)
    return error


class UsageError(MustelaError):
    """The program or its settings are wrong; raised before anything runs."""

    code = "USAGE"


class DataError(MustelaError):
    """One record cannot be handled; it goes to the handler or the dead-letter topic."""

    code = "DATA"


class EnvironmentFault(MustelaError):
    """The broker, Spark, Java or the disk failed; ``retryable`` says whether trying again helps."""

    code = "ENVIRONMENT"


class InvariantError(MustelaError):
    """One of Mustela's guarantees is broken: a bug, or other software has changed its files."""

    code = "INVARIANT"


def all_codes() -> dict[str, type[MustelaError]]:
    """Return every known error class by its code.

    Raises:
        InvariantError: If two classes share a code.
    """
    found: dict[str, type[MustelaError]] = {}
    todo: list[type[MustelaError]] = [MustelaError]
    while todo:
        cls = todo.pop()
        todo.extend(cls.__subclasses__())
        other = found.setdefault(cls.code, cls)
        if other is not cls:
            msg = f"error code {cls.code} belongs to both {other.__name__} and {cls.__name__}"
            raise InvariantError(msg)
    return found


def show_key(key: object) -> str:
    """Render a key so that a long one does not flood a log, but its length is known.

    Example:
        >>> show_key("apple")
        "'apple'"
        >>> show_key("a" * 1000)
        "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa… (1002 characters)"
    """
    try:
        text = repr(key)
    except Exception as error:  # noqa: BLE001 - a class of the user's may raise anything
        text = f"<{type(key).__name__}, whose repr raised {type(error).__name__}>"
    if len(text) <= _KEY_SHOWN_MAX:
        return text
    return f"{text[:_KEY_SHOWN_MAX]}… ({len(text)} characters)"

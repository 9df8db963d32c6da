"""What a process has to know to write log lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from mustela.config.masking import is_secret_key

if TYPE_CHECKING:
    from mustela.config.settings import Settings

__all__ = ["SECRET_LEAST", "LogOptions", "secrets_of"]

SECRET_LEAST: Final = 6
"""Shorter secrets are masked where their name stands beside them, not wherever they occur."""

_INNER_SECRETS: Final = (
    re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@"),
    re.compile(r"(?:password|secret|token)[\"']?\s*[=:]\s*[\"']?([^\"'\s;,]+)", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """How a process logs; sent to the engine's workers.

    Attributes:
        application_id: The application.
        level: Lowest level that is logged.
        loggers: Levels of single loggers, each for all below it.
        console: Whether lines are for people; else each is a JSON document.
        colors: Whether such lines have colours.
        secrets: Texts that are masked wherever they occur.
        relayed: Whether the driver gives the lines of other processes their last form.
    """

    application_id: str
    level: str = "info"
    loggers: tuple[tuple[str, str], ...] = ()
    console: bool = False
    colors: bool = False
    secrets: tuple[str, ...] = field(default=(), repr=False)
    relayed: bool = False

    @classmethod
    def of(cls, settings: Settings, stream: TextIO | None) -> LogOptions:
        """Return what the settings say.

        Args:
            settings: The settings.
            stream: Where lines go: a terminal gets lines for people, with colours.
        """
        terminal = stream is not None and stream.isatty()
        log = settings.log
        return cls(
            application_id=settings.application_id,
            level=log.level,
            loggers=log.levels(),
            console=terminal if log.format == "auto" else log.format == "console",
            colors=terminal,
            secrets=secrets_of(settings.model_dump()),
        )


def secrets_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the secrets among settings, the longest first.

    Args:
        values: Settings by name; what is nested is looked through.

    Example:
        >>> secrets_of({"kafka": {"sasl.password": "hunter2", "client.id": "shop-1"}})
        ('hunter2',)
        >>> secrets_of({"schema_registry": {"url": "https://joe:trustno1@registry"}})
        ('trustno1',)
    """
    found = {secret for secret in _secrets("", values) if len(secret) >= SECRET_LEAST}
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def _secrets(key: str, value: object) -> Iterable[str]:
    if isinstance(value, Mapping):
        for name, item in cast("Mapping[Any, Any]", value).items():
            yield from _secrets(str(name), item)
    elif isinstance(value, str):
        for pattern in _INNER_SECRETS:
            yield from pattern.findall(value)
        if is_secret_key(key):
            yield value
            if "user.info" in key:
                yield value.partition(":")[2]

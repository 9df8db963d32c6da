"""The settings of the log."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from mustela.config.section import Duration, Section, comma_joined

__all__ = ["LogSettings"]

_LEVELS = ("debug", "info", "warning", "error")


class LogSettings(Section):
    """What is logged, in which form, and whether Mustela sets up logging at all."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is logged."
    )
    format: Literal["auto", "console", "json"] = Field(
        default="auto", description="auto: console on a terminal, JSON lines elsewhere."
    )
    loggers: Annotated[str, BeforeValidator(comma_joined)] = Field(
        default="",
        description="Levels of single loggers, `name=level` with commas between them, each for "
        "all below it: `mustela.kafka=info,org.apache.spark=warning`. Names of Java classes set "
        "Spark's log.",
    )
    configure: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Whether Mustela sets up the logging of the process. auto: `mustela run` and "
        "`app.run()` do, unless the program has set up logging by itself; `app.start()` does not. "
        "always: `app.start()` does, too, and a handler of the program's is kept beside it.",
    )
    summary_every: Duration = Field(
        default=timedelta(seconds=30),
        description="How often a line at info sums up what the application did.",
    )

    @field_validator("loggers")
    @classmethod
    def _check_loggers(cls, value: str) -> str:
        for part in filter(None, (part.strip() for part in value.split(","))):
            name, _, level = (word.strip() for word in part.partition("="))
            if not name or level not in _LEVELS:
                msg = f"name=level with commas between them; levels are {', '.join(_LEVELS)}"
                raise ValueError(msg)
        return value

    @field_validator("summary_every")
    @classmethod
    def _check_summary(cls, value: timedelta) -> timedelta:
        if value <= timedelta(0):
            msg = "a duration above 0"
            raise ValueError(msg)
        return value

    def levels(self) -> tuple[tuple[str, str], ...]:
        """Return the level of each logger that has one of its own.

        Example:
            >>> LogSettings(loggers="mustela.kafka=info, org.apache.spark=warning").levels()
            (('mustela.kafka', 'info'), ('org.apache.spark', 'warning'))
        """
        parts = (part.partition("=") for part in self.loggers.split(",") if part.strip())
        return tuple((name.strip(), level.strip()) for name, _, level in parts)

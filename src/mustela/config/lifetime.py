"""The settings of an application's life: restarts in place, its stop, and commits that stall."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from mustela.config.section import Count, Duration, Section

__all__ = ["RestartSettings", "ShutdownSettings", "StallSettings"]


class RestartSettings(Section):
    """How often an application may start again in its process after an error."""

    max: Count = Field(
        default=5,
        ge=0,
        description="Restarts within `restart.within` that an uncaught-exception handler may ask "
        "for; after that the application ends with the error.",
    )
    within: Duration = Field(
        default=timedelta(minutes=10),
        gt=timedelta(0),
        description="Period in which `restart.max` restarts are allowed.",
    )
    pause: Duration = Field(
        default=timedelta(seconds=1),
        ge=timedelta(0),
        description="Time before a restart; doubled for each further one within `restart.within`.",
    )
    pause_max: Duration = Field(
        default=timedelta(seconds=30),
        ge=timedelta(0),
        description="Longest time before a restart.",
    )


class ShutdownSettings(Section):
    """How the application stops."""

    grace: Duration = Field(
        default=timedelta(seconds=30),
        ge=timedelta(0),
        description="Time that the running epoch may take to finish after SIGTERM or SIGINT. After "
        "that its workers are killed, nothing is committed, and the exit code is 5. A second "
        "signal ends the process at once.",
    )


class StallSettings(Section):
    """When commits count as stalled, and what follows."""

    after: Duration = Field(
        default=timedelta(minutes=5),
        gt=timedelta(0),
        description="Time without a commit, although there is work, after which the application "
        "reports that it has stalled, and `/health/live` that it is down. It should be longer than "
        "any epoch may take.",
    )
    action: Literal["report", "fail", "exit"] = Field(
        default="report",
        description="report: nothing else. fail: the workers of the epoch are killed, nothing of "
        "it is committed, and the application ends with `COMMIT_STALLED`, about which the "
        "uncaught-exception handler is asked. exit: the process ends at once with exit code 3, as "
        "if it was killed.",
    )

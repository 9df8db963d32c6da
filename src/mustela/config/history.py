"""The settings of what is kept to look back."""

from __future__ import annotations

from datetime import timedelta

from pydantic import Field

from mustela.config.section import Count, Duration, Section

__all__ = ["HistorySettings"]


class HistorySettings(Section):
    """What is kept so that an epoch can be replayed."""

    epochs: Count = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="How many of the last epochs can be replayed; [how](../guides/replay.md)."
        " 0: none but the next one, which was not committed. What each epoch read, its time and "
        "the results of its calls go to the topic `<application_id>-history`, in the epoch's own "
        "transaction, and the compaction of changelogs waits for `history.age`.",
    )
    age: Duration = Field(
        default=timedelta(days=1),
        ge=timedelta(minutes=1),
        description="The age up to which these epochs are kept, however few they are: changelogs "
        "keep overwritten rows for so long. Only with `history.epochs`.",
    )

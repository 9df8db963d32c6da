"""The settings of who writes an epoch's transaction."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mustela.config.section import Count, Section

__all__ = ["CommitSettings"]


class CommitSettings(Section):
    """Who writes the rows of an epoch's transaction; the driver alone begins and ends it."""

    writers: Literal["driver", "lanes"] = Field(
        default="driver",
        description="Who writes an epoch's rows. driver: all of them go through the driver; lanes: "
        "each lane writes its changelogs by itself, from where it runs, into the driver's "
        "transaction, and puts its output rows together so that the driver only passes them on. "
        "Needs the extra `mustela[writers]` and brokers from Kafka 3.6 on; where something is "
        "missing the driver writes, and says so. lanes is new, and not for production yet.",
    )
    lane_rows: Count = Field(
        default=1_000,
        ge=1,
        description="Rows of one epoch from which on a lane does so; with fewer, the driver writes "
        "them. Only with `commit.writers: lanes`.",
    )

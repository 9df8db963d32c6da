"""The settings of who writes an epoch's transaction."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mustela.config.section import Count, Section, Size

__all__ = ["CommitSettings"]


class CommitSettings(Section):
    """Who writes the rows of an epoch's transaction; the driver alone begins and ends it."""

    writers: Literal["auto", "driver", "lanes"] = Field(
        default="auto",
        description="Who writes an epoch's rows. driver: one producer of the driver, row by row; "
        "lanes: each lane with many rows writes its changelogs by itself, from where it runs, into "
        "the driver's transaction, and puts its output rows together so that the driver only "
        "passes them on; the rows of small epochs leave the driver in one request to each broker. "
        "Needs brokers from Kafka 3.6 on; where something is missing the driver writes, and an "
        "event says what. auto: lanes where nothing is missing, and otherwise driver.",
    )
    lane_rows: Count = Field(
        default=1_000,
        ge=1,
        description="Rows of one epoch from which on a lane does so; with fewer, the driver writes "
        "them. Not with `commit.writers: driver`.",
    )
    owner_bytes: Size | None = Field(
        default=None,
        description="On a cluster: bytes of output rows for each task that writes them in place of "
        "the driver, at least. If an epoch is expected to have as many for two tasks, one more "
        "exchange brings its rows to tasks that own a part of the partitions each and write them "
        "into the driver's transaction. Default: 4 MiB, but only where that gives eight tasks or "
        "more: with fewer the exchange costs more than the driver saves. Not with "
        "`commit.writers: driver`.",
    )

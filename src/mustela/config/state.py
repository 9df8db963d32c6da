"""The settings of state on the hosts that run the application."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from mustela.config.section import Duration, Section, Size

__all__ = ["StateSettings"]

_MIB = 2**20


class StateSettings(Section):
    """Where state lives on a host, and how."""

    backend: Literal["lmdb", "memory"] = Field(
        default="lmdb",
        description="lmdb: on disk; memory: the same on tmpfs, if it has room. A clean stop moves "
        "the state to `state_dir`, where the next start finds it; nothing stays on tmpfs.",
    )
    map_size: Size = Field(
        default=16 * 1024 * _MIB,
        ge=_MIB,
        description="Maximum size of one environment; this reserves address space, not disk space.",
    )
    standby_replicas: int | None = Field(
        default=None,
        ge=0,
        description="On a cluster: number of hosts, besides the one that runs it, that keep a copy "
        "of each key group, so that nothing has to be restored when a host is lost. null: 1 if "
        "there is another host.",
    )
    standby_lag: Duration = Field(
        default=timedelta(seconds=2),
        ge=timedelta(milliseconds=100),
        description="Time after which such a copy is brought up to date again.",
    )

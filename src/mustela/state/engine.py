"""What users say of how one store's rows lie on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["PLAIN_ENGINE", "Compression", "Engine"]

Compression = Literal["none", "zstd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How one store's rows lie on disk; what `rocksdb.config.setter` is in Kafka Streams.

    It is a local matter: changelogs, other hosts and readers do not see it, and it can be changed
    with any release. Rows that are there stay readable, and are written in the new form when they
    change, or while the application is idle.

    Attributes:
        compression: ``"zstd"`` compresses values with a dictionary of 2 KB that each key group
            makes of its own rows, once it has 128 KB of them. It is not used where a sample of rows
            does not become a fifth smaller. It needs ``pip install 'mustela[zstd]'``.
        page_fill: How full pages are at least, from 0 to 0.95: while the application is idle, files
            whose pages are less full are written anew. By default, files up to 16 MB of data are,
            at 0.85; with this option, up to 256 MB of data for each key group.
        map_size: Limit of a key group's file, in bytes, if it is above ``state.map_size``. Stores
            of one stage share a file; the largest limit counts.

    Example:
        >>> from mustela import Materialized
        >>> Materialized(store="orders", engine=Engine(page_fill=0.9)).engine.compression
        'none'
    """

    compression: Compression = "none"
    page_fill: float | None = None
    map_size: int | None = None


PLAIN_ENGINE = Engine()
"""How rows lie if nothing is said."""

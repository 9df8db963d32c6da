"""Event time and wall-clock time of an epoch, as its lanes see them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EpochTime"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTime:
    """What time it is in an epoch; the same for every lane.

    Attributes:
        before: The watermark before the epoch, in milliseconds; -1 if there is none yet.
        watermark: The watermark behind the epoch's rows. A stage handles its rows first and then
            moves to it.
        now_ms: The epoch's one wall-clock time.

    Example:
        >>> EpochTime(before=5, watermark=9).watermark
        9
    """

    before: int = -1
    watermark: int = -1
    now_ms: int = 0

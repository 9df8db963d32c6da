"""The last epoch record, as the epochs topic holds it."""

from __future__ import annotations

from mustela.runtime.epoch_record import EpochRecord, decode_epoch_record
from mustela.runtime.ports import EpochLog

__all__ = ["EpochReader"]


class EpochReader:
    """Reads what was committed last.

    Args:
        log: The epochs topic.
    """

    def __init__(self, log: EpochLog) -> None:
        self._log = log

    def last(self) -> EpochRecord | None:
        """Return the last committed epoch record, or None if there is none."""
        for value in self._log.newest_first():
            return decode_epoch_record(value)
        return None

"""Reports lost rows of stores without a changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mustela.plan.epoch import TaskReport
from mustela.plan.plan import Plan
from mustela.runtime.gate.differences import holds_rows
from mustela.runtime.record.epoch_record import EpochRecord

__all__ = ["UnloggedStores"]


class UnloggedStores:
    """Reports stores without a changelog whose local copy was lost, because it cannot be restored.

    Args:
        plan: Names the stores.
        say: Called with messages for the user.
    """

    def __init__(self, plan: Plan, say: Callable[[str], None]) -> None:
        self._names = {name for name, (_, spec) in plan.stores.items() if not spec.logged}
        self._new: set[str] = set()
        self._say = say

    def begin(self, record: EpochRecord | None) -> None:
        """Note which stores hold rows: one that never held a row has lost none.

        Args:
            record: The last epoch record, with the stores under their names in the program.
        """
        holds = {name for name in self._names if record is not None and holds_rows(record, name)}
        self._new = self._names - holds

    def restored(self, stores: Iterable[str]) -> None:
        """Report which of the stores restored by a start have lost rows."""
        self._tell(set(stores) - self._new)
        self._new = set()

    def lost(self, reports: Iterable[TaskReport]) -> None:
        """Report which stores lost rows while the application ran."""
        if self._names:
            self._tell({store for report in reports for store in report.restored})

    def _tell(self, stores: set[str]) -> None:
        for name in sorted(stores & self._names):
            self._say(
                f"rows of store '{name}' are lost: its local copy is gone, or older than the last "
                "epoch, and it has no changelog; it continues with what is left"
            )

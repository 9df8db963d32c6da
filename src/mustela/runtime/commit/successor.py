"""Whether a newer instance of the application has taken over.

Kafka fences an older producer as soon as a newer one with the same id opens. That alone does not
show which instance continues: the newer one may end before its first transaction, or may be an
older instance that only checked how its last commit ended. The epochs topic shows it: the instance
that continues has committed a record with a higher incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mustela.clock import Clock
from mustela.errors import EnvironmentFault, MustelaError
from mustela.runtime.record.epoch_delta import EpochDelta
from mustela.runtime.record.epoch_record import EpochRecord

__all__ = ["FencedError", "Successor"]

CLAIM_WAIT_S = 3.0
_PAUSE_S = 0.05


class FencedError(EnvironmentFault):
    """Another instance of the application took over; this one must not be started again."""

    code = "FENCED"


class Successor:
    """Looks for the claim of a newer instance.

    Args:
        application_id: The application.
        read_last: Reads which epoch was committed last.
        clock: Monotonic time.
    """

    def __init__(
        self,
        application_id: str,
        read_last: Callable[[], EpochRecord | EpochDelta | None],
        clock: Clock,
    ) -> None:
        self._application_id = application_id
        self._read_last = read_last
        self._clock = clock

    def refuse(self, incarnation: int, error: MustelaError) -> None:
        """Raise `FencedError` if a newer instance took over, as that explains all other errors.

        Raises:
            FencedError: If there is a record of a higher incarnation.
        """
        try:
            last = self._read_last()
        except EnvironmentFault:
            return  # the broker does not answer: only the error is known
        if last is not None and last.incarnation > incarnation:
            raise self.fenced(error) from error

    def look(self, incarnation: int) -> None:
        """Raise `FencedError` if a newer instance took over.

        Raises:
            FencedError: If there is a record of a higher incarnation.
            EnvironmentFault: If no broker says.
        """
        last = self._read_last()
        if last is not None and last.incarnation > incarnation:
            raise self._fenced({"claim": f"incarnation {last.incarnation}"})

    def refuse_soon(self, incarnation: int, error: MustelaError) -> None:
        """Do the same for a fenced producer: the claim comes a moment after the fencing.

        Returns:
            If no claim comes: the instance that opened a producer did not continue.
        """
        deadline = self._clock.monotonic() + CLAIM_WAIT_S
        while True:
            self.refuse(incarnation, error)
            if self._clock.monotonic() >= deadline:
                return
            self._clock.sleep(_PAUSE_S)

    def fenced(self, error: MustelaError) -> FencedError:
        """Return the error for a takeover."""
        return self._fenced({"kafka": error.what})

    def _fenced(self, evidence: Mapping[str, str]) -> FencedError:
        return FencedError(
            f"another instance of {self._application_id} took over",
            evidence=evidence,
            why="an application runs one transaction at a time: the newer instance continues",
            fix="run one instance; do not restart this one",
        )

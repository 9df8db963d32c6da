"""The job of an epoch: running it, and handling its failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mustela.connectors.kafka.errors import RowsRefused, TransactionFailed
from mustela.errors import DataError, EnvironmentFault, MustelaError
from mustela.plan.epoch import EpochOrder
from mustela.runtime.commit.barrier import Phase
from mustela.runtime.cutting.prefetch import Done, Turn
from mustela.runtime.engine import EpochJobError, EpochOutput
from mustela.runtime.epoch.run import Run
from mustela.runtime.events import UncaughtAnswer
from mustela.runtime.hunt import Hunt, record_of
from mustela.state.faults import StateDamagedError

__all__ = ["FAILURES_MAX", "LOSSES_MAX", "EpochJob"]

FAILURES_MAX = 5
"""How many epochs may fail in a row."""

LOSSES_MAX = 30
"""How many may fail in a row because an executor was lost: it is not the program's failure, but one
that is lost again and again has not enough memory."""


class EpochJob:
    """Runs epochs on the engine; one that fails is run again, smaller.

    Args:
        run: What the parts of the loop share.
        hunt: Searches for a record that kills its worker.
    """

    def __init__(self, run: Run, hunt: Hunt) -> None:
        self._run = run
        self._hunt = hunt

    def output(self, turn: Turn, begun: Callable[[], Done] | None) -> EpochOutput | None:
        """Run the job of an epoch.

        Args:
            turn: The epoch.
            begun: Waits for the work done ahead.

        Returns:
            Its output; None if it failed and must be run again.

        Raises:
            FencedError: If another instance took over.
            MustelaError: If it cannot run, or has failed too often.
        """
        run = self._run
        try:
            return self._in_hand(partial(self._finish, turn, begun))
        except TransactionFailed as error:
            self._transaction_failed(error, turn.order)
            return None
        except MustelaError as error:
            run.outcome.refuse_if_replaced(error, run.barrier)
            if not (isinstance(error, EnvironmentFault) and error.retryable):
                if not self._is_skipped(error):
                    raise
                return None
            self._failed(error, turn.order)
            return None

    def _transaction_failed(self, error: TransactionFailed, order: EpochOrder) -> None:
        """Go on after a transaction into which lanes could not write.

        That they are fenced names nobody: a request of this instance's own that came late does the
        same. So a successor is looked for, and if there is none, the next epoch follows.
        """
        run = self._run
        run.driver_writes = True
        run.may_seal = run.may_seal and not isinstance(error, RowsRefused)
        run.outcome.refuse_if_replaced(error, run.barrier)
        on_error = run.listener.on_error
        run.faults.retry(lambda: run.outcome.settle(error, run.barrier), on_error)
        self._failed(error, order)

    def _lent(self, order: EpochOrder) -> EpochOrder:
        """Return the order with a transaction for its tasks, where they may write.

        Who follows the changes of stores gets them from the driver, so then it writes them.
        """
        run = self._run
        has_logs = any(stage.logged for stage in run.plan.stages)
        if not (has_logs or order.owners) or run.driver_writes or run.board.changes.followed():
            return order
        return replace(order, ticket=run.world.transactions.lend())

    def _in_hand(self, work: Callable[[], EpochOutput]) -> EpochOutput:
        barrier = self._run.barrier
        barrier.start()
        self._run.world.crash_point("before-job")
        try:
            output = work()
        except BaseException:
            barrier.give_up()
            raise
        barrier.move(Phase.IN_HAND)
        return output

    def _finish(self, turn: Turn, begun: Callable[[], Done] | None) -> EpochOutput:
        """Run the job of an epoch, or the part of it not done ahead."""
        run = self._run
        if begun is None:
            return run.engine.run(self._lent(turn.order))
        made = begun()
        if isinstance(made, EpochOutput):
            return made
        # Reading ahead did not depend on the outcome of the previous commit; lanes do.
        order = replace(
            turn.order, marks=run.state.marks(), due=run.due.order(), suspect=run.is_suspect
        )
        return run.engine.run(self._lent(order), made)

    def _failed(self, error: EnvironmentFault, order: EpochOrder) -> None:
        """Record a failed job: run the epoch again with half the offsets, or raise the error."""
        run = self._run
        if isinstance(error, EpochJobError) and error.lost_executor:
            run.losses += 1
            # What it had on its disk is as whole as after any kill, and others' is untouched. To
            # look at all of it takes seconds; so that is for who is lost again.
            run.is_suspect = run.is_suspect or run.losses > 1
            run.listener.on_error(error)
            if run.losses >= LOSSES_MAX:
                raise error
            return
        run.failures += 1
        run.is_suspect = run.is_suspect or isinstance(error, EpochJobError | StateDamagedError)
        run.listener.on_error(error)
        if self._is_found(error, order):
            run.failures = 0
            return
        if run.failures >= FAILURES_MAX:
            raise error
        run.budget.halve()

    def _is_skipped(self, error: MustelaError) -> bool:
        """Whether the record that an error names is left out from now on, as a handler says.

        One that was read by an earlier epoch, as that of a parked call, cannot be left out.
        """
        run = self._run
        place = record_of(error) if isinstance(error, DataError) else None
        if place is None:
            return False
        unread = run.state.sources.next_offsets.get(place.partition)
        may_skip = unread is not None and unread <= place.offset and self._hunt.has_room
        if run.uncaught(error, may_skip=may_skip) is not UncaughtAnswer.SKIP_RECORD:
            return False
        self._hunt.leave_out(place, f"{error.code}: {error.what}")
        return True

    def _is_found(self, error: EnvironmentFault, order: EpochOrder) -> bool:
        """Return whether a record that kills workers was found, and is left out from now on."""
        try:
            return self._hunt.is_on(error) and self._hunt.find(order, self._probe)
        except EpochJobError:
            return False  # something else failed meanwhile: retry the epoch first

    def _probe(self, order: EpochOrder) -> EpochOutput | MustelaError:
        """Run an epoch without committing it."""
        run = self._run
        order = replace(
            order,
            token=run.barrier.token,
            probe=True,
            marks=run.state.marks(),
            due=run.due.order(),
            suspect=True,
        )
        try:
            output = self._in_hand(partial(run.engine.run, order))
        except EpochJobError as error:
            if not error.suspect:
                raise
            return error
        except DataError as error:
            return error
        run.barrier.give_up()
        return output

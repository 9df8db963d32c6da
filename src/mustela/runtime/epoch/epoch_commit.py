"""The end of an epoch: its one transaction, and what is learned from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mustela.connectors.kafka.errors import RowsRefused, TransactionFailed
from mustela.errors import EnvironmentFault
from mustela.plan.epoch import EpochOrder, TaskReport
from mustela.plan.ranges import RangeReport
from mustela.runtime.commit.committed import CommittedState, EpochChange, kept_of
from mustela.runtime.commit.committer import Committer
from mustela.runtime.cutting.prefetch import Turn
from mustela.runtime.engine import EpochOutput
from mustela.runtime.epoch.broker_view import BrokerView
from mustela.runtime.epoch.epoch_job import FAILURES_MAX
from mustela.runtime.epoch.run import Run
from mustela.runtime.events import EpochDone
from mustela.runtime.record.history_row import history_parts, history_row
from mustela.runtime.record.source_offsets import cuts_made

__all__ = ["EpochCommit"]

_MIRROR_EVERY_MS = 3_600_000


class EpochCommit:
    """Commits epochs.

    Args:
        run: The state shared by the parts of the loop.
        view: The view of the broker.
        committer: Makes the transaction.
        before_commit: Called with an epoch's changes just before its rows are committed.
    """

    def __init__(
        self,
        run: Run,
        view: BrokerView,
        committer: Committer,
        before_commit: Callable[[EpochChange], None],
    ) -> None:
        self._run = run
        self._view = view
        self._committer = committer
        self._before_commit = before_commit

    def commit(self, output: EpochOutput, turn: Turn, ranges: Sequence[RangeReport]) -> bool:
        """Commit an epoch.

        Args:
            output: Its output.
            turn: What was chosen for it to read.
            ranges: The tasks' reports of the ranges they read.

        Returns:
            Whether something was committed.

        Raises:
            FencedError: If another instance took over.
            EnvironmentFault: If the commit failed permanently.
        """
        run, now_ms = self._run, turn.look.now_ms
        change = self._change(output, turn, ranges)
        watermark = change.watermark
        if not (change.cuts or change.wrote or output.size):
            run.barrier.nothing_to_say()
            run.state.watermark = watermark
            run.due.learn(output.reports, watermark=watermark.value, now_ms=now_ms)
            return False
        offsets = {place: cut.end for place, cut in change.cuts.items()}
        if change.mirrored:
            offsets = {**run.state.sources.next_offsets, **offsets}
        after: list[CommittedState] = []

        def record(ends: Mapping[tuple[str, int], int]) -> Any:
            after[:] = [run.state.after(replace(change, changelog_ends=ends))]
            return after[0].to_record(now_ms)

        self._before_commit(change)
        try:
            self._committer.commit(
                output,
                barrier=run.barrier,
                offsets=offsets,
                record=record,
                history=self._history(turn.order, output),
            )
        except TransactionFailed as error:
            if not self._settle_outcome(error):
                return False
        except EnvironmentFault as error:
            run.outcome.refuse_if_replaced(error, run.barrier)
            raise
        run.state = after[0]
        run.on_committed(run.state)
        if output.written:  # they are asked for their rows where somebody follows them
            run.board.changes.lose(run.state.epoch)
        else:
            run.board.changes.committed(run.state.epoch, output.changelogs)
        self._view.committed()
        run.due.learn(output.reports, watermark=watermark.value, now_ms=now_ms)
        run.failures, run.losses, run.is_suspect, run.driver_writes = 0, 0, False, False
        return True

    def _history(self, order: EpochOrder, output: EpochOutput) -> list[tuple[bytes, bytes]]:
        """Return what is kept of an epoch, if anything is."""
        run = self._run
        epochs = run.settings.history.epochs
        if not epochs:
            return []
        # If it was read ahead, its lanes ran with what was known when that was committed.
        order = replace(
            order, token=run.barrier.token, due=run.due.order(), placement=output.placement
        )
        return history_parts(history_row(order, kept_of(run.state), output.reports), epochs)

    def _change(
        self, output: EpochOutput, turn: Turn, ranges: Sequence[RangeReport]
    ) -> EpochChange:
        """Return what an epoch changes, except changelog ends, which its commit finds out."""
        run, look = self._run, turn.look
        cuts = cuts_made(turn.cuts, run.topics, ranges)
        return EpochChange(
            token=run.barrier.token,
            time_ms=look.now_ms,
            cuts=cuts,
            wrote=_wrote(output.reports),
            changelog_ends={},
            watermark=run.state.watermark.after(run.topics, look, ranges),
            leaders=self._view.leaders_of(cuts, ranges),
            mirrored=look.now_ms - run.state.mirrored_ms >= _MIRROR_EVERY_MS,
        )

    def _settle_outcome(self, error: TransactionFailed) -> bool:
        """Return whether the epoch whose transaction failed was committed."""
        run = self._run
        run.listener.on_error(error)
        run.failures += 1
        run.driver_writes = True
        run.may_seal = run.may_seal and not isinstance(error, RowsRefused)
        # Opening the producer would fence a newer instance, so look for one first.
        run.outcome.refuse_if_replaced(error, run.barrier)
        if run.failures >= FAILURES_MAX:
            raise error
        committed = run.faults.retry(
            lambda: run.outcome.settle(error, run.barrier), run.listener.on_error
        )
        if not committed:
            run.budget.halve()
        return committed

    def learn(
        self,
        output: EpochOutput,
        ranges: Sequence[RangeReport],
        *,
        started: float,
        job_seconds: float,
    ) -> None:
        """Report a committed epoch, and learn how large the next one should be.

        Args:
            output: Its output.
            ranges: The tasks' reports of the ranges they read.
            started: Monotonic time at which it was chosen, in seconds.
            job_seconds: How long its job took.
        """
        run = self._run
        seconds = run.clock.monotonic() - started
        records = sum(part.records for part in ranges)
        size = sum(part.size for part in ranges) + output.all_bytes
        run.opening.recovery.unlogged.lost(output.reports)
        run.owner_choice.learn(output.reports, records=records)
        worked = output.worked + seconds - job_seconds
        run.budget.learn(records=records, size=size, seconds=seconds, worked=worked)
        refused = self._committer.left_out.items()
        counters = {f"refused_rows:{topic}": count for topic, count in refused}
        for report in output.reports:
            for name, count in report.counters.items():
                counters[name] = counters.get(name, 0) + count
        if output.owned:
            counters["bytes_by_owners"] = sum(report.size for report in output.owned)
        run.listener.on_event(
            EpochDone(
                epoch=run.state.epoch,
                records=records,
                lag=run.state.sources.lag(run.ends),
                seconds=seconds,
                job_seconds=job_seconds,
                watermark=run.state.watermark.value,
                counters=counters,
                reports=output.reports,
            )
        )


def _wrote(reports: Sequence[TaskReport]) -> dict[int, list[int]]:
    """Return the key groups that wrote to stores, by stage."""
    wrote: dict[int, list[int]] = {}
    for report in reports:
        if report.wrote:
            wrote.setdefault(report.stage, []).extend(report.wrote)
    return wrote

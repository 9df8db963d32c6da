"""Finds out how a commit with an unknown outcome ended, and whether a newer instance took over."""

from __future__ import annotations

from mustela.connectors.kafka.errors import SourceGone, TransactionFailed, TransactionFenced
from mustela.errors import EnvironmentFault, InvariantError, MustelaError
from mustela.model import TopicPartition
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.epochs import ChangelogGoneError, EpochReader, EpochsTopicGoneError
from mustela.runtime.commit.successor import FencedError, Successor
from mustela.runtime.ports import Transactions
from mustela.runtime.record.epoch_delta import token_of

__all__ = ["Outcome"]

_GONE = (SourceGone, ChangelogGoneError, EpochsTopicGoneError)
_BETWEEN = frozenset({Phase.IDLE, Phase.RUNNING, Phase.IN_HAND})
"""Phases in which no transaction is open."""


class Outcome:
    """Determines the outcome of an epoch with a new producer and the epochs topic.

    Args:
        transactions: The transactional producer.
        epochs: Reads the last epoch record.
        successor: Looks for the claim of a newer instance.
    """

    def __init__(
        self, transactions: Transactions, epochs: EpochReader, successor: Successor
    ) -> None:
        self._transactions = transactions
        self._epochs = epochs
        self._successor = successor

    def settle(self, error: TransactionFailed, barrier: Barrier) -> bool:
        """Open a new producer and say whether the epoch was committed.

        Raises:
            FencedError: If a newer instance took over.
        """
        token = barrier.token
        self._transactions.reopen()
        last = self._epochs.newest()
        committed = last is not None and token_of(last) == token
        if barrier.phase is Phase.UNKNOWN:
            if committed:
                barrier.committed()
            else:
                barrier.give_up()
        assert not committed or barrier.last_epoch == token.epoch
        if last is not None and last.incarnation > token.incarnation:
            barrier.phase = Phase.FENCED
            raise self._successor.fenced(error)
        return committed

    def look(self, barrier: Barrier) -> None:
        """Raise `FencedError` if a newer instance took over, even if no commit has failed.

        Raises:
            FencedError: If there is a claim of a newer instance.
            EnvironmentFault: If no broker answers.
        """
        try:
            self._successor.look(barrier.incarnation)
        except FencedError:
            barrier.phase = Phase.FENCED
            raise

    def refuse_if_replaced(self, error: MustelaError, barrier: Barrier) -> None:
        """Raise `FencedError` if a newer instance took over, as that explains all other errors.

        Raises:
            FencedError: If there is a claim of a newer instance.
        """
        was_fenced = isinstance(error, TransactionFenced)
        look = self._successor.refuse_soon if was_fenced else self._successor.refuse
        try:
            look(barrier.incarnation, error)
        except FencedError:
            barrier.phase = Phase.FENCED
            raise

    def refuse_if_deposed(
        self,
        error: EnvironmentFault,
        barrier: Barrier,
        place: TopicPartition,
    ) -> None:
        """Raise `FencedError` if a topic is gone because of ``reset --force``.

        No record shows it, as the epochs topic is gone too; but a reset fences this instance before
        it deletes topics, and Kafka reports that when offsets are added to a transaction.

        Args:
            error: The error that ends this instance.
            barrier: Whether a transaction is open.
            place: A partition that the application reads; no offset of it is committed.

        Raises:
            FencedError: If this instance was fenced.
        """
        if not isinstance(error, _GONE) or barrier.phase not in _BETWEEN:
            return
        try:
            self._transactions.begin()
            self._transactions.send_offsets({(place.topic, place.partition): 0})
        except TransactionFenced:
            barrier.phase = Phase.FENCED
            raise self._successor.fenced(error) from error
        except (EnvironmentFault, InvariantError):
            return  # no answer, or nothing was claimed yet: only the error is known

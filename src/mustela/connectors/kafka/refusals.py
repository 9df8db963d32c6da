"""Which rows of a refused batch does the broker really refuse?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mustela.connectors.kafka.calls import told_as_raised
from mustela.connectors.kafka.errors import ErrorKind, RefusedRow, kind_of

__all__ = ["Suspect", "refused_of"]

REFUSED_MAX = 1_000
ABORT_TIMEOUT_S = 10.0
STEP_S = 0.02


@dataclass(slots=True)
class Suspect:
    """A row of a batch that the broker refused.

    Attributes:
        tag: What the caller gave with the row.
        row: Its index.
        error: Why the batch was refused.
        message: The row itself.
        timestamp: Its timestamp, which the report of a failure does not carry.
        headers: Its headers, neither.
    """

    tag: object
    row: int
    error: KafkaError
    message: Message
    timestamp: int
    headers: list[Any]

    def refused(self, error: KafkaError) -> RefusedRow:
        """Return the row with the reason that it was refused for alone."""
        topic = self.message.topic() or ""
        return RefusedRow(self.tag, self.row, topic, error.name(), error.str())


def refused_of(
    suspects: Sequence[Suspect],
    connect: Callable[[], Producer],
    timeout: float,
) -> list[RefusedRow]:
    """Try each suspect in a batch of its own, in transactions that are all aborted.

    Args:
        suspects: Rows of refused batches.
        connect: Makes a transactional producer that sends each row as a batch, and readies it.
        timeout: Seconds to wait for each transaction's rows.

    Returns:
        The rows that are refused alone, at most a thousand: a caller that leaves them out and
        tries again learns of the rest.
    """
    found: list[RefusedRow] = []
    left = list(suspects)
    producer = connect()
    while left and len(found) < REFUSED_MAX:
        outcome = _try(producer, left, timeout)
        if not outcome:
            break  # nothing is decided: the broker is gone, which another call will notice
        found += [
            suspect.refused(error)
            for index, suspect in enumerate(left)
            if (error := outcome.get(index)) is not None
        ]
        left = [suspect for index, suspect in enumerate(left) if index not in outcome]
    return found


def _try(
    producer: Producer, suspects: Sequence[Suspect], timeout: float
) -> dict[int, KafkaError | None]:
    """Produce rows and abort; return for each row that is decided why it was refused, or None."""
    outcome: dict[int, KafkaError | None] = {}

    def note(index: int, error: KafkaError | None, _message: Message) -> None:
        # The first refusal ends the transaction, and rows behind it are purged undecided.
        if error is None or kind_of(error) in (ErrorKind.ROW, ErrorKind.AUTHORIZATION):
            outcome[index] = error

    try:
        producer.begin_transaction()
        for index, suspect in enumerate(suspects):
            message = suspect.message
            partition = message.partition()
            producer.produce(
                message.topic() or "",
                message.value(),
                message.key(),
                -1 if partition is None else partition,
                partial(note, index),
                None,
                suspect.timestamp,
                suspect.headers,
            )
            with told_as_raised(producer):
                producer.poll(0)
        deadline = perf_counter() + timeout
        # Rows behind a refused one stay in the client until the abort: no use to wait for them.
        while perf_counter() < deadline and not any(outcome.values()):
            with told_as_raised(producer):
                waiting = producer.flush(STEP_S)
            if not waiting:
                break
    except KafkaException:
        pass  # the transaction takes no more rows, because one was refused
    try:
        with told_as_raised(producer):
            producer.abort_transaction(ABORT_TIMEOUT_S)
            producer.poll(0)
    except KafkaException:
        return {}
    return outcome

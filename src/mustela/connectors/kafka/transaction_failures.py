"""The error that says how a transaction failed, and what is known of it."""

from __future__ import annotations

from math import isfinite
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.deliveries import Diagnosis
from mustela.connectors.kafka.errors import (
    ErrorKind,
    TransactionAborted,
    TransactionExpired,
    TransactionFailed,
    TransactionFenced,
    TransactionUnknown,
    error_of,
    kind_of,
)

__all__ = [
    "Circumstances",
    "ends_missing",
    "failure_of",
    "is_about_delivery",
    "partitions_unknown",
]

# The client's text for it is no help: it sends the reader to reports that he never sees.
_UNDELIVERED = KafkaError._INCONSISTENT  # pyright: ignore[reportPrivateUsage]
_LATE = (KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT)  # pyright: ignore[reportPrivateUsage]


class Circumstances(NamedTuple):
    """How far a transaction had come.

    Attributes:
        what: What could not be done.
        elapsed: Seconds since it began.
        limit: Seconds that it may be open; infinite where that is not known, as in a task.
        commit_sent: Whether the commit was asked for.
    """

    what: str
    elapsed: float
    limit: float
    commit_sent: bool


def is_about_delivery(error: KafkaError | None) -> bool:
    """Whether an error says no more than that rows did not arrive."""
    if error is None:
        return True
    gone = kind_of(error) is ErrorKind.TOPIC_GONE
    return gone or error.code() in (_UNDELIVERED, *_LATE)


def failure_of(error: KafkaError, now: Circumstances, diagnosis: Diagnosis) -> TransactionFailed:
    """Make the error of a transaction that failed."""
    kind = kind_of(error)
    evidence: dict[str, str] = {}
    if error.code() != _UNDELIVERED:
        evidence["kafka"] = f"{error.name()}: {error.str()}"
    if isfinite(now.limit):
        evidence["open for"] = f"{now.elapsed:.1f} s of {now.limit:g} s"
    fields = {"kafka": error.name(), "seconds": now.elapsed, "commit_sent": now.commit_sent}
    is_over = kind is ErrorKind.FENCED or error.code() == KafkaError.INVALID_TXN_STATE
    if is_over and now.elapsed >= now.limit:
        return TransactionExpired(
            now.what,
            evidence=evidence,
            why="the broker aborts a transaction that is open for longer than commit_timeout",
            fix="run smaller epochs (epoch.max_records), or raise commit_timeout",
            fields=fields,
        )
    if kind is ErrorKind.FENCED:
        return TransactionFenced(
            now.what,
            evidence=evidence,
            why="another producer with the same transactional id has started",
            fix="run one instance of an application_id at a time",
            fields=fields,
        )
    known = error.txn_requires_abort() or kind is ErrorKind.ABORTED
    if now.commit_sent and not known:
        return TransactionUnknown(
            now.what,
            evidence=evidence,
            why="the commit was requested, but no answer came",
            fix="open the producer again and read the epoch record",
            fields=fields,
        )
    return TransactionAborted(
        now.what,
        evidence={**evidence, **diagnosis.evidence},
        why=diagnosis.why,
        fix=diagnosis.fix,
        fields={**fields, "gone": list(diagnosis.gone)},
    )


def partitions_unknown(
    raised: KafkaException, topic: str, *, elapsed: float, limit: float
) -> TransactionFailed:
    """Make the error that nobody says how many partitions a topic has.

    Args:
        raised: What was said instead.
        topic: The topic.
        elapsed: Seconds since the transaction began.
        limit: Seconds that it may be open; infinite where that is not known, as in a task.
    """
    what = f"could not learn how many partitions {topic} has"
    now = Circumstances(what, elapsed, limit, commit_sent=False)
    gone = (topic,) if kind_of(raised) is ErrorKind.TOPIC_GONE else ()
    return failure_of(error_of(raised), now, Diagnosis(gone=gone))


def ends_missing(what: str, places: list[tuple[str, int]]) -> TransactionAborted:
    """Make the error that rows arrived, and nobody said where."""
    topic, partition = places[0]
    return TransactionAborted(
        f"{what}: the broker did not report the offsets of the rows of {topic}-{partition} are",
        evidence={"partitions without an end": len(places)},
        why="the epoch record names the end of each changelog; a restore would stop too early"
        " without it",
        fields={"places": places, "commit_sent": False},
    )

"""Calls of the producer that may not come back, and letting go of a producer that is no use.

The client honours its timeouts with two exceptions, both in `send_offsets_to_transaction`, which
then never returns: where the group's coordinator is not there for three questions in a row, and
where a broker that the client knew was left out of the cluster's metadata for a moment. Closing
such a client can wait as well. So both happen in threads of their own, which are left behind if
they must be.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Generator
from time import perf_counter, sleep
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from mustela.connectors.kafka.errors import ErrorKind, error_of, kind_of

__all__ = [
    "StuckError",
    "abort_quietly",
    "await_coordinator",
    "close_aside",
    "discard",
    "serve",
    "told_as_raised",
    "within",
]

T = TypeVar("T")

GRACE_S = 3.0
COORDINATOR_PAUSE_S = 0.02
ABORT_TIMEOUT_S = 5.0


class StuckError(KafkaException):
    """A call did not come back: its client may not even be closed."""

    def __init__(self, seconds: float) -> None:
        text = f"the client did not answer within {seconds:g} s"
        super().__init__(KafkaError(KafkaError._TIMED_OUT, text))  # pyright: ignore[reportPrivateUsage]


def within(
    producer: Producer,
    call: Callable[[], T],
    seconds: float,
    meanwhile: Callable[[], None] | None = None,
) -> T:
    """Make a call that has a timeout of ``seconds`` itself, and do not trust it to keep that.

    Args:
        producer: Whose call it is.
        call: The call.
        seconds: Its timeout.
        meanwhile: Done here while the call is under way.

    Raises:
        StuckError: If it did not return a few seconds after its timeout.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with told_as_raised(producer):
                answers.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the other thread
            errors.append(error)

    thread = threading.Thread(target=run, name="mustela-kafka-call", daemon=True)
    thread.start()
    if meanwhile is not None:
        meanwhile()
    thread.join(seconds + GRACE_S)
    if errors:
        raise errors[0]
    if not answers:
        raise StuckError(seconds)
    return answers[0]


@contextlib.contextmanager
def told_as_raised(producer: Producer) -> Generator[None]:
    """Raise a fatal error of the client as itself.

    The client keeps it while it serves the rest of its callbacks. A delivery report among them
    makes a SystemError of it; a callback that catches anything of its own, as a logging handler
    does, drops it or leaves half of it, and the client then fails without its reason.
    """
    try:
        yield
    except SystemError as error:
        reason = error.__cause__
        if not isinstance(reason, KafkaException):
            reason = _fatal_error(producer)
        if isinstance(reason, KafkaException):
            raise reason from None
        raise


def _fatal_error(producer: Producer) -> KafkaException | None:
    """Return the error after which a producer does nothing more, or None where there is none."""
    try:
        producer.begin_transaction()  # refused by a transaction that is open: nothing is begun
    except KafkaException as raised:
        if error_of(raised).fatal():
            return raised
    return None


def abort_quietly(producer: Producer) -> None:
    """Abort what is open, if that is quick: the next producer of the same id would do it too."""
    with contextlib.suppress(KafkaException):
        within(producer, lambda: producer.abort_transaction(ABORT_TIMEOUT_S), ABORT_TIMEOUT_S)


def discard(producer: Producer) -> None:
    """Drop what a producer still holds, and close it, without waiting for that."""
    with contextlib.suppress(KafkaException):
        producer.purge()
    close_aside(producer)


def close_aside(client: Producer | Consumer) -> None:
    """Close a client without waiting for it."""

    def close() -> None:
        # The client tries an abort first, and warns where that fails. What becomes of the
        # transaction is for the next producer to say. Where warnings are errors, this one comes
        # out of the client as a SystemError.
        warnings.filterwarnings("ignore", "Producer .* failed during close", RuntimeWarning)
        with contextlib.suppress(KafkaException, RuntimeError, SystemError):
            closing: Any = client
            closing.close()

    threading.Thread(target=close, name="mustela-kafka-close", daemon=True).start()


def serve(producer: Producer) -> None:
    """Let the client's callbacks run. After a fatal error it raises that here again."""
    with contextlib.suppress(KafkaException), told_as_raised(producer):
        producer.poll(0)


def await_coordinator(consumer: Consumer, place: TopicPartition, seconds: float) -> None:
    """Ask for an offset of the consumer's group until its coordinator answers."""
    deadline = perf_counter() + seconds
    while True:
        try:
            consumer.committed([place], timeout=max(0.1, deadline - perf_counter()))
        except KafkaException as raised:
            if kind_of(raised) is not ErrorKind.RETRYABLE or perf_counter() >= deadline:
                raise
            sleep(COORDINATOR_PAUSE_S)
        else:
            return

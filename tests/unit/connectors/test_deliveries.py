"""What became of the rows of a transaction, and how its failure is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka.calls import told_as_raised, within
from mustela.connectors.kafka.columns import Columns
from mustela.connectors.kafka.deliveries import Deliveries, Diagnosis
from mustela.connectors.kafka.errors import (
    TransactionAborted,
    TransactionExpired,
    TransactionFenced,
    TransactionUnknown,
    error_of,
)
from mustela.connectors.kafka.plain import PlainSink
from mustela.connectors.kafka.refusals import Suspect, refused_of
from mustela.connectors.kafka.transaction import TransactionalSink
from mustela.connectors.kafka.transaction_failures import Circumstances, failure_of

LIBRDKAFKAS_TEXT = "2 message(s) failed delivery (see individual delivery reports)"
UNDELIVERED = KafkaError(
    KafkaError._INCONSISTENT,  # pyright: ignore[reportPrivateUsage]
    LIBRDKAFKAS_TEXT,
    False,
    False,
    True,
)


class Report(SimpleNamespace):
    """The message of a delivery report."""

    def topic(self) -> str:
        return self.name

    def partition(self) -> int:
        return 0

    def offset(self) -> int | None:
        return self.at


def report(topic: str, offset: int | None) -> Any:
    return Report(name=topic, at=offset)


class Metadata:
    """A producer that knows of topics, and of nothing else."""

    def __init__(self, *topics: str, leader: int = 1) -> None:
        part = SimpleNamespace(leader=leader)
        self._topics = {n: SimpleNamespace(error=None, partitions={0: part}) for n in topics}

    def list_topics(self, timeout: float) -> Any:
        assert timeout <= 5
        return SimpleNamespace(topics=self._topics)


def sent(*topics: str) -> Deliveries:
    made = Deliveries("app")
    made.sent(Columns(topics=list(topics), keys=[None] * len(topics), values=[b""] * len(topics)))
    return made


def test_a_report_without_an_offset_gives_no_end() -> None:
    """The client has none where it sent a batch twice; the broker then does not say where."""
    deliveries = Deliveries()
    for topic, offset in (("a", 4), ("b", None), ("c", -1001)):
        deliveries.expect(topic, 0)
        deliveries.note(None, report(topic, offset))
    assert deliveries.ends == {("a", 0): 5}
    assert deliveries.without_end() == [("b", 0), ("c", 0)]


@pytest.mark.parametrize("offset", [None, -1001])
def test_the_sink_does_not_commit_rows_at_an_unknown_offset(offset: int | None) -> None:
    """The epoch fails, and runs again; the error names the partition."""

    class Client(Metadata):
        """Delivers each row at an offset that it does not tell."""

        def produce(
            self, topic: str, _value: Any, _key: Any, _part: int, done: Any, *_: Any
        ) -> None:
            done(None, report(topic, offset))

        def poll(self, _seconds: float) -> int:
            return 0

        begin_transaction = purge = close = abort_transaction = lambda self, *_args, **_named: None

        def flush(self, _seconds: float) -> int:
            return 0

    sink = TransactionalSink({"bootstrap.servers": "nowhere:1"}, "app")
    sink._producer = Client()  # type: ignore[assignment] # pyright: ignore
    sink.begin()
    sink.produce_tracked("app-counts-changelog", 0, [b"k"], [b"v"])
    with pytest.raises(TransactionAborted) as caught:
        sink.flush()
    assert caught.value.retryable
    assert "app-counts-changelog-0" in str(caught.value)
    assert not sink.is_open


def test_rows_that_did_not_arrive_are_told_by_topic_and_reason() -> None:
    """What an abort does to the rows after them says nothing."""
    deliveries = sent("out", "other")
    gone = KafkaError(KafkaError._UNKNOWN_TOPIC)  # pyright: ignore[reportPrivateUsage]
    purged = KafkaError(KafkaError._PURGE_QUEUE)  # pyright: ignore[reportPrivateUsage]
    for error in (gone, gone, purged):
        deliveries.note(error, report("out", None))
    told = deliveries.diagnose(None).evidence["not delivered"]
    assert told.startswith("2 row(s) to out: _UNKNOWN_TOPIC")
    assert "PURGE" not in told


def test_topics_that_are_gone_or_without_a_leader_are_named() -> None:
    """The brokers are asked when rows do not arrive."""
    diagnosis = sent("out", "there").diagnose(Metadata("there"))  # pyright: ignore
    assert diagnosis.evidence == {"topics": "out: does not exist"}
    assert "mustela topics create out" in (diagnosis.fix or "")
    headless = sent("out").diagnose(Metadata("out", leader=-1))  # pyright: ignore
    assert headless.evidence == {"topics": "out: partition 0 has no leader"}
    assert headless.fix is None


def test_nobody_is_told_to_make_an_internal_topic() -> None:
    """A changelog made by hand would be an empty one."""
    deliveries = sent("app-counts-changelog")
    deliveries.expect("app-counts-changelog", 0)
    fix = deliveries.diagnose(Metadata()).fix or ""  # pyright: ignore
    assert "create" not in fix
    assert "mustela reset app" in fix


def test_brokers_that_do_not_say_leave_the_names_of_the_topics() -> None:
    """It is better than nothing."""

    class Silent:
        def list_topics(self, **_named: Any) -> Any:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # pyright: ignore[reportPrivateUsage]

    assert sent("b", "a").diagnose(Silent()).evidence == {"topics": "a, b"}  # pyright: ignore


def test_the_text_of_a_failure_never_sends_to_delivery_reports() -> None:
    """Nobody sees them."""
    now = Circumstances("could not commit", 1.0, 60.0, commit_sent=True)
    text = str(failure_of(UNDELIVERED, now, Diagnosis({"topics": "out: does not exist"}, ("out",))))
    assert "individual" not in text
    assert "out: does not exist" in text


@pytest.mark.parametrize(
    ("code", "elapsed", "commit_sent", "kind"),
    [
        (KafkaError._FENCED, 1.0, False, TransactionFenced),  # pyright: ignore[reportPrivateUsage]
        (KafkaError._FENCED, 61.0, False, TransactionExpired),  # pyright: ignore[reportPrivateUsage]
        (KafkaError._TIMED_OUT, 1.0, True, TransactionUnknown),  # pyright: ignore[reportPrivateUsage]
        (KafkaError.INVALID_TXN_STATE, 1.0, True, TransactionAborted),
        (KafkaError._TIMED_OUT, 1.0, False, TransactionAborted),  # pyright: ignore[reportPrivateUsage]
    ],
)
def test_an_error_says_what_is_known_of_the_transaction(
    code: int, elapsed: float, commit_sent: bool, kind: type[Exception]
) -> None:
    """Fenced, expired, unknown or aborted."""
    now = Circumstances("could not commit", elapsed, 60.0, commit_sent)
    assert type(failure_of(KafkaError(code), now, Diagnosis())) is kind


def test_a_fatal_error_that_comes_with_a_delivery_report_is_told_as_what_it_is() -> None:
    """The client raises it first; the report's callback then makes a SystemError of it."""
    fenced = KafkaException(KafkaError(KafkaError._FENCED, "fenced", True))  # pyright: ignore[reportPrivateUsage]

    class Fenced:
        def flush(self, _seconds: float) -> int:
            raise SystemError("note returned a result with an exception set") from fenced

        def begin_transaction(self) -> None:
            """Begin."""

    producer: Any = Fenced()
    for doing in (
        lambda: producer.flush(1.0),
        lambda: within(producer, lambda: producer.flush(1.0), 5.0),
    ):
        with pytest.raises(KafkaException) as caught, told_as_raised(producer):
            doing()
        assert caught.value is fenced
    with pytest.raises(SystemError), told_as_raised(producer):
        raise SystemError


class Forgetful:
    """A producer whose fatal error was dropped by another callback of the same call."""

    def __init__(self, kept: KafkaError, how: str) -> None:
        self.kept = kept
        self.how = how

    def flush(self, _seconds: float) -> int:
        """Fail as the client does then."""
        raise SystemError(self.how)

    def begin_transaction(self) -> None:
        """Refuse, and say why."""
        raise KafkaException(self.kept)


@pytest.mark.parametrize(
    "how",
    [
        "<method 'flush'> returned NULL without setting an exception",
        "_PyErr_SetObject: exception <class 'str'> is not a BaseException subclass",
    ],
)
def test_a_fatal_error_that_another_callback_drops_is_asked_for_again(how: str) -> None:
    """A callback that catches anything of its own, as a logging handler does, takes its place."""
    fenced = KafkaError(KafkaError._FENCED, "fenced", True)  # pyright: ignore[reportPrivateUsage]
    producer: Any = Forgetful(fenced, how)
    with pytest.raises(KafkaException) as caught, told_as_raised(producer):
        producer.flush(1.0)
    assert error_of(caught.value) is fenced
    still_open = KafkaError(KafkaError._STATE, "open")  # pyright: ignore[reportPrivateUsage]
    open_yet: Any = Forgetful(still_open, how)
    with pytest.raises(SystemError), told_as_raised(open_yet):
        open_yet.flush(1.0)


class FatalProducer:
    """A producer whose fatal error comes with a delivery report."""

    def produce(self, *_args: Any) -> None:
        """Take a row."""

    def begin_transaction(self) -> None:
        """Begin."""

    def poll(self, _seconds: float) -> int:
        """Serve the callbacks."""
        return self.flush(0)

    def flush(self, _seconds: float) -> int:
        """Serve the callbacks."""
        code = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
        fatal = KafkaException(KafkaError(code, "a batch was lost", True))
        raise SystemError("note returned a result with an exception set") from fatal

    def abort_transaction(self, _seconds: float) -> None:
        """Fail as well."""
        self.flush(0)

    def purge(self) -> None:
        """Drop all."""

    def close(self) -> None:
        """Close."""


def test_a_task_whose_producer_fails_names_the_error() -> None:
    """The plain producer is flushed outside of any transaction, and serves callbacks too."""
    sink = PlainSink({"bootstrap.servers": "nowhere:1"})
    sink._producer = FatalProducer()  # type: ignore[assignment] # pyright: ignore
    with pytest.raises(TransactionAborted, match="could not send rows"):
        sink.flush(1.0)
    assert sink._producer is None


def test_rows_are_not_decided_by_a_producer_that_failed() -> None:
    """They are tried again, and the next call notices what is wrong."""
    message: Any = Report(name="t", at=None, value=lambda: b"v", key=lambda: None)
    suspect = Suspect(None, 0, KafkaError(KafkaError.INVALID_RECORD), message, 1, [])
    assert refused_of([suspect], FatalProducer, 1.0) == []  # type: ignore[arg-type] # pyright: ignore

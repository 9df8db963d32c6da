"""What Kafka's error codes become."""

from __future__ import annotations

import pickle

import pytest
from confluent_kafka import KafkaError, KafkaException

from mustela.connectors.kafka import errors
from mustela.connectors.kafka.errors import (
    AuthenticationRefused,
    BrokerUnavailable,
    CommitOutcome,
    ErrorKind,
    KafkaFault,
    PermissionRefused,
    RefusedRow,
    RowsRefused,
    TransactionAborted,
    TransactionExpired,
    TransactionFenced,
    TransactionUnknown,
    fault,
    kind_of,
)
from mustela.errors import EnvironmentFault, all_codes


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, ErrorKind.FENCED),
        (KafkaError.INVALID_PRODUCER_EPOCH, ErrorKind.FENCED),
        (KafkaError.PRODUCER_FENCED, ErrorKind.FENCED),
        (KafkaError.INVALID_TXN_STATE, ErrorKind.ABORTED),
        (KafkaError._ALL_BROKERS_DOWN, ErrorKind.BROKER_GONE),
        (KafkaError.CONCURRENT_TRANSACTIONS, ErrorKind.RETRYABLE),
        (KafkaError._TIMED_OUT, ErrorKind.RETRYABLE),
        (KafkaError.SASL_AUTHENTICATION_FAILED, ErrorKind.AUTHENTICATION),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, ErrorKind.AUTHORIZATION),
        (KafkaError.MSG_SIZE_TOO_LARGE, ErrorKind.ROW),
        (KafkaError.INVALID_TIMESTAMP, ErrorKind.ROW),
        (KafkaError.OFFSET_OUT_OF_RANGE, ErrorKind.OUT_OF_RANGE),
        (KafkaError._UNKNOWN_PARTITION, ErrorKind.TOPIC_GONE),
        (KafkaError.UNKNOWN, ErrorKind.OTHER),
    ],
)
def test_a_code_says_whether_to_try_again(code: int, kind: ErrorKind) -> None:
    """Codes that Mustela acts upon have a kind of their own."""
    assert kind_of(KafkaError(code)) is kind
    assert kind_of(KafkaException(KafkaError(code))) is kind


def test_a_lost_commit_is_never_a_success() -> None:
    """What the broker says after it aborted by itself counts as aborted."""
    assert TransactionAborted.outcome is CommitOutcome.ABORTED
    assert TransactionExpired.outcome is CommitOutcome.UNKNOWN
    assert TransactionUnknown.outcome is CommitOutcome.UNKNOWN
    assert TransactionFenced.outcome is CommitOutcome.FENCED
    assert not TransactionFenced.retryable


def test_a_refused_login_names_the_settings() -> None:
    """The fix names what to look at, in Mustela's words."""
    error = fault(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED), "list topics", servers="b:1")
    assert isinstance(error, AuthenticationRefused)
    assert "kafka.sasl.password" in (error.fix or "")
    assert error.evidence["servers"] == "b:1"


def test_kinds_have_their_errors() -> None:
    """Waiting helps where no broker answers, and does not where it says no."""
    gone = fault(KafkaError(KafkaError._ALL_BROKERS_DOWN), "list topics")
    assert isinstance(gone, BrokerUnavailable)
    assert gone.retryable
    denied = fault(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), "list topics")
    assert isinstance(denied, PermissionRefused)
    assert not denied.retryable
    other = fault(KafkaException(KafkaError(KafkaError.UNKNOWN)), "list topics")
    assert type(other) is KafkaFault


def test_rows_travel_with_their_error() -> None:
    """A refused row keeps the caller's tag, also from one process to another."""
    row = RefusedRow(("row", 3), 7, "out", "INVALID_TIMESTAMP", "too far ahead")
    error = pickle.loads(pickle.dumps(RowsRefused.of([row])))
    assert error.rows == [row]
    assert error.known
    assert not RowsRefused.later("INVALID_TIMESTAMP", "too far ahead").known


def test_each_error_has_a_code_of_its_own() -> None:
    """Programs tell errors apart by it."""
    codes = all_codes()
    made = [getattr(errors, name) for name in errors.__all__]
    for cls in made:
        if isinstance(cls, type) and issubclass(cls, EnvironmentFault):
            assert codes[cls.code] is cls

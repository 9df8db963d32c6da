"""What Kafka's error codes mean to Mustela, and the errors that the rest of it sees."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from mustela.errors import EnvironmentFault, UsageError

if TYPE_CHECKING:
    from typing import ClassVar

__all__ = [
    "NO_BROKER_FIX",
    "AuthenticationRefused",
    "BrokerUnavailable",
    "ClientSettingsError",
    "CommitOutcome",
    "ErrorKind",
    "KafkaFault",
    "KafkaRetryable",
    "OffsetOutOfRange",
    "PermissionRefused",
    "ReadTimedOut",
    "RefusedRow",
    "RowsRefused",
    "SecurityMismatch",
    "SourceGone",
    "TransactionAborted",
    "TransactionExpired",
    "TransactionFailed",
    "TransactionFenced",
    "TransactionTimeoutRefused",
    "TransactionUnknown",
    "error_of",
    "fault",
    "kind_of",
]


class ErrorKind(Enum):
    """What a Kafka error code says about trying again."""

    RETRYABLE = "retryable"
    FENCED = "fenced"
    BROKER_GONE = "broker gone"
    AUTHENTICATION = "authentication"
    AUTHORIZATION = "authorization"
    TOPIC_GONE = "topic gone"
    OUT_OF_RANGE = "offset out of range"
    ROW = "row"
    ABORTED = "aborted"
    SETTING = "setting"
    OTHER = "other"


class CommitOutcome(Enum):
    """What is known about a transaction after one of its calls."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    FENCED = "fenced"
    REFUSED = "refused"


# KafkaError holds its codes as class attributes that its type stub declares as int.
_CODES: dict[ErrorKind, tuple[int, ...]] = {
    ErrorKind.FENCED: (
        KafkaError._FENCED,  # pyright: ignore[reportPrivateUsage]
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
        KafkaError.FENCED_INSTANCE_ID,
    ),
    ErrorKind.BROKER_GONE: (
        KafkaError._ALL_BROKERS_DOWN,  # pyright: ignore[reportPrivateUsage]
        KafkaError._TRANSPORT,  # pyright: ignore[reportPrivateUsage]
        KafkaError._RESOLVE,  # pyright: ignore[reportPrivateUsage]
        KafkaError.BROKER_NOT_AVAILABLE,
    ),
    ErrorKind.AUTHENTICATION: (
        KafkaError._AUTHENTICATION,  # pyright: ignore[reportPrivateUsage]
        KafkaError._SSL,  # pyright: ignore[reportPrivateUsage]
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    ),
    ErrorKind.AUTHORIZATION: (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    ErrorKind.TOPIC_GONE: (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,  # pyright: ignore[reportPrivateUsage]
        KafkaError._UNKNOWN_PARTITION,  # pyright: ignore[reportPrivateUsage]
    ),
    ErrorKind.OUT_OF_RANGE: (
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,  # pyright: ignore[reportPrivateUsage]
    ),
    ErrorKind.ROW: (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.POLICY_VIOLATION,
    ),
    # After a timeout the coordinator may have aborted by itself and answer with these. None of
    # them is ever a commit.
    ErrorKind.ABORTED: (
        KafkaError.INVALID_TXN_STATE,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.UNKNOWN_PRODUCER_ID,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ),
    ErrorKind.SETTING: (
        KafkaError._INVALID_ARG,  # pyright: ignore[reportPrivateUsage]
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,  # pyright: ignore[reportPrivateUsage]
    ),
    ErrorKind.RETRYABLE: (
        KafkaError._TIMED_OUT,  # pyright: ignore[reportPrivateUsage]
        KafkaError._MSG_TIMED_OUT,  # pyright: ignore[reportPrivateUsage]
        KafkaError._WAIT_COORD,  # pyright: ignore[reportPrivateUsage]
        # The client lets a connection go when the broker's name or id behind it has changed.
        KafkaError._DESTROY_BROKER,  # pyright: ignore[reportPrivateUsage]
        KafkaError._RETRY,  # pyright: ignore[reportPrivateUsage]
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.OFFSET_NOT_AVAILABLE,
    ),
}
_KIND_OF_CODE = {code: kind for kind, codes in _CODES.items() for code in codes}


class KafkaFault(EnvironmentFault):
    """Kafka answered with an error that has no specific class here."""

    code = "KAFKA_FAULT"


class KafkaRetryable(EnvironmentFault):
    """Kafka cannot serve a request now, but may be able to later."""

    code = "KAFKA_NOT_NOW"
    retryable = True


class BrokerUnavailable(EnvironmentFault):
    """No broker answers."""

    code = "KAFKA_BROKER_UNAVAILABLE"
    retryable = True


class AuthenticationRefused(EnvironmentFault):
    """The broker rejected the client's credentials, or they share no SASL mechanism."""

    code = "KAFKA_AUTHENTICATION"


class SecurityMismatch(EnvironmentFault):
    """Client and listener use different protocols: one uses TLS or SASL, the other does not."""

    code = "KAFKA_SECURITY_MISMATCH"
    retryable = True


class PermissionRefused(EnvironmentFault):
    """The broker knows the client but does not let it do this."""

    code = "KAFKA_PERMISSION"


class ClientSettingsError(UsageError):
    """A setting under ``kafka`` is unknown to the Kafka client or has a value it cannot use."""

    code = "KAFKA_SETTING"


class OffsetOutOfRange(EnvironmentFault):
    """The log does not hold the offsets that a read asks for.

    ``fields`` holds ``topic``, ``partition``, ``offset``, ``earliest`` and ``end``.
    """

    code = "SOURCE_OFFSET_OUT_OF_RANGE"


class SourceGone(EnvironmentFault):
    """A topic, or one of its partitions, no longer exists."""

    code = "SOURCE_GONE"


class ReadTimedOut(EnvironmentFault):
    """The broker answers, but a read made no progress for too long."""

    code = "SOURCE_READ_TIMED_OUT"
    retryable = True


class TransactionTimeoutRefused(UsageError):
    """The broker does not allow transactions to be open that long."""

    code = "TRANSACTION_TIMEOUT_REFUSED"

    @classmethod
    def of(cls, commit_timeout: float) -> TransactionTimeoutRefused:
        """Make the error for a timeout in seconds."""
        return cls(
            f"the broker does not allow a commit_timeout of {commit_timeout:g} s",
            why="its transaction.max.timeout.ms is lower",
            fix="lower commit_timeout, or raise transaction.max.timeout.ms on the broker",
        )


class TransactionFailed(EnvironmentFault):
    """A transaction ended without a confirmed commit; ``outcome`` says what is known."""

    code = "TRANSACTION_FAILED"
    outcome: ClassVar[CommitOutcome] = CommitOutcome.UNKNOWN


class TransactionAborted(TransactionFailed):
    """The transaction is not committed; the epoch can run again."""

    code = "TRANSACTION_ABORTED"
    retryable = True
    outcome = CommitOutcome.ABORTED


class TransactionUnknown(TransactionFailed):
    """The commit was requested, and it is not yet known whether it happened."""

    code = "TRANSACTION_UNKNOWN"
    retryable = True
    outcome = CommitOutcome.UNKNOWN


class TransactionExpired(TransactionUnknown):
    """The transaction stayed open longer than its timeout, so the broker aborted it.

    The client reports the same when another producer took over behind a commit that did happen:
    the epoch record decides, as for every unknown outcome. If it was the timeout, the next epoch
    should be smaller.
    """

    code = "TRANSACTION_EXPIRED"


class TransactionFenced(TransactionFailed):
    """Another producer with the same transactional id has taken over."""

    code = "TRANSACTION_FENCED"
    outcome = CommitOutcome.FENCED


class RefusedRow(NamedTuple):
    """A row that the broker does not take.

    Attributes:
        tag: What the caller gave the call that produced the row.
        row: Index of the row in that call's columns.
        topic: The topic.
        reason: Kafka's name for the error.
        text: Kafka's words for the error.
    """

    tag: object
    row: int
    topic: str
    reason: str
    text: str


class RowsRefused(TransactionFailed):
    """The broker refuses some rows; nothing of their transaction is committed.

    The broker refuses whole batches, so the first failure may not know the rows yet: `known` is
    false then, and the same transaction, tried again on the same sink, finds them.
    """

    code = "ROWS_REFUSED"
    outcome = CommitOutcome.REFUSED

    @property
    def rows(self) -> list[RefusedRow]:
        """The rows, one `RefusedRow` each, as far as they are known."""
        return list(self.fields.get("rows", ()))

    @property
    def known(self) -> bool:
        """Whether the rows are known; if not, the next attempt will find them."""
        return bool(self.fields.get("rows"))

    @classmethod
    def later(cls, reason: str, text: str) -> RowsRefused:
        """Make the error for rows that the next attempt will find."""
        return cls(
            "the broker refused a batch of rows",
            evidence={"kafka": f"{reason}: {text}"},
            why="the broker refuses a whole batch for one row",
            fix="retry the transaction: the sink finds out which row it is",
        )

    @classmethod
    def of(cls, rows: Iterable[RefusedRow]) -> RowsRefused:
        """Make the error for ``rows``."""
        found = list(rows)
        topics = sorted({row.topic for row in found})
        reasons = sorted({f"{row.reason}: {row.text}" for row in found})
        return cls(
            f"the broker refused {len(found)} row(s) for {', '.join(topics)}",
            evidence={"reasons": "\n".join(reasons)},
            why="the broker checks size, timestamp and key of each record against its topic",
            fix="make the rows fit the topic, or raise the topic's limits",
            fields={"rows": found},
        )


def error_of(raised: KafkaException | KafkaError) -> KafkaError:
    """Return the Kafka error that an exception carries."""
    if isinstance(raised, KafkaError):
        return raised
    inner = raised.args[0] if raised.args else None
    if isinstance(inner, KafkaError):
        return inner
    return KafkaError(KafkaError._FAIL, str(raised))  # pyright: ignore[reportPrivateUsage]


def kind_of(error: KafkaException | KafkaError) -> ErrorKind:
    """Say what a Kafka error means for trying again."""
    inner = error_of(error)
    kind = _KIND_OF_CODE.get(inner.code())
    if kind is not None:
        return kind
    return ErrorKind.RETRYABLE if inner.retriable() else ErrorKind.OTHER


_CLASS_OF_KIND: dict[ErrorKind, type[EnvironmentFault] | type[UsageError]] = {
    ErrorKind.RETRYABLE: KafkaRetryable,
    ErrorKind.BROKER_GONE: BrokerUnavailable,
    ErrorKind.AUTHENTICATION: AuthenticationRefused,
    ErrorKind.AUTHORIZATION: PermissionRefused,
    ErrorKind.TOPIC_GONE: SourceGone,
    ErrorKind.OUT_OF_RANGE: OffsetOutOfRange,
    ErrorKind.SETTING: ClientSettingsError,
    ErrorKind.FENCED: TransactionFenced,
    ErrorKind.ABORTED: TransactionAborted,
}
NO_BROKER_FIX = (
    "check that the broker runs and that bootstrap_servers names it; "
    "mustela broker start runs one for development"
)
_FIX_OF_KIND = {
    ErrorKind.RETRYABLE: "try again; check the broker's log if the error persists",
    ErrorKind.BROKER_GONE: NO_BROKER_FIX,
    ErrorKind.AUTHENTICATION: (
        "check kafka.security.protocol, kafka.sasl.mechanism, kafka.sasl.username, "
        "kafka.sasl.password and kafka.ssl.ca.location"
    ),
    ErrorKind.AUTHORIZATION: (
        "let the user in kafka.sasl.username (or the certificate in kafka.ssl.certificate.location)"
        " do it, with kafka-acls: read and write its topics, its group and its transactional id, "
        "which are all named after application_id"
    ),
    ErrorKind.TOPIC_GONE: "create the topic, or correct its name",
    ErrorKind.SETTING: "correct the setting under kafka that the text names",
    ErrorKind.FENCED: "run one instance of an application_id at a time",
}


def fault(
    error: KafkaException | KafkaError, doing: str, *, servers: str | None = None
) -> EnvironmentFault | UsageError:
    """Make the error of Mustela that says what Kafka refused.

    Args:
        error: What Kafka or its client said.
        doing: What was tried, to follow "could not".
        servers: The bootstrap servers, for the evidence.
    """
    inner = error_of(error)
    kind = kind_of(inner)
    evidence = {"kafka": f"{inner.name()}: {inner.str()}"}
    if servers:
        evidence["servers"] = servers
    return _CLASS_OF_KIND.get(kind, KafkaFault)(
        f"could not {doing}",
        evidence=evidence,
        fix=_FIX_OF_KIND.get(kind),
        fields={"kafka": inner.name(), "kind": kind.value},
    )

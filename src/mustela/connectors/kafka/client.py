"""Kafka clients from a dictionary of properties: quiet, and with their errors written down."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from mustela.connectors.kafka.errors import (
    NO_BROKER_FIX,
    AuthenticationRefused,
    BrokerUnavailable,
    ClientSettingsError,
    ErrorKind,
    SecurityMismatch,
    fault,
    kind_of,
)
from mustela.connectors.kafka.statistics import statistics_of
from mustela.errors import EnvironmentFault, UsageError

__all__ = [
    "CONSUMER_DEFAULTS",
    "ClientErrors",
    "admin_client",
    "consumer_client",
    "producer_client",
    "servers_of",
]

LOGGER = logging.getLogger("mustela.kafka")
LOGGER.addHandler(logging.NullHandler())

_COMMON = {"allow.auto.create.topics": False, "client.id": "mustela"}
CONSUMER_DEFAULTS: Mapping[str, Any] = {
    # The defaults of 500 and 1,000 ms would stall the first fetch behind every assignment.
    "fetch.queue.backoff.ms": 5,
    "fetch.error.backoff.ms": 5,
    # A reader fetches only what it knows to be there. A request that waits at the broker would make
    # the next range wait too, for there is one at a time: 6 ms a range with 5, 0.3 ms with 0.
    "fetch.wait.max.ms": 0,
    # What is fetched beyond the end of a range is thrown away, and the client fetches as far ahead
    # as its queue holds: small enough to waste little, large enough for one broker thread to fill
    # a core. A queue of 16 MiB made the broker send nearly twice what ranges of 10 MiB hold.
    "max.partition.fetch.bytes": 512 << 10,
    "queued.min.messages": 20_000,
    "queued.max.messages.kbytes": 1 << 10,
    "check.crcs": True,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 1_000,
}
_CONSUMER_FIXED = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
# What the client was at when a connection ended: in these states it agrees on how to talk.
# A listener that wants a login says which versions it knows to anyone, and ends the connection at
# the first question: at once, before the client knows any broker by its number.
_AGREEING = re.compile(
    r"in state (APIVERSION_QUERY|SSL_HANDSHAKE|AUTH_\w+)"
    r"|/bootstrap: Disconnected: .*\(after \d{1,4}ms in state UP\)"
)
_CONNECTING = "in state CONNECT)"
T = TypeVar("T")


@dataclass(slots=True)
class ClientErrors:
    """What a client said about its connections, for the error that ends a wait.

    Attributes:
        last: The last error of the client as a whole.
        refused: The last error about who the client is, which waiting does not mend.
        down_since: When the last broker was lost, on the monotonic clock; None while one is up.
        trouble: Whether any error was written down since this was last reset.
        mismatch: What the client said of a connection that ended before it could be used, which
            is what a wrong ``security.protocol`` looks like.
        statistics: The last document about itself that nobody has read yet.
    """

    last: KafkaError | None = None
    refused: KafkaError | None = None
    down_since: float | None = None
    trouble: bool = True
    mismatch: str | None = None
    statistics: str | None = None

    def note(self, error: KafkaError) -> None:
        """Write down an error; the client calls this."""
        self.last = error
        self.trouble = True
        self._suspect(error.str())
        kind = kind_of(error)
        if kind is ErrorKind.AUTHENTICATION:
            self.refused = error
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self.down_since is None:  # pyright: ignore[reportPrivateUsage]
            self.down_since = perf_counter()

    def log(self, level: int, text: str, *parts: object) -> None:
        """Take a line of the client's log: some reasons stand nowhere else."""
        LOGGER.log(level, text, *parts)
        self._suspect(text % parts if parts else text)

    def keep_statistics(self, text: str) -> None:
        """Keep what the client tells of itself; the client calls this."""
        self.statistics = text

    def take_statistics(self) -> dict[str, dict[str, float]]:
        """Return what the client told of itself since this was last asked, by its name."""
        text, self.statistics = self.statistics, None
        return {} if text is None else dict([statistics_of(text)])

    def _suspect(self, text: str) -> None:
        if _AGREEING.search(text):
            self.mismatch = text
        elif _CONNECTING in text:
            self.mismatch = None  # nobody listens there: an end in mid-talk was a broker's own end

    def heard(self) -> None:
        """Note that a broker answered."""
        self.mismatch = None
        self.down_since = None
        self.refused = None

    def raise_refused(self, doing: str, servers: str) -> None:
        """Raise the error about who the client is, if there was one.

        Raises:
            AuthenticationRefused: If a broker refused the client.
        """
        if self.refused is not None:
            error = fault(self.refused, doing, servers=servers)
            assert isinstance(error, AuthenticationRefused), error
            raise error

    def why(self, doing: str, servers: str, waited: float) -> EnvironmentFault | UsageError | None:
        """Return the error of a wait that ended, or None if the brokers are there."""
        if self.refused is not None:
            return fault(self.refused, doing, servers=servers)
        if self.down_since is None and self.mismatch is None:
            return None
        return unavailable(doing, servers, waited, self)


def unavailable(
    doing: str, servers: str, waited: float, said: ClientErrors
) -> BrokerUnavailable | SecurityMismatch:
    """Make the error that no broker answers, or none that the client understands.

    Args:
        doing: What was tried.
        servers: The bootstrap servers.
        waited: For how many seconds.
        said: What the client said meanwhile.
    """
    evidence = {"servers": servers, "waited": f"{waited:.1f} s"}
    last = said.last
    if said.mismatch is not None:
        return SecurityMismatch(
            f"could not {doing}: the broker closes each connection before it can be used",
            evidence={**evidence, "kafka": said.mismatch},
            why="the listener and the client use different protocols: with or without TLS, with or "
            "without SASL",
            fix="set kafka.security.protocol to what the listener uses: plaintext, ssl,"
            " sasl_plaintext or sasl_ssl; or name another listener in bootstrap_servers",
        )
    if last is not None:
        evidence["kafka"] = f"{last.name()}: {last.str()}"
    return BrokerUnavailable(
        f"could not {doing}: no Kafka broker answers",
        evidence=evidence,
        fix=NO_BROKER_FIX,
    )


def servers_of(properties: Mapping[str, Any]) -> str:
    """Return the bootstrap servers that ``properties`` name."""
    return str(properties.get("bootstrap.servers", "(none set)"))


def consumer_client(
    properties: Mapping[str, Any],
    overrides: Mapping[str, Any] | None = None,
    errors: ClientErrors | None = None,
) -> Consumer:
    """Make a consumer for assignment by hand, read_committed unless ``overrides`` says else.

    Raises:
        ClientSettingsError: If the client does not accept a property.
    """
    settings = {
        **_COMMON,
        **CONSUMER_DEFAULTS,
        "group.id": "mustela-reader",
        "isolation.level": "read_committed",
        **properties,
        **_CONSUMER_FIXED,
        **(overrides or {}),
    }
    return _made(
        lambda: Consumer(
            _with_callbacks(settings, errors), logger=LOGGER if errors is None else errors
        ),
        settings,
    )


def producer_client(
    properties: Mapping[str, Any],
    overrides: Mapping[str, Any],
    errors: ClientErrors | None = None,
) -> Producer:
    """Make a producer; ``overrides`` win over ``properties``.

    Raises:
        ClientSettingsError: If the client does not accept a property.
    """
    settings = {**_COMMON, **properties, **overrides}
    return _made(
        lambda: Producer(
            _with_callbacks(settings, errors), logger=LOGGER if errors is None else errors
        ),
        settings,
    )


def admin_client(properties: Mapping[str, Any], errors: ClientErrors | None = None) -> AdminClient:
    """Make an admin client.

    Raises:
        ClientSettingsError: If the client does not accept a property.
    """
    settings = {**_COMMON, **properties}
    return _made(
        lambda: AdminClient(
            _with_callbacks(settings, errors), logger=LOGGER if errors is None else errors
        ),
        settings,
    )


def _with_callbacks(settings: dict[str, Any], errors: ClientErrors | None) -> dict[str, Any]:
    found = {**settings, "error_cb": _ignore if errors is None else errors.note}
    if errors is not None and int(settings.get("statistics.interval.ms", 0)):
        found["stats_cb"] = errors.keep_statistics
    return found


def _ignore(_error: KafkaError) -> None:
    return


def _made(make: Callable[[], T], settings: Mapping[str, Any]) -> T:
    try:
        return make()
    except (KafkaException, TypeError, ValueError) as raised:
        text = raised.args[0] if raised.args else raised
        what = "the Kafka client refuses its settings"
        raise ClientSettingsError(
            what,
            evidence={"client": text.str() if isinstance(text, KafkaError) else text},
            fix="correct the setting under kafka that the text names",
            fields={"names": sorted(settings)},
        ) from raised

"""Which peers there are, and with which guarantees they run."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.peers.base import Assignment, Peer
from benchmarks.peers.kafka_streams_peer import KafkaStreamsPeer, TunedKafkaStreamsPeer
from benchmarks.peers.mustela_peer import MustelaPeer
from benchmarks.peers.quix_peer import QuixPeer
from benchmarks.peers.spark_peer import SparkPeer

_FEWEST_RECORDS = 100_000

_NO_TABLES = "a stream cannot be joined with a table that changes"
_NO_INTERVAL = (
    "its interval join looks for partners that came before and are older, and a result without one "
    "is written at once: records out of order lose theirs"
)
_CANNOT = {
    "quix": {
        "global_join": "it has no global tables",
        "foreign_key_join": "it has no joins of tables",
        "stream_join": _NO_INTERVAL,
        "stream_left_join": _NO_INTERVAL,
        "stream_outer_join": _NO_INTERVAL,
        "rekeyed": "a stream can be grouped by another key once only",
    },
    "pyspark": {
        "latest": "it keeps no state in Kafka that could be restored",
        "table_join": _NO_TABLES,
        "global_join": _NO_TABLES,
        "foreign_key_join": _NO_TABLES,
        "rekeyed": "an aggregation can follow another one only where event time ends both",
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A peer with one of its guarantees: what a row of the results is about.

    Attributes:
        peer: Which program.
        guarantee: "eos" or "alo".
        share: The part of the input it is given: the first records of all, so that a slow peer
            does not take the time of all others together. Its row says how many they were.
    """

    peer: str
    guarantee: str
    share: float = 1.0

    def build(self, assignment: Assignment) -> Peer:
        """The peer, ready to be started."""
        return _CLASSES[self.peer](assignment)

    def cannot(self, program: str) -> str | None:
        """Why the peer cannot do the job of a program; nothing where it can."""
        return cannot(self.peer, program)

    def records(self, count: int) -> int:
        """How many of `count` records it is given."""
        return max(min(count, _FEWEST_RECORDS), round(count * self.share))

    def __str__(self) -> str:
        return f"{self.peer}/{self.guarantee}"


_CLASSES: dict[str, type[Peer]] = {
    "mustela": MustelaPeer,
    "kafka_streams": KafkaStreamsPeer,
    "kafka_streams_tuned": TunedKafkaStreamsPeer,
    "quix": QuixPeer,
    "pyspark": SparkPeer,
}

CONTESTANTS = (
    Contestant(peer="mustela", guarantee="eos"),
    Contestant(peer="mustela", guarantee="alo"),
    Contestant(peer="kafka_streams", guarantee="eos"),
    Contestant(peer="kafka_streams", guarantee="alo"),
    Contestant(peer="kafka_streams_tuned", guarantee="eos"),
    Contestant(peer="quix", guarantee="eos", share=0.1),
    Contestant(peer="pyspark", guarantee="alo"),
)


def cannot(peer: str, program: str) -> str | None:
    """Why a peer cannot do the job of a program, in words; nothing where it can."""
    return _CANNOT.get(peer, {}).get(program)


def contestants(peers: list[str] | None, guarantees: list[str] | None) -> list[Contestant]:
    """Those that are asked for, in the order of their rows.

    Raises:
        ValueError: If a peer is not known.
    """
    known = {contestant.peer for contestant in CONTESTANTS}
    unknown = [peer for peer in peers or [] if peer not in known]
    if unknown:
        raise ValueError(f"no peer {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [
        contestant
        for contestant in CONTESTANTS
        if (not peers or contestant.peer in peers)
        and (not guarantees or contestant.guarantee in guarantees)
    ]

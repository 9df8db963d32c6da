"""Compares what was seeded with what the old application would restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from xxhash import xxh3_64_intdigest

from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.connectors.kafka.log import read_between
from mustela.errors import UsageError
from mustela.plan.epoch import changelog_topic
from mustela.plan.plan import Plan
from mustela.runtime.gate.gate import Gate
from mustela.runtime.ports import World
from mustela.runtime.record.epoch_record import EpochRecord
from mustela.runtime.takeover.bearers import Bearer, bearer_of
from mustela.runtime.takeover.matching import Match
from mustela.runtime.takeover.planning import Takeover, commits_of, old_rows
from mustela.runtime.takeover.seeding import empty_view
from mustela.runtime.takeover.spill import Spill
from mustela.state.overlay import StoreOverlay

__all__ = ["Compared", "NotSeededError", "compared", "offsets_that_differ", "seeded_record"]

_SHOWN_MAX: Final = 3
_HASH_MASK: Final = (1 << 64) - 1


class NotSeededError(UsageError):
    """There is nothing to compare: the application was not seeded, or has run since."""

    code = "MIGRATE_NOT_SEEDED"


@dataclass(slots=True, kw_only=True)
class Compared:
    """A store in both applications.

    Attributes:
        store: Its name here.
        old_rows: How many rows the old application would restore.
        rows: How many there are here.
        old_hash: A hash of the old rows, whatever their order.
        hash: The same of the rows here.
        differing: The first keys that differ, as a person reads them.
    """

    store: str
    old_rows: int = 0
    rows: int = 0
    old_hash: int = 0
    hash: int = 0
    differing: list[str] = field(default_factory=list[str])

    @property
    def same(self) -> bool:
        """Whether both hold the same."""
        return (self.rows, self.hash) == (self.old_rows, self.old_hash) and not self.differing


def seeded_record(settings: Settings, plan: Plan, world: World) -> EpochRecord:
    """Return the record of an application that was seeded, and has not run since.

    Raises:
        NotSeededError: If there is none, or it has run.
    """
    name = settings.application_id
    record = Gate(settings, world).examine(plan).record
    if record is None:
        msg = f"{name} was not seeded: it has no epoch record"
        raise NotSeededError(
            msg,
            fix="seed it first: mustela migrate seed MODULE:APP --from kafka-streams"
            " --application-id OLD-ID",
        )
    if (record.incarnation, record.epoch) != (1, 1):
        msg = f"{name} has run since it was seeded"
        raise NotSeededError(
            msg,
            evidence={"epoch": record.epoch, "run": record.incarnation},
            why="its state has moved on, and the old one has not",
            fix=f"seed another id to compare again: mustela reset {name} would lose what it did",
        )
    return record


def offsets_that_differ(record: EpochRecord, takeover: Takeover, plan: Plan) -> list[str]:
    """Return the partitions in which the two applications would go on at different offsets."""
    mine = {part.place: part.end for part in record.partitions}
    return [
        f"{place.topic}-{place.partition}: {offset} there, {mine.get(place)} here"
        for place, offset in commits_of(takeover, plan).items()
        if mine.get(place) != offset
    ]


def compared(settings: Settings, record: EpochRecord, takeover: Takeover) -> Iterator[Compared]:
    """Yield each store that was taken over, compared row by row.

    Args:
        settings: Of the new application.
        record: Its record, with the stores under their names in the program.
        takeover: What was taken over.
    """
    for match in takeover.matches:
        if match.spec is not None and match.node is not None and match.topic:
            bearer = bearer_of(match.spec, match.node)
            yield _compare(
                settings, record.changelog_ends[match.spec.name], takeover, match, bearer
            )


def _compare(
    settings: Settings, ends: list[int], takeover: Takeover, match: Match, bearer: Bearer
) -> Compared:
    result = Compared(store=bearer.spec.name)
    properties = client_properties(settings, "consumer")
    with closing(Spill(bearer, len(ends))) as spill:
        spill.add(old_rows(match, takeover.old, properties))
        for group, end in enumerate(ends):
            expected = dict(bearer.expected(spill.rows(group)))
            found = dict(bearer.found(_restored(settings, bearer, group, end, groups=len(ends))))
            result.old_rows += len(expected)
            result.rows += len(found)
            result.old_hash = (result.old_hash + _hash(expected)) & _HASH_MASK
            result.hash = (result.hash + _hash(found)) & _HASH_MASK
            for key in sorted(expected.keys() | found.keys()):
                if len(result.differing) >= _SHOWN_MAX:
                    break
                if expected.get(key) != found.get(key):
                    result.differing.append(f"{bearer.shown(key)} {_how(key, expected, found)}")
    return result


def _restored(
    settings: Settings, bearer: Bearer, group: int, end: int, *, groups: int
) -> StoreOverlay:
    view = empty_view(settings, bearer.spec, group, groups)
    if end:
        topic = changelog_topic(settings.application_id, bearer.spec.log_name)
        properties = client_properties(settings, "consumer")
        view.put_many(read_between(properties, topic, group, 0, end))
    return view


def _hash(rows: dict[bytes, bytes]) -> int:
    return sum(xxh3_64_intdigest(key + row) for key, row in rows.items())


def _how(key: bytes, expected: dict[bytes, bytes], found: dict[bytes, bytes]) -> str:
    if key not in found:
        return "is missing here"
    return "is not there in the old application" if key not in expected else "has other values"

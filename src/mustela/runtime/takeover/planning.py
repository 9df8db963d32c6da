"""What a takeover would do, and what is in its way. Reads, and writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from mustela.config.clients import client_properties
from mustela.config.settings import Settings
from mustela.errors import MustelaError, UsageError
from mustela.model import TopicPartition
from mustela.plan.plan import Plan
from mustela.runtime.ports import World
from mustela.runtime.takeover.bearers import Bearer, OldRow, bearer_of
from mustela.runtime.takeover.matching import Match, Stop, matched
from mustela.runtime.takeover.old_application import OldApplication, look_at, rows_between

__all__ = [
    "NotReadyError",
    "Takeover",
    "Wish",
    "checked_rows",
    "commits_of",
    "old_rows",
    "planned",
]

_SAMPLES: Final = 200
"""How many rows of each partition are decoded to see whether the program can read them."""


class NotReadyError(UsageError):
    """An application cannot be taken over as it is."""

    code = "MIGRATE_NOT_READY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be taken over.

    Attributes:
        application_id: The id of the old application.
        maps: Names of stores here by old names, where they differ.
        without: Old stores that are left behind, and stores here that start empty.
    """

    application_id: str
    maps: Mapping[str, str] = field(default_factory=dict[str, str])
    without: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What a takeover would do.

    Attributes:
        old: The old application.
        matches: What becomes of each store.
        stops: What else is in the way.
    """

    old: OldApplication
    matches: list[Match]
    stops: list[Stop]

    @property
    def all_stops(self) -> list[Stop]:
        """Everything that is in the way."""
        return [*self.stops, *(stop for match in self.matches for stop in match.stops)]

    def refuse(self) -> None:
        """Raise if anything is in the way.

        Raises:
            NotReadyError: If something is; it names all of it.
        """
        stops = self.all_stops
        if not stops:
            return
        first, *rest = stops
        evidence = {"and": "\n".join(stop.what for stop in rest)} if rest else None
        raise NotReadyError(
            first.what,
            evidence=evidence,
            fix=first.fix + ("; the plan shows the rest, each with its fix" if rest else ""),
            fields={"stops": [stop.what for stop in stops]},
        )


def planned(settings: Settings, plan: Plan, world: World, wish: Wish) -> Takeover:
    """Return what a takeover would do.

    Args:
        settings: Of the new application.
        plan: Its program.
        world: Kafka.
        wish: What is to be taken over.

    Raises:
        BadMapError: If a store that is named does not exist.
    """
    properties = client_properties(settings, "consumer")
    others = [settings.application_id]
    old = look_at(properties, world.cluster, wish.application_id, others)
    stops = [*_same_id(settings, wish), *old.stops(), *_sources(plan, old)]
    matches = matched(plan, old.changelogs, old.sources, wish.maps, wish.without)
    for match in matches:
        if match.topic:
            spans = old.spans(match.topic, from_source=match.from_source)
            match.rows = sum(end - start for start, end in spans.values())
        if match.spec is not None and not match.stops:
            assert match.node is not None, match.old
            _try_rows(match, bearer_of(match.spec, match.node), old, properties)
    return Takeover(old=old, matches=matches, stops=stops)


def old_rows(
    match: Match, old: OldApplication, properties: Mapping[str, Any], *, most: int | None = None
) -> Iterator[OldRow]:
    """Yield the rows of a store in the old application, partition by partition.

    Args:
        match: The store.
        old: The old application.
        properties: Client properties of consumers.
        most: At most so many of each partition; None for all.
    """
    spans = old.spans(match.topic, from_source=match.from_source)
    for partition, (start, end) in spans.items():
        yield from islice(rows_between(properties, match.topic, partition, start, end), most)


def checked_rows(bearer: Bearer, rows: Iterable[OldRow]) -> Iterator[OldRow]:
    """Yield rows after trying whether the program reads their keys and values.

    Raises:
        NotReadyError: If it does not.
        ChangelogFormatError: If they are rows of another kind of store.
    """
    spec, key_serde, value_serde = bearer.spec, bearer.key_serde, bearer.spec.value_serde
    seen: set[bytes] = set()
    for row in rows:
        key = bearer.record_key(row.key)
        if key not in seen:
            same = _decoded(spec.name, "key", key_serde, key)
            if key_serde.serialize(same) != key:
                raise _unlike(spec.name, same)
            if len(seen) < _SAMPLES:
                seen.add(key)
        value = bearer.value_bytes(row)
        if value is not None:
            _decoded(spec.name, "value", value_serde, value)
        yield row


def _try_rows(
    match: Match, bearer: Bearer, old: OldApplication, properties: Mapping[str, Any]
) -> None:
    rows = old_rows(match, old, properties, most=_SAMPLES)
    try:
        for _ in checked_rows(bearer, rows):
            pass
    except NotReadyError as error:
        match.stops.append(Stop(what=error.what, fix=error.fix or ""))
    except MustelaError as error:
        what = f"{match.topic} does not hold rows of a {bearer.what} store: {error.what}"
        match.stops.append(Stop(what=what, fix=error.fix or ""))


def _decoded(store: str, part: str, serde: Any, data: bytes) -> Any:
    try:
        return serde.deserialize(data)
    except Exception as error:
        said = error.what if isinstance(error, MustelaError) else error
        what = f"store {store!r} has a {part} that the program cannot read: {said}"
        fix = f"name the type that the old application's serde writes, as the {part} of the store"
        raise NotReadyError(what, fix=fix) from error


def _unlike(store: str, key: object) -> NotReadyError:
    return NotReadyError(
        f"the key {key!r} of store {store!r} has other bytes here than in the old application",
        why="a key is found by its bytes",
        fix="name a serde for the keys that writes the same bytes",
    )


def _same_id(settings: Settings, wish: Wish) -> Iterator[Stop]:
    if settings.application_id == wish.application_id:
        yield Stop(
            what=f"the program has the id of the old application, {wish.application_id}",
            fix="give it another one, such as "
            f'App("{wish.application_id}-py"): the old topics and offsets stay as they are',
        )


def _sources(plan: Plan, old: OldApplication) -> Iterator[Stop]:
    """Yield the sources of the old application that the program does not read."""
    if plan.has_patterns:
        return
    for topic in sorted(old.sources - set(plan.topics)):
        lag = sum(old.ends[place] - at for place, at in old.commits.items() if place.topic == topic)
        yield Stop(
            what=f"{old.application_id} reads {topic}, and the program does not ({lag} offsets "
            "are waiting there)",
            fix=f'read it in the program too: builder.stream("{topic}", …)',
        )


def commits_of(takeover: Takeover, plan: Plan) -> dict[TopicPartition, int]:
    """Return where the program goes on in the sources that the old application read."""
    old = takeover.old
    topics = {topic for topic in old.sources if topic in plan.topics}
    return {
        place: old.commits.get(place, start)
        for place, start in sorted(old.starts.items())
        if place.topic in topics
    }

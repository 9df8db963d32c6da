"""Which store of an old application becomes which store of a program. Pure: names in, pairs out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mustela.errors import UsageError
from mustela.plan.plan import Plan
from mustela.runtime.takeover.bearers import why_refused
from mustela.serdes.base import Serde
from mustela.serdes.values import ValueSerde
from mustela.state.interfaces import StoreSpec
from mustela.topology.node import Node
from mustela.topology.source import TableSourceNode
from mustela.topology.stream_join import StreamJoinNode
from mustela.topology.suppress import SuppressNode

__all__ = ["BadMapError", "Match", "Stop", "matched", "names_given", "owners"]

_SUPPRESS_SUFFIX = "-store"
_FRESH = frozenset({"timer"})
"""Kinds of stores that Kafka Streams keeps nothing for: they start empty."""


class BadMapError(UsageError):
    """A ``--map`` is not OLD=NEW, or names a store that does not exist."""

    code = "MIGRATE_MAP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Something that must change before an application is taken over.

    Attributes:
        what: What was found.
        fix: What to do.
    """

    what: str
    fix: str


@dataclass(slots=True, kw_only=True)
class Match:
    """What becomes of a store.

    Attributes:
        old: Its name in the old application; empty if there is none.
        topic: Where its rows are: its changelog, or the topic that served as one.
        spec: The store here; None if the program has none for it.
        node: The step here that owns it.
        from_source: Whether ``topic`` is a source topic of the old application.
        rows: About how many records the topic holds.
        stops: What is in the way.
    """

    old: str
    topic: str = ""
    spec: StoreSpec | None = None
    node: Node | None = None
    from_source: bool = False
    rows: int = 0
    stops: list[Stop] = field(default_factory=list[Stop])


def names_given(maps: Iterable[str]) -> dict[str, str]:
    """Return the names here by the names in the old application, as they were typed.

    Raises:
        BadMapError: If one is not OLD=NEW.

    Example:
        >>> names_given(["KSTREAM-AGGREGATE-STATE-STORE-0000000003=counts"])
        {'KSTREAM-AGGREGATE-STATE-STORE-0000000003': 'counts'}
    """
    found: dict[str, str] = {}
    for text in maps:
        old, _, new = text.partition("=")
        if not old or not new:
            msg = f"{text!r} is not OLD=NEW"
            raise BadMapError(msg, fix="write, for example, --map old-counts=counts")
        found[old] = new
    return found


def owners(plan: Plan) -> dict[str, tuple[StoreSpec, Node]]:
    """Return each store of a program with the step that owns it, by name.

    A buffer, or the rows of a join, belong to the step that makes them; a table to its source.
    """
    found: dict[str, tuple[StoreSpec, Node]] = {}
    for stage in plan.stages:
        for step in stage.steps:
            if step.role == "combine":
                continue
            for spec in step.node.stores:
                found.setdefault(spec.name, (spec, step.node))
    return {name: found[name] for name in sorted(found.keys() & plan.stores.keys())}


def matched(
    plan: Plan,
    changelogs: Mapping[str, str],
    sources: Iterable[str],
    maps: Mapping[str, str],
    without: Iterable[str] = (),
) -> list[Match]:
    """Return what becomes of each store of either application.

    Args:
        plan: The program.
        changelogs: By the name of each old store, its changelog.
        sources: The topics that the old application read.
        maps: Names here by old names, where they differ.
        without: Old stores that are left behind, and stores here that start empty.

    Raises:
        BadMapError: If ``maps`` or ``without`` names a store that does not exist.
    """
    left_out = set(without)
    all_mine = owners(plan)
    _check_names(maps, changelogs, all_mine)
    _check_left_out(left_out, {*changelogs, *all_mine})
    mine = {
        name: own
        for name, own in all_mine.items()
        if name not in left_out and own[0].kind not in _FRESH
    }
    changelogs = {old: topic for old, topic in changelogs.items() if old not in left_out}
    given = {new: old for old, new in maps.items()}
    read = set(sources)
    matches: list[Match] = []
    taken: set[str] = set()
    for name, (spec, node) in mine.items():
        old = given.get(name) or _default_name(name, node)
        if old in changelogs and old not in maps.keys() - {given.get(name)}:
            taken.add(old)
            matches.append(Match(old=old, topic=changelogs[old], spec=spec, node=node))
        elif isinstance(node, TableSourceNode) and node.topics[0] in read:
            match = Match(old=name, topic=node.topics[0], spec=spec, node=node, from_source=True)
            matches.append(match)
        else:
            matches.append(Match(old="", spec=spec, node=node))
    left = sorted(changelogs.keys() - taken)
    free = [match.spec.name for match in matches if not match.old and match.spec is not None]
    for match in matches:
        _judge(match, left)
    matches += [_orphan(old, changelogs[old], free) for old in left]
    return matches


def _default_name(name: str, node: Node) -> str:
    """Return the name that Kafka Streams gives to the store of a step of the same name."""
    return name + _SUPPRESS_SUFFIX if isinstance(node, SuppressNode) else name


def _check_names(
    maps: Mapping[str, str], changelogs: Mapping[str, str], mine: Mapping[str, object]
) -> None:
    for old, new in maps.items():
        for name, known, whose in ((old, changelogs, "old application"), (new, mine, "program")):
            if name not in known:
                msg = f"--map {old}={new}: the {whose} has no store {name!r}"
                fix = f"its stores are {', '.join(sorted(known)) or 'none'}"
                raise BadMapError(msg, fix=fix)


def _check_left_out(left_out: Iterable[str], known: Iterable[str]) -> None:
    names = sorted(set(known))
    for name in left_out:
        if name not in names:
            msg = f"--without {name}: neither application has such a store"
            raise BadMapError(msg, fix=f"their stores are {', '.join(names) or 'none'}")


def _judge(match: Match, left: Sequence[str]) -> None:
    spec, node = match.spec, match.node
    assert spec is not None, match.old
    assert node is not None, match.old
    if not match.old:
        guess = _guess(spec.name, left)
        more = f": --map {guess}={spec.name}" if guess else ""
        match.stops.append(
            Stop(
                what=f"the old application has no store for {spec.name!r}",
                fix=f"name the old one{more}; or let it start empty: --without {spec.name}",
            )
        )
        return
    why = why_refused(spec, node)
    if why:
        match.stops.append(
            Stop(
                what=f"store {spec.name!r} ({spec.kind}) cannot be taken over: {why}",
                fix="run this part of the program under an id of its own, from the start of its "
                f"inputs; or let the store start empty: --without {spec.name}"
                + (f" --without {match.old}" if match.old != spec.name else ""),
            )
        )
        return
    for part, serde in _serdes(spec, node):
        if serde is None or isinstance(serde, ValueSerde):
            match.stops.append(
                Stop(
                    what=f"store {spec.name!r} has no type for its {part}s",
                    fix=f"name the type that the old application's serde writes: {part}=str",
                )
            )


def _serdes(spec: StoreSpec, node: Node) -> list[tuple[str, Serde[Any] | None]]:
    """Return what reads the rows: two types of values where those of two streams wait."""
    values = [spec.value_serde]
    if isinstance(node, StreamJoinNode):
        values = [node.left.value_serde, node.right.value_serde]
    return [("key", spec.key_serde), *(("value", serde) for serde in values)]


def _orphan(old: str, topic: str, free: Sequence[str]) -> Match:
    guess = _guess(old, free)
    more = f": --map {old}={guess}" if guess else ""
    stop = Stop(
        what=f"the program has no store for {old!r} of the old application",
        fix=f"name the one that takes it{more}; or leave it behind with: --without {old}",
    )
    return Match(old=old, topic=topic, stops=[stop])


def _guess(name: str, others: Sequence[str]) -> str:
    """Return the likeliest of some names for a store: a similar one, or the only one."""
    close = difflib.get_close_matches(name, others, n=1, cutoff=0.5)
    if close:
        return close[0]
    return others[0] if len(others) == 1 else ""

"""What an epoch gives, as texts and documents: rows of topics, changes of stores, differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from mustela.config.settings import Settings
from mustela.plan.bound import SerdeBinder
from mustela.plan.plan import Plan
from mustela.queries.shown import Shown, shown_store
from mustela.runtime.replica.written import Written
from mustela.serdes.base import Serde
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec
from mustela.state.kinds.layout import SnapshotView
from mustela.state.memory import MemoryEnvironment
from mustela.testing.replay import Replayed
from mustela.testing.row import BrokerRow
from mustela.testing.written import sinks_of
from mustela.topology.graph import TopologyGraph

__all__ = ["Difference", "Output", "Shower", "deviations", "differences", "shown_output"]

_OF_TRACES = frozenset({"traceparent", "tracestate"})

Kind = Literal["topic", "store"]
Texts = Callable[[str, bytes, bytes | None], tuple[Any, Any]]


class Output(NamedTuple):
    """A row of a topic, or a change of a store.

    Attributes:
        kind: Which of the two.
        name: The topic or store.
        key: Its key.
        value: Its value; None for a deletion.
        timestamp: Milliseconds; None in a store.
    """

    kind: Kind
    name: str
    key: Any
    value: Any
    timestamp: int | None = None

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        found = {self.kind: self.name, "key": self.key, "value": self.value}
        return found if self.timestamp is None else {**found, "timestamp": self.timestamp}


class Difference(NamedTuple):
    """A row or change that two runs do not have in common.

    Attributes:
        change: What another program does: it adds, removes or changes the row.
        old: The row of the first program, if it has one.
        new: The row of the second one.
    """

    change: Literal["added", "removed", "changed"]
    old: Output | None
    new: Output | None

    @property
    def either(self) -> Output:
        """The row, of whichever program has it."""
        found = self.new or self.old
        assert found is not None
        return found


class Shower:
    """Decodes what a program gives.

    Args:
        plan: The program.
        topology: Its topology.
        settings: Its settings.
    """

    def __init__(self, plan: Plan, topology: TopologyGraph, settings: Settings) -> None:
        self._stores = {name: spec for name, (_, spec) in plan.stores.items()}
        self._topology = topology
        self._binder = SerdeBinder(settings.application_id, settings.schema_registry)
        self._sinks: dict[str, Mapping[str, tuple[Serde[Any], Serde[Any]]]] = {}

    def row(self, row: BrokerRow) -> Output:
        """Return a row of a topic."""
        known = self._sinks.get(row.topic)
        if known is None:
            known = self._sinks[row.topic] = sinks_of(self._topology, row.topic, self._binder)
        serdes = known.get(row.step) or next(iter(known.values()), (None, None))
        key, value = _decoded(serdes[0], row.key), _decoded(serdes[1], row.value)
        return Output("topic", row.topic, key, value, row.timestamp)

    def change(self, store: str, key: bytes, value: bytes | None) -> Output:
        """Return a change of a store."""
        spec = self._stores.get(store)
        found = None if spec is None or value is None else _stored(spec, key, value)
        if found is not None:
            return Output("store", store, *found)
        serde = spec.key_serde if spec is not None and spec.traits.by_key else None
        return Output("store", store, _decoded(serde, key), value)


def _decoded(serde: Serde[Any] | None, data: bytes | None) -> Any:
    """Return a value; bytes that cannot be decoded, as they are."""
    if serde is None:
        return data
    try:
        return serde.deserialize(data)
    except Exception:  # noqa: BLE001 - a serde of the user's may raise anything
        return data


def _stored(spec: StoreSpec, key: bytes, value: bytes) -> tuple[Any, Any] | None:
    """Return key and value of a row as users see them; None if they cannot be shown."""
    environment = MemoryEnvironment(
        EnvironmentSpec(application_id="replay", stage="shown", group=0, groups=1, stores=(spec,))
    )
    try:
        environment.restore(spec.name, [(key, value)], 1)
        committed = Committed(changelog_ends={spec.name: 1} if spec.logged else {})
        environment.finish_restore(committed)
        snapshot = environment.snapshot(committed)
        rows = spec.traits.rows(SnapshotView(snapshot, spec.name), spec)
        ((shown, found),) = shown_store(spec, Shown.VALUES, rows).all()
    except Exception:  # noqa: BLE001 - a store of the user's may raise anything
        return None
    return shown, found


def shown_output(made: Replayed, shower: Shower) -> Iterator[Output]:
    """Yield the rows of topics and the changes of stores."""
    for row in made.rows:
        yield shower.row(row)
    for (store, key), value in sorted(made.changes.items(), key=lambda one: one[0]):
        yield shower.change(store, key, value)


def differences(
    old: Replayed, new: Replayed, shower: Shower, other: Shower
) -> Iterator[Difference]:
    """Yield what another program does differently.

    Rows of a topic with the same key are compared one by one, in their order.

    Args:
        old: The output of the first program.
        new: That of the other one.
        shower: Decodes the first.
        other: Decodes the other.
    """
    theirs = _by_key(new.rows)
    for place, rows in _by_key(old.rows).items():
        more = theirs.pop(place, [])
        for at in range(max(len(rows), len(more))):
            before = rows[at] if at < len(rows) else None
            after = more[at] if at < len(more) else None
            if _meaning(before) != _meaning(after):
                yield _difference(
                    None if before is None else shower.row(before),
                    None if after is None else other.row(after),
                )
    for rows in theirs.values():
        yield from (_difference(None, other.row(row)) for row in rows)
    for store, key in sorted({*old.changes, *new.changes}):
        place = store, key
        both = place in old.changes and place in new.changes
        if both and old.changes[place] == new.changes[place]:
            continue
        yield _difference(
            shower.change(*place, old.changes[place]) if place in old.changes else None,
            other.change(*place, new.changes[place]) if place in new.changes else None,
        )


def _difference(old: Output | None, new: Output | None) -> Difference:
    return Difference("added" if old is None else "removed" if new is None else "changed", old, new)


def deviations(written: Written, made: Replayed, shower: Shower) -> tuple[int, list[Difference]]:
    """Return how many rows and changes were compared, and where a replay differs from them.

    Of what is not known, nothing is compared.

    Args:
        written: What the epoch has written.
        made: Its replay.
        shower: Decodes both.
    """
    before = Replayed(
        rows=[_untraced(BrokerRow(*row)) for row in written.rows], changes=written.changes
    )
    gone = {*written.unknown, *(f"store {name}" for name in made.unlogged)}
    after = Replayed(
        rows=[_untraced(row) for row in made.rows if f"topic {row.topic}" not in gone],
        changes={
            key: value for key, value in made.changes.items() if f"store {key[0]}" not in gone
        },
    )
    found = list(differences(before, after, shower, shower))
    return len(before.rows) + len(before.changes), found


def _untraced(row: BrokerRow) -> BrokerRow:
    """Return a row without the headers by which it belongs to a trace: a replay has none."""
    return row._replace(headers=tuple(one for one in row.headers if one[0] not in _OF_TRACES))


def _meaning(row: BrokerRow | None) -> object:
    return None if row is None else (row.value, row.timestamp, row.headers)


def _by_key(rows: list[BrokerRow]) -> dict[tuple[str, bytes | None], list[BrokerRow]]:
    found: dict[tuple[str, bytes | None], list[BrokerRow]] = {}
    for row in rows:
        found.setdefault((row.topic, row.key), []).append(row)
    return found

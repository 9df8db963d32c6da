"""Versions as bytes, against the definition of a versioned table."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.versioned import LATEST, NOT_PUT, Version, VersionedRows
from tests.unit.state.epochs import KEYS, backends, keys, steps, world

HISTORY = 25

times = st.integers(0, 90)
values = st.one_of(st.none(), st.binary(max_size=2))


class Model:
    """Every version that was ever put, and the rules about them."""

    def __init__(self) -> None:
        self.puts: dict[bytes, dict[int, bytes | None]] = {key: {} for key in KEYS}
        self.observed = -1

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        if timestamp < self.observed - HISTORY:
            return NOT_PUT
        self.observed = max(self.observed, timestamp)
        self.puts[key][timestamp] = value
        end = self.end(key, timestamp)
        return LATEST if end is None else end

    def end(self, key: bytes, timestamp: int) -> int | None:
        return min((time for time in self.puts[key] if time > timestamp), default=None)

    def version(self, key: bytes, timestamp: int) -> Version | None:
        value = self.puts[key][timestamp]
        return None if value is None else Version(value, timestamp, self.end(key, timestamp))

    def get(self, key: bytes, as_of: int | None) -> Version | None:
        latest = max(self.puts[key], default=None)
        if latest is None:
            return None
        if as_of is None or latest <= as_of:
            return self.version(key, latest)
        if as_of < self.observed - HISTORY:
            return None
        held = max((time for time in self.puts[key] if time <= as_of), default=None)
        return None if held is None else self.version(key, held)

    def versions(self, key: bytes, low: int, high: int) -> list[Version]:
        bound = self.observed - HISTORY
        low = max(low, bound)
        latest = max(self.puts[key], default=None)
        found = [
            version
            for time in sorted(self.puts[key])
            if time <= high
            if time == latest or ((self.end(key, time) or 0) > low and high >= bound)
            if (version := self.version(key, time)) is not None
        ]
        return found


ops = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(keys, values, times), max_size=4)),
        st.tuples(st.just("delete"), keys, times),
        st.tuples(st.just("expire"), st.none()),
        steps,
    ),
    max_size=30,
)


@given(backends, st.sampled_from([1, 4, 30]), ops, times, times)
def test_versions_are_those_of_the_definition(backend, segment, ops, low, high):
    """Over epochs, restores and expiry, every moment of the history has its value."""
    model = Model()
    spec = StoreSpec(name="v", kind="versioned", history_retention_ms=HISTORY)
    with world(backend, spec) as epochs:

        def rows() -> VersionedRows:
            return VersionedRows(epochs.view, history_retention_ms=HISTORY, segment_ms=segment)

        for op in ops:
            match op:
                case "put", puts:
                    columns = [list(column) for column in zip(*puts, strict=True)] or [[], [], []]
                    assert rows().put_many(*columns) == [model.put(*put) for put in puts]
                case "delete", key, time:
                    held = model.get(key, time) if time >= model.observed - HISTORY else None
                    assert rows().delete(key, time) == held
                    model.put(key, None, time)
                case "expire", _:
                    rows().expire()
                case (step,):
                    epochs.step(step)
        assert rows().observed == model.observed
        assert rows().latest_many(KEYS) == [model.get(key, None) for key in KEYS]
        for as_of in range(0, 95, 3):
            found = rows().as_of_many(KEYS, [as_of] * len(KEYS))
            assert found == [model.get(key, as_of) for key in KEYS]
        for key in KEYS:
            expected = model.versions(key, low, high)
            assert rows().versions(key, low, high) == expected
            assert rows().versions(key, low, high, reverse=True) == expected[::-1]


def test_expired_history_and_deletions_leave_nothing():
    """Neither the store nor its changelog keeps what nobody can read any more."""
    spec = StoreSpec(name="v", kind="versioned", history_retention_ms=HISTORY)
    with world("memory", spec) as epochs:
        rows = VersionedRows(epochs.view, history_retention_ms=HISTORY, segment_ms=4)
        rows.put_many([b"a", b"a", b"b", b"c"], [b"1", None, b"2", None], [0, 5, 6, 7])
        rows.put(b"b", b"3", 500)
        rows.expire()
        epochs.commit()
        assert {key for key, _ in epochs.view.range()} == {b"\x00", b"\x01b", *_history(epochs)}
        assert len(_history(epochs)) == 1
        kept = {key for key, value in dict(epochs.log).items() if value is not None}
        assert kept == {key for key, _ in epochs.view.range()}


def _history(epochs) -> list[bytes]:
    return [key for key, _ in epochs.view.range() if key[0] >= 0x40]


def test_many_keys_need_two_fetches_at_most():
    """One for the newest versions, one for the segments of those that need an older one."""
    spec = StoreSpec(name="v", kind="versioned", history_retention_ms=1_000)
    with world("memory", spec) as epochs:
        names = [b"k%d" % number for number in range(50)]
        rows = VersionedRows(epochs.view, history_retention_ms=1_000)
        rows.put_many(names * 2, [b"old"] * 50 + [b"new"] * 50, [10] * 50 + [900] * 50)
        epochs.commit()
        calls = []
        snapshot = epochs.view._snapshot
        getmulti = snapshot.getmulti

        def counted(store, keys):
            calls.append(len(keys))
            return getmulti(store, keys)

        snapshot.getmulti = counted
        rows = VersionedRows(epochs.view, history_retention_ms=1_000)
        found = rows.as_of_many(names, [20, 950] * 25)
        assert [version.value for version in found if version] == [b"old", b"new"] * 25
        assert len(calls) == 2

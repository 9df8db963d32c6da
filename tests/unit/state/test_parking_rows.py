"""Parked records as bytes, against lists: the queues of keys, and whose turn it is."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.parking import ParkedPlace, ParkingRows
from tests.unit.state.epochs import backends, keys, steps, world

PARKING = StoreSpec(name="p", kind="parking")

owners = st.sampled_from(["me", "you"])


@given(
    backends,
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.lists(st.one_of(keys, st.none()), max_size=3)),
            st.tuples(st.just("call"), st.integers(0, 9), owners),
            st.tuples(st.just("ready"), st.integers(0, 9)),
            st.tuples(st.just("remove"), st.integers(0, 9)),
            steps,
        ),
        max_size=25,
    ),
)
def test_queues_are_those_of_lists(backend: str, ops: list[Any]) -> None:
    """Also for keys that begin one another, for long ones and for null, over crashes."""
    records: dict[ParkedPlace, bytes] = {}
    turns: dict[ParkedPlace, str | None] = {}
    sent = 0
    with world(backend, PARKING) as epochs:
        for op in ops:
            parking = ParkingRows(epochs.view)
            assert parking.parked == len(records)  # nobody has noted it: it is counted
            known = list(records)
            match op:
                case "add", new:
                    rows = [(key, b"%d" % (sent + nth)) for nth, key in enumerate(new)]
                    places = parking.add(rows)
                    assert [place.sequence for place in places] == list(
                        range(sent, sent + len(new))
                    )
                    records |= dict(zip(places, (data for _, data in rows), strict=True))
                    sent += len(new)
                case "call", number, owner if known:
                    place = known[number % len(known)]
                    parking.call(place, owner)
                    turns[place] = owner
                case "ready", number if known:
                    place = known[number % len(known)]
                    if place not in turns:
                        parking.make_ready(place)
                        turns[place] = None
                case "remove", number if known:
                    place = known[number % len(known)]
                    parking.remove(place)
                    records.pop(place)
                    turns.pop(place, None)
                case (step,) if isinstance(step, str):
                    epochs.step(step)
                case _:
                    pass
        parking = ParkingRows(epochs.view)
        by_age = sorted(turns, key=lambda place: place.sequence)
        called = [(one.place, one.owner, one.data) for one in parking.called()]
        assert called == [(p, turns[p], records[p]) for p in by_age if turns[p] is not None]
        ready = [(one.place, one.data) for one in parking.ready(2)]
        assert ready == [(p, records[p]) for p in by_age if turns[p] is None][:2]
        assert parking.waits is bool(turns)
        for key in {place.key for place in records if place.key is not None}:
            mine = sorted(place for place in records if place.key == key)
            assert parking.queue(key, limit=9) == [(place, records[place]) for place in mine][:9]
            behind = [place for place in mine if place.sequence > mine[0].sequence]
            found = parking.queue(key, after=mine[0].sequence, limit=99)
            assert [place for place, _ in found] == behind


@given(backends, st.lists(st.tuples(keys, st.integers(0, 3)), max_size=8))
def test_counts_are_those_of_a_dict(backend: str, ops: list[tuple[bytes, int]]) -> None:
    """Zero is as good as never."""
    with world(backend, PARKING) as epochs:
        parking = ParkingRows(epochs.view)
        for key, count in ops:
            parking.set_count(key, count)
        epochs.restore()
        parking, model = ParkingRows(epochs.view), dict(ops)
        assert parking.counts(list(model)) == list(model.values())

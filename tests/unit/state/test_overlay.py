"""The writes of an epoch over what was there before: first rows, and rows that expire."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mustela.state.interfaces import Committed, StoreSpec, Token
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from tests.unit.state.environments import make_spec

keys = st.binary(max_size=2)
bounds = st.none() | keys
values = st.none() | st.binary(max_size=1)


def overlay_over(rows: dict[bytes, bytes | None]) -> Overlay:
    environment = MemoryEnvironment(make_spec(stores=(StoreSpec(name="s"),)))
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"s": sorted(rows.items())})
    return Overlay(environment.snapshot(Committed(token=token)))


@given(
    st.dictionaries(keys, st.binary(max_size=1)),
    st.dictionaries(keys, values),
    st.sets(keys),
    st.lists(st.tuples(bounds, bounds), max_size=4),
    st.booleans(),
)
def test_the_first_row_is_the_first_of_the_range(below, above, expired, ranges, reverse):
    """Whatever was written, deleted or expired, also after more writes."""
    store = overlay_over(below).store("s")
    store.put_many(above)
    for low, high in [(None, None), *ranges]:
        found = store.first(low, high, reverse=reverse)
        assert found == next(store.range(low, high, reverse=reverse), None)
    store.expire(expired)
    for low, high in [(None, None), *ranges]:
        found = store.first(low, high, reverse=reverse)
        assert found == next(store.range(low, high, reverse=reverse), None)


@given(
    st.dictionaries(keys, st.binary(max_size=1)),
    st.sets(keys, max_size=4),
    st.dictionaries(keys, st.binary(max_size=1), max_size=3),
)
def test_what_expires_is_gone_here_and_not_in_the_changelog(below, expired, written):
    """Unless it is written again in the same epoch: then it is a row as any other."""
    overlay = overlay_over(below)
    store = overlay.store("s")
    store.load(below)
    store.expire(expired)
    store.put_many(written)
    model = {key: value for key, value in below.items() if key not in expired} | written
    assert dict(store.range()) == model
    changes = overlay.changes()
    after = dict(below)
    for key, value in changes.get("s", []):
        after.pop(key, None)
        if value is not None:
            after[key] = value
    assert after == model
    logged = dict(overlay.logged(changes).get("s", []))
    assert None not in logged.values()
    assert logged == {key: value for key, value in written.items() if below.get(key) != value}

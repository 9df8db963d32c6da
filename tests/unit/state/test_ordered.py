"""Order, prefixes and layers."""

from __future__ import annotations

from hypothesis import given, strategies as st

from mustela.state.ordered import merge_layers, prefix_end

keys = st.binary(max_size=4)


@given(st.dictionaries(keys, keys), st.dictionaries(keys, st.none() | keys), st.booleans())
def test_merging_is_a_dict_update(below, above, reverse):
    """Layers merge as dicts do, in key order, either way."""
    expected = {key: value for key, value in (below | above).items() if value is not None}
    lower = iter(sorted(below.items(), reverse=reverse))
    upper = [(key, above[key]) for key in sorted(above, reverse=reverse)]
    merged = list(merge_layers(lower, upper, reverse=reverse))
    assert merged == sorted(expected.items(), reverse=reverse)


@given(st.lists(st.sampled_from([0, 1, 254, 255]), max_size=4).map(bytes), keys)
def test_prefix_end_is_above_exactly_the_prefixed_keys(prefix, key):
    """A key has the prefix exactly if it lies between the prefix and its end."""
    end = prefix_end(prefix)
    assert key.startswith(prefix) == (key >= prefix and (end is None or key < end))

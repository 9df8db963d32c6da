"""Which transactions hang together, and how they are dealt out to key groups."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from mustela.kernel.processors.transact_components import connected, group_keys, spread_over
from mustela.plan.keygroups import key_group, lane_of_group

TOKENS = st.lists(st.lists(st.integers(0, 20), max_size=4), max_size=40)
GROUPS = st.sampled_from([1, 2, 8, 32])


def flooded(tokens: list[list[int]]) -> list[int]:
    """Find the first transaction of each component the slow way: flood from each one."""
    roots = list(range(len(tokens)))
    for start in range(len(tokens)):
        if roots[start] != start:
            continue
        seen, todo = {start}, [start]
        while todo:
            mine = set(tokens[todo.pop()])
            near = {n for n, other in enumerate(tokens) if mine & set(other)} - seen
            seen |= near
            todo.extend(near)
        for number in seen:
            roots[number] = start
    return roots


@given(TOKENS)
def test_transactions_hang_together_exactly_where_a_chain_of_shared_keys_joins_them(
    tokens: list[list[int]],
) -> None:
    """A component is named by its first transaction, as a search from each transaction finds it."""
    assert connected(tokens) == flooded(tokens)


@given(TOKENS, GROUPS)
def test_a_component_is_never_divided(tokens: list[list[int]], groups: int) -> None:
    """All transactions of a component get the same key group, one that exists."""
    roots = connected(tokens)
    chosen = spread_over(roots, groups)
    assert len(set(zip(roots, chosen, strict=True))) == len(set(roots))
    assert set(chosen) <= set(range(groups))


@given(st.integers(1, 2_000), st.sampled_from([2, 4, 8]))
def test_transactions_that_share_nothing_are_dealt_out_evenly(count: int, lanes: int) -> None:
    """No lane has more than its share and one unit."""
    groups = 32
    work = Counter(lane_of_group(g, lanes, groups) for g in spread_over(range(count), groups))
    assert max(work.values()) <= count / lanes + max(1, count // groups)


def test_what_one_large_component_leaves_goes_to_the_other_lane() -> None:
    """With a component of 40 of 100 transactions, two lanes still do 50 each."""
    roots = [0] * 40 + list(range(40, 100))
    work = Counter(group // 16 for group in spread_over(roots, 32))
    assert work == {0: 50, 1: 50}


@given(GROUPS)
def test_each_key_group_has_a_key_of_its_own(groups: int) -> None:
    """The key for group number n belongs to group n."""
    assert [key_group(key, groups) for key in group_keys(groups)] == list(range(groups))

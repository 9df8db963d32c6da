"""Who is at home where: balanced, with the fewest moves, and the same from the same facts."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from mustela.spark.placement import Executor, assign, deal_lanes, second_homes, spread_groups

HOSTS = st.sampled_from("abcdef")
ROOM = st.dictionaries(HOSTS, st.integers(1, 4), min_size=1)
NEAR = st.lists(HOSTS, max_size=3, unique=True)


@st.composite
def _pasts(draw: st.DrawFn) -> tuple[list[str | None], dict[str, int], list[list[str]]]:
    groups = draw(st.sampled_from([1, 8, 32]))
    before = draw(st.lists(st.none() | HOSTS, min_size=groups, max_size=groups))
    return before, draw(ROOM), draw(st.lists(NEAR, min_size=groups, max_size=groups))


@given(_pasts())
def test_load_is_balanced_and_nothing_moves_in_vain(
    past: tuple[list[str | None], dict[str, int], list[list[str]]],
) -> None:
    """Each host gets its share to within one, and as many stay as the shares let stay."""
    before, room, near = past
    homes = assign(before, room, near)
    got, whole = Counter(homes), sum(room.values())
    for host, weight in room.items():
        assert abs(got[host] - len(before) * weight / whole) < 1
    had = Counter(before)
    stayed = sum(home == now for home, now in zip(before, homes, strict=True))
    assert stayed == sum(min(had[host], got[host]) for host in room)
    assert assign(homes, room, near) == homes


@given(st.integers(1, 6), st.integers(0, 5), st.sampled_from([32, 64]))
def test_as_few_move_as_the_lost_host_had_or_the_new_one_gets(
    hosts: int, lost: int, groups: int
) -> None:
    room = {f"host{number}": 2 for number in range(hosts)}
    homes = assign([None] * groups, room)
    grown = assign(list(homes), {**room, "new": 2})
    moved = [to for at, to in zip(homes, grown, strict=True) if at != to]
    assert set(moved) == {"new"}
    assert len(moved) == grown.count("new") <= groups // (hosts + 1) + 1
    gone = f"host{lost % hosts}"
    if hosts > 1:
        shrunk = assign(list(homes), {h: w for h, w in room.items() if h != gone})
        for at, to in zip(homes, shrunk, strict=True):
            assert at in (to, gone)


def test_homes_are_found_again_by_who_knows_only_the_hosts() -> None:
    room = {"a": 2, "b": 2, "c": 2}
    again = dict(reversed(room.items()))
    assert assign([None] * 32, room) == assign([None] * 32, again)


def test_a_group_without_a_home_goes_where_a_copy_is() -> None:
    homes = assign(["a"] * 4 + ["x"] * 4, {"a": 1, "b": 1}, [[]] * 6 + [["b"], ["b"]])
    assert homes == ["a"] * 4 + ["b"] * 4
    crossed = [["b"]] * 4 + [["x", "a"]] * 4
    assert assign([None] * 8, {"a": 1, "b": 1}, crossed) == ["b"] * 4 + ["a"] * 4


@given(_pasts(), st.integers(0, 3))
def test_second_homes_are_elsewhere_and_spread_over_all_others(
    past: tuple[list[str | None], dict[str, int], list[list[str]]], replicas: int
) -> None:
    before, room, near = past
    homes = assign(before, room, near)
    seconds = second_homes(homes, room, near, replicas)
    wanted = min(replicas, len(room) - 1)
    for home, others in zip(homes, seconds, strict=True):
        assert len(set(others)) == len(others) == wanted
        assert home not in others
        assert set(others) <= set(room)
    if wanted == 1:
        for home in set(homes):
            own = [hosts[0] for at, hosts in zip(homes, seconds, strict=True) if at == home]
            rest = sum(room.values()) - room[home]
            for host, count in Counter(own).items():
                assert count < len(own) * room[host] / rest + 1
        assert second_homes(homes, room, seconds, 1) == seconds


@given(
    st.dictionaries(st.sampled_from("0123456"), st.tuples(HOSTS, st.integers(1, 8)), min_size=1),
    st.integers(1, 40),
)
def test_lanes_follow_cores_and_groups_follow_lanes(
    told: dict[str, tuple[str, int]], lanes: int
) -> None:
    executors = [Executor(host, number, cores) for number, (host, cores) in told.items()]
    dealt = deal_lanes(executors, lanes)
    cores = sum(one.cores for one in executors)
    assert len(dealt) == lanes
    for one in executors:
        assert abs(dealt.count(one) - lanes * one.cores / cores) < 1
    assert deal_lanes(reversed(executors), lanes) == dealt
    where = [one.host for one in dealt]
    homes = assign([None] * 32, Counter(where))
    lane_of = spread_groups(homes, where)
    assert [where[lane] for lane in lane_of] == homes
    loads = Counter(lane_of)
    for lane, host in enumerate(where):
        share = homes.count(host) / where.count(host)
        assert abs(loads[lane] - share) < 1

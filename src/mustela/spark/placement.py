"""Which host is at home for which key group: balanced, and with the fewest moves.

Pure functions: the same hosts and the same past give the same answer, so a driver that is started
anew finds the homes again. Where several choices are as good, a hash of host and key group decides,
which is another one for each key group: what a lost host had is spread over all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from xxhash import xxh64_intdigest

__all__ = ["Executor", "assign", "deal_lanes", "second_homes", "spread_groups"]


_T = TypeVar("_T")


class Executor(NamedTuple):
    """One of Spark's executors.

    Attributes:
        host: Its host, as Spark names it.
        number: Its number, as Spark counts.
        cores: How many tasks it runs at once.
    """

    host: str
    number: str
    cores: int


def deal_lanes(executors: Iterable[Executor], lanes: int) -> list[Executor]:
    """Return the executor of each lane: as many lanes each as it has cores, in proportion.

    Example:
        >>> a, b = Executor("a", "0", 2), Executor("b", "1", 1)
        >>> [one.host for one in deal_lanes([b, a], 3)]
        ['a', 'a', 'b']
    """
    known = sorted(executors)
    shares = _in_proportion({one: one.cores for one in known}, lanes, known)
    return [one for one in known for _ in range(shares[one])]


def assign(
    before: Sequence[str | None],
    room: Mapping[str, int],
    near: Sequence[Sequence[str]] | None = None,
) -> list[str]:
    """Return the home of each key group: balanced by room, and with no move that is not needed.

    Args:
        before: The home that each key group has; None, or one without room, if it has none.
        room: For each host how much of all it shall have, in proportion.
        near: For each key group the hosts that have a copy of it, the best one first; it moves
            there rather than elsewhere.

    Returns:
        For each key group one of the hosts with room.

    Example:
        >>> assign(["a", "a", "a", "a"], {"a": 1, "b": 1}, near=[[], ["b"], [], ["b"]])
        ['a', 'b', 'a', 'b']
    """
    groups = len(before)
    had = Counter(home for home in before if home in room)
    ranked = sorted(room, key=lambda host: (-had[host], _score(host, -1), host))
    quota = _in_proportion(room, groups, ranked)
    near = near or [()] * groups
    homes: list[str | None] = [home if home in room else None for home in before]
    for host in ranked:
        own = [group for group in range(groups) if homes[group] == host]
        wanting = {other for other in room if had[other] < quota[other]}
        # Those go first that somebody with room for them has a copy of.
        own.sort(key=lambda g, w=wanting, h=host: (w.isdisjoint(near[g]), _score(h, g)))
        for group in own[: max(0, len(own) - quota[host])]:
            homes[group] = None
    left = {host: quota[host] - homes.count(host) for host in room}
    _settle(homes, left, near)
    return [home for home in homes if home is not None]


def _settle(homes: list[str | None], left: dict[str, int], near: Sequence[Sequence[str]]) -> None:
    """Give each key group without a home one that has room left, and a copy if possible."""
    homeless = [group for group, home in enumerate(homes) if home is None]
    for group in homeless:
        found = next((host for host in near[group] if left.get(host, 0) > 0), None)
        if found is not None:
            homes[group] = found
            left[found] -= 1
    for group in homeless:
        if homes[group] is None:
            found = max(left, key=lambda host: (left[host] > 0, _score(host, group), host))
            homes[group] = found
            left[found] -= 1


def second_homes(
    homes: Sequence[str],
    room: Mapping[str, int],
    before: Sequence[Sequence[str]],
    replicas: int,
) -> list[tuple[str, ...]]:
    """Return for each key group the other hosts that keep a copy of it current.

    What one host has at home is spread over all others, so that its loss burdens all of them.

    Args:
        homes: The home of each key group.
        room: As for `assign`.
        before: Hosts that have a copy, the best one first; they go on if they may.
        replicas: How many copies there are to be, if there are as many other hosts.

    Example:
        >>> second_homes(["a", "a", "b"], {"a": 1, "b": 1}, [(), (), ()], 1)
        [('b',), ('b',), ('a',)]
    """
    wanted = min(replicas, len(room) - 1)
    seconds: list[list[str]] = [[] for _ in homes]
    for home in sorted(set(homes)):
        own = [group for group, at in enumerate(homes) if at == home]
        others = {host: weight for host, weight in room.items() if host != home}
        total = sum(others.values())
        for _ in range(wanted):
            left = {host: -(-len(own) * weight // total) for host, weight in others.items()}
            _add_second(own, seconds, left, before)
    return [tuple(hosts) for hosts in seconds]


def _add_second(
    own: Sequence[int],
    seconds: Sequence[list[str]],
    left: dict[str, int],
    before: Sequence[Sequence[str]],
) -> None:
    """Give each of these key groups one more host; ``left`` says how many each may take."""
    without: list[int] = []
    for group in own:
        known = [host for host in before[group] if left.get(host, 0) > 0]
        found = next((host for host in known if host not in seconds[group]), None)
        if found is None:
            without.append(group)
        else:
            seconds[group].append(found)
            left[found] -= 1
    for group in without:
        free = [host for host in left if host not in seconds[group]]
        found = max(free, key=lambda host: (left[host] > 0, _score(host, group), host))
        seconds[group].append(found)
        left[found] -= 1


def spread_groups(homes: Sequence[str], lanes: Sequence[str]) -> tuple[int, ...]:
    """Return the lane of each key group: one of those at its home, all of them alike.

    Args:
        homes: The home of each key group.
        lanes: The host of each lane; each home has one.

    Example:
        >>> spread_groups(["a", "b", "a", "a"], ["a", "a", "b"])
        (0, 2, 0, 1)
    """
    own: dict[str, list[int]] = {}
    for lane, host in enumerate(lanes):
        own.setdefault(host, []).append(lane)
    found = [0] * len(homes)
    for host, numbers in own.items():
        groups = [group for group, home in enumerate(homes) if home == host]
        for place, group in enumerate(groups):
            found[group] = numbers[place * len(numbers) // len(groups)]
    return tuple(found)


def _in_proportion(weights: Mapping[_T, int], total: int, ranked: Sequence[_T]) -> dict[_T, int]:
    """Divide a number by weights; what is left goes to the largest parts lost, then by rank."""
    whole = sum(weights.values())
    shares = {one: total * weight // whole for one, weight in weights.items()}
    rest = total - sum(shares.values())
    order = sorted(
        range(len(ranked)), key=lambda place: (-(total * weights[ranked[place]] % whole), place)
    )
    for place in order[:rest]:
        shares[ranked[place]] += 1
    return shares


def _score(host: str, group: int) -> int:
    return xxh64_intdigest(f"{host} {group}".encode())

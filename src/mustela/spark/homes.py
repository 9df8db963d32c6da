"""Which host is at home for which key group, and which others have a current copy.

A key group moves for two reasons. Its home is gone: then it moves at once, to the host with the
best copy. Or the load is to be balanced, because hosts have come: then its new home reads the
changelogs first, between epochs, and the key group moves when it has caught up. All of this is
about speed alone: a lane finds out by itself what its copy lacks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mustela.plan.epoch import Placement
from mustela.spark.placement import Executor, assign, deal_lanes, second_homes, spread_groups
from mustela.spark.tending import Errand, Tended

__all__ = ["Homes", "Moves", "Placed"]

_FRESH_EPOCHS: Final = 3
"""A copy that lacks no more than so many epochs has caught up: a lane reads the rest at once."""
_MISSED: Final = 3


class Placed(NamedTuple):
    """Where the lanes of an epoch run.

    Attributes:
        placement: Which lane has which key group.
        executors: The executor of each lane.
        readers: If some executor has not yet told what it has, those that have: its first tasks
            would wait for its first worker.
    """

    placement: Placement
    executors: tuple[Executor, ...]
    readers: tuple[Executor, ...] = ()


class Moves(NamedTuple):
    """Key groups that have another home now.

    Attributes:
        lost: Hosts that are gone.
        followed: Key groups of theirs that moved to a host with a copy, which reads on.
        restored: Key groups of theirs that moved to a host that has to read everything.
        balanced: Key groups that moved because others had more to do.
    """

    lost: tuple[str, ...]
    followed: int
    restored: int
    balanced: int


@dataclass(slots=True)
class Homes:
    """The homes of the key groups of an application.

    Args:
        groups: Number of key groups.
        replicas: How many other hosts keep a copy of each current; None for one if there is
            another host.
    """

    groups: int
    replicas: int | None = None
    _homes: list[str | None] = field(init=False)
    _seconds: list[tuple[str, ...]] = field(init=False)
    _moving: dict[int, str] = field(default_factory=dict[int, str])
    _copies: dict[str, dict[int, int]] = field(default_factory=dict[str, dict[int, int]])
    _asked: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _missed: dict[str, int] = field(default_factory=dict[str, int])
    _present: tuple[Executor, ...] = ()
    _based_on: object = None
    _room: dict[str, int] = field(default_factory=dict[str, int])
    _opened: dict[int, str] = field(default_factory=dict[int, str])
    _begun: tuple[int, ...] | None = None
    _tended: tuple[int, ...] | None = None
    _past: deque[tuple[int, ...]] = field(default_factory=lambda: deque[tuple[int, ...]]())
    _moves: list[Moves] = field(default_factory=list[Moves])

    def __post_init__(self) -> None:
        """Begin without homes."""
        self._homes = [None] * self.groups
        self._seconds = [()] * self.groups

    def forget_copies(self) -> None:
        """Ask every host anew what it has: another program may have other stores."""
        self._asked.clear()
        self._copies.clear()
        self._past.clear()
        self._tended = None
        self._opened.clear()

    def unasked(self, executors: Iterable[Executor]) -> list[Executor]:
        """Return the executors that have not yet told what their host has.

        One that is new on a host that was there before is among them: who asks has it start what
        its first lanes would wait for.
        """
        return [one for one in executors if (one.host, one.number) not in self._asked]

    def place(self, executors: Sequence[Executor], lanes: int, positions: Sequence[int]) -> Placed:
        """Return where the lanes of the next epoch run.

        Args:
            executors: Those that take tasks; at least one.
            lanes: Number of lanes.
            positions: How much the changelogs of each key group hold.
        """
        self.learn(positions)
        self._present = tuple(executors)
        # Who comes back may have lost its disk meanwhile.
        self._asked &= {(one.host, one.number) for one in executors}
        # One that is new has no lanes until it has told what it has, if there is another one.
        new = self.unasked(executors)
        usable = [one for one in executors if one not in new] or list(executors)
        chosen = deal_lanes(usable, lanes)
        self._room = dict(Counter(one.host for one in chosen))
        if self._moving or self._based_on != (usable, lanes):
            is_new, self._based_on = self._based_on != (usable, lanes), (usable, lanes)
            self._arrange(is_new=is_new)
        homes = [home for home in self._homes if home is not None]
        where = tuple(one.host for one in chosen)
        readers = tuple(usable) if len(usable) < len(executors) else ()
        return Placed(Placement(spread_groups(homes, where), where), tuple(chosen), readers)

    def learn(self, positions: Sequence[int]) -> None:
        """Take in what has been committed since the last epoch was ordered; see `place`."""
        for group, host in self._opened.items():
            self._copies.setdefault(host, {})[group] = positions[group]
        self._opened.clear()
        if not self._past or self._past[-1] != tuple(positions):
            self._past.append(tuple(positions))
        while len(self._past) > _FRESH_EPOCHS + 1:
            self._past.popleft()

    def _arrange(self, *, is_new: bool) -> None:
        """Choose the homes anew, because others are there or some key groups wait to move."""
        near = [self._near(group) for group in range(self.groups)]
        lost = {home for home in self._homes if home is not None and home not in self._room}
        before = list(self._homes)
        for group, home in enumerate(before):
            if home in self._room:
                continue
            best = next((host for host in near[group] if self._is_fresh(host, group)), None)
            before[group] = best
        if is_new:
            self._tended = None  # what is to move for balance waits for errands of its own
        wanted = assign(before, self._room, near)
        self._moving = {}
        followed = restored = balanced = 0
        for group, (home, target) in enumerate(zip(before, wanted, strict=True)):
            if home is None or self._is_fresh(target, group):
                there = target
            else:
                there = home
                self._moving[group] = target
            was = self._homes[group]
            if was in lost:
                has = self._has_copy(there, group)
                followed += has
                restored += not has
            elif was is not None and was != there:
                balanced += 1
            self._homes[group] = there
        self._seconds = second_homes(wanted, self._room, near, self._copies_wanted())
        if followed or restored or balanced:
            self._moves.append(Moves(tuple(sorted(lost)), followed, restored, balanced))

    def _copies_wanted(self) -> int:
        return min(1, len(self._room) - 1) if self.replicas is None else self.replicas

    def _near(self, group: int) -> list[str]:
        """Return the hosts with room that have a copy, the best one first."""
        found = [host for host in self._room if self._copies.get(host, {}).get(group, 0) > 0]
        seconds = self._seconds[group]
        return sorted(found, key=lambda host: (self.lag(host, group), host not in seconds, host))

    def _has_copy(self, host: str, group: int) -> bool:
        """Whether a host has a copy, or there is nothing yet to have."""
        return self.lag(host, group) < self._past[-1][group] or not self._past[-1][group]

    def lag(self, host: str, group: int) -> int:
        """Return how many records a host's copy of a key group lacks, as far as is known."""
        if not self._past:
            return 0
        return max(0, self._past[-1][group] - self._copies.get(host, {}).get(group, 0))

    def _is_fresh(self, host: str, group: int) -> bool:
        """Whether a copy lacks no more than a few epochs, or what came since the last errands."""
        if all(asked != host for asked, _ in self._asked):
            return False
        first, now = (self._past[0][group], self._past[-1][group]) if self._past else (0, 0)
        if self._tended is not None:
            first = min(first, self._tended[group])
        has = self._copies.get(host, {}).get(group, 0)
        return has >= first and (has > 0 or not now)

    def ran(self, placement: Placement, wrote: Mapping[int, bool], groups: Iterable[int]) -> None:
        """Note where key groups were written in an epoch.

        Args:
            placement: Where its lanes were at home.
            wrote: For each lane that ran whether it was at home.
            groups: Key groups for which they wrote anything.
        """
        for group in groups:
            lane = placement.lane_of[group]
            if wrote.get(lane, False):
                self._opened[group] = placement.hosts[lane]

    def errands(self) -> list[Errand]:
        """Return what hosts are to be sent for; those that need nothing are not named."""
        self._begun = self._past[-1] if self._past else None
        wanted: dict[str, list[int]] = {}
        for group in range(self.groups):
            for host in {*self._seconds[group], self._moving.get(group, "")} - {""}:
                if self.lag(host, group):
                    wanted.setdefault(host, []).append(group)
        errands = [Errand(one.host, (), one) for one in self.unasked(self._present)]
        hosts = sorted({one.host for one in self._present} & set(wanted))
        errands += [Errand(host, tuple(self._in_turn(host, wanted[host])), None) for host in hosts]
        if not errands:
            self._tended = self._begun
        return errands

    def _in_turn(self, host: str, groups: Iterable[int]) -> list[int]:
        """Return key groups, those first that are to move, then those that lack most."""
        moving = self._moving
        return sorted(groups, key=lambda g: (moving.get(g) != host, -self.lag(host, g), g))

    @property
    def is_pressing(self) -> bool:
        """Whether an executor is new, or key groups wait for their new home."""
        return bool(self._moving or self.unasked(self._present))

    def heard(self, errand: Errand, told: Tended) -> None:
        """Take in what a host has answered.

        Spark may have run an errand elsewhere. A host that is never met is treated as empty after
        a while: its name may be one that it does not know itself by.

        Args:
            errand: What it was asked.
            told: The answer.
        """
        self._tended = self._begun
        self._copies.setdefault(errand.host, {}).update(told.positions)
        self._missed[errand.host] = 0 if told.host else self._missed.get(errand.host, 0) + 1
        if errand.asked and (told.host or self._missed[errand.host] >= _MISSED):
            self._asked.add((errand.asked.host, errand.asked.number))

    def take_moves(self) -> list[Moves]:
        """Return what has moved since the last call."""
        moves, self._moves = self._moves, []
        return moves

    def behind(self) -> int:
        """Return how many records the copies of second homes lack, over all of them."""
        return sum(self.lag(host, g) for g, hosts in enumerate(self._seconds) for host in hosts)

    @property
    def homes(self) -> list[str | None]:
        """The home of each key group."""
        return list(self._homes)

    @property
    def seconds(self) -> list[tuple[str, ...]]:
        """The second homes of each key group."""
        return list(self._seconds)

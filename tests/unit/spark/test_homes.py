"""What the driver does with the homes of key groups while hosts come and go."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mustela.spark.homes import Homes, Placed
from mustela.spark.placement import Executor
from mustela.spark.tending import Tended, is_here

GROUPS = 16


class World:
    """Hosts with disks, as a driver with `Homes` meets them."""

    def __init__(self, *hosts: str, replicas: int | None = None) -> None:
        self.homes = Homes(GROUPS, replicas)
        self.up = set(hosts)
        self.disks: dict[str, dict[int, int]] = {host: {} for host in hosts}
        self.written = [0] * GROUPS
        self.read = 0
        self.rebuilt = 0
        self.place()
        self.tend()

    @property
    def executors(self) -> list[Executor]:
        return [Executor(host, host, 2) for host in sorted(self.up)]

    def place(self) -> Placed:
        return self.homes.place(self.executors, 2 * len(self.up), self.written)

    def epoch(self, *, commits: bool = True) -> None:
        """Write every key group at its home, which reads first what it lacks."""
        placed = self.place()
        for group, lane in enumerate(placed.placement.lane_of):
            host = placed.placement.hosts[lane]
            assert host in self.up
            has = self.disks[host].get(group, 0)
            self.read += self.written[group] - has
            self.rebuilt += has == 0 < self.written[group]
            self.disks[host][group] = self.written[group]
        lanes = dict.fromkeys(range(len(placed.placement.hosts)), True)
        self.homes.ran(placed.placement, lanes, range(GROUPS))
        if commits:
            for group, lane in enumerate(placed.placement.lane_of):
                self.written[group] += 10
                self.disks[placed.placement.hosts[lane]][group] = self.written[group]

    def tend(self) -> None:
        """Run the errands that are due, to their end."""
        now = self.homes._past[-1]  # what the last order said
        for errand in self.homes.errands():
            disk = self.disks[errand.host]
            for group in errand.groups:
                disk[group] = max(disk.get(group, 0), now[group])
            told = range(GROUPS) if errand.asked else errand.groups
            found = {group: disk.get(group, 0) for group in told}
            self.homes.heard(errand, Tended(errand.host, found))


def test_the_loss_of_a_host_restores_nothing() -> None:
    world = World("a", "b", "c")
    for _ in range(3):
        world.epoch()
        world.tend()
    world.up.remove("b")
    before = list(world.homes.homes)
    world.read = 0
    world.epoch()
    (moves,) = world.homes.take_moves()
    assert moves.lost == ("b",)
    assert moves.followed == before.count("b")
    assert (moves.restored, world.rebuilt) == (0, 0)
    assert world.read <= 2 * 10 * before.count("b")


def test_between_errands_copies_lag_behind_and_are_good_enough() -> None:
    """However many epochs there are in that time; who moves for balance is tended once more."""
    world = World("a", "b")
    for _ in range(2):
        for _ in range(9):
            world.epoch()
        world.tend()
    for _ in range(9):
        world.epoch()
    world.up.remove("b")
    world.epoch()
    (moves,) = world.homes.take_moves()
    assert (moves.followed, moves.restored, world.rebuilt) == (GROUPS // 2, 0, 0)
    world.up.add("b")
    for _ in range(9):
        world.epoch()
    world.tend()
    world.epoch()
    assert "b" not in world.homes.homes  # it has said what it has, and that is old
    world.tend()
    world.epoch()
    assert world.homes.homes.count("b") == GROUPS // 2


def test_sources_are_read_where_workers_have_begun() -> None:
    """A new executor's first tasks wait for its first worker; without another one they have to."""
    world = World("a", "b")
    assert world.place().readers == ()
    world.up.add("c")
    world.disks["c"] = {}
    assert [one.host for one in world.place().readers] == ["a", "b"]
    world.tend()
    assert world.place().readers == ()
    assert Homes(GROUPS).place(world.executors, 2, world.written).readers == ()


def test_without_second_homes_what_a_lost_host_had_is_restored() -> None:
    world = World("a", "b", replicas=0)
    for _ in range(3):
        world.epoch()
        world.tend()
    lost = world.homes.homes.count("b")
    world.up.remove("b")
    world.epoch()
    (moves,) = world.homes.take_moves()
    assert (moves.followed, moves.restored, world.rebuilt) == (0, lost, lost)


def test_a_host_that_comes_has_key_groups_when_it_has_caught_up() -> None:
    world = World("a", "b", replicas=0)
    world.epoch()
    world.up.add("c")
    world.disks["c"] = {}
    world.epoch()
    assert "c" not in world.homes.homes
    world.read = 0
    for _ in range(3):
        world.tend()
        world.epoch()
    assert Counter(world.homes.homes)["c"] == GROUPS // 3
    assert world.rebuilt == 0
    assert sum(moves.balanced for moves in world.homes.take_moves()) == GROUPS // 3


def test_a_host_that_comes_back_without_its_disk_is_asked_before_it_is_trusted() -> None:
    world = World("a", "b", replicas=0)
    for _ in range(3):
        world.epoch()
        world.tend()
    world.up.remove("b")
    world.place()
    world.up.add("b")
    world.disks["b"] = {}
    world.place()
    assert [one.host for one in world.homes.unasked(world.executors)] == ["b"]
    assert "b" not in world.homes.homes
    world.rebuilt = 0
    for _ in range(3):
        world.tend()
        world.epoch()
    assert (world.homes.homes.count("b"), world.rebuilt) == (GROUPS // 2, 0)


def test_an_executor_that_takes_the_place_of_another_has_time_to_begin() -> None:
    """Meanwhile the key groups are where their copies are; nobody notes that the other one ended.

    The first lanes on it would wait for its first worker.
    """
    world = World("a", "b")
    for _ in range(3):
        world.epoch()
        world.tend()
    new = [Executor("a", "another", 2), Executor("b", "b", 2)]
    placed = world.homes.place(new, 4, world.written)
    assert set(placed.placement.hosts) == {"b"}
    (moves,) = world.homes.take_moves()
    assert (moves.lost, moves.followed, moves.restored) == (("a",), GROUPS // 2, 0)
    for errand in world.homes.errands():
        has = {group: world.written[group] for group in range(GROUPS)}
        world.homes.heard(errand, Tended(errand.host, has))
    # Spark says late how many cores it has.
    world.homes.place([Executor("a", "another", 4), new[1]], 6, world.written)
    assert world.homes.homes.count("a") > GROUPS // 2


def test_an_epoch_that_was_away_leaves_its_home_behind() -> None:
    world = World("a", "b", replicas=0)
    placed = world.place()
    world.homes.ran(placed.placement, {0: False}, range(GROUPS))
    world.written = [10] * GROUPS
    world.place()
    group = placed.placement.lane_of.index(0)
    assert world.homes.lag(placed.placement.hosts[0], group) == 10


def test_a_host_that_is_never_met_is_used_after_a_while() -> None:
    """It may not know itself by the name that Spark has for it."""
    homes = Homes(GROUPS)
    executors = [Executor("a", "0", 2)]
    homes.place(executors, 2, [0] * GROUPS)
    for _ in range(3):
        assert homes.unasked(executors) == executors
        (errand,) = homes.errands()
        homes.heard(errand, Tended("", {}))
    assert not homes.unasked(executors)


def test_a_name_is_here_if_a_socket_can_have_it() -> None:
    assert is_here("localhost")
    assert not is_here("192.0.2.1")
    assert not is_here("no such host.invalid")


class Changing(RuleBasedStateMachine):
    """Hosts come, go, and lose their disks, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World("a", "b", "c")

    @rule(commits=st.booleans())
    def epoch(self, commits: bool) -> None:
        self.world.epoch(commits=commits)

    @rule()
    def tend(self) -> None:
        self.world.tend()

    @precondition(lambda self: len(self.world.up) > 1)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.world.up.remove(data.draw(st.sampled_from(sorted(self.world.up))))

    @rule(host=st.sampled_from("abcd"), emptied=st.booleans())
    def come(self, host: str, emptied: bool) -> None:
        if host not in self.world.up:
            self.world.up.add(host)
            if emptied or host not in self.world.disks:
                self.world.disks[host] = {}

    @invariant()
    def every_group_has_a_home_that_is_up_when_it_is_asked_for(self) -> None:
        placed = self.world.place()
        assert {placed.placement.hosts[lane] for lane in placed.placement.lane_of} <= self.world.up

    def teardown(self) -> None:
        """Left alone it becomes balanced, has second homes, and moves nothing any more."""
        for _ in range(4):
            self.world.tend()
            self.world.epoch()
        shares = Counter(self.world.homes.homes)
        assert max(shares.values()) - min(shares[host] for host in self.world.up) <= 1
        assert all(len(hosts) == (len(self.world.up) > 1) for hosts in self.world.homes.seconds)
        self.world.homes.take_moves()
        self.world.tend()
        self.world.epoch()
        assert self.world.homes.take_moves() == []


TestChanging = Changing.TestCase
TestChanging.settings = settings(stateful_step_count=12)

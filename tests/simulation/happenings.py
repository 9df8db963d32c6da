"""What events do to the world, and how the world is put right before the end."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tests.simulation.broker import BASE_MS, Fenced, Txn
from tests.simulation.programs import PROGRAMS
from tests.simulation.script import Event
from tests.simulation.world import SimWorld

__all__ = ["Happenings"]

CALM_MS = 7_000
TRIES = 3


class Happenings:
    """Plays events.

    Args:
        world: The world.
        application_id: The application.
    """

    def __init__(self, world: SimWorld, application_id: str) -> None:
        self._world = world
        self._name = application_id
        self._open: list[tuple[str, int]] = []
        self._made = 0
        self._ends_before = 0
        world.apply = self.happen
        options = world.script.options
        world.applied = set()
        for topic in PROGRAMS[world.script.program].sources:
            world.broker.create(topic, options["partitions"])
        world.broker.create("extra", 1)
        world.broker.create("out", 2)
        world.broker.create("more", 1)

    def happen(self, event: Event) -> None:
        """Do what an event says."""
        self._world.applied.add(event.kind)
        getattr(self, f"_{event.kind}")(*event.args)

    def _start(self, slot: int, version: int, machine: int) -> None:
        """Start an instance; one that runs is stopped for another version or another machine."""
        where = self._world.slots[slot]
        version = version if self._world.has_begun else 0  # the first one says what stores are
        if version:
            self._world.applied.add(f"version {version}")
            self._world.happened[f"version {version}"] += 1
        life = where.life
        if life is not None and (life.version, life.machine.number) != (version, machine):
            life.stopping = True
        where.wanted, where.version, where.machine = True, version, machine
        where.restart_ms = 0

    def _beside(self, slot: int, machine: int, stands_by: bool) -> None:
        """Start an instance, whoever runs: it takes over, or it is one that waits its turn.

        A supervisor starts one that waits its turn again even when it was replaced.
        """
        self._world.slots[slot].stands_by = stands_by
        self._start(slot, 0, machine)

    def _writers(self) -> None:
        """Lanes write from the beginning on: what it is like is in the script."""

    def _freeze(self, slot: int, milliseconds: int) -> None:
        """A process stands still for a while, and others go on."""
        life = self._world.slots[slot].life
        if life is not None:
            life.paused = True
            life.frozen_ms = life.wake_ms = max(life.wake_ms, self._world.ms + milliseconds)

    def _stop(self, slot: int) -> None:
        where = self._world.slots[slot]
        where.wanted = False
        if where.life is not None:
            where.life.stopping = True

    def _power(self, machine: int) -> None:
        self._kill_all_on(machine)
        self._world.machines[machine].lose_power()

    def _disk(self, machine: int) -> None:
        self._kill_all_on(machine)
        self._world.machines[machine].lose_disk()

    def _wipe(self, machine: int) -> None:
        """Somebody deletes the state of a machine, whoever uses it."""
        self._world.machines[machine].lose_state()
        for life in self._world.lives():
            life.met += life.machine.number == machine

    def _kill_all_on(self, machine: int) -> None:
        for life in self._world.lives():
            if life.machine.number == machine:
                self._world.kill(life)

    def _pause(self, milliseconds: int) -> None:
        """Time passes in which nothing gets on: a long collection of garbage, a slow network."""
        self._world.ms += milliseconds
        for life in self._world.lives():
            life.paused = True
        self._world.broker.tick()

    def _skew(self, machine: int, ahead_ms: int) -> None:
        self._world.machines[machine].skew_ms = ahead_ms

    def _compact(self, keep_last: int, delete_after_ms: int | None) -> None:
        """The cleaner runs over all compacted topics."""
        broker = self._world.broker
        for name, topic in broker.topics.items():
            if delete_after_ms is not None and name.endswith("-changelog"):
                topic.config["delete.retention.ms"] = str(delete_after_ms)
            broker.compact(name, keep_last)

    def _age(self) -> None:
        """What is too old is deleted, in internal topics: sources are kept for ever."""
        for name in list(self._world.broker.topics):
            if name.endswith("-changelog"):
                self._world.broker.retain(name)

    def _widen(self, topic: str, partitions: int) -> None:
        self._world.broker.widen(topic, partitions)

    def _hide(self, topic: str, steps: int) -> None:
        """Answers about topics lack one for a while."""
        seen = self._world.metadata()
        seen.pop(topic, None)
        self._world.stale = (self._world.steps + steps, seen)

    def _lag(self, steps: int) -> None:
        """Answers about topics are as of now for a while."""
        self._world.stale = (self._world.steps + steps, self._world.metadata())

    def _truncate(self, topic: str, partition: int, records: int) -> None:
        log = self._world.broker.partition(topic, partition)
        if log is not None:
            log.truncate(max(log.start, log.end - records))

    def _recreate(self, topic: str) -> None:
        broker = self._world.broker
        partitions = len(broker.topics[topic].partitions)
        broker.delete(topic)
        broker.create(topic, partitions)

    def _lose_log(self, how: str, number: int, records: int) -> None:
        """An internal topic loses its end, or is deleted; not while anybody writes to it."""
        broker = self._world.broker
        suffix = "-epochs" if how == "delete epochs" else "-changelog"
        names = sorted(name for name in broker.topics if name.endswith(suffix))
        if self._world.lives() or not names:
            return
        name = names[number % len(names)]
        self._world.happened[how] += 1
        self._world.applied.add("log lost")
        if how != "truncate changelog":
            broker.delete(name)
            return
        for log in broker.topics[name].partitions:
            log.truncate(max(log.start, log.end - records))

    def _expire(self, topic: str, age_ms: int) -> None:
        """Records of a source are deleted by age."""
        if topic in PROGRAMS[self._world.script.program].global_:
            return
        self._world.applied.add("expired")
        for log in self._world.broker.topics[topic].partitions:
            log.retain(BASE_MS + self._world.ms - age_ms)

    def _reset(self, machine: int) -> None:
        """Somebody runs ``mustela reset`` on one machine: other disks keep what they have."""
        world = self._world
        for life in world.lives():
            world.kill(life)
        for name in list(world.broker.topics):
            if name.startswith(f"{self._name}-"):
                world.broker.delete(name)
        world.broker.groups.pop(self._name, None)
        world.machines[machine].remove_unclaimed(self._name, set())
        world.on_reset()

    def _group(self, how: str) -> None:
        """Somebody resets the offsets of the group, or they expire."""
        self._world.moved_ms = self._world.ms
        for group in self._world.broker.groups.values():
            if how == "forget":
                group.clear()
            for place in group:
                group[place] = max(0, group[place] - 2)

    def _produce(
        self, topic: str, partition: int, rows: Sequence[tuple[bytes, bytes | None]], how: str
    ) -> None:
        broker = self._world.broker
        log = broker.partition(topic, partition)
        if log is None:
            return
        txn: Txn | None = None
        name, epoch = "", 0
        if how != "plain":
            self._made += 1
            name = f"upstream-{self._made}"
            epoch = broker.init_producer(name, 10**9)
            txn = broker.transaction(name, epoch)
        for key, value in rows:
            timestamp = BASE_MS + self._world.ms
            broker.append(topic, partition, key, value, timestamp, txn=txn)
        if how in {"commit", "abort"}:
            broker.end_transaction(name, epoch, commit=how == "commit")
        elif how == "held":
            self._end_open()
            self._open.append((name, epoch))

    def _end_open(self) -> None:
        for name, epoch in self._open:
            with suppress(Fenced):  # it was open for too long
                self._world.broker.end_transaction(name, epoch, commit=True)
        self._open.clear()

    def _calm(self) -> None:
        """Put everything right: from here on nothing fails, and one instance comes to rest."""
        world = self._world
        self._end_open()
        world.is_calm = True
        world.stale = None
        world.calm_until = world.ms + CALM_MS
        for machine in world.machines:
            machine.skew_ms = 0
        for life in world.lives():
            life.failures.clear()
            life.worker_dies = False
            life.no_answers = 0
            life.stopping = life.stopping or life.version != 0
        for slot in world.slots:
            slot.version = 0
            slot.restart_ms = min(slot.restart_ms, world.ms)
        if not any(slot.wanted for slot in world.slots):
            world.slots[0].wanted = True
        self._ends_before = len(world.ends)

    def is_over(self) -> bool:
        """Whether the application came to rest, or does not come back, however often it starts."""
        world = self._world
        if world.violations:
            return True
        if not world.is_calm or (world.lives() and not self._takes_turns()):
            return False
        ended = world.ends[self._ends_before :]
        return world.came_to_rest or (len(ended) >= TRIES and len(set(ended[-TRIES:])) == 1)

    def _takes_turns(self) -> bool:
        """Whether supervised instances start one after the other, and none of them gets to run."""
        lives = self._world.lives()
        return self._world.starts_beside and not any(life.running for life in lives)

    @property
    def sources(self) -> dict[tuple[str, int], Any]:
        """The logs of the source topics."""
        topics = PROGRAMS[self._world.script.program].sources
        return {
            (topic, number): log
            for topic, number, log in self._world.broker.places()
            if topic in topics
        }

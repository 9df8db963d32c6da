"""Random schedules: a driver and its writers over brokers that lose, delay and repeat messages.

The driver does with each epoch what an application does: it gives a ticket, waits for each writer,
adds offsets and epoch record, and commits; after a failure it opens anew, and the epoch record says
what happened. Each attempt of an epoch has rows of its own, as functions that are not deterministic
give them. In the end each epoch is there once, of one attempt, in every partition, or the rules of
the design note do not suffice. Two rules are broken here, too, to see that it would be noticed.
"""

from __future__ import annotations

import random
from enum import Enum

import pytest

from mustela.connectors.kafka.errors import TransactionFailed
from mustela.connectors.kafka.writers import cluster, coordinator, writer
from mustela.connectors.kafka.writers.coordinator import TransactionCoordinator
from mustela.connectors.kafka.writers.transactions import SharedTransactions
from mustela.connectors.kafka.writers.writer import TransactionWriter, WriterOptions, Written
from mustela.errors import EnvironmentFault
from mustela.plan.ticket import Ticket
from tests.unit.connectors.writers.simulated_brokers import NODES, Brokers

PROPERTIES = {"bootstrap.servers": "host:0"}
RECORD = ("epochs", 0)
WRITERS = 3
EPOCHS = 12
SEEDS = 20
LAST_EPOCH = 9
SMALL = WriterOptions(batch_bytes=120, request_bytes=240)


class Rule(Enum):
    """What a driver may do wrong."""

    NONE = "nothing"
    WAIT = "it commits although a writer has not said where its rows are"
    ONE_LIFE = "it has a second writer for a partition in one transaction"


class Death(Exception):
    """A writer died."""


class Play:
    """One run of a driver."""

    def __init__(self, brokers: Brokers, seed: int, broken: Rule) -> None:
        self.brokers, self.broken = brokers, broken
        self.random = random.Random(seed)
        self.driver = TransactionCoordinator(PROPERTIES, "app")
        self.zombies: list[TransactionWriter] = []
        self.attempt = 0
        self.deaths = self.failures = 0

    def run(self) -> None:
        """Commit all epochs."""
        self.open()
        epoch = 1
        while epoch <= EPOCHS:
            self.attempt += 1
            try:
                self.run_epoch(epoch)
                epoch += 1
            except (TransactionFailed, Death):
                self.failures += 1
                if self.random.random() < 0.5 or not self.abort():
                    self.open()
                    epoch = self.committed() + 1
            self.haunt(0.3)
        self.haunt(1.0)
        self.open()

    def committed(self) -> int:
        """The last epoch of the epoch record."""
        found = self.brokers.partitions[RECORD].committed()
        return int(found[-1].split()[0]) if found else 0

    def open(self) -> None:
        """Open until it succeeds."""
        while True:
            try:
                self.driver.open()
            except EnvironmentFault:
                continue
            return

    def abort(self) -> bool:
        """Abort, if there is something that can be aborted."""
        if not self.driver.is_open:
            return False
        try:
            self.driver.abort()
        except TransactionFailed:
            return False
        return True

    def run_epoch(self, epoch: int) -> None:
        """Do all of an epoch."""
        ticket = self.driver.begin()
        places = [("out", number) for number in range(WRITERS)]
        for place in places:
            try:
                self.write(ticket, place, epoch)
            except Death:
                self.deaths += 1
                if self.broken is Rule.NONE:
                    raise
                if self.broken is Rule.ONE_LIFE:
                    self.attempt += 1
                    self.put(ticket, place, self.rows(epoch))
        self.driver.send_offsets({("in", 0): epoch})
        self.put(ticket, RECORD, [b"%d %d" % (epoch, self.attempt)])
        self.driver.commit()

    def rows(self, epoch: int) -> list[bytes]:
        """The rows of this attempt."""
        return [b"%d %d %d" % (epoch, self.attempt, number) for number in range(12)]

    def put(self, ticket: Ticket, place: tuple[str, int], rows: list[bytes]) -> Written:
        """Write rows as a writer that lives."""
        made = TransactionWriter(PROPERTIES, ticket, options=SMALL)
        made.write(*place, [None] * len(rows), rows)
        return made.finish()[place]

    def write(self, ticket: Ticket, place: tuple[str, int], epoch: int) -> None:
        """Write rows as a writer that may die before, in or after it."""
        rows, when = self.rows(epoch), self.random.random()
        made = TransactionWriter(PROPERTIES, ticket, options=SMALL)
        if when < 0.03:
            raise Death
        made.write(*place, [None] * len(rows), rows)
        if when < 0.06:
            self.zombies.append(made)
            raise Death
        made.finish()
        if when < 0.09:
            raise Death

    def haunt(self, probability: float) -> None:
        """Let writers that were thought dead go on."""
        for zombie in list(self.zombies):
            if self.random.random() < probability:
                self.zombies.remove(zombie)
                try:
                    zombie.finish()
                except TransactionFailed:
                    continue

    def check(self) -> None:
        """Each epoch once, of one attempt, everywhere."""
        self.brokers.settle()
        record = [
            tuple(map(int, row.split())) for row in self.brokers.partitions[RECORD].committed()
        ]
        assert [epoch for epoch, _ in record] == list(range(1, EPOCHS + 1))
        for number in range(WRITERS):
            found = self.brokers.partitions["out", number].committed()
            expected = [
                b"%d %d %d" % (epoch, attempt, row)
                for epoch, attempt in record
                for row in range(12)
            ]
            assert found == expected, f"partition {number}"
        assert self.brokers.offsets == {("in", 0): EPOCHS}


class SharedPlay(Play):
    """The same with what an application has: a transaction is lent for an attempt."""

    def __init__(self, brokers: Brokers, seed: int, broken: Rule) -> None:
        super().__init__(brokers, seed, broken)
        self.shared = SharedTransactions(PROPERTIES, "app")

    def open(self) -> None:
        """Open until it succeeds."""
        while True:
            try:
                self.shared.reopen()
            except EnvironmentFault:
                continue
            return

    def abort(self) -> bool:
        """Leave it to the next that is lent; now and then say why, in a transaction between."""
        if not self.shared.is_open:
            return False
        if self.random.random() < 0.5:
            try:
                self.shared.begin()
                self.shared.produce_tracked("why", 0, [None], [b"it failed"])
                self.haunt(0.3)
                self.shared.commit()
            except TransactionFailed:
                return False
        return self.shared.is_open

    def run_epoch(self, epoch: int) -> None:
        """Do all of an epoch."""
        ticket = self.shared.lend()
        assert ticket is not None
        for number in range(WRITERS - 1):
            try:
                self.write(ticket, ("out", number), epoch)
            except Death:
                self.deaths += 1
                if self.broken is Rule.NONE:
                    raise
        self.shared.begin(ticket)
        rows: list[bytes | None] = [*self.rows(epoch)]
        partitions: list[int | None] = [WRITERS - 1] * len(rows)
        self.shared.produce_columns("out", [None] * len(rows), rows, partitions=partitions)
        self.shared.send_offsets({("in", 0): epoch})
        ends = self.shared.flush()
        assert ends == {}
        self.shared.produce_tracked(*RECORD, [None], [b"%d %d" % (epoch, self.attempt)])
        self.shared.commit()


def play(
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    version: int,
    broken: Rule = Rule.NONE,
    kind: type[Play] = Play,
) -> Play:
    """Run a schedule to its end."""
    brokers = Brokers(seed, version, LAST_EPOCH)
    monkeypatch.setattr(cluster, "Connection", brokers.connect)
    for module in (cluster, writer):
        monkeypatch.setattr(module, "sleep", brokers.tick)
    if version == 1:
        monkeypatch.setattr(coordinator, "bumps_at_end", lambda _broker: False)
    made = kind(brokers, seed, broken)
    made.run()
    return made


@pytest.mark.parametrize("version", [1, 2])
def test_each_epoch_is_there_once_and_whole(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """Whoever dies, whatever is lost, late or repeated, and though epochs of producers run out."""
    deaths = failures = producers = 0
    for seed in range(SEEDS):
        made = play(monkeypatch, seed, version)
        made.check()
        deaths += made.deaths
        failures += made.failures
        producers = max(producers, made.driver.begin().producer_id)
    assert deaths > SEEDS
    assert failures > deaths
    assert producers > 0


@pytest.mark.parametrize("version", [1, 2])
def test_what_an_application_lends_is_there_once_and_whole(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """The same, with the rows of lanes and of the driver in a transaction that is lent."""
    deaths = failures = wrong = 0
    for seed in range(SEEDS):
        made = play(monkeypatch, seed, version, kind=SharedPlay)
        made.check()
        deaths += made.deaths
        failures += made.failures
    assert deaths > SEEDS / 2
    assert failures > deaths
    for seed in range(10):
        try:
            play(monkeypatch, seed, version, Rule.WAIT, SharedPlay).check()
        except AssertionError:
            wrong += 1
    assert wrong >= 4


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("broken", [Rule.WAIT, Rule.ONE_LIFE], ids=lambda rule: rule.name.lower())
def test_a_driver_that_breaks_a_rule_is_found_out(
    monkeypatch: pytest.MonkeyPatch, version: int, broken: Rule
) -> None:
    """Otherwise the test above would show nothing."""
    wrong = 0
    for seed in range(10):
        try:
            play(monkeypatch, seed, version, broken).check()
        except AssertionError:
            wrong += 1
    assert wrong >= 5


@pytest.mark.parametrize("version", [1, 2])
def test_a_small_epoch_asks_each_broker_once(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """However many partitions its changelogs have; and a second time for the epoch record."""
    brokers = Brokers(0, version, LAST_EPOCH)
    brokers.is_calm = True
    monkeypatch.setattr(cluster, "Connection", brokers.connect)
    shared = SharedTransactions(PROPERTIES, "app")
    shared.reopen()
    brokers.asked.clear()
    shared.begin()
    for store in range(8):
        for number in range(4):
            shared.produce_tracked(f"store-{store}", number, [b"key"], [b"value"])
    shared.send_offsets({("in", 0): 1})
    assert len(shared.flush()) == 8 * 4
    shared.produce_tracked(*RECORD, [None], [b"1 1"])
    shared.commit()
    adding = {"AddPartitionsToTxn": 2, "AddOffsetsToTxn": 1} if version == 1 else {}
    asked = {name: count for name, count in brokers.asked.items() if name != "Metadata"}
    once = {"TxnOffsetCommit": 1, "EndTxn": 1, "FindCoordinator": asked["FindCoordinator"]}
    assert asked == {"Produce": NODES + 1, **once, **adding}

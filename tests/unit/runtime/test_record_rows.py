"""The epochs topic: whatever was aborted, compacted and killed, the last epoch is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from mustela.connectors.kafka.errors import TransactionAborted, TransactionUnknown
from mustela.connectors.kafka.row_handler import RowHandler
from mustela.errors import MustelaError
from mustela.runtime.commit.barrier import Barrier, Phase
from mustela.runtime.commit.committer import Committer
from mustela.runtime.commit.epochs import EpochReader
from mustela.runtime.engine import EpochOutput
from mustela.runtime.record.epoch_delta import EPOCH_DELTA_KEY, EpochDelta, decode_row, is_delta
from mustela.runtime.record.epoch_record import EPOCH_RECORD_KEY, EpochRecord, PartitionState
from mustela.runtime.record.record_rows import RecordFold, RecordPolicy, RecordRows
from tests.unit.runtime.fakes import FakeSink
from tests.unit.runtime.test_epoch_delta import a_record

NOTHING = EpochOutput(reports=[], rows=[], outlines=[], changelogs=[], dead_letters=[], size=0)
DELTAS = RecordPolicy(whole_bytes_max=0, deltas_max=4)


@dataclass
class Topic:
    """An epochs topic; what is aborted leaves offsets without a row, as a reader sees it."""

    rows: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])

    def newest_first(self) -> Iterator[bytes]:
        return (value for _, value in reversed(list(self.rows)))

    def compact(self, upto: int) -> None:
        """Remove rows before ``upto`` of whose key there is a newer one before it."""
        newest = {key: n for n, (key, _) in enumerate(self.rows[:upto])}
        self.rows = [row for n, row in enumerate(self.rows) if n >= upto or newest[row[0]] == n]


def _after(record: EpochRecord, moved: set[int], *, grow: bool) -> EpochRecord:
    partitions = [
        PartitionState(p.topic, p.partition, p.end + 3, p.max_timestamp + 5) if n in moved else p
        for n, p in enumerate(record.partitions)
    ]
    if grow:
        partitions.append(PartitionState("lines", len(partitions), 0))
    return msgspec.structs.replace(record, epoch=record.epoch + 1, partitions=partitions)


class EpochsTopic(RuleBasedStateMachine):
    """Runs of an application over one epochs topic."""

    readers = Bundle("readers")

    def __init__(self) -> None:
        super().__init__()
        self.topic = Topic()
        self.last = a_record(20)
        self.followers: list[tuple[RecordFold, int]] = []
        self.start()

    @rule()
    def start(self) -> None:
        """A run begins: it reads what is there, and claims it."""
        found = EpochReader(self.topic).last()
        assert found is None or found == self.last
        self.last = msgspec.structs.replace(self.last, incarnation=self.last.incarnation + 1)
        self.rows = RecordRows(DELTAS)
        self.topic.rows.append(self.rows.whole(self.last))
        self.rows.committed()

    @rule(moved=st.sets(st.integers(0, 19)), grow=st.sampled_from([False, False, False, True]))
    def commit(self, moved: set[int], grow: bool) -> None:
        """An epoch is committed."""
        record = _after(self.last, moved, grow=grow)
        self.topic.rows.append(self.rows.row(record))
        self.rows.committed()
        self.last = record

    @rule(moved=st.sets(st.integers(0, 19)), is_there=st.booleans())
    def commit_without_an_answer(self, moved: set[int], is_there: bool) -> None:
        """The transaction fails; the driver finds out whether the epoch is there, and goes on."""
        record = _after(self.last, moved, grow=False)
        row = self.rows.row(record)
        if is_there:
            self.topic.rows.append(row)
            self.last = record

    @rule(part=st.floats(0, 1))
    def compact(self, part: float) -> None:
        """The broker compacts the topic up to somewhere."""
        self.topic.compact(int(part * len(self.topic.rows)))

    @invariant()
    def the_last_epoch_is_found(self) -> None:
        """By one who reads backwards, and by one who reads all there is."""
        assert EpochReader(self.topic).last() == self.last
        token = EpochReader(self.topic).newest()
        assert token is not None
        assert (token.incarnation, token.epoch) == (self.last.incarnation, self.last.epoch)
        fold = RecordFold()
        found = [fold.take(value) for _, value in self.topic.rows]
        assert found[-1] == self.last

    @invariant()
    def two_rows_are_enough(self) -> None:
        """Compacted as far as can be, the topic still says it, in one row of each key."""
        least = Topic(list(self.topic.rows))
        least.compact(len(least.rows))
        assert len(least.rows) <= 2
        assert EpochReader(least).last() == self.last


TestEpochsTopic = EpochsTopic.TestCase


def test_deltas_are_written_behind_a_base_and_now_and_then_a_base() -> None:
    """At most as many as the policy says; a run begins with a whole record."""
    rows, record, keys = RecordRows(DELTAS), a_record(500), []
    made = rows.whole(record)
    rows.committed()
    for _ in range(10):
        record = _after(record, {1}, grow=False)
        made = rows.row(record)
        rows.committed()
        keys.append(made.key)
    whole, delta = EPOCH_RECORD_KEY, EPOCH_DELTA_KEY
    assert keys == [delta] * 4 + [whole] + [delta] * 4 + [whole]


def test_a_small_record_is_always_whole() -> None:
    """The simplest road for most applications; older versions can read all of it."""
    rows, record = RecordRows(RecordPolicy()), a_record(20)
    rows.whole(record)
    rows.committed()
    for n in range(5):
        record = _after(record, {n}, grow=False)
        assert rows.row(record).key == EPOCH_RECORD_KEY
        rows.committed()


def test_a_base_is_written_when_deltas_have_become_dear() -> None:
    """More and more partitions differ from the base: a delta with all of them, for ever, is waste.

    No more is written than three quarters of what whole records would take.
    """
    rows, record = RecordRows(RecordPolicy(whole_bytes_max=0)), a_record(2_000)
    size = len(rows.whole(record).value)
    rows.committed()
    made = []
    for n in range(200):
        record = _after(record, set(range(n * 10, n * 10 + 10)), grow=False)
        made.append(rows.row(record))
        rows.committed()
    assert any(row.key == EPOCH_RECORD_KEY for row in made)
    assert sum(len(row.value) for row in made) < 0.25 * size * len(made)


def test_a_base_that_is_compacted_while_it_is_read_is_read_again() -> None:
    """A newer one has come meanwhile: what it says is found."""
    rows, topic = RecordRows(DELTAS), Topic()
    first = a_record(20)
    second = _after(first, {1}, grow=False)
    third = msgspec.structs.replace(second, incarnation=9)
    topic.rows.append(rows.whole(first))
    rows.committed()
    topic.rows.append(rows.row(second))

    class Moving:
        def newest_first(self) -> Iterator[bytes]:
            _, value = topic.rows[-1]
            yield value
            topic.rows[:] = [RecordRows(DELTAS).whole(third)]

    assert EpochReader(Moving()).last() == third


def test_a_lost_base_is_a_named_stop() -> None:
    """Somebody deleted records, which compaction never does: nothing is guessed."""
    rows, topic = RecordRows(DELTAS), Topic()
    topic.rows.append(rows.whole(a_record(20)))
    rows.committed()
    topic.rows.append(rows.row(_after(a_record(20), {1}, grow=False)))
    reader = EpochReader(Topic(topic.rows[1:]), "shop")
    with pytest.raises(MustelaError) as caught:
        reader.last()
    assert caught.value.code == "EPOCH_BASE_GONE"
    assert "mustela reset shop" in str(caught.value.fix)
    found = reader.newest()
    assert found is not None
    assert found.epoch == 6


def _committer(sink: FakeSink, **more: Any) -> Committer:
    return Committer(
        sink,  # pyright: ignore[reportArgumentType]
        application_id="app",
        dead_letter_topic="letters",
        header="",
        handler=RowHandler("fail"),
        records=DELTAS,
        **more,
    )


def _commit(committer: Committer, record: EpochRecord) -> None:
    barrier = Barrier(incarnation=2, last_epoch=record.epoch - 1)
    barrier.start()
    barrier.move(Phase.IN_HAND)
    committer.commit(NOTHING, barrier=barrier, offsets={}, record=lambda _ends: record)


@pytest.mark.parametrize("failure", [TransactionAborted("no"), TransactionUnknown("who knows")])
def test_after_a_failed_commit_the_next_record_is_whole(failure: MustelaError) -> None:
    """A delta to a base that may not be there would be worth nothing."""
    sink = FakeSink(commit=[])
    committer, record = _committer(sink), a_record(500)
    committer.claim(record)
    kinds = []
    for n in range(6):
        record = _after(record, {n}, grow=False)
        if n == 3:
            sink._failures["commit"] = [failure]  # pyright: ignore[reportPrivateUsage]
            with pytest.raises(type(failure)):
                _commit(committer, record)
        else:
            _commit(committer, record)
        kinds.append(is_delta(sink.sent[-1]["values"][0]))
    assert kinds == [True, True, True, True, False, True]
    base, delta = (decode_row(rows[-1]["values"][0]) for rows in sink.committed[-2:])
    assert isinstance(delta, EpochDelta)
    assert delta.base == (base.incarnation, base.epoch, base.attempt)


@pytest.mark.parametrize("end", [-100, 0])
def test_an_epochs_topic_that_was_made_again_takes_no_epoch(end: int) -> None:
    """Its log begins anew: that is seen before the commit, so that nothing is written."""
    sink = FakeSink()
    committer, record = _committer(sink), a_record(500)
    committer.claim(record)
    _commit(committer, record := _after(record, {1}, grow=False))
    committed = len(sink.committed)
    sink.log_ends["app-epochs", 0] = 101 + end
    with pytest.raises(MustelaError) as caught:
        _commit(committer, _after(record, {2}, grow=False))
    assert caught.value.code == "EPOCHS_TOPIC_GONE"
    assert "recreated" in str(caught.value)
    assert len(sink.committed) == committed

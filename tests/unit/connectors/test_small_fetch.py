"""Small ranges of many partitions, fetched together: what came stands, the rest is left."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaError, Message
from hypothesis import given, strategies as st

from mustela.connectors.kafka.small_fetch import OffsetRange, SmallFetch

PARTITIONS = 3


def record(partition: int, offset: int) -> Message:
    return Message(
        topic="t", partition=partition, offset=offset, value=b"%d" % offset, timestamp=(1, offset)
    )


def event(code: int, partition: int, offset: int = 0) -> Message:
    return Message(topic="t", partition=partition, offset=offset, error=KafkaError(code))


def end_of(partition: int, offset: int) -> Message:
    return event(KafkaError._PARTITION_EOF, partition, offset)  # pyright: ignore[reportPrivateUsage]


class Log:
    """A consumer that gives what a broker has, in any pieces.

    Args:
        messages: Records and events, in the order in which they come.
        pieces: How many come at once, in turns.
    """

    def __init__(self, messages: list[Message], pieces: list[int]) -> None:
        self.left = list(messages)
        self._pieces = pieces

    def consume(self, most: int, _timeout: float) -> list[Message]:
        """Give the next ones."""
        count = min(self._pieces[0], most)
        self._pieces.append(self._pieces.pop(0))
        given, self.left = self.left[:count], self.left[count:]
        return given


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[OffsetRange], list[list[int]], list[Message]]:
    """Ranges, the offsets of each partition's log that hold records, and what a consumer gives."""
    wanted: list[OffsetRange] = []
    held: list[list[int]] = []
    queues: list[list[Message]] = []
    for partition in range(PARTITIONS):
        start = draw(st.integers(0, 5))
        end = start + draw(st.integers(1, 6))
        length = end + draw(st.integers(0, 4))  # more has come since
        offsets = sorted(draw(st.sets(st.integers(start, length - 1))))
        wanted.append(OffsetRange("t", partition, start, end))
        held.append(offsets)
        queue = [record(partition, offset) for offset in offsets]
        if offsets:  # the log ended there for a moment
            at = draw(st.integers(0, len(offsets) - 1))
            queue.insert(at, end_of(partition, offsets[at]))
        queues.append([*queue, end_of(partition, length)])
    mixed: list[Message] = []
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        mixed.append(queue.pop(0))
    return wanted, held, mixed


PIECES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(logs(), PIECES)
def test_all_of_each_range_comes_in_any_pieces(
    log: tuple[list[OffsetRange], list[list[int]], list[Message]], pieces: list[int]
) -> None:
    """Control records and aborted data leave gaps, also at the end of a range."""
    wanted, held, messages = log
    consumer: Any = Log(messages, pieces)
    fetch = SmallFetch(consumer, wanted)
    fetch.run()
    assert fetch.is_sound
    for one, offsets in zip(wanted, held, strict=True):
        chunk, position = fetch.found[one]
        assert position == one.end
        assert chunk.offsets == [offset for offset in offsets if offset < one.end]
        assert chunk.values == [b"%d" % offset for offset in chunk.offsets]
        assert chunk.timestamps == chunk.offsets


@given(logs(), PIECES, st.data())
def test_what_came_before_a_fault_stands(
    log: tuple[list[OffsetRange], list[list[int]], list[Message]],
    pieces: list[int],
    data: st.DataObject,
) -> None:
    """A read that goes on from there sees all others, if the client passed over some behind it."""
    wanted, held, messages = log
    at = data.draw(st.integers(0, len(messages)))
    fault = event(KafkaError.UNKNOWN_TOPIC_OR_PART, data.draw(st.integers(0, PARTITIONS - 1)))
    behind = [message for message in messages[at:] if data.draw(st.booleans())]
    consumer: Any = Log([*messages[:at], fault, *behind], pieces)
    fetch = SmallFetch(consumer, wanted)
    fetch.run()
    for one, offsets in zip(wanted, held, strict=True):
        chunk, position = fetch.found[one]
        assert one.start <= position <= one.end
        assert chunk.offsets == [offset for offset in offsets if offset < position]


def test_a_client_that_goes_back_is_not_used_on() -> None:
    """The record that comes again is not taken twice."""
    consumer: Any = Log([record(0, 0), record(0, 1), record(0, 0)], [2, 1])
    fetch = SmallFetch(consumer, [OffsetRange("t", 0, 0, 5), OffsetRange("t", 1, 0, 5)])
    fetch.run()
    assert not fetch.is_sound
    assert fetch.found[OffsetRange("t", 0, 0, 5)].chunk.offsets == [0, 1]
    assert fetch.found[OffsetRange("t", 0, 0, 5)].position == 2

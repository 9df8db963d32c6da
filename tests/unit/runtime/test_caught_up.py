"""What waits for an application to have caught up."""

from __future__ import annotations

from mustela.model import TopicPartition
from mustela.runtime.caught_up import CaughtUp

HERE, THERE = TopicPartition("lines", 0), TopicPartition("lines", 1)


def test_what_comes_later_is_not_waited_for() -> None:
    """An application whose topics never rest has caught up all the same."""
    waiting = CaughtUp()
    assert not waiting.see({HERE: 5, THERE: 2}, {HERE: 3, THERE: 2})
    assert not waiting.see({HERE: 9, THERE: 8}, {HERE: 4, THERE: 7})
    assert waiting.see({HERE: 20, THERE: 9}, {HERE: 5, THERE: 7})
    assert waiting.done


def test_nothing_to_read_is_caught_up_with_at_once() -> None:
    """Empty topics, and none."""
    assert CaughtUp().see({}, {})
    assert CaughtUp().see({HERE: 0}, {HERE: 0})


def test_a_partition_that_is_no_longer_read_is_not_waited_for() -> None:
    """Its topic was deleted, or no longer matches."""
    waiting = CaughtUp()
    assert not waiting.see({HERE: 5, THERE: 2}, {HERE: 5, THERE: 0})
    assert waiting.see({HERE: 5}, {HERE: 5})

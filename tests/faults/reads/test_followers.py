"""What a client holds of a store by its changes."""

from __future__ import annotations

from typing import Any

from mustela.client.asking import RemoteChange, RemoteRow
from tests.faults.reads.followers import Followed


def change(kind: Any, epoch: int, key: str, value: Any = None, *times: int) -> Any:
    """Return a change of a row."""
    start, end = times or (None, None)
    return RemoteChange(kind, epoch, RemoteRow(key, value, start=start, end=end))


def ready(epoch: int) -> Any:
    """Return the end of a snapshot."""
    return RemoteChange("ready", epoch, None)


def held(followed: Followed, *changes: Any) -> list[tuple[int, dict[Any, Any], int | None]]:
    """Return what is held of each epoch that changes complete, and the one before it."""
    looks = [look for each in changes for look in followed.take(each)]
    return [
        (
            look["epoch"],
            {(row[0], row[1]) if row[1] is not None else row[0]: row[3] for row in rows},
            look["held"]["before"],
        )
        for look in looks
        for rows in [look["held"]["rows"]]
    ]


def test_an_epoch_is_whole_when_the_next_one_begins() -> None:
    """A snapshot with its last row, what an epoch changed when the next one comes."""
    followed = Followed("s", "keyed", None)
    begun = [change("snapshot", 4, "a", 1), change("snapshot", 4, "b", 2), ready(4)]
    assert held(followed, *begun) == [(4, {"a": 1, "b": 2}, None)]
    more = [change("change", 5, "a", 3), change("deleted", 5, "b"), change("change", 7, "c", 4)]
    assert held(followed, *more) == [(5, {"a": 3}, 4)]
    assert held(followed, change("change", 8, "c", 5)) == [(7, {"a": 3, "c": 4}, 5)]


def test_a_connection_that_ends_goes_back_to_the_last_whole_epoch() -> None:
    """What came of the next one comes again; a new snapshot replaces all."""
    followed = Followed("s", "keyed", None)
    held(followed, change("snapshot", 4, "a", 1), ready(4), change("change", 5, "b", 2))
    followed.again()
    assert followed.epoch == 4
    assert held(followed, change("change", 5, "c", 3), change("change", 6, "d", 4)) == [
        (5, {"a": 1, "c": 3}, 4)
    ]
    followed.again()
    assert held(followed, change("snapshot", 9, "e", 5), ready(9)) == [(9, {"e": 5}, None)]
    assert held(followed, ready(12)) == [(12, {}, None)]


def test_sessions_of_a_key_replace_those_that_it_had() -> None:
    """All sessions of each key that changed are sent; others stay."""
    followed = Followed("s", "session", None)
    begun = [change("snapshot", 1, "a", 1, 0, 5), change("snapshot", 1, "b", 1, 0, 5), ready(1)]
    held(followed, *begun, change("change", 2, "a", 2, 0, 9), change("change", 2, "a", 1, 20, 25))
    assert held(followed, change("deleted", 3, "b")) == [
        (2, {("a", 0): 2, ("a", 20): 1, ("b", 0): 1}, 1)
    ]
    assert held(followed, change("change", 4, "a", 3, 0, 25)) == [
        (3, {("a", 0): 2, ("a", 20): 1}, 2)
    ]

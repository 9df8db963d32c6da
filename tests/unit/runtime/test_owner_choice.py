"""When owners of partitions write an epoch's sink rows."""

from __future__ import annotations

import pytest

from mustela.plan.epoch import TaskReport
from mustela.plan.ranges import SourceRange
from mustela.runtime.epoch.owner_choice import OwnerChoice

MIB = 1 << 20


def owners(least_bytes: int | None, mebibytes: int, tasks: int) -> int:
    """Expect so many MiB, a record of 1 KiB each."""
    choice = OwnerChoice(least_bytes)
    assert choice.owners([SourceRange(0, 0, 0, 1 << 40)], tasks) == 0  # nothing is known yet
    choice.learn([TaskReport(stage=0, task=0, sink_bytes=1_024 * 100)], records=100)
    choice.learn([], records=0)  # an epoch that only acted on time says nothing of records
    halves = [SourceRange(0, part, 7, 7 + 512 * mebibytes) for part in range(2)]
    return choice.owners(halves, tasks)


@pytest.mark.parametrize(
    ("mebibytes", "tasks", "expected"),
    [(31, 64, 0), (32, 64, 8), (64, 64, 16), (64, 8, 8), (64, 7, 0), (400, 4, 0)],
)
def test_by_default_the_driver_writes_unless_many_share_it(
    mebibytes: int, tasks: int, expected: int
) -> None:
    """What an exchange costs is more than the driver saves by it, but for many executors."""
    assert owners(None, mebibytes, tasks) == expected


@pytest.mark.parametrize(
    ("mebibytes", "tasks", "expected"), [(1, 4, 0), (2, 4, 2), (9, 4, 4), (9, 1, 0)]
)
def test_who_says_how_much_an_owner_has_gets_two_or_more(
    mebibytes: int, tasks: int, expected: int
) -> None:
    assert owners(MIB, mebibytes, tasks) == expected

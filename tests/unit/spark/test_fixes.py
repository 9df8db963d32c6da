"""What the errors of Spark's settings and hosts advise, followed to the letter: it helps."""

from __future__ import annotations

import pytest

from mustela.spark.hosts import MemoryStateOnHostsError, UnloggedStoreError, check_hosts
from mustela.spark.properties import ForcedSparkPropertyError, check_joined, properties_for
from tests.unit.spark.test_hosts import MASTER, engine, table


def test_a_property_that_is_removed_or_set_as_the_error_says_is_fine() -> None:
    """ForcedSparkPropertyError, of the settings and of a session of the user's."""
    with pytest.raises(ForcedSparkPropertyError) as caught:
        properties_for({"spark.task.maxFailures": "4"})
    assert caught.value.fix == "remove spark.task.maxFailures from the settings"
    assert properties_for({})["spark.task.maxFailures"] == "1"
    with pytest.raises(ForcedSparkPropertyError) as caught:
        check_joined({"spark.speculation": "true"})
    assert caught.value.fix == 'build the session with .config("spark.speculation", "false")'
    check_joined({"spark.speculation": "false"})


def test_state_on_several_hosts_is_kept_as_the_errors_say() -> None:
    """UnloggedStoreError and MemoryStateOnHostsError: a changelog, a disk, or a single host."""
    with pytest.raises(UnloggedStoreError) as unlogged:
        engine(MASTER, "lmdb").check(table(logged=False))
    assert (unlogged.value.fix or "").startswith("give 'prices' its changelog (logged=True), or ")
    check_hosts(table(logged=True), master=MASTER, state_backend="lmdb")
    with pytest.raises(MemoryStateOnHostsError) as memory:
        engine(MASTER, "memory").check(table(logged=True))
    assert (memory.value.fix or "").startswith("set state.backend to lmdb, or ")
    engine(MASTER, "lmdb").check(table(logged=True))
    for logged in (True, False):
        engine("local[*]", "memory").check(table(logged=logged))

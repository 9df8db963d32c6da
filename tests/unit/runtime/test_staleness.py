"""How old a copy of a topic may be, by the topic's own settings."""

from __future__ import annotations

import pytest

from mustela.runtime.topics.staleness import stale_ages

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("config", "age"),
    [
        ({"delete.retention.ms": str(2 * HOUR)}, HOUR),
        ({"delete.retention.ms": str(2 * HOUR), "min.compaction.lag.ms": str(4 * HOUR)}, 3 * HOUR),
        ({"delete.retention.ms": str(2 * HOUR), "max.compaction.lag.ms": "1000"}, HOUR),
        ({"delete.retention.ms": "0"}, 0),
        ({}, 12 * HOUR),
        ({"delete.retention.ms": "None"}, 12 * HOUR),
        ({"cleanup.policy": "compact,delete", "retention.ms": str(4 * HOUR)}, 2 * HOUR),
        ({"cleanup.policy": "compact,delete", "retention.ms": "-1"}, 12 * HOUR),
        ({"cleanup.policy": "compact", "retention.ms": str(4 * HOUR)}, 12 * HOUR),
    ],
)
def test_a_copy_is_believed_for_half_the_time_that_a_deletion_stays(config, age) -> None:
    """Whatever the settings are; what the broker does not tell is Kafka's own default."""
    assert stale_ages({"counts": config}) == {"counts": age}

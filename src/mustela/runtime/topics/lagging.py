"""Topics missing from an answer are requested again: metadata lags behind reality."""

from __future__ import annotations

from collections.abc import Iterable

from mustela.clock import Clock
from mustela.connectors.kafka.admin import TopicDescription
from mustela.connectors.kafka.metadata import AGREED_LAG_S
from mustela.runtime.ports import Cluster

__all__ = ["describe_all"]

_PAUSE_S = 0.1


def describe_all(
    cluster: Cluster, clock: Clock, topics: Iterable[str], *, maybe: Iterable[str] = ()
) -> dict[str, TopicDescription]:
    """Describe topics that should all exist.

    Args:
        cluster: Describes the topics.
        clock: Waits between requests.
        topics: The topics.
        maybe: Topics that may be gone; they are described along with the others, and not waited
            for.

    Returns:
        Those that exist; a missing topic was in no answer for a second.
    """
    wanted = set(topics)
    names = sorted(wanted.union(maybe))
    deadline = clock.monotonic() + AGREED_LAG_S
    while True:
        found = cluster.describe(names)
        if wanted <= found.keys() or clock.monotonic() >= deadline:
            return found
        clock.sleep(_PAUSE_S)

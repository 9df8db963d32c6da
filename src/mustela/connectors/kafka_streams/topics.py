"""The names of the topics that Kafka Streams makes for itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["CHANGELOG", "OwnTopics", "own_topics"]

CHANGELOG: Final = "-changelog"
REPARTITION: Final = "-repartition"
_FOREIGN_KEY: Final = re.compile(r"subscription-re(gistration|sponse)(-\d+)?-topic$", re.IGNORECASE)


class OwnTopics(NamedTuple):
    """The internal topics of an application.

    Attributes:
        changelogs: By the name of a store, its changelog.
        between: Topics through which its own records travel, to be read by itself.
    """

    changelogs: dict[str, str]
    between: list[str]


def own_topics(application_id: str, topics: Iterable[str], others: Iterable[str] = ()) -> OwnTopics:
    """Return the internal topics of an application among all topics.

    Args:
        application_id: The application.
        topics: All topics.
        others: The ids of other applications; those that begin with this one's have topics that
            look like its own.

    Example:
        >>> mine = own_topics("shop", ["orders", "shop-counts-changelog", "shop-by-repartition"])
        >>> mine.changelogs, mine.between
        ({'counts': 'shop-counts-changelog'}, ['shop-by-repartition'])
        >>> own_topics("shop", ["shop-eu-counts-changelog"], ["shop-eu"]).changelogs
        {}
    """
    prefix = f"{application_id}-"
    longer = tuple(f"{other}-" for other in others if other.startswith(prefix))
    mine = sorted(t for t in topics if t.startswith(prefix) and not t.startswith(longer))
    changelogs = {
        topic[len(prefix) : -len(CHANGELOG)]: topic for topic in mine if topic.endswith(CHANGELOG)
    }
    between = [t for t in mine if t.endswith(REPARTITION) or _FOREIGN_KEY.search(t)]
    return OwnTopics(changelogs, between)

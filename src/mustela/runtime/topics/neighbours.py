"""Whether a changelog belongs to another application: ``a`` with ``b-x``, or ``a-b`` with ``x``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mustela.errors import EnvironmentFault, InvariantError
from mustela.plan.epoch import changelog_topic
from mustela.runtime.record.epoch_record import EpochRecord, epochs_topic

__all__ = ["CHANGELOG", "Neighbour", "neighbours_of", "sharing"]

CHANGELOG = changelog_topic("", "").removeprefix("-")
"""The suffix of every changelog's name."""


class Neighbour(NamedTuple):
    """An application that may have a store with the same changelog name as another's.

    Attributes:
        application_id: The application.
        store: The store, by its changelog's name.
        topic: The changelog.
    """

    application_id: str
    store: str
    topic: str

    @property
    def epochs(self) -> str:
        """The epochs topic of the application, which exists if the application does."""
        return epochs_topic(self.application_id)


def neighbours_of(application_id: str, logs: Iterable[str]) -> list[Neighbour]:
    """Return the other applications that could have changelogs of these names.

    Args:
        application_id: The application that has, or will have, them.
        logs: Names of changelogs.

    Example:
        >>> [tuple(one) for one in neighbours_of("a-b", ["a-b-x-changelog"])]
        [('a', 'b-x', 'a-b-x-changelog')]
        >>> [tuple(one) for one in neighbours_of("a", ["a-b-x-changelog"])]
        [('a-b', 'x', 'a-b-x-changelog')]
    """
    found: list[Neighbour] = []
    for topic in sorted(logs):
        parts = topic.removesuffix(CHANGELOG).split("-")
        for at in range(1, len(parts)):
            other = "-".join(parts[:at])
            if other != application_id:
                found.append(Neighbour(other, "-".join(parts[at:]), topic))
    return found


def sharing(
    neighbours: Iterable[Neighbour],
    last: Callable[[str], EpochRecord | None],
    ids: Mapping[str, str],
) -> dict[str, Neighbour]:
    """Return the changelogs that another application writes, with that application.

    Args:
        neighbours: The candidates.
        last: Returns the last epoch record of an application.
        ids: The ids of existing topics.

    Raises:
        EnvironmentFault: If no broker answers.
    """
    found: dict[str, Neighbour] = {}
    for one in neighbours:
        if one.epochs in ids and one.topic not in found:
            try:
                record = last(one.application_id)
            except (EnvironmentFault, InvariantError) as error:
                if isinstance(error, EnvironmentFault) and error.retryable:
                    raise
                found[one.topic] = one  # an application whose record cannot be read may write it
            else:
                if record is not None and _writes(record, one.store, ids.get(one.topic, "")):
                    found[one.topic] = one
    return found


def _writes(record: EpochRecord, store: str, topic_id: str) -> bool:
    """Return whether a record has a store with this changelog id, or with an unknown one."""
    state = record.stores.get(store)
    if state is None:
        return store in record.changelog_ends
    return state.logged and topic_id in ("", state.changelog_id or topic_id)

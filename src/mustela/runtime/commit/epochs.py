"""The last epoch record, as the epochs topic holds it."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from mustela.errors import EnvironmentFault
from mustela.runtime.ports import EpochLog
from mustela.runtime.record.epoch_delta import (
    EpochDelta,
    decode_row,
    is_delta,
    token_of,
    with_delta,
)
from mustela.runtime.record.epoch_record import EpochRecord, epochs_topic

__all__ = [
    "ChangelogGoneError",
    "EpochBaseGoneError",
    "EpochReader",
    "EpochsTopicGoneError",
    "refuse_gone",
    "refuse_remade",
]

_READS_MAX = 5
"""How often the topic is read again if a new base was written and compacted meanwhile."""


class EpochBaseGoneError(EnvironmentFault):
    """The epochs topic has lost the whole record that its last delta is relative to."""

    code = "EPOCH_BASE_GONE"


class EpochsTopicGoneError(EnvironmentFault):
    """The epochs topic, the only record of the application's progress, was deleted."""

    code = "EPOCHS_TOPIC_GONE"


class ChangelogGoneError(EnvironmentFault):
    """The changelog of a store was deleted while the application ran."""

    code = "CHANGELOG_GONE"


def refuse_gone(application_id: str, gone: Collection[str]) -> None:
    """Raise the error for internal topics that are gone while the application runs.

    No fix says to create them: an empty one would mean that nothing was ever processed.

    Raises:
        EpochsTopicGoneError: If the epochs topic is one of them.
        ChangelogGoneError: If a changelog is.
    """
    if not gone:
        return
    fix = (
        "find out first who deleted it; then clear what is left with: mustela reset"
        f" {application_id}"
    )
    topic = epochs_topic(application_id)
    if topic in gone:
        msg = f"the epochs topic '{topic}' was deleted"
        raise EpochsTopicGoneError(
            msg,
            evidence={"gone": ", ".join(sorted(gone))},
            why="it is the only record of the application's progress; nothing can be committed "
            "without it",
            fix=fix,
            fields={"topics": sorted(gone)},
        )
    msg = f"the changelog '{min(gone)}' was deleted"
    raise ChangelogGoneError(
        msg,
        evidence={"gone": ", ".join(sorted(gone))},
        why="a store could not be restored without it",
        fix=fix,
        fields={"topics": sorted(gone)},
    )


def refuse_remade(application_id: str, then: str, now: str) -> NoReturn:
    """Raise the error for an epochs topic that was recreated or truncated.

    Args:
        application_id: The application.
        then: What is known about the old topic.
        now: The current state of the topic.

    Raises:
        EpochsTopicGoneError: Always.
    """
    topic = epochs_topic(application_id)
    msg = f"the epochs topic '{topic}' was deleted and recreated, or was truncated"
    raise EpochsTopicGoneError(
        msg,
        evidence={topic: f"{then}, now {now}"},
        why="it is the only record of the application's progress, and its contents are gone",
        fix="find out first who deleted it; then clear what is left with: mustela reset"
        f" {application_id}",
        fields={"topics": [topic]},
    )


class EpochReader:
    """Reads the last committed epoch.

    Args:
        log: The epochs topic.
        application_id: Whose it is, for the errors.
    """

    def __init__(self, log: EpochLog, application_id: str = "APP") -> None:
        self._log = log
        self._application_id = application_id

    def newest(self) -> EpochRecord | EpochDelta | None:
        """Return the last committed row, or None if there is none.

        It identifies the epoch; for everything else see `last`.
        """
        for value in self._log.newest_first():
            return decode_row(value, self._application_id)
        return None

    def last(self) -> EpochRecord | None:
        """Return the last committed epoch record, or None if there is none.

        Raises:
            EpochBaseGoneError: If rows of the topic are gone that compaction keeps.
        """
        delta: EpochDelta | None = None
        for _ in range(_READS_MAX):
            base, delta = self._look()
            if delta is None:
                return base
            if base is not None and token_of(base) == delta.base:
                return with_delta(base, delta)
            # Compaction removes a base once there is a newer one, which the next look finds.
        raise self._base_gone(delta)

    def _look(self) -> tuple[EpochRecord | None, EpochDelta | None]:
        """Return the last whole record, and the last delta if that is newer."""
        delta: EpochDelta | None = None
        for value in self._log.newest_first():
            if delta is not None and is_delta(value):
                continue
            row = decode_row(value, self._application_id)
            if isinstance(row, EpochRecord):
                return row, delta
            delta = row
        return None, delta

    def _base_gone(self, delta: EpochDelta | None) -> EpochBaseGoneError:
        assert delta is not None, "a whole record needs no base"
        topic, (incarnation, epoch, _) = epochs_topic(self._application_id), delta.base
        return EpochBaseGoneError(
            f"the epochs topic '{topic}' lost the record of epoch {epoch} of run {incarnation}",
            evidence={"last epoch": f"{delta.epoch} of run {delta.incarnation}"},
            why="the last epoch records only what has changed since then; compaction removes "
            "neither, so somebody deleted records, or a broker lost them",
            fix="find out first who did it; then clear what is left with: mustela reset "
            f"{self._application_id}",
        )

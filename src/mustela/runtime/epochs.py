"""The last epoch record, as the epochs topic holds it."""

from __future__ import annotations

from collections.abc import Collection

from mustela.errors import EnvironmentFault
from mustela.runtime.epoch_record import EpochRecord, decode_epoch_record, epochs_topic
from mustela.runtime.ports import EpochLog

__all__ = ["ChangelogGoneError", "EpochReader", "EpochsTopicGoneError", "refuse_gone"]


class EpochsTopicGoneError(EnvironmentFault):
    """The epochs topic, which alone knows how far the application has come, was deleted."""

    code = "EPOCHS_TOPIC_GONE"


class ChangelogGoneError(EnvironmentFault):
    """The changelog of a store was deleted while the application ran."""

    code = "CHANGELOG_GONE"


def refuse_gone(application_id: str, gone: Collection[str]) -> None:
    """Raise the error for internal topics that are gone while the application runs.

    Nobody is told to make them: an empty one would say that nothing has been done.

    Raises:
        EpochsTopicGoneError: If the epochs topic is one of them.
        ChangelogGoneError: If a changelog is.
    """
    if not gone:
        return
    fix = (
        f"mustela reset {application_id} clears what is left, so that the next start begins anew;"
        " find out who deleted it first"
    )
    topic = epochs_topic(application_id)
    if topic in gone:
        msg = f"the epochs topic '{topic}' was deleted"
        raise EpochsTopicGoneError(
            msg,
            evidence={"gone": ", ".join(sorted(gone))},
            why="it alone knows how far the application has come; nothing can be committed",
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


class EpochReader:
    """Reads what was committed last.

    Args:
        log: The epochs topic.
        application_id: Whose it is, for the errors.
    """

    def __init__(self, log: EpochLog, application_id: str = "APP") -> None:
        self._log = log
        self._application_id = application_id

    def last(self) -> EpochRecord | None:
        """Return the last committed epoch record, or None if there is none."""
        for value in self._log.newest_first():
            return decode_epoch_record(value, self._application_id)
        return None

"""The stops of the gate."""

from __future__ import annotations

from mustela.errors import EnvironmentFault, InvariantError, UsageError

__all__ = [
    "ChangelogIncompleteError",
    "ChangelogRecreatedError",
    "ChangelogSharedError",
    "ChangelogTruncatedError",
    "EventTimeChangedError",
    "KeyGroupsChangedError",
    "OffsetsMovedError",
    "SourceExpiredError",
    "SourceTopicRecreatedError",
    "SourceTruncatedError",
    "StateFormatError",
    "StateWithoutRecordError",
    "StoreDroppedError",
    "StoreLayoutChangedError",
    "StoreMeaningChangedError",
    "StoreMovedError",
    "StoreNameTakenError",
    "StoreNotUpgradedError",
    "StoreSleptError",
    "StoreVersionFallenError",
]


class KeyGroupsChangedError(UsageError):
    """The number of key groups differs from the one that the state was made with."""

    code = "KEY_GROUPS_CHANGED"


class StateFormatError(EnvironmentFault):
    """State and changelogs are of another format."""

    code = "STATE_FORMAT"


class EventTimeChangedError(UsageError):
    """Event time follows other rules than those that the state was made by."""

    code = "EVENT_TIME_CHANGED"


class StoreDroppedError(UsageError):
    """A store that was dropped is to do without a changelog, where old local state may be."""

    code = "STORE_DROPPED"


class StoreLayoutChangedError(UsageError):
    """A store is to be laid out in another way than the rows that it holds."""

    code = "STORE_LAYOUT_CHANGED"


class StoreMeaningChangedError(UsageError):
    """The bytes of a store would be read as something else than what was written."""

    code = "STORE_MEANING_CHANGED"


class StoreNotUpgradedError(UsageError):
    """A store has rows of an older version, and the program has no upgrade that reads them."""

    code = "STORE_NOT_UPGRADED"


class StoreVersionFallenError(UsageError):
    """A store has rows of a later version than the program's, as after a rollback."""

    code = "STORE_VERSION_FALLEN"


class StoreNameTakenError(UsageError):
    """A renamed store has the name of another one, whose rows are still there."""

    code = "STORE_NAME_TAKEN"


class StoreSleptError(UsageError):
    """A store comes back that was not kept up while its topics were read."""

    code = "STORE_SLEPT"


class StoreMovedError(UsageError):
    """A store without a changelog is to live where its rows are not."""

    code = "STORE_MOVED_WITHOUT_CHANGELOG"


class SourceTopicRecreatedError(EnvironmentFault):
    """A source topic was deleted and made anew: its offsets mean other records now."""

    code = "SOURCE_TOPIC_RECREATED"


class SourceTruncatedError(EnvironmentFault):
    """A source partition lost records that were read: it ends before them, or holds others."""

    code = "SOURCE_TRUNCATED"


class SourceExpiredError(EnvironmentFault):
    """A source partition begins after what was read of it: records were deleted unread."""

    code = "SOURCE_EXPIRED"


class OffsetsMovedError(EnvironmentFault):
    """Somebody changed the consumer group's offsets, which only mirror the epoch record."""

    code = "OFFSETS_MOVED"


class StateWithoutRecordError(InvariantError):
    """Changelogs hold state, but there is no epoch record."""

    code = "STATE_WITHOUT_RECORD"


class ChangelogSharedError(UsageError):
    """A store's changelog would have the name of one that another application writes."""

    code = "CHANGELOG_SHARED"


class ChangelogRecreatedError(EnvironmentFault):
    """A changelog was deleted, or deleted and made anew: it does not hold the store any more."""

    code = "CHANGELOG_RECREATED"


class ChangelogTruncatedError(EnvironmentFault):
    """A changelog ends before what was written to it: rows were lost."""

    code = "CHANGELOG_TRUNCATED"


class ChangelogIncompleteError(UsageError):
    """A store is to have a changelog that does not hold what was written without one."""

    code = "CHANGELOG_INCOMPLETE"

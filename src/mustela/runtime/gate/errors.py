"""The stops of the gate."""

from __future__ import annotations

from mustela.errors import EnvironmentFault, InvariantError, UsageError

__all__ = [
    "ChangelogIncompleteError",
    "ChangelogRecreatedError",
    "ChangelogSharedError",
    "ChangelogTruncatedError",
    "EventTimeChangedError",
    "FormatNotHeldError",
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
    """State and changelogs have another format."""

    code = "STATE_FORMAT"


class EventTimeChangedError(UsageError):
    """The state was made under another `event_time` setting."""

    code = "EVENT_TIME_CHANGED"


class FormatNotHeldError(UsageError):
    """With `hold_format`, something would be written that the release before cannot read."""

    code = "FORMAT_NOT_HELD"


class StoreDroppedError(UsageError):
    """A dropped store would have no changelog, although old local state may still exist."""

    code = "STORE_DROPPED"


class StoreLayoutChangedError(UsageError):
    """The program lays out a store differently from its existing rows."""

    code = "STORE_LAYOUT_CHANGED"


class StoreMeaningChangedError(UsageError):
    """The bytes of a store would be read as something other than what was written."""

    code = "STORE_MEANING_CHANGED"


class StoreNotUpgradedError(UsageError):
    """A store has rows of an older version, and the program has no upgrade that reads them."""

    code = "STORE_NOT_UPGRADED"


class StoreVersionFallenError(UsageError):
    """A store has rows of a newer version than the program's, as after a rollback."""

    code = "STORE_VERSION_FALLEN"


class StoreNameTakenError(UsageError):
    """A renamed store has the name of another one, whose rows are still there."""

    code = "STORE_NAME_TAKEN"


class StoreSleptError(UsageError):
    """A store that returns to the program missed records of its topics."""

    code = "STORE_SLEPT"


class StoreMovedError(UsageError):
    """A store without a changelog would move to a place where its rows are not."""

    code = "STORE_MOVED_WITHOUT_CHANGELOG"


class SourceTopicRecreatedError(EnvironmentFault):
    """A source topic was deleted and recreated: its offsets now mean other records."""

    code = "SOURCE_TOPIC_RECREATED"


class SourceTruncatedError(EnvironmentFault):
    """A source partition lost records that were read: it ends before them, or holds others."""

    code = "SOURCE_TRUNCATED"


class SourceExpiredError(EnvironmentFault):
    """A source partition starts after the last offset read: records were deleted unread."""

    code = "SOURCE_EXPIRED"


class OffsetsMovedError(EnvironmentFault):
    """Somebody changed the consumer group's offsets, which only mirror the epoch record."""

    code = "OFFSETS_MOVED"


class StateWithoutRecordError(InvariantError):
    """Changelogs hold state, but there is no epoch record."""

    code = "STATE_WITHOUT_RECORD"


class ChangelogSharedError(UsageError):
    """A store's changelog would have the same name as another application's."""

    code = "CHANGELOG_SHARED"


class ChangelogRecreatedError(EnvironmentFault):
    """A changelog was deleted, or deleted and recreated: it no longer holds the store."""

    code = "CHANGELOG_RECREATED"


class ChangelogTruncatedError(EnvironmentFault):
    """A changelog ends before what was written to it: rows were lost."""

    code = "CHANGELOG_TRUNCATED"


class ChangelogIncompleteError(UsageError):
    """A store would get a changelog that lacks the rows written without one."""

    code = "CHANGELOG_INCOMPLETE"

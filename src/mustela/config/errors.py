"""What can be wrong with settings."""

from __future__ import annotations

from mustela.errors import UsageError

__all__ = [
    "ForcedSettingError",
    "MustelaSettingWarning",
    "SettingValueError",
    "SettingsFileError",
    "UnknownSettingError",
]


class UnknownSettingError(UsageError):
    """A setting that does not exist; the text says which was probably meant."""

    code = "SETTING_UNKNOWN"


class SettingValueError(UsageError):
    """A setting whose value is not allowed, or a required one that is missing."""

    code = "SETTING_VALUE"


class SettingsFileError(UsageError):
    """A settings file that cannot be read."""

    code = "SETTINGS_FILE"


class ForcedSettingError(UsageError):
    """A Kafka client property that Mustela sets itself, because its guarantees depend on it."""

    code = "SETTING_FORCED"


class MustelaSettingWarning(UserWarning):
    """A Kafka Streams property that means nothing here."""

"""Dates and times as lists of numbers, with their time zones."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from mustela.serdes.base import type_name

__all__ = ["lower_datetime", "lower_time", "raise_datetime", "raise_time"]

_MICROSECOND = timedelta(microseconds=1)


def lower_datetime(value: datetime) -> list[Any]:
    """Return a datetime as numbers and its zone.

    Example:
        >>> from datetime import UTC
        >>> lower_datetime(datetime(2026, 1, 2, tzinfo=UTC))
        [2026, 1, 2, 0, 0, 0, 0, 0, [0]]
    """
    date_part = [value.year, value.month, value.day]
    return date_part + lower_time(value.timetz())


def lower_time(value: time) -> list[Any]:
    """Return a time as numbers and its zone."""
    clock = [value.hour, value.minute, value.second, value.microsecond, value.fold]
    return [*clock, _lower_zone(value.tzinfo)]


def raise_datetime(parts: list[Any]) -> datetime:
    """Return the datetime of `lower_datetime`."""
    year, month, day, hour, minute, second, micros, fold, zone = parts
    tz = _raise_zone(zone)
    return datetime(year, month, day, hour, minute, second, micros, tz, fold=fold)


def raise_time(parts: list[Any]) -> time:
    """Return the time of `lower_time`."""
    hour, minute, second, micros, fold, zone = parts
    return time(hour, minute, second, micros, _raise_zone(zone), fold=fold)


def _lower_zone(zone: tzinfo | None) -> Any:
    if zone is None:
        return None
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        name = zone.tzname(None)
        plain = name == timezone(offset).tzname(None)
        return [offset // _MICROSECOND] if plain else [offset // _MICROSECOND, name]
    if type(zone) is ZoneInfo and zone.key:
        return zone.key
    msg = f"a time zone of type {type_name(type(zone))}: use datetime.timezone or zoneinfo"
    raise TypeError(msg)


def _raise_zone(zone: Any) -> tzinfo | None:
    if zone is None:
        return None
    if isinstance(zone, str):
        return ZoneInfo(zone)
    offset, *name = zone
    if offset == 0 and not name:
        return UTC
    return timezone(offset * _MICROSECOND, *name)

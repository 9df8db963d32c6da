"""Durations and sizes as people write them."""

from __future__ import annotations

import re
from datetime import timedelta

__all__ = ["parse_duration", "parse_size", "reset_duration_ms", "show_duration", "show_size"]

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "k": 2**10,
    "m": 2**20,
    "g": 2**30,
    "t": 2**40,
}
_NUMBER_UNIT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-zA-Z]*)\s*")
_ISO = re.compile(
    r"P(?:(?P<d>\d+(?:\.\d+)?)D)?"
    r"(?:T(?:(?P<h>\d+(?:\.\d+)?)H)?(?:(?P<m>\d+(?:\.\d+)?)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?"
)


def parse_duration(value: object) -> timedelta:
    """Read a duration: a timedelta, seconds, ``"200ms"``, ``"1.5s"``, ``"2h"`` or ISO ``"PT1S"``.

    Raises:
        ValueError: If it is none of these, or negative.

    Example:
        >>> parse_duration("200ms") == parse_duration(0.2) == parse_duration("PT0.2S")
        True
    """
    result = _duration(value)
    if result is None:
        msg = 'a duration is written like 0.2 (seconds), "200ms", "1s", "5m", "1h" or "PT1S"'
        raise ValueError(msg)
    if result < timedelta(0):
        msg = "a duration cannot be negative"
        raise ValueError(msg)
    return result


def _duration(value: object) -> timedelta | None:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool):
        return None
    try:
        if isinstance(value, int | float):
            return timedelta(seconds=value)
        if not isinstance(value, str):
            return None
        simple = _NUMBER_UNIT.fullmatch(value)
        if simple:
            scale = _SECONDS.get(simple[2].lower() or "s")
            return None if scale is None else timedelta(seconds=float(simple[1]) * scale)
        iso = _ISO.fullmatch(value.strip().upper())
        parts = {k: float(v) for k, v in iso.groupdict().items() if v} if iso else {}
        seconds = sum(_SECONDS[unit] * amount for unit, amount in parts.items())
        return timedelta(seconds=seconds) if parts else None
    except (OverflowError, ValueError):
        return None


def show_duration(value: timedelta) -> str:
    """Write a duration the shortest way that `parse_duration` reads.

    Example:
        >>> from datetime import timedelta
        >>> show_duration(timedelta(milliseconds=100)), show_duration(timedelta(minutes=1))
        ('100ms', '1m')
    """
    micros = value // timedelta(microseconds=1)
    if micros == 0:
        return "0s"
    for unit, size in (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000)):
        if micros % size == 0:
            return f"{micros // size}{unit}"
    for unit, size in (("s", 1_000_000), ("ms", 1_000)):
        if micros % size == 0:
            return f"{micros // size}{unit}"
    return f"{micros}us"


def reset_duration_ms(reset: str) -> int | None:
    """Return the milliseconds that ``by_duration:<duration>`` goes back; None for another reset.

    Raises:
        ValueError: If the duration cannot be read.

    Example:
        >>> reset_duration_ms("by_duration:PT1H"), reset_duration_ms("latest")
        (3600000, None)
    """
    word, colon, duration = reset.partition(":")
    if word != "by_duration" or not colon:
        return None
    return parse_duration(duration) // timedelta(milliseconds=1)


def parse_size(value: object) -> int:
    """Read a size in bytes: a number, or ``"64MiB"``, ``"1 GB"``, ``"512k"`` (binary, as Spark's).

    Raises:
        ValueError: If it is none of these.

    Example:
        >>> parse_size("64MiB")
        67108864
    """
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        match = _NUMBER_UNIT.fullmatch(value)
        scale = _BYTES.get(match[2].lower()) if match else None
        if match and scale is not None:
            return int(float(match[1]) * scale) if "." in match[1] else int(match[1]) * scale
    msg = 'a size is a number of bytes, or written like "64MiB", "1GB" or "512k"'
    raise ValueError(msg)


def show_size(value: int) -> str:
    """Write a size the shortest way that `parse_size` reads.

    Example:
        >>> show_size(2**26), show_size(1000)
        ('64MiB', '1000')
    """
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if value and value % _BYTES[unit.lower()] == 0:
            return f"{value // _BYTES[unit.lower()]}{unit}"
    return str(value)

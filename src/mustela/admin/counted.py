"""What the counts of tasks are called among the metrics."""

from __future__ import annotations

from typing import Final

from mustela.runtime.status.snapshot import Histogram

__all__ = ["Sample", "samples_of_counter"]

Sample = tuple[str, tuple[str, ...], "float | Histogram"]
"""The name of a metric, the values of its labels, and its value."""

_FAILED: Final = {
    "failed_records": "mustela_failed_records_total",
    "dead_letters": "mustela_dead_letters_total",
    "refused_rows": "mustela_refused_rows_total",
    "records": "mustela_input_records_total",
}
_CALLS: Final = {
    "calls_ended": "ended",
    "calls_failed": "failed",
    "call_retries": "retried",
    "calls_made_again": "repeated",
}
_HOMES: Final = {
    "lanes_away": "away",
    "groups_caught_up": "caught_up",
    "groups_restored": "restored",
    "groups_followed": "followed",
    "groups_lost": "lost",
    "groups_balanced": "balanced",
}
_DROPPED: Final = {
    "duplicates": "duplicate",
    "late": "late",
    "skipped_invalid_timestamp": "invalid_timestamp",
}


def samples_of_counter(name: str, count: int) -> Sample:
    """Return what a count of the tasks of epochs is among the metrics.

    Args:
        name: Its name, ``what:step``.
        count: How many.

    Example:
        >>> samples_of_counter("dropped_late:per_hour", 3)
        ('mustela_dropped_records_total', ('late', 'per_hour'), 3)
        >>> samples_of_counter("dead_letters:parse", 1)
        ('mustela_dead_letters_total', ('parse',), 1)
        >>> samples_of_counter("lanes_away", 2)
        ('mustela_home_events_total', ('away',), 2)
    """
    what, _, step = name.partition(":")
    if what in _FAILED:
        return _FAILED[what], (step,), count
    if what.startswith("dropped_"):
        return "mustela_dropped_records_total", (what.removeprefix("dropped_"), step), count
    if what in _CALLS:
        return "mustela_calls_total", (_CALLS[what], step), count
    if what in _HOMES:
        return "mustela_home_events_total", (_HOMES[what],), count
    if what == "bytes_by_owners":
        return "mustela_owner_bytes_total", (), count
    if what in _DROPPED:
        return "mustela_dropped_records_total", (_DROPPED[what], step), count
    if what.startswith("user."):
        return "mustela_user_total", (what.removeprefix("user."), step), count
    return "mustela_step_events_total", (what, step), count

"""Names of subjects: under which names a registry has the schemas of a topic."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from mustela.serdes.schemas.faults import RegistryOptionError, SubjectMissingError

__all__ = ["STRATEGIES", "check_topic", "subject_name"]


def _by_topic(topic: str, part: str, _record: str) -> str:
    return f"{topic}-{part}"


def _by_record(_topic: str, _part: str, record: str) -> str:
    return record


def _by_both(topic: str, _part: str, record: str) -> str:
    return f"{topic}-{record}"


STRATEGIES: Final = MappingProxyType[str, Callable[[str, str, str], str]](
    {
        "TopicNameStrategy": _by_topic,
        "RecordNameStrategy": _by_record,
        "TopicRecordNameStrategy": _by_both,
    }
)
"""Confluent's strategies by name; each takes topic, ``key`` or ``value``, and the record's name."""


def subject_name(strategy: str, topic: str, part: str, record: str) -> str:
    """Return the subject of a schema.

    Args:
        strategy: One of `STRATEGIES`.
        topic: The topic.
        part: ``key`` or ``value``.
        record: The full name of the record's schema; empty if it has none.

    Raises:
        SubjectMissingError: If the strategy needs a record's name and there is none.

    Example:
        >>> subject_name("TopicNameStrategy", "orders", "value", "shop.Order")
        'orders-value'
        >>> subject_name("TopicRecordNameStrategy", "orders", "value", "shop.Order")
        'orders-shop.Order'
    """
    if not record and strategy != "TopicNameStrategy":
        msg = f"{strategy} needs a schema with a name, but that of the {part}s has none"
        raise SubjectMissingError(
            msg, fix="use a record, or TopicNameStrategy for this part", fields={"topic": topic}
        )
    return STRATEGIES[strategy](topic, part, record)


def check_topic(strategy: str, topic: str, part: str) -> None:
    """Check that subjects can be named before there is a record.

    Raises:
        RegistryOptionError: If the strategy needs a topic that a function names for each record.
    """
    if not topic and strategy != "RecordNameStrategy":
        msg = f"{strategy} needs a topic, but a function names it for each record"
        raise RegistryOptionError(msg, fix=f"set {part}.subject.name.strategy=RecordNameStrategy")

"""What the client library forgets to give back."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any, Final

from confluent_kafka import Uuid

__all__ = ["topic_id_of"]

_CLEAN: Final = SimpleNamespace(topic_id=Uuid(0, 1))
"""Holds an id as a description does; nobody else does."""


def topic_id_of(description: Any) -> str:
    """Return the id of a topic that `confluent_kafka.admin.AdminClient.describe_topics` describes.

    confluent-kafka 2.16 keeps a reference to each id that it makes, so no id was ever freed: 0.6 kB
    for each topic and look, and an application looks at its topics several times a second, for as
    long as it runs. The reference is given back here, if there is one too many.

    Example:
        >>> from types import SimpleNamespace
        >>> topic_id_of(SimpleNamespace(topic_id=Uuid(1, 2)))
        'AAAAAAAAAAEAAAAAAAAAAg'
    """
    said = str(description.topic_id)
    if _references(description) > _references(_CLEAN):
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(description.topic_id))
    return said


def _references(holder: Any) -> int:
    return sys.getrefcount(holder.topic_id)

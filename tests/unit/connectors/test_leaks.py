"""References that the client library forgets are given back, and no others."""

from __future__ import annotations

import ctypes
import gc
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Uuid

from mustela.connectors.kafka.leaks import topic_id_of


def _ids() -> int:
    gc.collect()
    return sum(type(one) is Uuid for one in gc.get_objects())


@pytest.mark.parametrize("forgotten", [0, 1])
def test_an_id_is_freed_once(forgotten: int) -> None:
    """Whether or not the library has kept a reference."""
    before = _ids()
    for number in range(20):
        described: Any = SimpleNamespace(topic_id=Uuid(7, number))
        for _ in range(forgotten):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(described.topic_id))
        assert topic_id_of(described) == str(Uuid(7, number))
        assert str(described.topic_id) == str(Uuid(7, number))
        del described
    assert _ids() == before

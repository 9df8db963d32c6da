"""Records in the topics of the test driver."""

from __future__ import annotations

from typing import NamedTuple

from mustela.model import Headers

__all__ = ["BrokerRow"]


class BrokerRow(NamedTuple):
    """A record as a broker holds it."""

    topic: str
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()
    partition: int = 0
    step: str = ""

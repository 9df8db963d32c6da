"""What clients ask for next: nothing a second time before all else had its turn."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["asked_stores", "dealt"]


def dealt(names: Iterable[str], rng: random.Random) -> Iterator[str]:
    """Yield names for ever, in rounds of all of them, each round in an order of its own."""
    hand = sorted(names)
    while hand:
        rng.shuffle(hand)
        yield from tuple(hand)


def asked_stores(look: Mapping[str, Any]) -> set[str]:
    """Return the stores of which a look shows something."""
    one = [look[part]["store"] for part in ("held", "page", "some") if part in look]
    return {*one, *look.get("stores", ()), *look.get("sums", ())}

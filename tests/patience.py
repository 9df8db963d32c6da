"""How long tests wait for what should come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

PATIENCE_S = 300.0
"""So long that only what hangs is given up, however busy the machine is."""
SOON = timedelta(seconds=PATIENCE_S)
_PAUSE_S = 0.02
_PAUSE_MAX_S = 0.5


def looks(holds: Callable[[], Any], patience_s: float = PATIENCE_S) -> Iterator[Any]:
    """Yield what `holds` returns, again and again, until the time is up.

    Between two looks it waits as long as a look takes: what is waited for needs the machine too.
    """
    deadline = time.monotonic() + patience_s
    while (began := time.monotonic()) < deadline:
        yield holds()
        took = time.monotonic() - began
        time.sleep(min(_PAUSE_MAX_S, max(_PAUSE_S, took)))

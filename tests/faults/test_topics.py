"""What a shock of the source's topic waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults.shocks.topics import lose


class Stopped(Exception):
    """The application was told to stop."""


class Fake:
    """An application with its campaign and feeder; it has read all that there is."""

    def __init__(self) -> None:
        self.campaign: Any = self
        self.feeder: Any = self
        self.servers = "nowhere:1"
        self.is_resting = False

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Write nothing for a while."""
        self.is_resting = True
        yield

    def child(self) -> Fake:
        """Wait for an epoch, which takes new input."""
        assert not self.is_resting, "it would wait for an epoch without end"
        return self

    def stop(self) -> int:
        """Stop, with all that was written."""
        assert self.is_resting, "there may be more input than was read"
        raise Stopped


def test_an_epoch_is_waited_for_while_there_is_input() -> None:
    """An application that has read everything commits no epoch while the feeder rests."""
    life: Any = Fake()
    with pytest.raises(Stopped):
        lose(life, lambda *_: "", "SOURCE_RECREATED", anew=True)

"""One store over epochs: base, pending and overlay, and what a changelog gives back."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

from mustela.state.interfaces import Committed, Environment, StoreSpec, Token
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay, StoreOverlay
from tests.unit.state.environments import make_spec, open_lmdb

LONG = b"k" * 600
KEYS = [b"", b"a", b"a\x00", b"ab", b"\x01", b"\xff\xff", LONG, LONG + b"\x00", b"k" * 399 + b"z"]
"""Keys that begin one another, and keys longer than LMDB's."""

keys = st.sampled_from(KEYS)
backends = st.sampled_from(["memory", "memory", "lmdb"])


class Epochs:
    """A store whose epochs are committed one after the other.

    Attributes:
        view: The store in the running epoch.
        log: Its changelog.
    """

    def __init__(self, environment: Environment, spec: StoreSpec) -> None:
        self._environment = environment
        self._name = spec.name
        self._state = Committed()
        self.log: list[tuple[bytes, bytes | None]] = []
        self._begin()

    def _begin(self) -> None:
        self._overlay = Overlay(self._environment.snapshot(self._state))
        self.view: StoreOverlay = self._overlay.store(self._name)

    def commit(self) -> None:
        """End the epoch, and begin the next over its pending."""
        changes = self._overlay.changes()
        logged = self._overlay.logged(changes)
        self._overlay.close()
        epoch = 1 if self._state.token is None else self._state.token.epoch + 1
        token = Token(1, epoch, 0)
        self._environment.write_pending(token, self._state, changes)
        self.log.extend(logged.get(self._name, []))
        self._state = Committed(token=token, changelog_ends={self._name: len(self.log)})
        self._begin()

    def restore(self) -> None:
        """Lose the disk, and begin the next epoch with what the changelog says."""
        self.commit()
        self._overlay.close()
        self._environment.destroy()
        self._environment.restore(self._name, iter(self.log), len(self.log))
        self._environment.finish_restore(self._state)
        self._begin()

    def step(self, name: str) -> None:
        """Do what an example says: ``commit`` or ``restore``."""
        {"commit": self.commit, "restore": self.restore}[name]()

    def close(self) -> None:
        """Close the running epoch's snapshot."""
        self._overlay.close()


steps = st.tuples(st.sampled_from(["commit", "restore"]))


@contextmanager
def world(backend: str, spec: StoreSpec) -> Generator[Epochs]:
    """Give a store in memory or in LMDB."""
    place = make_spec(stores=(spec,))
    with tempfile.TemporaryDirectory() as directory:
        environment: Environment = (
            MemoryEnvironment(place) if backend == "memory" else open_lmdb(Path(directory), place)
        )
        epochs = Epochs(environment, spec)
        try:
            yield epochs
        finally:
            epochs.close()
            environment.close(clean=True)

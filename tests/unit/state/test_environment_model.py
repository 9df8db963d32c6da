"""Every backend against a dict, over epochs, aborts, crashes and other processes."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from mustela.state import lmdb_environment, lmdb_flat
from mustela.state.faults import FencedStateError
from mustela.state.interfaces import Committed, Condition, Environment, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_folding import apply_part
from mustela.state.lmdb_reader import LmdbReaders
from mustela.state.memory import MemoryEnvironment
from mustela.state.overlay import Overlay
from tests.unit.state.environments import STORES, make_spec, open_lmdb

STEMS = [b"", b"a", b"ab", b"abc", b"b", b"\xff", b"\xff\xff", b"a" * 399, b"a" * 400]
TAILS = [b"", b"\x00", b"x", b"\xff", b"y" * 111, b"y" * 112, b"z" * 200, b"z" * 200 + b"\x01"]
keys = st.builds(bytes.__add__, st.sampled_from(STEMS), st.sampled_from(TAILS))
values = st.one_of(st.none(), st.binary(max_size=12), st.just(b"v" * 5_000))
stores = st.sampled_from(STORES)
writes = st.lists(st.tuples(stores, keys, values), max_size=12)


def dies_in_step(environment: LmdbEnvironment, step: int) -> None:
    """Close an environment, and do not come to a step of how it is laid flat."""
    done: list[int] = []

    def dying(act):
        def step_of(*given, **options):
            if len(done) == step:
                raise KeyboardInterrupt
            done.append(1)
            return act(*given, **options)

        return step_of

    with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
        for place, name in ((lmdb_flat.os, "fsync"), (lmdb_flat.os, "rename"), (Path, "unlink")):
            patch.setattr(place, name, dying(getattr(place, name)))
        environment.close(clean=True)


class EnvironmentMachine(RuleBasedStateMachine):
    """The driver's side of the protocol, with a dict per store as the truth."""

    environment: Environment

    def __init__(self):
        super().__init__()
        self.model: dict[str, dict[bytes, bytes]] = {name: {} for name in STORES}
        self.log: dict[str, list[tuple[bytes, bytes | None]]] = {name: [] for name in STORES}
        self.state = Committed()
        self.incarnation = 1
        self.attempt = 0
        self.written: list[int] = [0]

    def next_token(self) -> Token:
        epoch = 1 if self.state.token is None else self.state.token.epoch + 1
        self.attempt += 1
        return Token(self.incarnation, epoch, self.attempt)

    def run_job(self, rows, token: Token) -> dict:
        overlay = Overlay(self.environment.snapshot(self.state))
        expected = {name: dict(table) for name, table in self.model.items()}
        for store, key, value in rows:
            assert overlay.get(store, key) == expected[store].get(key)
            overlay.put(store, key, value)
            if value is None:
                expected[store].pop(key, None)
            else:
                expected[store][key] = value
        for name in STORES:
            table = overlay.store(name)
            assert list(table.range()) == sorted(expected[name].items())
            assert table.count() == len(expected[name])
            for _, key, _ in rows:
                assert table.before(key) == self.model[name].get(key)
        changes = overlay.changes()
        overlay.close()
        self.environment.write_pending(token, self.state, changes)
        return changes

    def commit(self, token: Token, changes: dict) -> None:
        for name, rows in changes.items():
            self.log[name] += rows
            for key, value in rows:
                if value is None:
                    self.model[name].pop(key, None)
                else:
                    self.model[name][key] = value
        ends = {name: len(rows) for name, rows in self.log.items()}
        self.state = Committed(token=token, changelog_ends=ends)
        self.attempt = 0

    @rule(rows=writes)
    def epoch_commits(self, rows):
        token = self.next_token()
        self.commit(token, self.run_job(rows, token))
        self.written.append(self.incarnation)

    @rule(rows=writes)
    def epoch_aborts(self, rows):
        self.run_job(rows, self.next_token())
        self.written.append(self.incarnation)

    @rule()
    def instance_restarts(self):
        self.incarnation += 1
        self.attempt = 0

    @precondition(lambda self: self.written[-1] > 1)
    @rule(rows=writes)
    def fenced_instance_is_refused(self, rows):
        before = self.environment.positions()
        epoch = 1 if self.state.token is None else self.state.token.epoch + 1
        with pytest.raises(FencedStateError):
            self.environment.write_pending(
                Token(self.written[-1] - 1, epoch, 99), self.state, {"counts": [(b"z", b"z")]}
            )
        assert self.environment.positions() == before

    @rule()
    def idle_fold(self):
        self.environment.fold(self.state)
        assert self.environment.condition(self.state) is Condition.CURRENT

    @rule()
    def files_are_compacted(self):
        before = self.environment.positions()
        self.environment.compact()
        assert self.environment.positions() == before

    @rule(cut=st.integers(min_value=0, max_value=30))
    def state_is_lost_and_restored(self, cut):
        self.environment.destroy()
        self.written = [0]
        for name in STORES:
            rows = self.log[name]
            self.environment.restore(name, rows[:cut], len(rows[:cut]))
            position = self.environment.positions()[name]
            self.environment.restore(name, rows[position:], len(rows))
        assert not self.environment.condition(self.state).ready or not any(self.log.values())
        self.environment.finish_restore(self.state)

    @rule(store=stores, low=st.none() | keys, high=st.none() | keys, prefix=keys)
    def ranges_agree(self, store, low, high, prefix):
        view = self.environment.snapshot(self.state)
        expected = [
            (key, value)
            for key, value in sorted(self.model[store].items())
            if (low is None or key >= low) and (high is None or key <= high)
        ]
        assert list(view.range(store, low, high)) == expected
        assert list(view.range(store, low, high, reverse=True)) == expected[::-1]
        matching = [row for row in sorted(self.model[store].items()) if row[0].startswith(prefix)]
        assert list(view.prefix(store, prefix)) == matching
        assert list(view.prefix(store, prefix, reverse=True)) == matching[::-1]
        view.close()

    @rule(store=stores, wanted=st.lists(keys, max_size=80))
    def many_keys_agree(self, store, wanted):
        view = self.environment.snapshot(self.state)
        assert view.getmulti(store, wanted) == [self.model[store].get(key) for key in wanted]
        assert [view.get(store, key) for key in wanted] == view.getmulti(store, wanted)
        assert view.count(store) == len(self.model[store])
        view.close()

    @rule(rows=writes)
    def open_view_does_not_move(self, rows):
        view = self.environment.snapshot(self.state)
        before = {name: sorted(table.items()) for name, table in self.model.items()}
        token = self.next_token()
        self.commit(token, self.run_job(rows, token))
        self.written.append(self.incarnation)
        self.environment.fold(self.state)
        for name in STORES:
            assert list(view.range(name, None, None)) == before[name]
        view.close()

    @invariant()
    def committed_state_is_here(self):
        assert self.environment.condition(self.state).ready


class MemoryMachine(EnvironmentMachine):
    @initialize()
    def open(self):
        self.environment = MemoryEnvironment(make_spec())


class LmdbMachine(EnvironmentMachine):
    environment: LmdbEnvironment
    options: ClassVar[dict[str, Any]] = {}

    def opened(self, boot: str = "boot-1") -> LmdbEnvironment:
        return open_lmdb(self.root, boot=boot, **self.options)

    @initialize()
    def open(self):
        self.root = Path(tempfile.mkdtemp(prefix="mustela-test-"))
        self.environment = self.opened()

    @rule(clean=st.booleans())
    def process_ends(self, clean):
        self.environment.close(clean=clean)
        self.environment = self.opened(self.environment._boot)

    @rule()
    def machine_restarts_after_a_clean_close(self):
        self.environment.close(clean=True)
        self.environment = self.opened(f"boot-{self.environment._boot}")

    @rule()
    def machine_dies_while_state_is_only_read(self):
        self.environment.close(clean=True)
        reader = self.opened(f"boot-{self.environment._boot}")
        assert reader.condition(self.state).ready
        reader.close(clean=False)
        self.environment = self.opened(f"boot-{reader._boot}")

    @rule(step=st.integers(min_value=0, max_value=3))
    def process_dies_while_it_closes(self, step):
        dies_in_step(self.environment, step)
        self.environment.close(clean=False)
        self.environment = self.opened(self.environment._boot)

    @rule(store=stores, clean=st.booleans())
    def others_read_what_is_closed(self, store, clean):
        self.environment.close(clean=clean)
        readers = LmdbReaders(self.root, boot=self.environment._boot)
        view = readers.snapshot(make_spec(), self.state)
        assert list(view.range(store, None, None)) == sorted(self.model[store].items())
        view.close()
        readers.close()
        self.environment = self.opened(self.environment._boot)

    @rule(rows=writes, commits=st.booleans())
    def epoch_runs_in_another_process(self, rows, commits):
        token = self.next_token()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                changes = self.run_job(rows, token)
                os.write(writer, repr(changes).encode())
                status = 0
            except BaseException:  # noqa: BLE001 - the child must not run on
                traceback.print_exc()
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            text = stream.read()
        assert os.waitpid(child, 0)[1] == 0
        self.written.append(self.incarnation)
        if commits:
            self.commit(token, eval(text))

    def teardown(self):
        if hasattr(self, "environment"):
            self.environment.close(clean=False)
            shutil.rmtree(self.root)


class CutFoldMachine(LmdbMachine):
    """Folds take a transaction for each row, and processes die between them."""

    options: ClassVar[dict[str, Any]] = {"fold_pages": 1, "flat_bytes": 1 << 14}

    @rule(survived=st.integers(min_value=0, max_value=12), clean=st.booleans())
    def process_dies_in_a_fold(self, survived, clean):
        parts: list[object] = []

        def dying(txn, handle, part, path):
            if len(parts) == survived:
                raise KeyboardInterrupt
            parts.append(part)
            apply_part(txn, handle, part, path)

        before = self.state
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lmdb_environment, "apply_part", dying)
            with suppress(KeyboardInterrupt):
                self.environment.fold(before)
        self.environment.close(clean=clean)
        self.environment = self.opened(self.environment._boot)
        for name in STORES:
            view = self.environment.snapshot(before)
            assert list(view.range(name, None, None)) == sorted(self.model[name].items())
            view.close()


MACHINE_SETTINGS = settings(
    max_examples=min(40, (settings.default or settings()).max_examples // 2),
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestMemory = MemoryMachine.TestCase
TestMemory.settings = MACHINE_SETTINGS
TestLmdb = LmdbMachine.TestCase
TestLmdb.settings = MACHINE_SETTINGS
TestCutFold = CutFoldMachine.TestCase
TestCutFold.settings = MACHINE_SETTINGS

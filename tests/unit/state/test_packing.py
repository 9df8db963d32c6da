"""Values that are compressed on disk: small, exact, and readable by whoever reads them."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import initialize, rule

from mustela.serdes.primitives import BytesSerde
from mustela.state import lmdb_packing
from mustela.state.codec import META_KEY, PACKED_PREFIX
from mustela.state.engine import Engine
from mustela.state.faults import StateDamagedError, StateLibraryError
from mustela.state.index import Index
from mustela.state.interfaces import Committed, Condition, EnvironmentSpec, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import DATA_FILE
from mustela.state.lmdb_reader import LmdbReaders
from mustela.state.packing import Packing, make_dictionary
from mustela.state.verify import verify_environments
from tests.unit.state.environments import STORES, committed, make_spec, open_lmdb, rows_of
from tests.unit.state.test_environment_model import MACHINE_SETTINGS, LmdbMachine, keys

ZSTD = Engine(compression="zstd")
PACKED = make_spec(stores=tuple(StoreSpec(name=name, engine=ZSTD) for name in STORES))


def order(number: int) -> bytes:
    """A value like those of an application: much of it is in all of them."""
    draw = random.Random(number)
    return json.dumps(
        {
            "customer": f"c-{draw.randrange(10**7):08d}",
            "city": draw.choice(["Rome", "Oslo", "Copenhagen", "Vienna"]),
            "status": draw.choice(["open", "paid", "shipped"]),
            "total": draw.randrange(10**5) / 100,
        }
    ).encode()


ORDERS = [(b"order-%08d" % number, order(number)) for number in range(4_000)]


def epochs(environment: LmdbEnvironment, state: Committed, *parts) -> Committed:
    """Commit each part of rows in an epoch, and fold it."""
    for rows in parts:
        number = 1 if state.token is None else state.token.epoch + 1
        token = Token(1, number, 0)
        environment.write_pending(token, state, {"counts": rows})
        state = committed(token, counts=number)
        environment.fold(state)
    return state


def filled(root: Path, spec: EnvironmentSpec = PACKED) -> tuple[LmdbEnvironment, Committed]:
    environment = open_lmdb(root, spec)
    state = epochs(environment, Committed(), ORDERS[:2_000], ORDERS[2_000:])
    return environment, state


def live(environment: LmdbEnvironment) -> int:
    return environment.sizes()["counts"].size


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "state"


@given(st.binary(min_size=1, max_size=30), st.binary(max_size=300), st.integers(0, 3_999))
def test_each_value_comes_back_and_a_changed_byte_does_not(key, noise, number):
    """Values like the others, unlike them, and both together."""
    for value in (noise, ORDERS[number][1], noise + ORDERS[number][1]):
        sealed = PACKING.seal(key, value)
        assert PACKING.open(key, sealed) == value
        assert len(sealed) <= len(value) + 4
        assert PACKING.open(key + b"x", sealed) is None
        at = len(noise) % len(sealed)
        broken = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        assert PACKING.open(key, broken) is None


PACKING = Packing(make_dictionary([value for _, value in ORDERS[:600]]))


def test_rows_shrink_and_are_what_was_written(root, tmp_path):
    """From the first rows on, which are plain, to those that are written anew when it is idle."""
    plain, _ = filled(tmp_path / "plain", make_spec())
    environment, state = filled(root)
    assert rows_of(environment, state) == ORDERS
    assert live(environment) < 0.8 * live(plain)
    assert environment.compact(), "the first rows are plain"
    assert live(environment) < 0.55 * live(plain)
    assert not environment.compact(), "now none is"
    assert rows_of(environment, state) == ORDERS
    view = environment.snapshot(state)
    assert view.getmulti("counts", [key for key, _ in ORDERS]) == [value for _, value in ORDERS]
    assert [view.get("counts", key) for key, _ in ORDERS[::97]] == [v for _, v in ORDERS[::97]]
    assert list(view.range("counts", None, None, reverse=True)) == ORDERS[::-1]
    view.close()
    environment.close(clean=True)
    again = open_lmdb(root, PACKED, boot="boot-2")
    assert rows_of(again, state) == ORDERS
    again.close(clean=True)
    assert verify_environments([environment.path]) == []


def test_switched_on_and_off_rows_stay_readable(root):
    """Either way rows are written anew while nothing is to do, and the dictionary goes."""
    environment, state = filled(root, make_spec())
    plain = live(environment)
    environment.close(clean=True)

    environment = open_lmdb(root, PACKED)
    assert rows_of(environment, state) == ORDERS
    state = epochs(environment, state, [ORDERS[0]])
    assert environment.compact()
    assert live(environment) < 0.55 * plain
    assert rows_of(environment, state) == ORDERS
    environment.close(clean=True)

    environment = open_lmdb(root, make_spec())
    assert rows_of(environment, state) == ORDERS
    newer = [(key, value.replace(b"open", b"paid")) for key, value in ORDERS[:9]]
    state = epochs(environment, state, newer)
    assert rows_of(environment, state) == newer + ORDERS[9:]
    assert environment.compact()
    assert live(environment) > 0.9 * plain
    assert not environment.compact()
    assert rows_of(environment, state) == newer + ORDERS[9:]
    handle = environment._opened()
    with handle.env.begin() as txn:
        keys = [key for key, _ in txn.cursor(handle.meta)]
    assert META_KEY in keys
    assert not [key for key in keys if key.startswith(PACKED_PREFIX)]
    environment.close(clean=True)
    assert verify_environments([environment.path]) == []


@pytest.mark.parametrize(
    "value",
    [lambda draw: draw.randbytes(60), lambda draw: b"%d" % draw.randrange(10)],
    ids=["noise", "small"],
)
def test_where_it_does_not_pay_nothing_is_compressed(root, value):
    """Noise does not shrink, and numbers have nothing to shrink."""
    draw = random.Random(2)
    rows = [(b"%08d" % number, value(draw)) for number in range(9_000)]
    environment = open_lmdb(root, PACKED)
    state = epochs(environment, Committed(), rows[:8_000], rows[8_000:])
    assert rows_of(environment, state) == rows
    data = (environment.path / DATA_FILE).read_bytes()
    assert b"packed:counts" in data, "it was tried"
    assert not environment._opened().packings
    environment.close(clean=True)
    assert verify_environments([environment.path]) == []


@pytest.mark.slow
def test_readers_that_were_there_before_see_compressed_rows(root):
    """They opened the files when all rows were plain; and one whose program says nothing of it."""
    state = in_a_child(root, Committed(), ORDERS[:5])
    readers = LmdbReaders(root, boot="boot-1")
    early = readers.snapshot(PACKED, state)
    assert early.get("counts", ORDERS[0][0]) == ORDERS[0][1]
    state = in_a_child(root, state, ORDERS[:2_000], ORDERS[2_000:])
    late = readers.snapshot(PACKED, state)
    assert list(late.range("counts", None, None)) == ORDERS
    assert late.getmulti("counts", [ORDERS[-1][0]]) == [ORDERS[-1][1]]
    assert list(islice(early.range("counts", None, None), 9)) == ORDERS[:5]
    early.close()
    late.close()
    readers.close()
    readers = LmdbReaders(root, boot="boot-1")
    plainly = readers.snapshot(make_spec(), state)
    assert plainly.get("counts", ORDERS[-1][0]) == ORDERS[-1][1]
    plainly.close()
    readers.close()


def in_a_child(root: Path, state: Committed, *parts) -> Committed:
    """Let another process write epochs, and be killed; return what is committed then."""
    child = multiprocessing.get_context("spawn").Process(target=writes, args=(root, state, parts))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    number = len(parts) + (0 if state.token is None else state.token.epoch)
    return committed(Token(1, number, 0), counts=number)


def writes(root: Path, state: Committed, parts) -> None:
    epochs(open_lmdb(root, PACKED), state, *parts)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_kill_while_the_dictionary_is_written_leaves_none_of_it(root):
    """The next process finds the epoch before, plain, and makes a dictionary by itself."""
    environment = open_lmdb(root, PACKED)
    state = epochs(environment, Committed(), ORDERS[:5])
    environment.close(clean=False)
    pid = os.fork()
    if pid == 0:
        lmdb_packing._write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        epochs(open_lmdb(root, PACKED), state, ORDERS)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    environment = open_lmdb(root, PACKED)
    assert environment.condition(state) is Condition.CURRENT
    assert rows_of(environment, state) == ORDERS[:5]
    state = epochs(environment, state, ORDERS, ORDERS)
    assert rows_of(environment, state) == ORDERS
    assert environment._opened().packings
    environment.close(clean=True)
    assert verify_environments([environment.path]) == []


def test_a_restored_store_is_compressed_as_well(root):
    """Restored rows are written by another way; so are the lines of an index, which stay plain."""
    index = (("city", Index(lambda row: row[:40])),)
    store = StoreSpec(
        name="counts", kind="key_value", value_serde=BytesSerde(), indexes=index, engine=ZSTD
    )
    environment = open_lmdb(root, make_spec(stores=(store,)))
    environment.restore("counts", ORDERS[:2_000], 2_000)
    environment.restore("counts", ORDERS[2_000:], 4_000, start=2_000)
    state = committed(Token(1, 1, 0), counts=4_000)
    environment.finish_restore(state)
    assert environment._opened().packings.keys() == {"counts"}
    assert rows_of(environment, state) == ORDERS
    assert len(rows_of(environment, state, "counts#index")) == len(ORDERS)
    environment.compact()
    assert len(rows_of(environment, state, "counts#index")) == len(ORDERS)
    environment.close(clean=True)
    assert verify_environments([environment.path]) == []


def test_a_flipped_byte_in_a_compressed_row_is_found(root):
    """By whoever reads the row, and by the check of all files."""
    environment, state = filled(root)
    environment.compact()
    view = environment.snapshot(state)
    assert view._txn is not None
    sealed = view._txn.get(ORDERS[0][0], None, view._handle.stores["counts"])
    assert sealed is not None
    view.close()
    environment.close(clean=False)
    file = environment.path / DATA_FILE
    data = file.read_bytes()
    assert data.count(sealed) == 1
    file.write_bytes(data.replace(sealed, sealed[:-1] + bytes([sealed[-1] ^ 4])))
    environment = open_lmdb(root, PACKED)
    with pytest.raises(StateDamagedError, match="fails its check"):
        rows_of(environment, state)
    environment.close(clean=False)
    assert verify_environments([environment.path]) == [environment.path]


def test_without_the_library_rows_are_not_lost(root, monkeypatch):
    """StateLibraryError: it is no damage, for that would delete what has no changelog."""
    environment, state = filled(root)
    environment.close(clean=True)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "zstandard", None)
        environment = open_lmdb(root, make_spec())
        assert environment.condition(state) is Condition.CURRENT
        assert verify_environments([environment.path]) == []
        with pytest.raises(StateLibraryError) as caught:
            rows_of(environment, state)
        assert (caught.value.fix or "").startswith("pip install 'mustela[zstd]'")
        environment.close(clean=False)
    environment = open_lmdb(root, make_spec())
    assert rows_of(environment, state) == ORDERS
    environment.close(clean=False)


def test_a_file_may_grow_as_far_as_its_largest_store(root):
    """The setting of the application is the least."""
    stores = (StoreSpec(name="a", engine=Engine(map_size=1 << 29)), StoreSpec(name="b"))
    for more, limit in ((1 << 29, 1 << 29), (1 << 20, 1 << 28)):
        spec = make_spec(stores=(replace(stores[0], engine=Engine(map_size=more)), stores[1]))
        environment = open_lmdb(root, spec)
        assert environment._opened().env.info()["map_size"] == limit
        environment.destroy()


def test_pages_are_filled_as_far_as_a_store_wants(root, monkeypatch):
    """Half-full pages of a store that says nothing are left alone above some size."""
    draw = random.Random(4)
    monkeypatch.setattr("mustela.state.lmdb_compact.REFILLED_MAX_BYTES", 1 << 18)
    environment, state = open_lmdb(root), Committed()
    for _ in range(150):
        rows = sorted({b"%08d" % draw.randrange(10**8): b"x" * 90 for _ in range(40)}.items())
        state = epochs(environment, state, rows)
    assert live(environment) > 1 << 18
    assert not environment.compact()
    environment.close(clean=True)
    for fill, expected in ((0.2, False), (0.9, True), (0.9, False)):
        stores = tuple(StoreSpec(name=name, engine=Engine(page_fill=fill)) for name in STORES)
        environment = open_lmdb(root, make_spec(stores=stores))
        assert environment.compact() is expected
        environment.close(clean=True)


class PackedMachine(LmdbMachine):
    """The model of all environments, with rows enough for a dictionary, switched on and off."""

    @initialize()
    def open(self):
        super().open()
        self.environment.close(clean=False)
        self.environment = open_lmdb(self.root, PACKED)
        patch = pytest.MonkeyPatch()
        patch.setattr(lmdb_packing, "_LEARNED_BYTES", 1 << 14)
        self.patch = patch
        for part in (ORDERS[:300], ORDERS[300:320]):
            rows = [("counts", key, value) for key, value in part]
            token = self.next_token()
            self.commit(token, self.run_job(rows, token))
        self.environment.fold(self.state)

    @rule(key=keys, number=st.integers(0, 3_999))
    def a_like_value_is_written(self, key, number):
        token = self.next_token()
        rows = [("counts", key or b"k", ORDERS[number][1]), ("counts", *ORDERS[number % 300])]
        self.commit(token, self.run_job(rows, token))

    @rule(on=st.booleans(), clean=st.booleans())
    def another_release_says_otherwise(self, on, clean):
        self.environment.close(clean=clean)
        spec = PACKED if on else make_spec()
        self.environment = open_lmdb(self.root, spec, boot=self.environment._boot)

    def teardown(self):
        if hasattr(self, "patch"):
            self.patch.undo()
        super().teardown()


TestPacked = PackedMachine.TestCase
TestPacked.settings = MACHINE_SETTINGS

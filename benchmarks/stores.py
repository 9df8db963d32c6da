"""What the kinds of stores do per second and core, over LMDB: ``python -m benchmarks.stores``.

Each part runs over a store that was filled and folded before, in batches as an epoch reads them;
what it writes stays in the overlay. The best of several runs counts. Where a layout could have been
another one, the other is measured beside it.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.kernel import best
from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
from mustela.state.kinds.layout import pack_time, unpack_time
from mustela.state.kinds.list import ListRows
from mustela.state.kinds.session import SessionRows
from mustela.state.kinds.versioned import VersionedRows
from mustela.state.kinds.window import WindowRows
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.lmdb_files import LmdbOptions
from mustela.state.overlay import Overlay, StoreOverlay

ROW = b"\x00" * 8 + b"12345678"
HOUR = 3_600_000


class Store:
    """One store on disk.

    Args:
        directory: Where.
        kind: Its kind.
    """

    def __init__(self, directory: Path, kind: str) -> None:
        spec = StoreSpec(name="s", kind=kind, segment_ms=60_000, history_retention_ms=HOUR)
        place = EnvironmentSpec(application_id="b", stage="s", group=0, groups=1, stores=(spec,))
        options = LmdbOptions(map_bytes=1 << 32)
        self._environment = LmdbEnvironment(directory, place, boot="b", options=options)
        self._state = Committed()

    @contextmanager
    def epoch(self) -> Iterator[StoreOverlay]:
        """Give the store as an epoch sees it; nothing is committed."""
        overlay = Overlay(self._environment.snapshot(self._state))
        try:
            yield overlay.store("s")
        finally:
            overlay.close()

    def fill(self, write: Callable[[StoreOverlay], object]) -> None:
        """Commit what ``write`` writes, and fold it into the base."""
        token = Token(1, 1 if self._state.token is None else self._state.token.epoch + 1, 0)
        overlay = Overlay(self._environment.snapshot(self._state))
        write(overlay.store("s"))
        changes = overlay.changes()
        overlay.close()
        self._environment.write_pending(token, self._state, changes)
        self._state = Committed(token=token)
        self._environment.fold(self._state)


Part = tuple[str, int, Callable[[], object]]
"""Its name, how many things it does, and what it does."""


def in_epoch(store: Store, run: Callable[[StoreOverlay], object]) -> Callable[[], object]:
    """Return what runs in an epoch of its own."""

    def once() -> object:
        with store.epoch() as view:
            return run(view)

    return once


def windows(directory: Path, keys: list[bytes], batch: list[bytes]) -> Iterator[Part]:
    """Sixty windows of a minute; a batch touches the newest of each of its keys."""
    plain = Store(directory / "plain", "window")
    indexed = Store(directory / "indexed", "window")
    for minute in range(60):
        mine = keys[minute % 6 :: 6]
        starts, rows = [minute * 60_000] * len(mine), [ROW] * len(mine)
        plain.fill(lambda view, k=mine, s=starts, r=rows: WindowRows(view).put_many(k, s, r))
        indexed.fill(
            lambda view, k=mine, s=starts, r=rows: WindowRows(view, indexed=True).put_many(k, s, r)
        )
    count, newest = len(batch), [59 * 60_000] * len(batch)
    low, high = [50 * 60_000] * count, [59 * 60_000] * count
    rows = [ROW] * count
    yield (
        "windows: getmulti",
        count,
        in_epoch(plain, lambda view: WindowRows(view).getmulti(batch, newest)),
    )
    yield (
        "windows: put_many",
        count,
        in_epoch(plain, lambda view: WindowRows(view).put_many(batch, newest, rows)),
    )
    yield (
        "windows: put_many, indexed",
        count,
        in_epoch(
            indexed, lambda view: WindowRows(view, indexed=True).put_many(batch, newest, rows)
        ),
    )
    few = batch[: count // 10]
    yield (
        "windows: ten minutes of a key, by walking",
        len(few),
        in_epoch(plain, lambda v: [WindowRows(v).fetch(key, low[0], high[0]) for key in few]),
    )
    yield (
        "windows: ten minutes of a key, by index",
        count,
        in_epoch(indexed, lambda v: WindowRows(v, indexed=True).fetch_many(batch, low, high)),
    )
    yield (
        "windows: expired",
        len(keys) // 6,
        in_epoch(plain, lambda view: WindowRows(view).expire_before(60_000)),
    )


def sessions(directory: Path, keys: list[bytes], batch: list[bytes]) -> Iterator[Part]:
    """Two sessions of each key; a batch looks at both and extends the second."""
    blobs, ranges = Store(directory / "blobs", "session"), Store(directory / "rows", "session")
    two = [(0, 1_000, ROW), (60_000, 61_000, ROW)]
    blobs.fill(lambda view: SessionRows(view).save_many(dict.fromkeys(keys, two)))
    ranges.fill(
        lambda view: view.put_many(
            (key + pack_time(end) + pack_time(start), ROW) for key in keys for start, end, _ in two
        )
    )

    def load(view: StoreOverlay) -> list[object]:
        return [SessionRows(view).load_many(batch)]

    def scan(view: StoreOverlay) -> list[object]:
        found: list[object] = []
        for key in few:
            rows = view.range(key, key + b"\xff" * 16)
            found.append([(unpack_time(row[-8:]), unpack_time(row[-16:]), v) for row, v in rows])
        return found

    def extend(view: StoreOverlay) -> None:
        rows = SessionRows(view)
        found = rows.load_many(batch)
        rows.save_many(
            {
                key: [*known[:-1], (known[-1][0], 62_000, ROW)]
                for key, known in zip(batch, found, strict=True)
            }
        )

    few = batch[: len(batch) // 10]
    yield "sessions: of a key, one value", len(batch), in_epoch(blobs, load)
    yield "sessions: of a key, a row for each session", len(few), in_epoch(ranges, scan)
    yield "sessions: load and extend", len(batch), in_epoch(blobs, extend)


def lists(directory: Path, keys: list[bytes], batch: list[bytes]) -> Iterator[Part]:
    """An entry of each key in two segments; a batch appends one to each of its keys and reads."""
    store = Store(directory / "lists", "list")
    value = b"x" * 32
    for time in (0, 59_000, 61_000):
        times, values = [time] * len(keys), [value] * len(keys)
        store.fill(lambda v, t=times, x=values: ListRows(v, segment_ms=60_000).append(keys, t, x))
    count = len(batch)
    times, values = [62_000] * count, [value] * count
    lows, highs = [58_000] * count, [62_000] * count
    yield (
        "lists: append",
        count,
        in_epoch(store, lambda v: ListRows(v, segment_ms=60_000).append(batch, times, values)),
    )
    yield (
        "lists: read two entries",
        count,
        in_epoch(store, lambda v: ListRows(v, segment_ms=60_000).read(batch, lows, highs)),
    )


def versions(directory: Path, keys: list[bytes], batch: list[bytes]) -> Iterator[Part]:
    """Four versions of each key in an hour."""
    store = Store(directory / "versions", "versioned")
    for time in (0, 10 * 60_000, 20 * 60_000, 30 * 60_000):
        times, values = [time] * len(keys), [b"x" * 16] * len(keys)
        store.fill(
            lambda v, t=times, x=values: VersionedRows(v, history_retention_ms=HOUR).put_many(
                keys, x, t
            )
        )
    count = len(batch)

    def as_of(time: int) -> Callable[[StoreOverlay], object]:
        return lambda view: VersionedRows(view, history_retention_ms=HOUR).as_of_many(
            batch, [time] * count
        )

    yield "versions: as of now", count, in_epoch(store, as_of(31 * 60_000))
    yield "versions: as of 15 minutes ago", count, in_epoch(store, as_of(15 * 60_000))
    yield (
        "versions: put",
        count,
        in_epoch(
            store,
            lambda view: VersionedRows(view, history_retention_ms=HOUR).put_many(
                batch, [b"y" * 16] * count, [40 * 60_000] * count
            ),
        ),
    )


def measure(keys_number: int, batch_size: int, times: int, only: str = "") -> dict[str, float]:
    """Return how many things each part does per second and core, by its name."""
    rng = random.Random(3)
    keys = [b"customer-%09d" % number for number in range(keys_number)]
    batch = rng.sample(keys, batch_size)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        for part in (windows, sessions, lists, versions):
            if only and only not in part.__name__:
                continue
            for name, count, run in part(Path(directory) / part.__name__, keys, batch):
                found[name] = count / best(run, times)
    return found


def main() -> None:
    """Print one line per part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=20_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", default="", help="the kind to measure, such as windows")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measure(options.keys, options.batch, options.times, options.only)
    if options.json:
        print(json.dumps({name: round(rate) for name, rate in found.items()}))
        return
    for name, rate in found.items():
        print(f"{name:48} {rate:12,.0f} /s {1e6 / rate:9.2f} us")


if __name__ == "__main__":
    main()

"""An environment in LMDB: bases and pendings that survive processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import lmdb

from mustela.state.codec import (
    FLAT_FILE,
    META_KEY,
    Layer,
    Meta,
    decode_meta,
    digests,
    encode_meta,
    encode_pending,
)
from mustela.state.directories import environment_path, make_private, remove_tree
from mustela.state.faults import (
    StateDamagedError,
    StateDiskFullError,
    StateIOError,
    StateNotReadyError,
    gone,
)
from mustela.state.index import NOTHING_KNOWN, KnownRows
from mustela.state.interfaces import (
    Changes,
    Committed,
    Condition,
    EnvironmentSpec,
    StoreSize,
    StoreSpec,
    Token,
)
from mustela.state.kinds.indexing import tables_of, with_lines
from mustela.state.lmdb_compact import (
    is_worth_it,
    live_bytes,
    put_back,
    replace_by_copy,
    squeeze,
)
from mustela.state.lmdb_files import (
    DATA_FILE,
    LmdbOptions,
    OpenEnvironment,
    check_readers,
    damaged,
    refuse,
    reported,
)
from mustela.state.lmdb_flat import is_small, lay_flat, open_files
from mustela.state.lmdb_folding import Part, apply_part, parts_of
from mustela.state.lmdb_lines import lines_anew, restored_lines
from mustela.state.lmdb_packing import learn
from mustela.state.lmdb_pendings import DecodedPending, has_pending, put_pending
from mustela.state.lmdb_saved import fetch, save
from mustela.state.lmdb_snapshot import LmdbSnapshot
from mustela.state.lmdb_tables import apply_rows, count_rows, empty, page_bytes, read_many
from mustela.state.locking import WriteLock
from mustela.state.memory import unknown_store
from mustela.state.protocol import (
    Standing,
    check_fence,
    check_rest,
    check_token,
    compare,
    not_ready,
)
from mustela.state.runs import in_key_order

__all__ = ["LmdbEnvironment"]


@dataclass(slots=True)
class _Writer:
    """A running write transaction, with the meta that it will write."""

    txn: lmdb.Transaction[bytes]
    handle: OpenEnvironment
    meta: Meta
    standing: Standing


class LmdbEnvironment:
    """The state of one key group of one stage, on local disk or tmpfs.

    Get one from an `EnvironmentRegistry`: LMDB must not open a file twice in a process.

    Args:
        state_dir: The directory of state.
        spec: What to hold.
        boot: The id of the machine's boot; see `mustela.processes.boot_id`.
        options: How LMDB is used.
    """

    def __init__(
        self,
        state_dir: Path,
        spec: EnvironmentSpec,
        *,
        boot: str,
        options: LmdbOptions | None = None,
    ) -> None:
        self._spec = spec
        self._root = state_dir
        self._boot = boot
        self._options = options or LmdbOptions()
        self.path = environment_path(state_dir, spec)
        saved_in = self._options.saved_in
        self._saved = None if saved_in is None else environment_path(saved_in, spec)
        self._lock = WriteLock(
            self.path.with_name(f"{self.path.name}.lock"), self._options.lock_timeout_ms
        )
        self._data = str(self.path / DATA_FILE)
        self._handle: OpenEnvironment | None = None
        self._own: tuple[bytes, Meta] | None = None
        self._views: list[LmdbSnapshot] = []
        self._written = -1
        self._is_flat = False
        self._decoded = DecodedPending()
        # Rows and their lines in an index are folded at once: a restore that goes on from the base
        # takes the lines for those of its rows.
        is_indexed = any(store.indexes for store in spec.stores)
        self._fold_pages = sys.maxsize if is_indexed else self._options.fold_pages

    @property
    def spec(self) -> EnvironmentSpec:
        """What this environment holds."""
        return self._spec

    @property
    def busy(self) -> bool:
        """Whether a snapshot is open."""
        return bool(self._views)

    # -- reading ---------------------------------------------------------------------------

    def condition(self, committed: Committed) -> Condition:
        """Compare this state with the committed one."""
        try:
            handle = self._opened()
            with reported(self.path), handle.env.begin() as txn:
                return self._judge(txn, handle, committed)
        except StateDamagedError:
            self._drop()
            return Condition.DAMAGED

    def _judge(
        self, txn: lmdb.Transaction[bytes], handle: OpenEnvironment, committed: Committed
    ) -> Condition:
        meta = self._read_meta(txn, handle)
        if meta is None:
            return compare(Standing(), committed, has_pending=False, spec=self._spec)
        own = self._own
        if own is None or meta is not own[1]:
            refused = meta.judged(self._spec, self._boot)
            if refused is not None:
                return refused
        pending = has_pending(txn, handle, committed.token)
        return compare(meta.standing, committed, has_pending=pending, spec=self._spec)

    def positions(self) -> dict[str, int]:
        """Return, per logged store, the changelog offset up to which the base is complete."""
        handle = self._opened()
        with reported(self.path), handle.env.begin() as txn:
            meta = self._read_meta(txn, handle)
        return {} if meta is None else dict(meta.positions)

    def sizes(self) -> dict[str, StoreSize]:
        """Return the size of each store's base, without pendings."""
        handle = self._opened()
        with reported(self.path), handle.env.begin() as txn:
            return {
                store.name: StoreSize(
                    count_rows(txn, handle, store.name), page_bytes(txn, handle, store.name)
                )
                for store in self._spec.stores
            }

    def snapshot(self, committed: Committed) -> LmdbSnapshot:
        """Open a view of the committed state."""
        self._know_lines(committed)
        handle = self._opened()
        with reported(self.path):
            txn = handle.env.begin()
            try:
                condition = self._judge(txn, handle, committed)
                if not condition.ready:
                    raise not_ready(condition, committed, str(self.path))
                layer: Layer = {}
                if condition is Condition.FOLDABLE and committed.token is not None:
                    layer = self._decoded.layer(txn, handle, committed.token, self.path)
                view = LmdbSnapshot(txn, handle, layer, self.path, self._spec, self._views.remove)
            except BaseException:
                txn.abort()
                raise
        self._views.append(view)
        return view

    def _know_lines(self, committed: Committed) -> None:
        """Make the lines of indexes that a program has and another one did not, or not so."""
        wanted = digests(self._spec)
        if not wanted:
            return
        handle = self._opened()
        with reported(self.path), handle.env.begin() as txn:
            meta = self._read_meta(txn, handle)
            stale = meta is not None and meta.indexes != wanted
            stale = stale and self._judge(txn, handle, committed).ready
        if stale:
            self.fold(committed)

    def _renew_lines(self, writer: _Writer) -> None:
        wanted, meta = digests(self._spec), writer.meta
        if meta.indexes != wanted:
            for store in self._spec.stores:
                if store.indexes and meta.indexes.get(store.name) != wanted[store.name]:
                    lines_anew(writer.txn, writer.handle, store, self.path)
            meta.indexes = wanted

    def _store(self, name: str) -> StoreSpec:
        found = next((store for store in self._spec.stores if store.name == name), None)
        if found is None:
            raise unknown_store(name, self._spec)
        return found

    def _base(
        self, txn: lmdb.Transaction[bytes], handle: OpenEnvironment, store: str, keys: list[bytes]
    ) -> list[bytes | None]:
        found = read_many(txn, handle, store, keys, self.path)
        return [found.get(key) for key in keys]

    def _read_meta(self, txn: lmdb.Transaction[bytes], handle: OpenEnvironment) -> Meta | None:
        """Return the description; the same object while it is what this process wrote last."""
        blob = txn.get(META_KEY, None, handle.meta)
        if blob is None:
            return None
        own = self._own
        if own is not None and own[0] == blob:
            return own[1]
        meta = decode_meta(blob)
        if meta is None:
            raise damaged(self.path, "its description cannot be read")
        return meta

    def _take_meta(self, txn: lmdb.Transaction[bytes], handle: OpenEnvironment) -> Meta | None:
        """Return the description, to be changed."""
        meta, self._own = self._read_meta(txn, handle), None
        return meta

    # -- writing ---------------------------------------------------------------------------

    def write_pending(
        self,
        token: Token,
        committed: Committed,
        changes: Changes,
        known: Mapping[str, KnownRows] = NOTHING_KNOWN,
    ) -> None:
        """Store an epoch's changes under its token; see `Environment.write_pending`."""
        for store in changes:
            self._store(store)
        with self._folded(committed, token) as writer:
            writer.standing.incarnation = token.incarnation
            txn, handle = writer.txn, writer.handle
            base = partial(self._base, txn, handle)
            changes = with_lines(self._spec.stores, changes, base, known)
            blob = encode_pending(changes)
            put_pending(txn, handle, token, blob)
        layer = {store: dict(rows) for store, rows in changes.items()}
        self._decoded.note(token, blob, layer)

    def fold(self, committed: Committed) -> None:
        """Fold the committed pending into the base, and drop the other pendings."""
        with self._folded(committed):
            pass
        self._decoded.clear()

    def forget_but(self, token: Token | None) -> None:
        """Forget what is known of a pending, unless it is that of ``token``: it may be large."""
        self._decoded.keep_only(token)

    @contextmanager
    def _folded(self, committed: Committed, token: Token | None = None) -> Generator[_Writer]:
        """Fold the committed pending, and run a block in the last transaction that this takes."""
        parts: list[list[Part]] = []
        while True:
            with self._writing() as writer:
                if token is not None:
                    check_fence(writer.standing, token.incarnation, str(self.path))
                    check_token(token, committed)
                self._fold_into(writer, committed, parts)
                if not parts:
                    yield writer
                    return

    def _fold_into(self, writer: _Writer, committed: Committed, parts: list[list[Part]]) -> None:
        """Apply the next part of the committed pending; ``parts`` is what is left of it."""
        txn, handle, token = writer.txn, writer.handle, committed.token
        pending = has_pending(txn, handle, token)
        condition = compare(writer.standing, committed, has_pending=pending, spec=self._spec)
        if condition.catches_up or condition is Condition.STALE:
            raise gone(self.path)  # it existed when the fold was decided
        if not condition.ready:
            raise not_ready(condition, committed, str(self.path))
        if condition is not Condition.FOLDABLE or writer.standing.folding is None:
            parts.clear()  # nothing has been folded yet, or somebody else has folded the rest
        if condition is Condition.FOLDABLE and token is not None:
            if not parts:
                layer = self._decoded.layer(txn, handle, token, self.path)
                parts += parts_of(txn, handle, layer, self._decoded.size, self._fold_pages)
            apply_part(txn, handle, parts.pop(0), self.path)
            if parts:
                writer.standing.folding = token
                return
            writer.standing.move_to(committed)
        txn.drop(handle.pending, delete=False)

    def restore(  # noqa: PLR0913 - rows, where they belong, and who writes them
        self,
        store: str,
        rows: Iterable[tuple[bytes, bytes | None]],
        end_offset: int,
        *,
        start: int = 0,
        goes_on: bool = False,
        anew: bool = False,
        incarnation: int | None = None,
        time_ms: int = 0,
    ) -> None:
        """Apply changelog rows in log order; see `Environment.restore`."""
        self._store(store)
        make_private(self._root, self.path.parent)
        for (keys, values), last in in_key_order(rows, self.path):
            with self._writing() as writer:
                check_rest(writer.standing, store, start, str(self.path), goes_on=goes_on)
                goes_on = True
                if incarnation is not None:
                    check_fence(writer.standing, incarnation, str(self.path))
                    writer.standing.incarnation = incarnation
                writer.standing.begin_restore(time_ms)
                writer.txn.drop(writer.handle.pending, delete=False)
                if anew:
                    for table in tables_of([self._store(store)]):
                        empty(writer.txn, writer.handle, table)
                    writer.standing.positions.pop(store, None)
                    anew = False
                txn, handle = writer.txn, writer.handle
                restored_lines(txn, handle, self._store(store), keys, values, self.path)
                apply_rows(txn, handle, store, keys, values, self.path)
                learn(txn, handle, store, self.path)
                if last:
                    writer.standing.positions[store] = end_offset
            self._decoded.clear()

    def finish_restore(self, committed: Committed) -> None:
        """Declare the base to be the committed state."""
        with self._writing() as writer:
            writer.standing.finish_restore(committed, self._spec, str(self.path))

    @contextmanager
    def _writing(self) -> Generator[_Writer]:
        """Run a block in a write transaction that ends with the meta."""
        if self._current() is None:
            make_private(self._root, self.path.parent)
        with self._lock.held():
            try:
                handle = self._opened()
                with reported(self.path):
                    last = check_readers(handle.env, self.path, self._options.reader_writes_max)
                    if last != self._written:  # somebody else has written or closed the files
                        self._declare_open(handle)
                    self._take_up()
                    with handle.env.begin(write=True) as txn:
                        meta = self._take_meta(txn, handle) or Meta.fresh(self._spec, self._boot)
                        meta.take_name(self._spec)
                        writer = _Writer(txn, handle, meta, meta.standing)
                        yield writer
                        self._renew_lines(writer)
                        meta.take(writer.standing)
                        blob, number = encode_meta(meta), txn.id()
                        txn.put(META_KEY, blob, db=handle.meta)
                    self._written, self._own = number, (blob, meta)
            except (StateDamagedError, StateIOError, StateDiskFullError) as error:
                self._drop_after(error)
                raise

    @contextmanager
    def _dropping(self) -> Generator[None]:
        """Close the files after a failure that may have left them unusable in this process."""
        try:
            yield
        except (StateDamagedError, StateIOError, StateDiskFullError) as error:
            self._drop_after(error)
            raise

    def _drop_after(self, error: Exception) -> None:
        if isinstance(error, StateDiskFullError):
            self._give_back()
        self._drop()

    def _give_back(self) -> None:
        """Truncate what a failed write left after the last page, because others need the space."""
        handle = self._usable()
        if handle is None:
            return
        length = (handle.env.info()["last_pgno"] + 1) * handle.env.stat()["psize"]
        file = self.path / DATA_FILE
        with reported(self.path):
            if file.stat().st_size > length:
                os.truncate(file, length)

    def _declare_open(self, handle: OpenEnvironment) -> None:
        """Mark the files on disk as in use, before the first write after a clean close.

        Without this, files would still be marked clean after a crash of the machine.
        """
        with handle.env.begin() as txn:
            meta = self._take_meta(txn, handle)
        if meta is None:
            return
        refuse(meta.judged(self._spec, self._boot), self.path)
        if not meta.clean:
            return
        meta.use(self._boot)
        with handle.env.begin(write=True) as txn:
            txn.put(META_KEY, encode_meta(meta), db=handle.meta)
        handle.env.sync(True)

    def _take_up(self) -> None:
        """Delete the file of rows that a clean close left, before the first write after it."""
        if self._is_flat:
            (self.path / FLAT_FILE).unlink(missing_ok=True)
            self._is_flat = False

    # -- files -----------------------------------------------------------------------------

    def compact(self, *, live_bytes_max: int | None = None, closing: bool = False) -> bool:
        """Rewrite the files if that frees half of them; see `Environment.compact`."""
        if self._views:
            return False
        with self._lock.held(), self._dropping():
            handle = self._opened()
            with reported(self.path):
                if closing and is_small(handle, self._options):
                    return False  # the clean close that comes next writes it in another form
                if not is_worth_it(handle, self._spec, self.path, idle=not closing):
                    return False
                if live_bytes_max is not None and live_bytes(handle) > live_bytes_max:
                    return False
                self._declare_open(handle)
                self._take_up()
                replace_by_copy(self._root, self.path, handle, self._spec, self._options)
            self._drop()
        self._opened()  # or a clean close would take it for one that was not used
        return True

    def close(self, *, clean: bool) -> None:
        """Close the files; ``clean`` syncs and marks them clean, which survives a reboot."""
        if self._usable() is None:
            self._handle = None
            return
        self._end_views()
        if clean:
            self._say_clean()
        self._drop()
        if clean and self._saved is not None:
            assert self._options.saved_in is not None
            with self._lock.held():
                save(self._options.saved_in, self.path, self._saved)

    def _say_clean(self) -> None:
        with self._lock.held(), self._dropping():
            handle = self._opened()
            with reported(self.path):
                if is_small(handle, self._options):
                    self._lay_flat(handle)
                    return
                self._take_up()
                handle.env.sync(True)
                with handle.env.begin(write=True) as txn:
                    meta = self._take_meta(txn, handle)
                    if meta is None or not meta.let_go(self._boot):
                        return
                    txn.put(META_KEY, encode_meta(meta), db=handle.meta)
                handle.env.sync(True)
                squeeze(self._root, self.path, handle)

    def _lay_flat(self, handle: OpenEnvironment) -> None:
        """Leave a small environment as a file of rows; see lmdb_flat.py."""
        with handle.env.begin() as txn:
            meta = self._take_meta(txn, handle)
        if meta is None or not (meta.clean or meta.let_go(self._boot)):
            return
        lay_flat(self.path, handle, meta)

    def destroy(self) -> None:
        """Delete all state; the next use starts from empty."""
        make_private(self._root, self.path.parent)
        with self._lock.held():
            self._drop()
            with reported(self.path):
                remove_tree(self.path)
                if self._saved is not None:  # otherwise it would be read back
                    remove_tree(self._saved)

    def _opened(self) -> OpenEnvironment:
        """Return the open files, opening them if needed."""
        handle = self._current()
        if handle is not None:
            return handle
        self._drop()
        make_private(self._root, self.path.parent)
        with self._lock.held():
            put_back(self.path)
            if self._saved is not None and not self.path.exists():
                fetch(self._saved, self.path)
            make_private(self._root, self.path)
            with reported(self.path):
                self._handle = open_files(
                    self._root, self.path, self._spec, self._options, self._boot
                )
            self._is_flat = (self.path / FLAT_FILE).exists()
        return self._handle

    def _current(self) -> OpenEnvironment | None:
        """Return the open files, if no other process has replaced or deleted them."""
        handle = self._usable()
        if handle is not None:
            with suppress(FileNotFoundError):
                if os.stat(self._data).st_ino == handle.inode:
                    return handle
        return None

    def _usable(self) -> OpenEnvironment | None:
        """Return the open files, unless they were opened before a fork.

        A child may close inherited files only while the parent has no view open: ending a view here
        would end the parent's too, because both share one reader table.
        """
        handle = self._handle
        if handle is not None and handle.pid != os.getpid():
            if self._views:
                msg = "this process was forked while a snapshot was open"
                raise StateNotReadyError(
                    msg,
                    evidence={"path": self.path},
                    fix="close snapshots before forking, or start processes with 'spawn'",
                    fields={"path": str(self.path)},
                )
            handle.env.close()
            self._handle = handle = self._own = None
            self._written = -1
            self._decoded.clear()
        return handle

    def _drop(self) -> None:
        handle = self._usable()
        self._handle = self._own = None
        self._written = -1
        self._decoded.clear()
        self._end_views()
        if handle is not None:
            handle.env.close()

    def _end_views(self) -> None:
        for view in list(self._views):
            view.close()

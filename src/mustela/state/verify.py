r"""Read every page of an environment, in a process that may die.

A zeroed page makes LMDB abort the process, and a truncated file is a SIGBUS; neither can be caught.
So a child process does the reading, and reports after each environment that it is sound. An
environment without a report is damaged.

    python -m mustela.state.verify PATH...
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import lmdb

from mustela.state.codec import (
    FLAT_FILE,
    META_KEY,
    PACKED_PREFIX,
    TOKEN_BYTES,
    decode_bucket,
    decode_meta,
    decode_packed,
    decode_pending,
    decode_tables,
    stored_key,
)
from mustela.state.packing import is_sound_row

__all__ = ["check_environment", "main", "verify_environments"]

_SOUND = "sound"
_BAD = "bad"


def check_environment(path: Path) -> str | None:
    """Read all of one environment; return what is wrong, or None.

    Damage may end the process: call it in one that may die.
    """
    if _lies_flat(path):
        whole = decode_tables((path / FLAT_FILE).read_bytes()) is not None
        return None if whole else "its file of rows is not what was written"
    try:
        with lmdb.open(str(path), readonly=True, create=False, max_dbs=4096, readahead=True) as env:
            return _check(env)
    except lmdb.Error as error:
        return str(error)


def _lies_flat(path: Path) -> bool:
    return (path / FLAT_FILE).exists() and not (path / "data.mdb").exists()


def _check(env: lmdb.Environment) -> str | None:
    with env.begin() as txn:
        for name, row in list(txn.cursor()):
            if name == META_KEY or name.startswith(PACKED_PREFIX):
                fault = _check_description(env, txn, name, row)
            else:
                fault = _check_database(txn, name, env.open_db(name, txn=txn, create=False))
            if fault is not None:
                return f"{name.decode(errors='replace')}: {fault}"
        # The walk above visits only pages in use; a compacting copy reads the list of free ones.
        with Path(os.devnull).open("wb") as sink:
            env.copyfd(sink.fileno(), compact=True, txn=txn)
    return None


def _check_description(
    env: lmdb.Environment, txn: lmdb.Transaction[bytes], name: bytes, row: bytes
) -> str | None:
    """Check a row among the names of tables; in older files that name is a table of such rows."""
    try:
        return _check_database(txn, name, env.open_db(name, txn=txn, create=False))
    except lmdb.IncompatibleError:
        return None if _is_sound(META_KEY, name, row) else "a value is not what was written"


def _check_database(txn: lmdb.Transaction[bytes], name: bytes, database: object) -> str | None:
    kind = name.partition(b":")[0]
    entries = txn.stat(database)["entries"]  # pyright: ignore[reportArgumentType]
    cursor = txn.cursor(database)  # pyright: ignore[reportArgumentType]
    probe = txn.cursor(database)  # pyright: ignore[reportArgumentType]
    count = 0
    last: bytes | None = None
    pendings: dict[bytes, list[bytes]] = {}
    for key, value in cursor:
        count += 1
        if last is not None and key <= last:
            return "keys are out of order"
        last = key
        # Pages are visited by number; a key must also be found through its branch pages.
        if not probe.set_key(key):
            return "a key that is there cannot be found"
        if kind == b"pending":  # in pieces, under keys that begin with the token's
            pendings.setdefault(key[:TOKEN_BYTES], []).append(value)
        elif not _is_sound(kind, key, value):
            return "a value is not what was written"
    if not all(decode_pending(b"".join(pieces)) is not None for pieces in pendings.values()):
        return "a pending is not what was written"
    return None if count == entries else f"{count} entries of {entries} were found"


def _is_sound(kind: bytes, key: bytes, value: bytes) -> bool:
    if kind == b"store":
        return is_sound_row(key, value)
    if kind == b"odd":
        rows = decode_bucket(key, value)
        return rows is not None and all(stored_key(whole) == key for whole in rows)
    if kind != META_KEY:
        return False
    return (decode_packed if key.startswith(PACKED_PREFIX) else decode_meta)(value) is not None


def verify_environments(paths: Iterable[Path], *, timeout_s: float = 600) -> list[Path]:
    """Return the damaged environments, on which a child process failed or died.

    They must not be written to meanwhile. Paths without an environment are sound: they are empty.

    Args:
        paths: Directories of environments.
        timeout_s: A child that reads longer than this has hit damage.
    """
    todo = [path for path in paths if (path / "data.mdb").exists() or _lies_flat(path)]
    bad: list[Path] = []
    while todo:
        verdicts = _run_child(todo, timeout_s)
        for path, verdict in zip(todo, verdicts, strict=False):
            if verdict != _SOUND:
                bad.append(path)
        if len(verdicts) == len(todo):
            break
        bad.append(todo[len(verdicts)])
        todo = todo[len(verdicts) + 1 :]
    return bad


def _run_child(paths: Sequence[Path], timeout_s: float) -> list[str]:
    """Return one verdict per path that the child reached."""
    command = [sys.executable, "-X", "faulthandler=0", "-m", "mustela.state.verify"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            [*command, *(str(path) for path in paths)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=timeout_s,
            check=False,
        )
        output = done.stdout
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
    lines = output.decode(errors="replace").splitlines()
    return [line.partition(" ")[0] for line in lines if line.startswith((_SOUND, _BAD))]


def main(arguments: Sequence[str]) -> int:
    """Check the environments named on the command line; return 1 if one is damaged."""
    failed = False
    for name in arguments:
        fault = check_environment(Path(name))
        failed = failed or fault is not None
        line = f"{_SOUND} {name}" if fault is None else f"{_BAD} {name}: {fault}"
        sys.stdout.write(line.replace("\n", " ") + "\n")
        sys.stdout.flush()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

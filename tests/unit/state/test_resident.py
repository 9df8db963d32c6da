"""What the stores' files take of a process's memory."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mustela.state.interfaces import Committed, EnvironmentSpec, StoreSpec, Token
from mustela.state.lmdb_environment import LmdbEnvironment
from mustela.state.resident import let_go_of_mapped_files

SPEC = EnvironmentSpec(
    application_id="app", stage="s", group=0, groups=1, stores=(StoreSpec(name="t"),)
)


def _resident(place: Path) -> int:
    """Kilobytes of a store's file in this process's map; other tests' may be in it too."""
    size, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.endswith("/data.mdb") and str(place) in line:
            inside = True
        elif inside and line.startswith("Rss:"):
            size, inside = size + int(line.split()[1]), False
    return size


@pytest.mark.skipif(sys.platform != "linux", reason="a process's map is read from /proc")
def test_pages_are_let_go_of_and_read_again(tmp_path):
    """Also under a snapshot that is open: it reads the same as before."""
    environment = LmdbEnvironment(tmp_path, SPEC, boot="b")
    keys = [b"%05d" % number for number in range(5_000)]
    token = Token(1, 1, 0)
    environment.write_pending(token, Committed(), {"t": [(key, bytes(200)) for key in keys]})
    committed = Committed(token=token)
    environment.fold(committed)
    snapshot = environment.snapshot(committed)
    before = snapshot.getmulti("t", keys)
    full = _resident(tmp_path)
    assert full > 1_000
    assert let_go_of_mapped_files(1 << 40) == 0
    assert _resident(tmp_path) == full
    assert let_go_of_mapped_files(0) >= 1
    assert _resident(tmp_path) < 100
    assert snapshot.getmulti("t", keys) == before == [bytes(200)] * len(keys)
    snapshot.close()
    environment.close(clean=False)

"""The bytes of each kind of store: what is on disks and in changelogs already.

A test that fails here says that old state can no longer be read: raise the kind's format version,
and rebuild or convert what is there.
"""

from __future__ import annotations

import pytest

from mustela.api.timers import PunctuationType
from mustela.kernel.processors.punctuation import GroupSchedules
from mustela.state.interfaces import StoreSpec
from mustela.state.kinds.buffer import BUFFER_FORMAT, RecordBuffer, SlotBuffer
from mustela.state.kinds.list import LIST_FORMAT, ListRows
from mustela.state.kinds.prefixed import PrefixedView
from mustela.state.kinds.session import SESSION_FORMAT, SessionRows
from mustela.state.kinds.timed import pack_timestamped
from mustela.state.kinds.timer import CLOCK_ROW, TIMER_FORMAT, StoredTimer, TimerRows
from mustela.state.kinds.versioned import VERSIONED_FORMAT, VersionedRows
from mustela.state.kinds.waiting import WAITING_FORMAT, WaitingRows
from mustela.state.kinds.window import WINDOW_FORMAT, WindowRows
from tests.unit.state.epochs import world


def windows(view):
    rows = WindowRows(view, indexed=True)
    rows.put_many([b"k", b"k"], [0, 256], [pack_timestamped(b"v", 5)] * 2)


def sessions(view):
    SessionRows(view).save_many({b"k": [(3, 9, b"w"), (0, 1, b"v")]})


def lists(view):
    ListRows(view, segment_ms=160).append([b"k", b"m", b"k"], [5, 6, 20], [b"v", b"", b"w"])


def settled_lists(view):
    ListRows(view, segment_ms=160).append([b"k"], [5], [b"v"])
    ListRows(view, segment_ms=160).read([b"k"], [5], [5])


def slots(view):
    SlotBuffer(view).put_many([b"k"], [5], [b"v"])


def records(view):
    RecordBuffer(view).put_many([b"k"], [5], [b"v"])


def waiting(view):
    rows = WaitingRows(view, width_ms=100)
    rows.read(5)
    rows.save(5, [((5, 1, b"k"), b"v")], [(20, 0, b"k")])


def timers(view):
    TimerRows(view).register_many([StoredTimer(5, b"k", b"nn", b"d")])
    TimerRows(PrefixedView(view, CLOCK_ROW)).register_many([StoredTimer(5, b"k", b"nn")])
    schedules = GroupSchedules(view)
    schedules.add(PunctuationType.WALL_CLOCK_TIME, 10, print, now_ms=1)
    schedules.add(PunctuationType.STREAM_TIME, 300, print, now_ms=1).cancel()
    schedules.save()


def versions(view):
    rows = VersionedRows(view, history_retention_ms=50, segment_ms=10)
    rows.put_many([b"k", b"k", b"d"], [b"1", b"2", None], [5, 12, 20])


T0, T5 = "8000000000000000", "8000000000000005"
K, V, W = "6b", "76", "77"

LAYOUTS = [
    (
        StoreSpec(name="s", kind="window", indexed=True),
        WINDOW_FORMAT,
        windows,
        {
            f"01{K}": "00000000000000000000000000000100",
            f"{T0}{K}": f"0000000000000005{V}",
            f"8000000000000100{K}": f"0000000000000005{V}",
        },
    ),
    (
        StoreSpec(name="s", kind="session"),
        SESSION_FORMAT,
        sessions,
        {
            f"01{K}": f"8000000000000001dd00000002930001c401{V}930309c401{W}",
            f"8000000000000001{K}": "",
        },
    ),
    (
        StoreSpec(name="s", kind="list", segment_ms=160, format_version=2),
        LIST_FORMAT,
        lists,
        {
            "006e": "0000000000000002",
            f"03800000000000000600000000000000008{T5[1:]}": f"9392c401{K}c4016d92050692c401{V}c400",
            "03800000000000001400000000000000018000000000000014": f"9391c401{K}911491c401{W}",
        },
    ),
    (
        StoreSpec(name="s", kind="list", segment_ms=160, format_version=2),
        LIST_FORMAT,
        settled_lists,
        {
            "006e": "0000000000000001",
            f"04{T5}0000000000000000{T5}": "",
            f"{T0}{K}": f"dd0000000193d30000000000000005cf0000000000000000c600000001{V}",
        },
    ),
    (
        StoreSpec(name="s", kind="buffer"),
        BUFFER_FORMAT,
        slots,
        {
            "006e": "00000000000000010000000000000002",
            f"01{K}": f"{T5}{V}",
            f"{T5}{K}": "",
        },
    ),
    (
        StoreSpec(name="s", kind="buffer"),
        BUFFER_FORMAT,
        records,
        {
            "006e": "00000000000000010000000000000002",
            "0073": "00000001",
            f"{T5}{K}00000000": V,
        },
    ),
    (
        StoreSpec(name="s", kind="buffer", format_version=2),
        WAITING_FORMAT,
        waiting,
        {
            "006e": f"000000000000000100000000000000{T5[-2:]}0000000000000000",
            f"{T5}00000000000000008000000000000014": (
                f"95920514c402010292c401{K}c401{K}c40692c401{V}c40090"
            ),
        },
    ),
    (
        StoreSpec(name="s", kind="timer"),
        TIMER_FORMAT,
        timers,
        {
            f"01{K}6e6e0002": T5,
            f"{T5}{K}6e6e0002": "64",
            f"0201{K}6e6e0002": T5,
            f"02{T5}{K}6e6e0002": "",
            "0300000000": f"94af{b'wall-clock-time'.hex()}0a0bc2",
            "0300000001": f"94ab{b'stream-time'.hex()}cd012c00c3",
        },
    ),
    (
        StoreSpec(name="s", kind="versioned", history_retention_ms=50),
        VERSIONED_FORMAT,
        versions,
        {
            "00": "0000000000000014",
            "0164": "800000000000001400",
            f"01{K}": "800000000000000c0132",
            f"800000000000000a{K}": "dd0000000193050cc40131",
            "800000000000001464": "dd00000000",
        },
    ),
]


@pytest.mark.parametrize(("spec", "version", "fill", "expected"), LAYOUTS)
def test_a_kind_of_store_keeps_its_bytes(spec, version, fill, expected):
    """Key and value of each row, in hexadecimal."""
    assert version == spec.format_version
    with world("memory", spec) as epochs:
        fill(epochs.view)
        assert {key.hex(): value.hex() for key, value in epochs.view.range()} == expected

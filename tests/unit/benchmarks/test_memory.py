"""Where memory is: what /proc and a JVM say is read as it stands there."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from benchmarks.memory import growth
from benchmarks.memory_parts import Area, look, parse_jvm, parse_smaps, part_of, take_apart

_SMAPS = """\
d0000000-d4000000 rw-p 00000000 00:00 0
Size:              65536 kB
Pss:               55092 kB
Pss_Dirty:         55092 kB
7f10-7f20 r--s 00000000 fe:00 64289                  /state/a b/data.mdb
Pss:                  12 kB
VmFlags: rd sh
"""
_SERIAL = """\
27591:
 def new generation   total 22144K, used 16340K [0x00000000d0000000, 0x00000000d1800000, 0x00000000d1800000)
  eden space 19712K,  75% used [0x00000000d0000000, 0x00000000d0e8ec70, 0x00000000d1340000)
 tenured generation   total 362496K, used 49206K [0x00000000d1800000, 0x00000000e7a00000, 0x0000000100000000)
   the space 362496K,  13% used [0x00000000d1800000, 0x00000000d480dbf0, 0x00000000d480dc00, 0x00000000e7a00000)
 Metaspace       used 7816K, committed 8256K, reserved 1114112K
"""  # noqa: E501
_G1 = """\
 garbage-first heap   total 171008K, used 103206K [0x00000000e0000000, 0x0000000100000000)
  region size 1024K, 37 young (37888K), 4 survivors (4096K)
 Metaspace       used 48653K, committed 49600K, reserved 1114112K
"""
_CODE = """\
CodeCache: size=49152Kb used=18692Kb max_used=18692Kb free=30459Kb
 bounds [0x00007fa619400000, 0x00007fa61a650000, 0x00007fa61c400000]
"""
_NATIVE = """\
Total: reserved=2GB, committed=300KB
-                 Java Heap (reserved=786432KB, committed=65536KB)
-                    Thread (reserved=309KB, committed=29KB)
"""


def test_areas_are_read_with_names_that_hold_spaces() -> None:
    """And without taking another figure for the proportional one."""
    heap, state = parse_smaps(_SMAPS.splitlines(keepends=True))
    assert heap == Area(0xD0000000, 0xD4000000, "rw-p", "", 55092 * 1024)
    assert (state.name, state.pss) == ("/state/a b/data.mdb", 12 * 1024)


def test_both_collectors_say_where_the_heap_is() -> None:
    """Up to where it may grow, and no space is counted in its generation and again by itself."""
    serial = parse_jvm(_SERIAL, _CODE, _NATIVE)
    assert serial.used == (16340 + 49206) * 1024
    assert serial.committed == (22144 + 362496) * 1024
    assert serial.metaspace == 8256 * 1024
    assert serial.native == {"Java Heap": 65536 * 1024, "Thread": 29 * 1024}
    g1 = parse_jvm(_G1, "")
    assert (g1.used, g1.committed) == (103206 * 1024, 171008 * 1024)
    inside = Area(0xFFF00000, 0xFFF01000, "rw-p", "", 1)
    assert part_of(inside, serial.spans) == part_of(inside, g1.spans) == "heap"
    code = Area(0x7FA619400000, 0x7FA619800000, "rwxp", "", 1)
    assert part_of(code, serial.spans) == "compiled code"
    assert part_of(code) == "other memory"


def test_areas_are_told_apart_by_name_and_place() -> None:
    """A thread's own memory begins where the C library lets it begin."""
    place = 0x7F1064000000
    assert part_of(Area(place, place + 4096, "rw-p", "", 1)) == "arenas of threads"
    assert part_of(Area(place + 4096, place + 8192, "rw-p", "", 1)) == "other memory"
    names = {
        "/tmp/state/data.mdb": "state",
        "/cache/classes/a.jsa": "class archive",
        "/cache/classes/b.jsa (deleted)": "class archive",
        "/usr/lib/libc.so.6": "code and files",
        "[stack]": "stacks",
        "[heap]": "other memory",
    }
    assert {name: part_of(Area(1, 2, "r--p", name, 1)) for name in names} == names


def test_a_process_is_taken_apart_without_losing_a_page(tmp_path: Path) -> None:
    """What its parts come to is what the kernel says of the whole."""
    pid, size = os.getpid(), 8 << 20
    file = tmp_path / "data.mdb"
    file.write_bytes(b"x" * size)
    with file.open("rb") as data, mmap.mmap(data.fileno(), 0, prot=mmap.PROT_READ) as pages:
        assert sum(pages[::4096]) > 0
        lines = look([pid], pid)
        parts = take_apart([pid], pid).pss["driver"]
    assert parts["state"] >= size
    assert abs(sum(parts.values()) - lines.pss["driver"]) < size
    assert lines.threads >= 1
    assert lines.descriptors >= 3


def test_growth_compares_the_last_quarter_with_the_one_before() -> None:
    """What comes up while a program starts does not count."""
    numbers = [{"pss_mb": float(size)} for size in (100, 300, 400, 400, 400, 400, 440, 440)]
    assert growth(numbers) == {"pss_mb": 1.1}
    assert growth([{"pss_mb": 1.0}]) == {}

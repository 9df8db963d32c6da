"""Classes of a main program reach a process that has another main program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

WRITER = """
from __future__ import annotations
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
import msgspec
from mustela.serdes.resolve import resolve_serde
from mustela.spark.frames import dump_object

@dataclass
class Item:
    name: str
    parts: list[Item] = field(default_factory=list)

class Base(msgspec.Struct, kw_only=True):
    number: int

class Total(Base, tag="total", rename="camel", frozen=True):
    NAMES: ClassVar[int] = 3
    item_count: int
    items: list[Item] = []
    next_one: Total | None = None
    factor: int = 2

    def doubled(self) -> Total:
        return Total(number=self.number, item_count=self.item_count * self.factor)

    def __post_init__(self):
        assert self.item_count >= 0

value = Total(number=1, item_count=2, items=[Item("a", [Item("b")])])
serde = resolve_serde(Total)
data = serde.serialize_many([value])
assert serde.deserialize_many(data) == [value]
Path(sys.argv[1]).write_bytes(dump_object((serde, data, value, Total, Item, lambda t: t.doubled())))
Path(sys.argv[2]).write_bytes(dump_object([value]))
"""

READER = """
import sys
from pathlib import Path
from mustela.spark.frames import dump_object, load_object

serde, data, value, Total, Item, function = load_object(Path(sys.argv[1]).read_bytes())
assert type(value) is Total
assert type(value.items[0]) is Item
assert serde.deserialize_many(data) == [value]
assert serde.serialize_many([value]) == data, serde.serialize_many([value])
assert b'"itemCount"' in data[0], data
assert b'"total"' in data[0], data
assert function(value).item_count == 4
assert Total.NAMES == 3
assert Total(number=1, item_count=5).factor == 2
(again,) = load_object(Path(sys.argv[2]).read_bytes())
assert type(again) is Total
assert again == value
assert load_object(dump_object(again)) == value
deep = Total(number=1, item_count=0, next_one=value)
assert serde.deserialize_many(serde.serialize_many([deep])) == [deep]
for wrong in (lambda: Total(number=1, item_count=-1), lambda: setattr(value, "factor", 3)):
    try:
        wrong()
    except (AssertionError, AttributeError):
        continue
    raise SystemExit("a check or a lock was lost")
print("well")
"""


def run(program: str, *files: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, files)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_dataclasses_and_structs_of_a_main_program_travel_whole(tmp_path: Path) -> None:
    """Fields, defaults, tags, names on the wire, methods, checks, types that name each other."""
    files = tmp_path / "all", tmp_path / "value"
    writer = tmp_path / "program.py"
    writer.write_text(WRITER)
    done = subprocess.run(
        [sys.executable, str(writer), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert run(READER, *files) == "well\n"

"""The demonstration's input: text that every machine has, and the offset of each line."""

from __future__ import annotations

import sysconfig
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mustela.errors import EnvironmentFault
from mustela.plan.partitions import partition_of

__all__ = ["Corpus", "InputMissingError", "Line", "partition_of", "read_corpus", "standard_library"]

_FOREIGN = {"site-packages", "dist-packages"}


class InputMissingError(EnvironmentFault):
    """The installed Python lacks the source files of its standard library."""

    code = "DEMO_INPUT_MISSING"


@dataclass(frozen=True, slots=True)
class Line:
    """One record of the input.

    Attributes:
        number: Its unique id, counted from 0 in the order of the input.
        key: The file it is from; keys differ for each round through the files.
        text: The line.
        partition: Where Kafka's own partitioner puts it.
    """

    number: int
    key: str
    text: str
    partition: int


@dataclass(slots=True)
class Corpus:
    """All lines, in order and by partition, so that an offset names a line.

    Attributes:
        lines: Every line in the order of the input.
        partitions: For each partition its lines; the index is the offset.
        words_before: For each partition and offset, the words of all lines before it.
    """

    lines: list[Line]
    partitions: list[list[Line]] = field(init=False)
    words_before: list[list[int]] = field(init=False)

    def __init__(self, lines: list[Line], partitions: int) -> None:
        self.lines = lines
        self.partitions = [[] for _ in range(partitions)]
        self.words_before = [[0] for _ in range(partitions)]
        for line in lines:
            self.partitions[line.partition].append(line)
            before = self.words_before[line.partition]
            before.append(before[-1] + len(line.text.split()))

    @property
    def words(self) -> int:
        """How many words there are."""
        return sum(before[-1] for before in self.words_before)

    def counts(self) -> Counter[str]:
        """Count the words, with plain Python."""
        counter: Counter[str] = Counter()
        for line in self.lines:
            counter.update(line.text.split())
        return counter

    def ends(self) -> dict[int, int]:
        """Return how many lines each partition has."""
        return {number: len(lines) for number, lines in enumerate(self.partitions)}

    def between(self, start: Mapping[int, int], end: Mapping[int, int]) -> Iterator[Line]:
        """Iterate over the lines between two offsets of each partition."""
        for partition, stop in sorted(end.items()):
            yield from self.partitions[partition][start.get(partition, 0) : stop]

    def words_until(self, ends: Mapping[int, int]) -> int:
        """Count the words of the lines before the given offsets."""
        return sum(
            self.words_before[partition][min(end, len(self.words_before[partition]) - 1)]
            for partition, end in ends.items()
        )


def standard_library() -> Path:
    """Return the directory of the installed Python's standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def read_corpus(size: int, *, partitions: int, root: Path | None = None) -> Corpus:
    """Read source files line by line, repeatedly until there are ``size`` lines.

    Args:
        size: Number of lines.
        partitions: Number of partitions of their topic.
        root: The directory of the files; default: the standard library.

    Raises:
        InputMissingError: If there are no files.
    """
    place = root or standard_library()
    files = [(name, text) for name, text in _files(place) if text]
    if not files:
        what = f"no Python source files in {place}"
        raise InputMissingError(what, fix="install Python with its standard library as source")
    return Corpus(list(_lines(files, size, partitions)), partitions)


def _files(root: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if _FOREIGN.isdisjoint(inside.parts):
            try:
                text = path.read_bytes().decode("utf-8", errors="replace")
            except OSError:
                continue
            yield inside.as_posix(), text.removesuffix("\n").replace("\r\n", "\n").split("\n")


def _lines(files: list[tuple[str, list[str]]], size: int, partitions: int) -> Iterator[Line]:
    number = rounds = 0
    while True:
        rounds += 1
        for name, texts in files:
            key = name if rounds == 1 else f"{name}#{rounds}"
            partition = partition_of(key.encode(), partitions)
            for text in texts:
                if number == size:
                    return
                yield Line(number, key, text, partition)
                number += 1

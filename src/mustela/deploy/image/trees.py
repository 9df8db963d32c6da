"""What a layer holds, in an order, with owners and times, that are the same everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

__all__ = ["DIRECTORY_MODE", "EXECUTABLE_MODE", "FILE_MODE", "Entry", "Tree"]

FILE_MODE = 0o644
EXECUTABLE_MODE = 0o755
DIRECTORY_MODE = 0o755


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file, a symbolic link or a directory.

    Attributes:
        path: From the root of the image, without a slash at its beginning.
        content: Of a file: its bytes, or the file that has them. None for all others.
        target: Of a symbolic link.
        mode: Permissions.
        owner: Number of the user and of the group.
        mtime: Seconds since 1970; None for the one of the image.
    """

    path: str
    content: bytes | Path | None = None
    target: str | None = None
    mode: int = FILE_MODE
    owner: int = 0
    mtime: int | None = None

    @property
    def is_directory(self) -> bool:
        """Whether it is neither a file nor a link."""
        return self.content is None and self.target is None

    def read(self) -> bytes:
        """Return a file's bytes."""
        if isinstance(self.content, Path):
            return self.content.read_bytes()
        return self.content or b""


class Tree:
    """Entries by their paths; what is added later replaces what was there.

    Example:
        >>> tree = Tree([Entry(path="app/shop.py", content=b"1")])
        >>> [(entry.path, oct(entry.mode)) for entry in tree]
        [('app', '0o755'), ('app/shop.py', '0o644')]
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Add an entry, and the directories above it."""
        for above in list(PurePosixPath(entry.path).parents)[-2::-1]:
            self._entries.setdefault(str(above), Entry(path=str(above), mode=DIRECTORY_MODE))
        known = self._entries.get(entry.path)
        if known is None or not (entry.is_directory and known.target is not None):
            self._entries[entry.path] = entry

    def file(self, path: str, text: str, mode: int = FILE_MODE) -> None:
        """Add a text file."""
        self.add(Entry(path=path, content=text.encode(), mode=mode))

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self.add(Entry(path=path, target=target, mode=0o777))

    def directory(self, path: str, mode: int = DIRECTORY_MODE, owner: int = 0) -> None:
        """Add a directory."""
        self.add(Entry(path=path, mode=mode, owner=owner))

    def get(self, path: str) -> Entry | None:
        """Return what is at a path."""
        return self._entries.get(path)

    def files(self, prefix: str = "", suffix: str = "") -> Iterator[Entry]:
        """Yield the files whose paths begin and end so."""
        for entry in self:
            path = entry.path
            if entry.content is not None and path.startswith(prefix) and path.endswith(suffix):
                yield entry

    def __iter__(self) -> Iterator[Entry]:
        """Yield the entries by path: a directory comes before what it holds."""
        for path in sorted(self._entries, key=lambda path: path.split("/")):
            yield self._entries[path]

    def __len__(self) -> int:
        return len(self._entries)

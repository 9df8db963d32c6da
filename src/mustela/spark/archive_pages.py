"""Pages of the archive of classes that only a start needs, given back while the application runs.

A start touches nearly all of the archive, 80 MB; what runs then needs a few, and each collection of
garbage touches 30 again. Pages that the JVM only reads are the file's: when they are dropped
nothing is lost, and who touches one again gets it from the kernel's cache. Java has no call for
this, but one that its own mapped files use. Where a Java has none, the pages stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

from mustela.state.resident import mapped_bytes

__all__ = ["ArchivePages", "read_only_spans"]

_LOOK_S: Final = 0.25
"""A look takes 0.1 ms. A backlog soon wants what the start has left behind."""
_TOUCHED_MAX: Final = 16 << 20
"""So many bytes may be touched again before all are dropped, which takes milliseconds: a
collection of garbage is more, what runs between two of them is less."""
_SUFFIX: Final = ".jsa"
_READ_ONLY: Final = "r--p"
_MAPPING: Final = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)")


def read_only_spans(smaps: Iterable[str]) -> list[tuple[int, int]]:
    """Return address and bytes of what a process has mapped of archives and has never written.

    Args:
        smaps: The lines of the process' ``/proc/PID/smaps``.

    Example:
        >>> smaps = ["8000-a000 r--p 00001000 fe:00 12 /cache/a.jsa", "Anonymous:   0 kB"]
        >>> read_only_spans(smaps)
        [(32768, 8192)]
        >>> read_only_spans([smaps[0], "Anonymous:   4 kB"])
        []
    """
    spans: list[tuple[int, int]] = []
    span: tuple[int, int] | None = None
    for line in smaps:
        if found := _MAPPING.match(line):
            start, end = int(found[1], 16), int(found[2], 16)
            is_archive = found[3] == _READ_ONLY and found[4].endswith(_SUFFIX)
            span = (start, end - start) if is_archive else None
        elif span is not None and line.split() == ["Anonymous:", "0", "kB"]:
            spans.append(span)
    return spans


class ArchivePages:
    """Gives back, again and again, what the JVM of a context no longer needs of its archive.

    Args:
        context: The context; its JVM was started by this process, on this host.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._closed = Event()
        Thread(target=self._run, name="mustela-archive-pages", daemon=True).start()

    def close(self) -> None:
        """Give back no more."""
        self._closed.set()

    def give_back(self) -> None:
        """Drop all pages of archives that were never written.

        Raises:
            OSError: If the JVM is gone.
            Py4JError: If it is, or if this Java cannot.
        """
        gateway, lang = self._context._gateway, self._context._jvm.java.lang
        with Path(f"/proc/{gateway.proc.pid}/smaps").open(encoding="utf-8") as smaps:
            spans = read_only_spans(smaps)
        types = gateway.new_array(lang.Class, 2)
        types[0] = types[1] = lang.Long.TYPE
        owner = lang.Class.forName("java.nio.MappedMemoryUtils")
        unload = owner.getDeclaredMethod("unload0", types)
        unload.setAccessible(True)
        for span in spans:
            arguments = gateway.new_array(lang.Object, 2)
            arguments[0], arguments[1] = span
            unload.invoke(None, arguments)

    def _run(self) -> None:
        left = 0
        with suppress(AttributeError, OSError, Py4JError):  # not our JVM, gone, or another Java
            process = self._context._gateway.proc.pid
            while not self._closed.wait(_LOOK_S):
                if mapped_bytes(process) > left + _TOUCHED_MAX:
                    self.give_back()
                    left = mapped_bytes(process)

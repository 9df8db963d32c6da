"""Compile Python in advance, to the same bytes each time.

A container has a root directory that nobody may write to: what is not compiled in the image is
compiled again at each start, and by each of Spark's workers.
"""

from __future__ import annotations

import importlib.util
import marshal
import struct
import sys
import warnings
from collections.abc import Iterator

from mustela.deploy.image.trees import Entry, Tree

__all__ = ["compiled"]

_UNCHECKED, _CHECKED = 0b01, 0b11
_MARSHAL_VERSION = 2
"""Version 3 notes which objects happen to be shared, which differs from run to run."""


def compiled(tree: Tree, python: tuple[int, int], *, checked: bool) -> Iterator[Entry]:
    """Yield the compiled form of the modules of a tree; nothing if another Python is needed for it.

    Args:
        tree: What holds modules.
        python: The version of the image's Python.
        checked: Whether Python is to compare the source, which somebody may replace, at each start.
    """
    if python != sys.version_info[:2]:
        return
    for entry in tree.files(suffix=".py"):
        source = entry.read()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                code = compile(source, f"/{entry.path}", "exec", dont_inherit=True, optimize=0)
        except (SyntaxError, ValueError):
            continue  # a template, or a test of a parser; Python says so if it is imported
        flags = _CHECKED if checked else _UNCHECKED
        head = importlib.util.MAGIC_NUMBER + struct.pack("<I", flags)
        body = importlib.util.source_hash(source) + marshal.dumps(code, _MARSHAL_VERSION)
        directory, _, name = entry.path.rpartition("/")
        stem = name.removesuffix(".py")
        path = f"{directory}/__pycache__/{stem}.cpython-{python[0]}{python[1]}.pyc"
        yield Entry(path=path, content=head + body)

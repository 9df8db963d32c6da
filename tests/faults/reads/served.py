"""An application with stores that readers ask: that of a seed and a release."""

from __future__ import annotations

import os
from typing import Any

from mustela import App
from mustela.stores import Snapshot
from tests.faults.reads.program import BY_KEY, KEYS, Program, Shape, draw

__all__ = ["PROGRAM", "TOLD", "make_app", "rows_of", "rows_of_all", "tell"]

PROGRAM = "FAULTS_READS"
"""The variable with the seed and the release, and a colon between."""

TOLD = "everything"
"""The query that gives the rows of all stores."""


def rows_of(handle: Any, shape: Shape) -> list[list[Any]]:
    """Return all rows of a store: key, start, end, value."""
    if shape.layout in BY_KEY:
        return [[key, None, None, value] for key, value in handle.items()]
    if shape.layout == "versioned":
        return [[key, None, None, version.value] for key, version in handle.all()]
    if shape.layout == "lines":
        lines = [(key, line) for key in KEYS for line in handle.lines(key)]
        return [[key, ord(line[-1]), None, line] for key, line in lines]
    return [[window.key, window.start, window.end, value] for window, value in handle.all()]


def rows_of_all(snapshot: Snapshot, program: Program) -> dict[str, list[list[Any]]]:
    """Return the rows of all stores, by a snapshot."""
    found = {name: rows_of(snapshot.store(name), shape) for name, shape in program.shapes.items()}
    if "documents" in found:
        found["documents by city"] = [
            [key, None, None, value]
            for city in ("Bonn", "Oslo", "Rome")
            for key, value in snapshot.store("documents").by("city").get(city)
        ]
    return found


def make_app(**settings: Any) -> tuple[App, Program]:
    """Make the application whose seed and release the environment names."""
    seed, release = map(int, os.environ[PROGRAM].split(":"))
    program = draw(seed, release)
    app = App(**settings)
    app.topology(lambda builder: program.build(builder, os.environ["FAULTS_PREFIX"]))
    tell(app, program)
    return app, program


def tell(app: App, program: Program) -> None:
    """Let an application answer the query `TOLD`."""

    @app.query(TOLD)
    def everything(snapshot: Snapshot) -> dict[str, list[list[Any]]]:
        return rows_of_all(snapshot, program)

"""The topologies of all cases: the union of what the ``topologies_*`` modules say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from mustela.topology.graph import TopologyGraph

__all__ = ["TOPOLOGIES", "areas"]


def areas() -> Iterator[tuple[str, Mapping[str, Callable[[], TopologyGraph]]]]:
    """Yield each area with its topologies, by the name of the case."""
    for file in sorted(Path(__file__).parent.glob("topologies_*.py")):
        module = import_module(f"tests.conformance.{file.stem}")
        yield file.stem.removeprefix("topologies_"), module.TOPOLOGIES


def _union() -> dict[str, Callable[[], TopologyGraph]]:
    found: dict[str, Callable[[], TopologyGraph]] = {}
    for area, topologies in areas():
        twice = sorted(found.keys() & topologies.keys())
        assert not twice, f"{area} has topologies that another area has too: {twice}"
        found.update(topologies)
    return found


TOPOLOGIES = _union()

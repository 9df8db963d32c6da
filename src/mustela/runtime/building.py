"""Building the topology with an application's function."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from mustela.api.upgrades import holding
from mustela.dsl.builder import StreamsBuilder
from mustela.runtime.app_errors import NoTopologyError
from mustela.topology.graph import TopologyGraph

__all__ = ["build_topology", "name_of"]


def build_topology(
    build: Callable[[StreamsBuilder], object] | None, *, holds: bool = False
) -> TopologyGraph:
    """Build a topology with a function; a topology that it returns replaces the builder's.

    Args:
        build: The function.
        holds: Whether rows of stores keep the form that the release before wrote.

    Raises:
        NoTopologyError: If there is no function.
    """
    if build is None:
        msg = "the application has no topology"
        raise NoTopologyError(
            msg, fix="decorate a function that takes the builder with @app.topology"
        )
    builder = StreamsBuilder()
    with holding(holds=holds):
        written = build(builder)
        return written if isinstance(written, TopologyGraph) else builder.build()


def name_of(app: object) -> str:
    """Return an application as commands name it, ``module:app``; empty if no module has it.

    Example:
        >>> name_of(object())
        ''
    """
    # Copied first: other threads import meanwhile.
    for name, module in sys.modules.copy().items():
        held = dict(getattr(module, "__dict__", {}))
        found = next((key for key, value in held.items() if value is app), None)
        if found is None:
            continue
        if name == "__main__":
            spec, file = held.get("__spec__"), held.get("__file__")
            name = spec.name if spec is not None else Path(file).stem if file else ""
        return f"{name}:{found}" if name else ""
    return ""

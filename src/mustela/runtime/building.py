"""Building the topology with an application's function."""

from __future__ import annotations

from collections.abc import Callable

from mustela.api.upgrades import holding
from mustela.dsl.builder import StreamsBuilder
from mustela.runtime.app_errors import NoTopologyError
from mustela.topology.graph import TopologyGraph

__all__ = ["build_topology"]


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

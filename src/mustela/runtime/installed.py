"""Parts installed beside the runtime and found by entry points: engines, the admin server.

The runtime never imports them.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from mustela.errors import EnvironmentFault
from mustela.processes import collection_paused
from mustela.runtime.engine import Engine, EngineOptions
from mustela.runtime.status.watched import Admin

__all__ = ["AdminMissingError", "EngineMissingError", "load_admin", "load_engine"]


class EngineMissingError(EnvironmentFault):
    """No engine of that name is installed."""

    code = "ENGINE_MISSING"


class AdminMissingError(EnvironmentFault):
    """The admin server is not installed."""

    code = "ADMIN_MISSING"


def load_engine(name: str, options: EngineOptions | None = None) -> Engine:
    """Return a new engine.

    Args:
        name: Its name.
        options: Those that it will be started with, if it will be: what its start takes long for
            begins here, before its code is imported. Who gives them calls `Engine.stop` in the end.

    Raises:
        EngineMissingError: If there is none of this name.
    """
    if options is not None:
        for entry in entry_points(group="mustela.engines.begin", name=name):
            entry.load()(options)
    for entry in entry_points(group="mustela.engines", name=name):
        with collection_paused():
            engine: Engine = entry.load()()
        return engine
    msg = f"there is no engine named {name}"
    raise EngineMissingError(
        msg, fix="install mustela with pip, so that its engines are registered"
    )


def load_admin() -> Admin:
    """Return a new admin server.

    Raises:
        AdminMissingError: If there is none.
    """
    for entry in entry_points(group="mustela.admin", name="server"):
        admin: Admin = entry.load()()
        return admin
    msg = "the admin server is not installed"
    raise AdminMissingError(
        msg, fix="install mustela with pip, so that its admin server is registered"
    )

"""Parts installed beside the runtime and found by entry points: engines, the admin server.

The runtime never imports them.
"""

from __future__ import annotations

from importlib.metadata import entry_points

from mustela.errors import EnvironmentFault
from mustela.runtime.engine import Engine
from mustela.runtime.status.watched import Admin

__all__ = ["AdminMissingError", "EngineMissingError", "load_admin", "load_engine"]


class EngineMissingError(EnvironmentFault):
    """No engine of that name is installed."""

    code = "ENGINE_MISSING"


class AdminMissingError(EnvironmentFault):
    """The admin server is not installed."""

    code = "ADMIN_MISSING"


def load_engine(name: str) -> Engine:
    """Return a new engine.

    Raises:
        EngineMissingError: If there is none of this name.
    """
    for entry in entry_points(group="mustela.engines", name=name):
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

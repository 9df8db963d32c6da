"""Where files are kept if nothing is said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

__all__ = ["default_state_dir"]


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Return the per-user directory for state: ``$XDG_STATE_HOME/mustela``.

    Example:
        >>> default_state_dir({"XDG_STATE_HOME": "/var/lib/joe"})
        PosixPath('/var/lib/joe/mustela')
    """
    base = environ.get("XDG_STATE_HOME", "")
    if base and Path(base).is_absolute():
        return Path(base) / "mustela"
    home = environ.get("HOME", "")
    return (Path(home) if home else Path.home()) / ".local" / "state" / "mustela"

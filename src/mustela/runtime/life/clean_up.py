"""Deleting an application's state on this host."""

from __future__ import annotations

from mustela.config.settings import Settings
from mustela.state.directories import memory_directory, remove_tree

__all__ = ["remove_local_state"]


def remove_local_state(settings: Settings) -> None:
    """Delete what an application keeps on this host's disk and tmpfs, except links."""
    name = settings.application_id
    for place in (settings.state_dir / name, memory_directory(name)):
        if place.is_dir() and not place.is_symlink():
            remove_tree(place)

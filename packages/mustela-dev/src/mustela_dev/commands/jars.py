"""Where commands get jars and Java from, and how they say that something is downloaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mustela.cli.console import say

if TYPE_CHECKING:
    from mustela_dev.broker.jars import JarRequest

__all__ = ["jar_request"]


def jar_request() -> JarRequest:
    """Return how jars are to be had: mirror and directory of the settings, a Java that does.

    Raises:
        JavaNotFoundError: If no Java does.
    """
    from mustela.cli.settings import loose_settings
    from mustela.java import find_java
    from mustela_dev.broker.jars import JarRequest, JarSettings

    chosen = loose_settings().jars
    return JarRequest(
        settings=JarSettings(mirror=chosen.mirror, directory=chosen.directory),
        java=find_java(),
        say=say,
    )
